"""The report of runs: one HTML file with curves, graphs, counts and settings, which a browser shows
without a network."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from topologies.line.flags import InputError

from ...figures.histories import Against, plot_histories
from ...records.run_files import SUMMARY
from ...records.saved_runs import read_end, read_history
from ...running.checkpoint.checkpoint_files import Json
from ...running.history import COUNTS, Columns
from ...settings import Values
from .page import write_page
from .player import can_play, player, sentences
from .saved_graph import plot_agents, run_graph

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWN = 1000
"""The most agents of a graph that is drawn."""
CURVES = ("objective", "gradient_norm", "consensus_error", "distance_to_manifold")
"""The columns whose curves are drawn, where a run has them."""
FACTS = (*COUNTS[1:], "agents", "ranks", "iterates_sha256")
"""The facts of a summary that are shown."""


def write_report(path: str, runs: Mapping[str, tuple[str, Values]]) -> None:
    """Write the report of runs, each by its label with its folder and its settings.

    Raises
    ------
    InputError
        The path is not a .html file that can be written, a folder's files cannot be read, or
        matplotlib is missing.
    """
    write_page(path, ", ".join(runs), _page(runs))


def _page(runs: Mapping[str, tuple[str, Values]]) -> Iterator[str]:
    histories = {label: read_history(folder) for label, (folder, _) in runs.items()}
    present = {name for history in histories.values() for name in history}
    ends = {label: _end(folder) for label, (folder, _) in runs.items()}
    for label, end in ends.items():
        message = end.get("message", "The run has not ended.")
        yield f"<p>{html.escape(label)}: {html.escape(message)}</p>"
    for label, (folder, configuration) in runs.items():
        if can_play(histories[label]):
            yield f"<h2>Iterations: {html.escape(label)}</h2>"
            yield _played(folder, configuration, histories[label])
    metrics = [name for name in CURVES if name in present]
    for against in get_args(Against):
        drawn = plot_histories(histories, against=against, metrics=metrics, width="page")
        yield f"<h2>Curves against {against}</h2>{_picture(drawn, f'curves against {against}')}"
    for label, (folder, configuration) in runs.items():
        yield f"<h2>Agents: {html.escape(label)}</h2>{_agents(folder, configuration)}"
    counts: dict[str, Values] = {}
    for label, history in histories.items():
        shown = [name for name in history if not name.startswith("agent_")]
        counts[label] = {name: history[name][-1].item() for name in shown if history[name].size}
        counts[label] |= {name: ends[label][name] for name in FACTS if name in ends[label]}
    yield f"<h2>Counts and results</h2>{_table(counts)}"
    settings = {label: configuration for label, (_, configuration) in runs.items()}
    yield f"<h2>Settings</h2>{_table(settings)}"


def _end(folder: str) -> Json:
    """The summary of a run; empty for a run that has not ended."""
    if (Path(folder) / SUMMARY).exists():
        return read_end(folder)
    return {}


def _played(folder: str, configuration: Values, history: Columns) -> str:
    """The player of a run; or the reason why there is none."""
    try:
        graph, _ = run_graph(folder, configuration)
        played = player(history, graph)
    except InputError as error:
        return f"<p>{html.escape(str(error))}</p>"
    said = [f"<p>{sentence}</p>" for sentence in sentences(history, len(graph))]
    return played + "".join(said)


def _agents(folder: str, configuration: Values) -> str:
    """The graph of a run, its agents coloured by their distances from the mean; or the reason why
    it is not drawn."""
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


def _table(columns: Mapping[str, Mapping[str, object]]) -> str:
    """A column for each run by its label; rows in which runs differ are marked."""
    lines = [f"<tr><th></th>{''.join(f'<th>{html.escape(label)}</th>' for label in columns)}</tr>"]
    for name in dict.fromkeys(name for column in columns.values() for name in column):
        cells = [html.escape(_shown(column.get(name, ""))) for column in columns.values()]
        differs = ' class="differs"' * (len({*cells}) > 1)
        head = html.escape(name.replace("_", " "))
        lines.append(f"<tr{differs}><th>{head}</th><td>{'</td><td>'.join(cells)}</td></tr>")
    return f"<table>{''.join(lines)}</table>"


def _shown(value: object) -> str:
    return f"{value:.7g}" if isinstance(value, float) else str(value)
