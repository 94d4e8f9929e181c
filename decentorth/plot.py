"""Figures of runs: the three panels of Figure 1 of paper 004 (Sun, Chen, Garcia, Shahrampour), for one run or several.

``python -m decentorth.plot DIR [DIR ...]`` reads ``history.csv`` and ``config.yaml`` of each folder.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from .cli.agents import AgentQuantity, plot_agents
from .cli.config import config_bytes
from .cli.figures import COLOURS, DASHES, LABELS, check_metrics, label, panels, save, say_empty
from .cli.flags import InputError, load
from .cli.outputs import CONFIG, read_history
from .cli.shell import REFUSALS, one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

History = Mapping[str, NDArray[Any]]
Against = Literal["iterations", "rounds", "bytes", "seconds"]

PANELS: tuple[tuple[str, ...], ...] = (("local_gradient_sum", "gradient_norm"), ("consensus_error",), ("distance_to_manifold",))
"""The metrics of each panel of Figure 1; the second of a panel is drawn thin beside the first."""
WIDTHS = (1.3, 0.6)
DECADES = 30.0
"""A logarithmic axis spans at least about this factor."""
COLUMN = 3.5
"""Width of a paper's column in inches."""


def plot_histories(
    histories: Mapping[str, History],
    *,
    against: Against = "iterations",
    metrics: Sequence[str] | None = None,
    linear: bool = False,
) -> Figure:
    """A figure of a paper's column width, one panel below the other, of the columns of each run by its label.

    There is a panel for each metric, by default the three of Figure 1, or the objective where a run has none of them. Logarithmic
    axes leave out zeros, and with them iteration 0, and a grey guide shows the slope O(1/K). Raises InputError for no histories, a
    metric that no run has, or a missing matplotlib.
    """
    shown = _shown(histories, metrics)
    height = 0.5 + 1.45 * len(shown) + 0.17 * (len(histories) > 1) * len(histories)
    figure, columns = panels(len(shown), 1, (COLUMN, height), sharex=True)
    rows = [row[0] for row in columns]
    column = "iteration" if against == "iterations" else against
    if not linear:
        _logarithmic(rows, np.concatenate([history[column] for history in histories.values()]))
    for axes, names in zip(rows, shown, strict=True):
        _draw(axes, histories, column, names, linear=linear)
    rows[-1].set_xlabel(LABELS[against], fontsize=8)
    if len(histories) > 1:
        handles = [next(line for line in axes.lines if line.get_label() == run) for run in histories]
        figure.legend(handles=handles, loc="outside upper center", ncols=1, fontsize=7, frameon=False)
    return figure


def _shown(histories: Mapping[str, History], metrics: Sequence[str] | None) -> list[tuple[str, ...]]:
    if not histories:
        raise InputError("nothing to plot: give the folder of at least one run")
    present = {name for history in histories.values() for name in history}
    if metrics:
        check_metrics(metrics, present)
        return [(name,) for name in metrics]
    found = [tuple(name for name in panel if name in present) for panel in PANELS]
    return [panel for panel in found if panel] or [("objective",)]


def _logarithmic(rows: Sequence[Axes], x: NDArray[Any]) -> None:
    """Make the axes logarithmic before lines are drawn: matplotlib warns if a line has no positive values."""
    from matplotlib.ticker import NullFormatter

    for axes in rows:
        axes.set_xscale("log", nonpositive="mask")
        axes.set_yscale("log", nonpositive="mask")
        axes.set_autoscale_on(False)
        axes.yaxis.set_minor_formatter(NullFormatter())
    shown = x[x > 0]
    if len(shown):
        rows[0].set_xlim(shown.min(), max(shown.max(), 1.001 * shown.min()))


def _draw(axes: Axes, histories: Mapping[str, History], column: str, names: Sequence[str], *, linear: bool) -> None:
    drawn = []
    for number, (run, history) in enumerate(histories.items()):
        style = {"color": COLOURS[number % len(COLOURS)], "linestyle": DASHES[number % len(DASHES)]}
        for thin, name in enumerate(names):
            if name in history:
                x, y = history[column], history[name]
                axes.plot(x, y, linewidth=WIDTHS[thin], label=f"_{run}" if thin else run, gid=name, **style)
                drawn.append((x, y))
    if not linear:
        _fit(axes, drawn)
    if len(names) > 1:
        from matplotlib.lines import Line2D

        axes.set_ylabel("gradient norms", fontsize=8)
        handles = [
            Line2D([], [], color="0.3", linewidth=width, label=label(name)) for name, width in zip(names, WIDTHS, strict=False)
        ]
        axes.legend(handles=handles, ncols=2, frameon=False, fontsize=7, loc="lower center", bbox_to_anchor=(0.5, 0.97))
    else:
        axes.set_ylabel(label(names[0]), fontsize=8)


