"""The folder of a comparison: tables, the figure, and ``comparison.json``, from which the
comparison is read back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from topologies.line.flags import InputError

from ...figures.canvas import save as save_figure
from ...records.run_files import csv_text, replacing
from ...running.checkpoint.checkpoint_files import limited
from ...settings import settings, values
from .comparison_figures import curves, figure
from .comparison_rules import Rules
from .comparison_tables import table
from .counts import CountedRuns
from .model import NetworkModel
from .trials import DAMAGED, LARGEST, Trace
from .tuning import Candidate, Entry

DATA, FIGURE = "comparison.json", "figure.png"
FILES = (
    *("comparison.csv", "trials.csv", "curves.csv"),
    *("table.md", "table.tex", FIGURE, "figure.svg", DATA),
)
"""The files of a comparison."""


def write(
    comparison: CountedRuns,
    folder: Path,
    *,
    plot: bool = True,
    metrics: Sequence[str] = (),
) -> None:
    """Write the files of a comparison, and with ``plot`` the figures.

    Parameters
    ----------
    metrics
        Rows of the figure, see `figures.figure`.

    Raises
    ------
    InputError
        Matplotlib is missing, or the figure cannot be written.
    """
    drawn = []
    if plot:
        drawn.append(figure(comparison, metrics=metrics))
    texts = {
        "comparison.csv": table(comparison, "csv"),
        "trials.csv": csv_text(comparison.per_trial()),
        "curves.csv": csv_text(curves(comparison)),
        "table.md": table(comparison),
        "table.tex": table(comparison, "latex"),
        DATA: json.dumps(_data(comparison)),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, words in texts.items():
        with replacing(folder / name) as file:
            file.write(words.encode())
    for one in drawn:
        save_figure(one, folder / FIGURE)
        save_figure(one, folder / "figure.svg")


def _data(comparison: CountedRuns) -> dict[str, Any]:
    """The comparison as JSON can hold it; of tuning runs the rows that tuning reads."""
    rules = comparison.rules
    entries = []
    for one in comparison.entries:
        found = {"label": one.label, "step": one.step, "chosen": one.tried.index(one.chosen)}
        found["tried"] = [(step.factor, step.step, _few(step.traces, rules)) for step in one.tried]
        found["traces"] = [trace.to_json() for trace in one.traces]
        entries.append(found | {"untuned": _few(one.untuned, rules)})
    networks = {name: values(model) for name, model in comparison.networks.items()}
    kept = {name: value for name, value in values(rules).items() if name in settings(Rules)}
    return {"rules": kept, "networks": networks, "agents": comparison.agents, "entries": entries}


def _few(traces: Sequence[Trace], rules: Rules) -> list[dict[str, Any]]:
    """The runs with the rows alone at which they first reach a tolerance, and the last."""
    found = []
    for trace in traces:
        looked = [rules.reached(trace.history, tolerance) for tolerance in rules.tolerances]
        looked.append(len(trace.history["iteration"]) - 1)
        rows = np.unique([row for row in looked if row is not None])
        kept = {name: column[rows] for name, column in trace.history.items()}
        found.append(replace(trace, history=kept).to_json())
    return found


def read(folder: Path) -> tuple[Rules, tuple[Entry, ...], dict[str, NetworkModel], int]:
    """The parts of the comparison in a folder; InputError as in `comparison.load`."""
    path = folder / DATA
    try:
        kept = json.loads(limited(path, LARGEST))
        rules = Rules(**{**kept["rules"], "tolerances": tuple(kept["rules"]["tolerances"])})
        networks = {name: NetworkModel(**model) for name, model in kept["networks"].items()}
        entries = tuple(_entry(one, rules) for one in kept["entries"])
        if not entries or len({one.label for one in entries}) < len(entries):
            raise ValueError("no methods, or two with one label")
        return rules, entries, networks, _agents(kept["agents"])
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror}; is {folder} the folder of a comparison that "
            "has ended?"
        ) from None
    except DAMAGED as error:
        raise InputError(f"{path} is damaged ({error!r:.80}): make the comparison again") from None


def _agents(kept: object) -> int:
    if not isinstance(kept, int) or kept < 1:
        raise ValueError(f"{kept!r:.20} agents")
    return kept


def _entry(kept: Mapping[str, Any], rules: Rules) -> Entry:
    needed = {rules.metric, "objective", "consensus_rms"}
    if rules.metric == "error":
        needed.add("gradient_norm")
    if rules.feasibility is not None:
        needed.add("feasibility")

    def traces(kept: Sequence[Mapping[str, Any]]) -> tuple[Trace, ...]:
        found = tuple(map(Trace.of_json, kept))
        if not all(needed <= one.history.keys() == found[0].history.keys() for one in found):
            raise ValueError(f"every run needs the metrics {', '.join(sorted(needed))}")
        return found

    tried = [
        Candidate(float(factor), None, step, traces(runs)) for factor, step, runs in kept["tried"]
    ]
    steps = [one.step for one in tried]
    runs = traces(kept["traces"]), traces(kept["untuned"])
    if len(runs[0]) != rules.trials or len(runs[1]) not in (0, rules.trials):
        raise ValueError(f"{rules.trials} trials of each method expected")
    if not all(isinstance(one, str) for one in (kept["label"], kept["step"], *steps)):
        raise TypeError("a label or a step is no text")
    return Entry(kept["label"], kept["step"], tuple(tried), tried[kept["chosen"]], *runs)
