"""Figures of runs: the three panels of Figure 1 of paper 004 (Sun, Chen, Garcia, Shahrampour), for
one run or several.

``python -m decentorth plot DIR [DIR ...]`` reads ``history.csv`` and ``config.yaml`` of each
folder. The folder of a comparison has a figure of its own kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from topologies.line.flags import InputError
from topologies.line.text import specifications

from ...commands.line.config_files import load
from ...commands.line.form import config_bytes
from ...commands.line.run_settings import ROWS, RunSettings
from ...commands.line.shell import of_function
from ...figures.canvas import Scale, check_known, save
from ...figures.histories import PANELS, Against, Width, plot_histories
from ...records.agent_graphs import AgentQuantity
from ...records.run_files import COMPARISON, CONFIG, FIGURE
from ...records.saved_runs import read_history
from ...running.history import Columns
from ...settings import Values, settings
from ..compare.comparison import load as load_comparison
from ..compare.comparison_figures import Band
from ..compare.saved_comparison import DATA
from ..compare.saved_comparison import FIGURE as COMPARED
from .report import write_report
from .saved_graph import plot_agents

__all__ = ["PANELS", "draw", "figure", "labels_of", "main", "plot_histories", "read_configuration"]

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figure(
    histories: Sequence[Columns], labels: Sequence[str] | None = None, **settings: Any
) -> Figure:
    """A figure of the histories of some runs, such as ``figure([a.history, b.history], ["DRFGT",
    "DRGTA"])``.

    Parameters
    ----------
    histories
        The histories of results, or other mappings from names to columns.
    labels
        A label for each; by default their numbers.
    settings
        ``against``, ``metrics``, ``x``, ``y``, ``width`` and ``guide``, as on the command line.

    Raises
    ------
    InputError
        As many labels as histories are needed, and all different; a metric that no run has; no
        matplotlib.
    """
    if labels is None:
        labels = [f"run {number + 1}" for number in range(len(histories))]
    names = _distinct(labels, len(histories))
    return plot_histories(dict(zip(names, histories, strict=True)), **settings)


def _distinct(names: Sequence[str], runs: int, what: str = "run") -> Sequence[str]:
    """The labels, if there is one for each run and none twice."""
    if len(names) != runs or len(set(names)) != runs:
        got = ", ".join(names) or "none"
        raise InputError(
            f"give one label for each {what}, all different, {runs} in all, or NAME=LABEL for some; "
            f"got {got}"
        )
    return names


def labels_of(configurations: Mapping[str, Mapping[str, object]]) -> dict[str, str]:
    """A label for each run, by its folder: the settings that differ between runs, and between runs
    of a method.

    Equal labels get their folders.
    """

    def kind_of(one: Mapping[str, object]) -> tuple[object, object]:
        return one.get("problem"), one.get("algorithm")

    whole = {*settings(RunSettings)}
    found = {}
    for folder, own in configurations.items():
        kin = [one for one in configurations.values() if kind_of(one) == kind_of(own)]
        parts = []
        for key, value in own.items():
            peers = kin
            if key in whole:
                peers = [*configurations.values()]
            same = len({repr(one.get(key)) for one in peers}) == 1
            if value is None or same or key in (*ROWS, "record_agents"):
                continue
            name = key.replace("_", " ") + " "
            if key in ("problem", "algorithm", "topology"):
                name = ""
            parts.append(f"{name}{value}")
        found[folder] = ", ".join(parts)
    times = Counter(found.values())
    for folder, text in found.items():
        if not text or times[text] > 1:
            found[folder] = ", ".join(filter(None, (text, folder)))
    return found


def read_configuration(folder: str) -> Values:
    """The saved settings of a run; InputError if the file is missing or not a configuration."""
    path = Path(folder) / CONFIG
    try:
        return load(str(path), config_bytes(str(path)))
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror}; is {folder} the folder of a run? A "
            "comparison is drawn alone"
        ) from None


def draw(
    *folders: str,
    against: list[str] | None = None,
    out: str | None = None,
    metrics: list[str] | None = None,
    labels: list[str] | None = None,
    x: Scale | None = None,
    y: Scale = "log",
    width: Width | None = None,
    guide: bool = False,
    band: Band | None = None,
    order: list[str] | None = None,
    agents: AgentQuantity | None = None,
    html: str | None = None,
) -> str:
    """Draw the histories of one run or several, a comparison, or the agents of one run on their
    graph, or write a report.

    Parameters
    ----------
    folders
        Folders of runs (--out), or the folder of one comparison.
    against
        The horizontal axis: iterations (the default), rounds, bytes, gradients or seconds. Of a
        comparison one or several, as iterations,bytes; by default a panel for each cost.
    out
        The figure: .png, .svg or .pdf. By default history.png in the folder of a single run, or a
        comparison's figure.png.
    metrics
        Columns of the history, one panel each: a,b or a b.
    labels
        Names of the runs, or of a comparison's methods, in the legend: a,b or a b, or drfgt=ours
        for one of several (of runs FOLDER=ours). By default the settings that differ.
    x
        The scale of the horizontal axis: by default linear, of a comparison log.
    y
        The scale of the vertical axis. Linear convergence is a straight line if y is log and x
        linear.
    width
        A paper's column (3.5 inches), or page (7.16 inches) with panels side by side. By default
        column, of a comparison page.
    guide
        Also draw the slope O(1/K), on two logarithmic axes.
    band
        A comparison's band about its medians: range over the trials (the default), quartiles or
        none.
    order
        A comparison's methods to draw, in this order: a,b or a b. By default all.
    agents
        Draw the graph of one run instead, with agents coloured by this error of their final points
        (agents.png).
    html
        Write a self-contained report into this file instead: curves, graphs, counts, settings.

    Returns
    -------
    str
        The name of the file written.
    """
    if not folders:
        raise InputError("give the folder of at least one run, as in: decentorth plot runs/a")
    columns = _words(metrics or [])
    curves = {
        "metrics": metrics,
        "x": x,
        "y": y != "log",
        "guide": guide,
        "against": against,
        "width": width,
    }
    if len(folders) == 1 and any(Path(folders[0], name).exists() for name in (COMPARISON, DATA)):
        _refuse({"guide": guide, "agents": agents, "html": html}, "the folder of a comparison")
        figure = _compared(
            folders[0],
            order,
            labels,
            metrics=columns,
            x=_words(against or []),
            log="x" * (x != "linear") + "y" * (y == "log") or "none",
            band=band or "range",
            width=width or "page",
        )
        return _saved(figure, out, folders[0], COMPARED)
    _refuse({"band": band, "order": order}, "runs, which are no comparison")
    if agents is not None:
        if len(folders) > 1:
            raise InputError("agents are drawn for one run at a time")
        _refuse({**curves, "labels": labels, "html": html}, "--agents, which draws a graph")
        figure = plot_agents(folders[0], read_configuration(folders[0]), agents)
        return _saved(figure, out, folders[0], "agents.png")
    folders = tuple(dict.fromkeys(folders))
    if out is None and html is None and len(folders) > 1:
        raise InputError("several runs go into one figure: say where with --out figure.pdf")
    runs = _runs(folders, labels)
    if html is not None:
        _refuse({**curves, "out": out}, "--html, which has figures of its own")
        write_report(html, runs)
        return html
    histories = {name: read_history(folder) for name, (folder, _) in runs.items()}
    axis = _words(against or ["iterations"])
    if len(axis) > 1:
        raise InputError(f"runs are drawn against one count, got {', '.join(axis)}: give one")
    check_known("unknown count", axis, get_args(Against))
    figure = plot_histories(
        histories,
        metrics=columns,
        against=cast(Against, axis[0]),
        x=x or "linear",
        y=y,
        width=width or "column",
        guide=guide,
    )
    return _saved(figure, out, folders[0], FIGURE)


def _runs(folders: Sequence[str], labels: Sequence[str] | None) -> dict[str, tuple[str, Values]]:
    """The folder and the settings of each run, by its label."""
    configurations = {folder: read_configuration(folder) for folder in folders}
    names = labels_of(configurations) | _labels(labels, folders)
    return {name: (folder, configurations[folder]) for folder, name in names.items()}


def _saved(figure: Figure, out: str | None, folder: str, name: str) -> str:
    """Save the figure in ``out``, or in the folder under this name."""
    path = out or str(Path(folder) / name)
    save(figure, path)
    return path


def _compared(
    folder: str, order: Sequence[str] | None, labels: Sequence[str] | None, **looks: Any
) -> Figure:
    """The figure of the comparison in a folder; ``labels`` are those of the methods that are
    drawn."""
    found = load_comparison(folder)
    drawn = [one.label for one in found.entries]
    if order is not None:
        drawn = specifications(order)
    return found.plot(order=drawn, labels=_labels(labels, drawn, "method"), **looks)


def _labels(
    labels: Sequence[str] | None, drawn: Sequence[str], what: str = "run"
) -> dict[str, str]:
    """The labels of what is drawn: one for each in its order, or for some as ``NAME=LABEL``."""
    words = _words(labels or [])
    pairs = [word.rpartition("=") for word in words]
    if all(name in drawn for name, _, _ in pairs):
        return {name: label for name, _, label in pairs}
    return dict(zip(drawn, _distinct(words, len(drawn), what), strict=True))


def _words(given: Sequence[str]) -> list[str]:
    """The words of lists such as ``a,b c``."""
    return [word for words in given for word in words.split(",")]


def _refuse(given: Mapping[str, object], what: str) -> None:
    """Raise for the first option that was given and has no effect."""
    for name in (name for name, value in given.items() if value):
        raise InputError(f"--{name} has no effect with {what}: leave one of the two out")


def main(tokens: Sequence[str] | None = None) -> int:
    """``python -m decentorth plot``: 0, or 2 with the reason on standard error."""
    return of_function(tokens, draw, "decentorth plot FOLDERS")
