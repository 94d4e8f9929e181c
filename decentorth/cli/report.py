"""The report of one run or of several: one HTML file with curves, graphs, counts and settings, which needs no network."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..running.history import COUNTS
from .agents import agent_quantity, run_graph
from .figures import COLOURS, DASHES
from .flags import InputError
from .outputs import final_points, read_history, read_summary, replacing

TEMPLATE = Path(__file__).with_name("report.html")
ROWS, NUMBERS, DRAWN = 1000, 200_000, 1000
"""The largest numbers of rows, of numbers of a run's agents, and of agents of a graph that a report holds."""
SHOWN = ("objective", "gradient_norm", "consensus_error", "distance_to_manifold")
"""The columns whose curves are shown at first."""
_AGENT = re.compile(r"agent_\d+")


def write_report(path: str, runs: Mapping[str, tuple[str, Mapping[str, Any]]]) -> None:
    """Write the report of runs, each by its label with its folder and its settings.

    Raises
    ------
    InputError
        The path is not a .html file that can be written, or a folder's files cannot be read.
    """
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{path}: a report must end in .html")
    read = [_run(label, folder, configuration) for label, (folder, configuration) in runs.items()]
    present = {name for run in read for name in run["history"]}
    data = {
        "runs": read,
        "shown": [name for name in SHOWN if name in present],
        "colours": COLOURS,
        "dashes": [" ".join(str(3.0 * length) for length in dash) for _, dash in DASHES],
    }
    written = json.dumps(_finite(data), allow_nan=False, separators=(",", ":")).replace("<", r"\u003c")  # no </script> inside
    try:
        with replacing(Path(path)) as file:
            file.write(TEMPLATE.read_text(encoding="utf-8").replace("__DATA__", written).encode())
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None


def _run(label: str, folder: str, configuration: Mapping[str, Any]) -> dict[str, Any]:
    """The part of the report that is about one run."""
    history = read_history(folder)
    by_agent = [name for name in history if _AGENT.fullmatch(name)]
    summary: Mapping[str, Any] = read_summary(folder) if (Path(folder) / "summary.json").exists() else {}
    kept = _spaced(len(history["iteration"]), ROWS)
    counts = {name: summary.get(name, int(history[name][-1])) for name in COUNTS[1:]}
    names = ("agents", "ranks", "iterates_sha256")
    facts = {"iterations": int(history["iteration"][-1]), **counts, **{name: summary[name] for name in names if name in summary}}
    facts["seconds"] = float(history["seconds"][-1])
    last = {name: float(column[-1]) for name, column in history.items() if name not in (*COUNTS, "seconds", *by_agent)}
    return {
        "label": label,
        "end": f"{summary['status']}: {summary['message']}" if summary else "The run has not ended.",
        "history": {name: column[kept].tolist() for name, column in history.items() if name not in by_agent},
        "counts": facts | last,
        "configuration": dict(configuration),
        **_network(folder, configuration, history, by_agent),
    }


def _network(
    folder: str, configuration: Mapping[str, Any], history: Mapping[str, NDArray[Any]], by_agent: list[str]
) -> dict[str, Any]:
    """The graph of a run, the rows of its agents' distances from their mean, and what the report lacks."""
    from topologies import agent_positions, edge_segments

    try:
        graph, _ = run_graph(folder, configuration)
    except InputError as error:
        return {"graph": None, "without": str(error)}
    n = graph.number_of_nodes()
    if n > DRAWN:
        return {"graph": None, "without": f"The graph has {n} agents, and a report shows at most {DRAWN}."}
    if len(by_agent) == n:
        kept = _spaced(len(history["iteration"]), max(2, NUMBERS // n))
        rows = np.stack([history[f"agent_{agent}"][kept] for agent in range(n)], axis=1)
        iterations, without = history["iteration"][kept], ""
    else:
        try:
            rows = agent_quantity(final_points(folder), "consensus")[None]
        except (OSError, ValueError, TypeError):
            rows = np.full((1, n), np.nan)
        iterations, without = history["iteration"][-1:], "For the colours over all iterations, run with --record-agents."
    places = agent_positions(graph)
    places = (places - (places.max(axis=0) + places.min(axis=0)) / 2) / (np.ptp(places, axis=0).max() / 2 or 1.0)
    drawn = {
        "places": places.tolist(),
        "edges": [[*start, *end] for start, end in edge_segments(graph, places).tolist()],
        "names": [str(agent) for agent in range(n)],
    }
    return {"graph": drawn, "agents": {"rows": rows.tolist(), "iterations": iterations.tolist()}, "without": without}


def _spaced(rows: int, most: int) -> NDArray[np.int64]:
    """At most ``most`` of the rows, evenly, with the first and the last."""
    return np.unique(np.linspace(0, rows - 1, min(rows, most)).round().astype(np.int64))


def _finite(value: Any) -> Any:
    """The value as JSON can hold it: floats with seven digits, None where they are not finite."""
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.7g}") if math.isfinite(value) else None
    return value
