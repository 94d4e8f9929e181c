"""The report of runs or of a comparison: one HTML file with curves, graphs, counts, tables and settings, which needs no network."""

from __future__ import annotations

import csv
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
from .config import config_bytes
from .figures import COLOURS, DASHES
from .flags import InputError, load
from .outputs import COMPARISON, CURVES, TABLES, refuse_file, replacing
from .saved_runs import final_points, read_end, read_history, text_lines

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
    _write(path, [_run(label, *run) for label, run in runs.items()], ["iteration", "rounds", "bytes", "seconds"])


def write_comparison(path: str, folder: str) -> None:
    """Write the report of a comparison from the files of its folder: curves with ranges over the trials, tables and settings.

    Raises
    ------
    InputError
        The path is not a .html file that can be written, or the folder's files cannot be read.
    """
    place = Path(folder)
    try:
        rows, tables = list(csv.DictReader(text_lines(place / CURVES))), text_lines(place / TABLES)
        settings = load(COMPARISON, config_bytes(str(place / COMPARISON))) if (place / COMPARISON).exists() else {}
        methods: dict[str, list[dict[str, str]]] = {}
        for row in rows:
            methods.setdefault(f"{row['algorithm']}, step {row['step']}".removesuffix(", step none"), []).append(row)
        against = [
            name for name in rows[0] if name not in ("algorithm", "step") and not name.endswith((" median", " low", " high"))
        ]
        contenders = [_contender(label, own, against) for label, own in methods.items()]
    except OSError as error:
        raise InputError(f"cannot read {error.filename}: {error.strerror}; the same comparison again writes it") from None
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, csv.Error) as error:
        raise InputError(f"the comparison in {place} is damaged ({error}); the same comparison again writes it") from None
    _write(path, contenders, against, title=tables[0].removeprefix("# "), tables=_tables(tables), configuration=settings)


def _contender(label: str, rows: list[dict[str, str]], against: list[str]) -> dict[str, Any]:
    """The part of the report that is about one method: medians, and ranges of the metrics that it has."""
    kept = [rows[row] for row in _spaced(len(rows), ROWS)]
    names = [name for name in rows[0] if name not in ("algorithm", "step") and any(row[name] for row in kept)]
    columns = {name: [float(row[name] or "nan") for row in kept] for name in names}
    metrics = [name.removesuffix(" median") for name in columns if name.endswith(" median")]
    return {
        "label": label,
        "history": {name: columns[name] for name in against} | {name: columns[f"{name} median"] for name in metrics},
        "ranges": {name: [columns[f"{name} low"], columns[f"{name} high"]] for name in metrics},
    }


def _tables(lines: list[str]) -> list[dict[str, Any]]:
    """The tables of a Markdown file, each with its heading and the list below it."""
    found: list[dict[str, Any]] = [{"title": "", "rows": [], "notes": []}]
    for line in lines[1:]:
        if line.startswith("## "):
            found.append({"title": line[3:], "rows": [], "notes": []})
        elif line.startswith("- "):
            found[-1]["notes"].append(line[2:])
        elif line.startswith("| ") and not line.startswith("| --"):
            found[-1]["rows"].append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def _write(path: str, runs: list[dict[str, Any]], against: list[str], **more: Any) -> None:
    """Write the report of runs or contenders with these axes."""
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{path}: a report must end in .html")
    refuse_file(Path(path), b"<title>decentorth report</title>", "report of decentorth")
    present = {name for run in runs for name in run["history"]}
    data = {
        "runs": runs,
        "against": against,
        "shown": [name for name in SHOWN if name in present],
        **more,
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
    summary: Mapping[str, Any] = read_end(folder) if (Path(folder) / "summary.json").exists() else {}
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
