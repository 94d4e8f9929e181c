"""Figures of runs: the three panels of Figure 1 of paper 004 (Sun, Chen, Garcia, Shahrampour), for one run or several.

``python -m decentorth.plot DIR [DIR ...]`` reads ``history.csv`` and ``config.yaml`` of each folder.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .cli.agents import AgentQuantity, plot_agents
from .cli.config import config_bytes
from .cli.figures import PANELS, Against, plot_histories, save
from .cli.flags import InputError, load
from .cli.outputs import CONFIG, read_history
from .cli.shell import REFUSALS, one_line

__all__ = ["PANELS", "draw", "labels", "main", "plot_histories", "read_configuration"]

if TYPE_CHECKING:
    pass


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
        name="decentorth plot",
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
