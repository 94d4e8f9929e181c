"""The help of a command whose settings depend on the names in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from topologies.line.flags import Parser, unknown

from ...settings import Setting
from .form import CommandForm, early_flag


def help_of(form: CommandForm[Any], topic: str = "") -> str:
    """Return the help of a command: its settings in groups, with choices and defaults.

    Without a ``topic`` these are the `first` settings, and those of the problem and the method
    that were named. "all" has all settings, a heading those of its group.
    """
    groups = form.help_groups()
    if not topic and form.first:
        return _first(form, groups)
    if topic and topic != "all":
        titles = {heading.partition(":")[0].lower(): heading for heading in groups}
        if topic.lower() not in titles:
            raise unknown(f"--help {topic}: no such topic", topic, [*titles, "all"], "")
        heading = titles[topic.lower()]
        return Parser({heading: groups[heading]}, form.program).format_help()
    return Parser(groups, form.program, form.summary).format_help()


def _first(form: CommandForm[Any], groups: Mapping[str, Mapping[str, Setting]]) -> str:
    """The help without a topic."""
    own = {name: setting for group in groups.values() for name, setting in group.items()}
    method = own["algorithm"]
    words = form.own["algorithm"].help
    own["algorithm"] = method._replace(
        help=f"{words} decentorth list algorithms shows the first choices."
    )
    shown = {heading: {name: own[name] for name in names} for heading, names in form.first.items()}
    for kind in form.entries:
        if early_flag(form.tokens, kind) is not None:
            heading = f"{kind.capitalize()}: {form.names[kind]}"
            shown[heading] = dict(groups.get(heading, {}))
    topics = ", ".join(heading.partition(":")[0].lower() for heading in groups)
    summary = (
        f"{form.summary}\n--problem NAME --help and --algorithm NAME --help add their settings. "
        f"--help all has every flag, and --help TOPIC those of one group: {topics}."
    )
    return Parser(shown, form.program, summary).format_help()
