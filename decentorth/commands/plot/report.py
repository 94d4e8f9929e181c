"""The report of runs: one HTML file with curves, graphs, counts and settings, which a browser shows without a network."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from ...records.figures import Against, plot_histories
from ...records.files import SUMMARY, refuse_file, replacing
from ...records.saved_runs import read_end, read_history
from ...running.history import COUNTS
from ..line.flags import InputError
from .agents import plot_agents

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWN = 1000
"""The most agents of a graph that is drawn."""
CURVES = ("objective", "gradient_norm", "consensus_error", "distance_to_manifold")
"""The columns whose curves are drawn, where a run has them."""
FACTS = (*COUNTS[1:], "agents", "ranks", "iterates_sha256")
"""The facts of a summary that are shown."""
_MARK = "<title>decentorth report</title>"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 60rem; margin: 1.5rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; } img { max-width: 100%; }
table { border-collapse: collapse; font-size: .9rem; display: block; overflow-x: auto; }
th, td { text-align: left; padding: .15rem .9rem .15rem 0; border-bottom: 1px solid #ddd; }
tr.differs { background: #fff6d6; }
"""


def write_report(path: str, runs: Mapping[str, tuple[str, Mapping[str, Any]]]) -> None:
    """Write the report of runs, each by its label with its folder and its settings.

    Raises
    ------
    InputError
        The path is not a .html file that can be written, a folder's files cannot be read, or matplotlib is missing.
    """
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{path}: a report must end in .html")
    refuse_file(Path(path), _MARK.encode(), "report of decentorth")
    text = "\n".join(_page(runs))
    try:
        with replacing(Path(path)) as file:
            file.write(text.encode())
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None


def _page(runs: Mapping[str, tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    histories = {label: read_history(folder) for label, (folder, _) in runs.items()}
    present = {name for history in histories.values() for name in history}
    ends = {label: _end(folder) for label, (folder, _) in runs.items()}
    yield f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">{_MARK}'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    yield f"<style>{_STYLE}</style></head><body>"
    yield f"<h1>{html.escape(', '.join(runs))}</h1>"
    for label, end in ends.items():
        message = end.get("message", "The run has not ended.")
        yield f"<p>{html.escape(label)}: {html.escape(message)}</p>"
    metrics = [name for name in CURVES if name in present]
    for against in get_args(Against):
        drawn = plot_histories(histories, against=against, metrics=metrics, width="page")
        yield f"<h2>Curves against {against}</h2>{_picture(drawn, f'curves against {against}')}"
    for label, (folder, configuration) in runs.items():
        yield f"<h2>Agents: {html.escape(label)}</h2>{_agents(folder, configuration)}"
    counts: dict[str, dict[str, Any]] = {}
    for label, history in histories.items():
        shown = [name for name in history if not name.startswith("agent_")]
        counts[label] = {name: history[name][-1].item() for name in shown if history[name].size}
        counts[label] |= {name: ends[label][name] for name in FACTS if name in ends[label]}
    yield f"<h2>Counts and results</h2>{_table(counts)}"
    settings = {label: configuration for label, (_, configuration) in runs.items()}
    yield f"<h2>Settings</h2>{_table(settings)}"
    yield "</body></html>\n"


def _end(folder: str) -> Mapping[str, Any]:
    """The summary of a run; empty for a run that has not ended."""
    if (Path(folder) / SUMMARY).exists():
        return read_end(folder)
    return {}


def _agents(folder: str, configuration: Mapping[str, Any]) -> str:
    """The graph of a run, its agents coloured by their distances from the mean; or the reason why it is not drawn."""
    try:
        if int(configuration.get("agents") or 0) > DRAWN:
            raise InputError(f"A graph of more than {DRAWN} agents is not drawn.")
        return _picture(plot_agents(folder, configuration, "consensus"), "the graph")
    except InputError as error:
        return f"<p>{html.escape(str(error))}</p>"


def _picture(figure: Figure, words: str) -> str:
    file = BytesIO()
    figure.savefig(file, format="svg")
    data = base64.b64encode(file.getvalue()).decode()
    return f'<img alt="{words}" src="data:image/svg+xml;base64,{data}">'


def _table(columns: Mapping[str, Mapping[str, Any]]) -> str:
    """A column for each run by its label; rows in which runs differ are marked."""
    lines = [f"<tr><th></th>{''.join(f'<th>{html.escape(label)}</th>' for label in columns)}</tr>"]
    for name in dict.fromkeys(name for column in columns.values() for name in column):
        cells = [html.escape(_shown(column.get(name, ""))) for column in columns.values()]
        differs = ' class="differs"' * (len({*cells}) > 1)
        head = html.escape(name.replace("_", " "))
        lines.append(f"<tr{differs}><th>{head}</th><td>{'</td><td>'.join(cells)}</td></tr>")
    return f"<table>{''.join(lines)}</table>"


def _shown(value: Any) -> str:
    return f"{value:.7g}" if isinstance(value, float) else str(value)