def _fit(axes: Axes, drawn: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> None:
    """Fit logarithmic axes to the values that they can show, and draw the guide; with no such value, say so in the panel."""
    shown = [(x > 0) & (y > 0) & np.isfinite(y) for x, y in drawn]
    if not any(mask.any() for mask in shown):
        say_empty(axes)
        return
    y = np.concatenate([y[mask] for (_, y), mask in zip(drawn, shown, strict=True)])
    few = max(1.0, DECADES**0.5 * (y.min() / y.max()) ** 0.5)  # so that the axis spans whole powers of ten
    axes.set_ylim(y.min() / (1.6 * few), y.max() * 1.6 * few)
    (left, right), (bottom, top) = np.log10(axes.get_xlim()), np.log10(axes.get_ylim())
    start = (left + 0.05 * (right - left), bottom + 0.5 * (top - bottom))
    length = min(0.4 * (right - left), 0.42 * (top - bottom))
    ends = 10 ** np.array([start, (start[0] + length, start[1] - length)])
    axes.plot(ends[:, 0], ends[:, 1], color="0.6", linewidth=0.7, label="_guide", gid="guide")
    axes.annotate("$O(1/K)$", tuple(ends[1]), xytext=(2, -1), textcoords="offset points", fontsize=6, color="0.4", va="center")


def labels(configurations: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """A label for each run, by its folder: the settings that differ between runs; equal runs are labelled by their folders."""
    keys = list(dict.fromkeys(key for configuration in configurations.values() for key in configuration))
    told = {key for key in keys if len({repr(configuration.get(key)) for configuration in configurations.values()}) > 1}
    found = {
        folder: ", ".join(
            str(value) if key in ("problem", "algorithm", "topology") else f"{key.replace('_', ' ')} {value}"
            for key in keys
            if key in told and (value := configuration.get(key)) is not None
        )
        for folder, configuration in configurations.items()
    }
    times = Counter(found.values())
    return {folder: text if text and times[text] < 2 else ", ".join(filter(None, (text, folder))) for folder, text in found.items()}


def read_configuration(folder: str) -> dict[str, Any]:
    """The saved settings of a run; InputError if the file is missing or not a configuration."""
    path = Path(folder) / CONFIG
    try:
        return load(str(path), config_bytes(str(path)))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; is {folder} the folder of a run?") from None


def draw(
    *folders: str,
    against: Against = "iterations",
    out: str | None = None,
    metrics: list[str] | None = None,
    linear: bool = False,
    agents: AgentQuantity | None = None,
) -> str:
    """Draw the histories of one run or several, or the agents of one run on their graph.

    Parameters
    ----------
    folders
        Folders that --out of a run has filled.
    against
        What the horizontal axis counts.
    out
        The figure: .png, .svg or .pdf; for one run its folder's history.png when left out.
    metrics
        A panel for each of these columns of the history, in place of the three of Figure 1.
    linear
        Linear axes in place of logarithmic ones.
    agents
        Draw the graph of one run instead, its agents coloured by this error of their final points (agents.png).

    Returns
    -------
    str
        The figure's name.
    """
    if not folders:
        raise InputError("give the folder of at least one run, as in: python -m decentorth.plot runs/a")
    if agents is not None:
        if len(folders) > 1:
            raise InputError("agents are drawn for one run at a time")
        idle = {"against": against != "iterations", "metrics": metrics, "linear": linear}
        for name in (name for name, given in idle.items() if given):
            raise InputError(f"--{name} has no effect with --agents, which draws a graph: leave one of the two out")
        path = out or str(Path(folders[0]) / "agents.png")
        save(plot_agents(folders[0], read_configuration(folders[0]), agents), path)
        return path
    if out is None and len(folders) > 1:
        raise InputError("several runs go into one figure: say where with --out, as in --out figure.pdf")
    path = out or str(Path(folders[0]) / "history.png")
    names = labels({folder: read_configuration(folder) for folder in dict.fromkeys(folders)})
    histories = {name: read_history(folder) for folder, name in names.items()}
    save(plot_histories(histories, against=against, metrics=metrics, linear=linear), path)
    return path


def main(tokens: Sequence[str] | None = None) -> int:
    """``python -m decentorth.plot``: 0, or 2 with the reason on standard error."""
    from cyclopts import App, CycloptsError, Parameter

    app = App(
        name="python -m decentorth.plot",
        default_command=draw,
        version_flags=[],
        help_format="plaintext",
        default_parameter=Parameter(negative=(), consume_multiple=True),
        result_action="return_value",
        print_error=False,
        exit_on_error=False,
        verbose=False,
    )
    try:
        path = app(list(sys.argv[1:] if tokens is None else tokens))
    except (*REFUSALS, CycloptsError) as error:
        sys.stderr.write(f"decentorth.plot: {one_line(error)}\n")
        return 2
    if path is not None:
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
