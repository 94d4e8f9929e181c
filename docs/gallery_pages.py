"""What the gallery shows: short examples run while the site is built, of long ones the stored
output of a named command.

sphinx-gallery finds `arguments` under this module's name.
"""

from __future__ import annotations

import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sphinx_gallery.scrapers import figure_rst

from topologies.pictures import Picture

DOCS = Path(__file__).parent
PICTURES = DOCS / "_static" / "gallery"
"""The pictures of `thumbnails.py`."""
FIGURE = str(Path(tempfile.gettempdir(), "decentorth_example.png"))
"""The file that examples write beside the figure of their page."""
FAST = {
    "asynchronous.py": [FIGURE],
    "bad_network.py": [FIGURE, "600"],
    "digits.py": [FIGURE],
    "directed.py": [FIGURE],
    "components_of_sites.py": [],
    "fair_comparison.py": [],
    "hospitals.py": [],
    "objective_in_jax.py": [],
    "objective_in_torch.py": [],
    "own_objective.py": ["autograd", FIGURE],
    "own_problem.py": [],
    "sensors.py": [],
    "solve.py": [],
    "split_features.py": [FIGURE],
    "time_varying.py": [FIGURE],
    "training_loop.py": [],
}
"""The arguments of each example that runs while the site is built."""
for name, library in (
    ("objective_in_jax.py", "jax"),
    ("objective_in_torch.py", "torch"),
    ("training_loop.py", "torch"),
):
    if find_spec(library) is None:  # their stored outputs are shown
        del FAST[name]
FIRST = (
    "solve",
    "own_objective",
    "own_problem",
    "own_algorithm",
    "split_features",
    "directed",
    "time_varying",
    "bad_network",
    "asynchronous",
    "digits",
    "components_of_sites",
    "fair_comparison",
    "hospitals",
    "sensors",
    "decentralized_cca",
    "wide_views",
    "safe_steps",
    "sensitivity",
    "knowledge",
    "outliers",
    "network",
)
"""The examples in the order in which one learns, in each folder. The others follow by name."""
CODE = ".. GENERATED FROM PYTHON SOURCE LINES"


def arguments(gallery_conf: dict[str, Any], script: dict[str, Any]) -> list[str]:
    """The arguments of an example."""
    return FAST[Path(script["src_file"]).name]


def order(filename: str) -> tuple[int, str]:
    """The place of an example in its folder, as a key to sort by."""
    name = Path(filename).stem
    return (FIRST.index(name) if name in FIRST else len(FIRST)), name


def drawn(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """The figure of a cell that runs and comparisons have drawn, by the name ``figure``: pyplot
    does not know it."""
    names = block_vars["example_globals"]
    if not isinstance(figure := names.get("figure"), Picture) or names.get("shown") is figure:
        return ""
    names["shown"] = figure
    place = next(block_vars["image_path_iterator"])
    figure.savefig(place, dpi=100)
    text: str = figure_rst([place], gallery_conf["src_dir"])
    return text


def pictures(app: Any) -> None:
    """Put the pictures of `thumbnails.py` in place of the ones that sphinx-gallery makes."""
    for picture in PICTURES.glob("*.png"):
        *folder, name = picture.stem.split("-")
        thumbs = Path(app.srcdir, "gallery", *folder, "images", "thumb")
        shutil.copyfile(picture, thumbs / f"sphx_glr_{name}_thumb.png")


def outputs(script: str) -> list[Path]:
    """The stored outputs of commands that run a script of the folder examples."""
    files = sorted((DOCS / "results").rglob("*.txt"))
    return [
        path
        for path in files
        if f" examples/{script}.py" in path.read_text(encoding="utf-8").partition("\n")[0]
    ]


def shown(path: Path) -> str:
    """A stored output, and the figure beside it, as reStructuredText."""
    place, first = path.relative_to(DOCS), path.read_text(encoding="utf-8").partition("\n")[0]
    made, _, command = first.removeprefix("# ").partition(": ")
    text = (
        f"``{command}``, with {made}:\n\n.. literalinclude:: /{place}\n   :language: none\n   "
        ":lines: 2-\n\n"
    )
    if path.with_suffix(".png").exists():
        text += f".. image:: /{place.with_suffix('.png')}\n   :alt: figure of the command\n\n"
    return text


def stored(app: Any, page: str, source: list[str]) -> None:
    """Show the stored outputs of an example that does not run here above its code."""
    script = page.removeprefix("gallery/")
    if page == script or f"{Path(script).name}.py" in FAST:
        return
    parts = source[0].split(CODE, 2)
    if len(parts) == 3 and (found := outputs(script)):
        title = "Output and figure\n-----------------\n\n"
        output = f"{title}{''.join(map(shown, found))}The script\n----------\n\n"
        source[0] = f"{parts[0]}{CODE}{parts[1]}{output}{CODE}{parts[2]}"
