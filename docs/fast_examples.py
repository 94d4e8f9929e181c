"""The arguments with which examples run while the site is built, found by sphinx-gallery under this module's name."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

FIGURE = str(Path(tempfile.gettempdir(), "decentorth_example.png"))
"""The file that examples write beside the figure of their page."""
FAST = {
    "asynchronous.py": [FIGURE],
    "bad_network.py": [FIGURE, "600"],
    "digits.py": [FIGURE],
    "directed.py": [FIGURE],
    "own_objective.py": ["autograd", FIGURE],
    "split_features.py": [FIGURE],
    "time_varying.py": [FIGURE],
}
"""The arguments of each example that does not run as it is."""


def arguments(gallery_conf: dict[str, Any], script: dict[str, Any]) -> list[str]:
    """The arguments of an example."""
    return FAST.get(Path(script["src_file"]).name, [])
