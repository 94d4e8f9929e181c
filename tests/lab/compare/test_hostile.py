"""Comparisons whose file was damaged, and labels that Markdown and LaTeX would execute."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decentorth.compare import Rules, compare, load
from decentorth.lab.compare.comparison import Comparison
from decentorth.lab.compare.comparison_figures import curves
from decentorth.lab.compare.saved_comparison import DATA
from decentorth.problems import PCA
from topologies.line.flags import InputError

PROBLEM = PCA(np.random.default_rng(0).standard_normal((3, 9, 4)), 1)
RULES = Rules(trials=1, iterations=4, tolerances=(1e3, 1e-3))
WRONG: tuple[object, ...] = (None, [], {}, "x", -1, 1e999, [1], ["x", "y"])


@pytest.fixture(scope="module")
def made() -> Comparison:
    return compare(lambda _: PROBLEM, "drfgt,destiny", "ring", RULES)


def damaged(kept: Any) -> Iterator[Any]:
    """The JSON with one entry replaced or, of a mapping, left out; of a list only the first."""
    whole = copy.deepcopy(kept)

    def places(part: Any) -> Iterator[tuple[Any, Any]]:
        keys = list(part) if isinstance(part, dict) else list(range(len(part)))[:1]
        for key in keys:
            yield part, key
            if isinstance(part[key], (dict, list)):
                yield from places(part[key])

    for part, key in list(places(whole)):
        right = part[key]
        for wrong in WRONG:
            part[key] = wrong
            yield whole
        if isinstance(part, dict):
            del part[key]
            yield whole
        part[key] = right


def everything(comparison: Comparison) -> None:
    for form in ("text", "markdown", "latex", "csv"):
        comparison.table(form)
    list(comparison.per_trial())
    list(curves(comparison))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_damaged_comparison_is_refused_or_has_its_tables(
    made: Comparison, tmp_path: Path
) -> None:
    made.save(tmp_path, plot=False)
    path, refused = tmp_path / DATA, 0
    everything(load(tmp_path))
    for other in damaged(json.loads(path.read_text())):
        path.write_text(json.dumps(other))
        try:
            everything(load(tmp_path))
        except InputError as error:
            assert "is damaged" in str(error)  # noqa: PT017
            refused += 1
    assert refused > 200


LABEL = "a|b\n| c | <img src=x> `x` \\input{/etc/passwd} 10% x_1^2"


def test_labels_are_shown_as_they_are(made: Comparison) -> None:
    entries = tuple(replace(one, label=f"{LABEL} {n}") for n, one in enumerate(made.entries))
    networks = {LABEL: next(iter(made.networks.values()))}
    hostile = replace(made, entries=entries, networks=networks)
    markdown, latex = hostile.table("markdown"), hostile.table("latex")
    assert r"a\|b \| c \| &lt;img src=x> \`x\`" in markdown
    assert "<img" not in markdown
    rows = [line.replace(r"\|", "") for line in markdown.splitlines() if line.startswith("|")]
    assert len({row.count("|") for row in rows}) == 1
    shown = [line for line in latex.splitlines() if not line.startswith("%")]
    safe = r"\textbackslash{}input\{/etc/passwd\} 10\% x\_1\textasciicircum{}2"
    assert sum(safe in line for line in shown) >= 2
    assert not any(r"\input" in line for line in shown)
    assert latex.count("\n| c") == hostile.table("text").count("\n| c") == 0
