"""Draw the pictures of the gallery, in one style: python docs/thumbnails.py [NAME...]

Each example runs with the arguments below. One panel of its figure becomes its picture: thick
lines, no words, so that it reads at 160 pixels. Of examples that draw nothing `own` has the
picture.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import sys
import tempfile
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import matplotlib as mpl
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import decentorth as do

DOCS = Path(__file__).parent
EXAMPLES = DOCS.parent / "examples"
PICTURES = DOCS / "_static" / "gallery"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444")
RUNS: dict[str, tuple[str, int]] = {
    "asynchronous": ("{}", 0),
    "bad_network": ("{} 600", 0),
    "digits": ("{}", 0),
    "directed": ("{}", 0),
    "figure1": ("{} --rows 500 --seeds 2 --iterations 300", 1),
    "own_objective": ("autograd {}", 0),
    "own_problem": ("", 1),
    "solve": ("", 1),
    "split_features": ("{}", 0),
    "time_varying": ("{} 1000", 1),
    "applications/hospitals": ("--figure {}", 0),
    "applications/orthogonal_layers": ("--figure {}", 0),
    "applications/sensors": ("--figure {}", 0),
    "generalized/decentralized_cca": ("{} 1000", 0),
    "generalized/figure2": ("{} --seeds 1 --dimension 60 --rank 30", 0),
    "generalized/figure3": ("{} --images 2000 --seeds 2", 0),
    "generalized/figure4": ("{} --samples 20000 --seeds 2", 0),
    "generalized/figure7": ("{}", 0),
    "generalized/figure8": ("{} --dimension 40 --rank 20 --seeds 2", 0),
    "generalized/figure9": ("{} --dimension 60 --rank 30", 0),
    "generalized/safe_steps": ("{} 500", 0),
    "generalized/sensitivity": ("{} 1 2", 0),
    "j_orthogonal/figure1": ("{} --data randn10 --seconds 1", 1),
    "j_orthogonal/hspp": ("{}", 0),
    "j_orthogonal/signed": ("{}", 0),
    "j_orthogonal/table3": ("--figure {} --iterations 200", 0),
    "j_orthogonal/ultrae": ("{}", 0),
    "notebooks/components_of_sites": ("", 0),
    "notebooks/fair_comparison": ("", 1),
    "notebooks/objective_in_jax": ("", 0),
    "notebooks/objective_in_torch": ("", 0),
    "notebooks/training_loop": ("", 0),
    "nonsmooth/figures": ("rsr {} 1 0.3", 0),
    "nonsmooth/network": ("{} --share 0.2", 0),
    "nonsmooth/outliers": ("{} 2", 0),
}
"""The arguments of each example, with the file of its figure as {}, and the number of the panel
that is shown."""


def figure_of(name: str, words: str) -> Figure:
    """The last figure that an example writes."""
    script, found = EXAMPLES / f"{name}.py", []
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        before, save = sys.argv, Figure.savefig
        Figure.savefig = lambda figure, *args, **more: found.append(figure)  # type: ignore[method-assign]
        sys.argv = [str(script), *words.format(Path(folder, "figure.png")).split()]
        sys.path.insert(0, str(script.parent))
        try:
            names = runpy.run_path(str(script), run_name="__main__")
            if not found:
                found.append((names.get("found") or names["result"]).plot())
        except SystemExit as end:
            if end.code:
                raise
        finally:
            sys.argv, Figure.savefig = before, save  # type: ignore[method-assign]
            sys.path.remove(str(script.parent))
            sys.modules.pop("experiment", None)  # two folders have one
    return found[-1]


def picture(panel: Any) -> Figure:
    """The curves, bars and areas of a panel in the style of all pictures."""
    figure = Figure((4.0, 2.8))
    axes = figure.add_axes((0.04, 0.05, 0.92, 0.9))
    for mesh in [*panel.images, *(one for one in panel.collections if isinstance(one, QuadMesh))]:
        axes.imshow(mesh.get_array(), aspect="auto", cmap="viridis", origin="lower", norm=mesh.norm)
        axes.set(xticks=[], yticks=[])
        return figure
    axes.set(xscale=panel.get_xscale(), yscale=panel.get_yscale())
    curves = [line for line in panel.lines if len(line.get_xdata()) > 2]
    for line, colour in zip(curves, cycle(COLOURS), strict=False):
        axes.plot(*line.get_data(), color=colour, linewidth=4, alpha=0.9)
    points = [
        line
        for line in panel.lines
        if len(line.get_xdata()) < 3 and line.get_marker() not in ("None", "", " ")
    ]
    for line, colour in zip(points, cycle(COLOURS[1:]), strict=False):
        axes.plot(*line.get_data(), "o", color=colour, markersize=13)
    for bar in [one for one in panel.patches if isinstance(one, Rectangle)]:
        axes.add_patch(Rectangle(bar.get_xy(), bar.get_width(), bar.get_height(), color=COLOURS[0]))
    axes.set(xlim=panel.get_xlim(), ylim=panel.get_ylim(), xticks=[], yticks=[])
    axes.minorticks_off()
    for side, spine in axes.spines.items():
        spine.set(visible=side in ("left", "bottom"), color="#999999", linewidth=2)
    return figure


def bars(output: str, number: str) -> Any:
    """A panel with the numbers of a stored output that an expression finds."""
    panel = Figure().add_subplot()
    values = [
        float(one)
        for one in re.findall(number, (DOCS / "results" / "examples" / f"{output}.txt").read_text())
    ]
    panel.barh(range(len(values))[::-1], values, height=0.6)
    panel.set_xlim(0.0, 1.05 * max(values))
    return panel


def dampings() -> Any:
    """A panel with the curves of the method of examples/own_algorithm.py."""
    damped = runpy.run_path(str(EXAMPLES / "own_algorithm.py"))["DampedDRFGT"]
    panel = Figure().add_subplot()
    for damping in (1.0, 0.5, 0.25):
        problem = do.problems.PCASettings(data="synthetic", rank=3).problem(10, seed=0)
        history = do.solve(problem, damped(damping=damping), "ring", iterations=500).history
        panel.semilogy(history["iteration"], history["gradient_norm"])
    return panel


OWN: dict[str, Callable[[], Any]] = {
    "own_algorithm": dampings,
    "generalized/wide_views": lambda: bars("wide_views", r"gap (\S+) "),
    "j_orthogonal/knowledge": lambda: bars("knowledge", r"MRR (\S+),"),
    "j_orthogonal/table2": lambda: figure_of(
        "j_orthogonal/figure1", "{} --data randn10 --seconds 1"
    ).axes[0],
}
"""The panels of examples that draw nothing."""


def draw(name: str) -> None:
    """Make the picture of an example."""
    if name in OWN:
        panel = OWN[name]()
    else:
        words, place = RUNS[name]
        panel = figure_of(name, words).axes[place]
    path = PICTURES / f"{name.replace('/', '-')}.png"
    path.parent.mkdir(exist_ok=True)
    picture(panel).savefig(path, dpi=100, metadata={"Software": None})
    print(path.relative_to(DOCS.parent), path.stat().st_size)


if __name__ == "__main__":
    mpl.use("agg")
    for each in sys.argv[1:] or (*RUNS, *OWN):
        draw(each)
