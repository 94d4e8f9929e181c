"""Data: matrices from files or bundled sets, and the division of their samples over the agents.

Values are returned as in the file: nothing is centred, scaled or filled in. Every rank gets the same result from the same call,
and where the format allows it reads only the rows of its own agents.
"""

from typing import TYPE_CHECKING

from decentorth.data.bundled import BUNDLED, digits, resolve
from decentorth.data.files import EXTENSIONS, MatrixFile, load_labels, load_matrix
from decentorth.data.frames import split_frame
from decentorth.data.labels import Labels
from decentorth.data.partitions import KINDS, by_column, by_label, dirichlet, even, partition
from decentorth.data.tables import Columns
from decentorth.data.triples import Triples, load_triples
from decentorth.settings import missing

__all__ = [
    "BUNDLED",
    "EXTENSIONS",
    "KINDS",
    "Columns",
    "Labels",
    "MatrixFile",
    "Triples",
    "by_column",
    "by_label",
    "digits",
    "dirichlet",
    "even",
    "load_labels",
    "load_matrix",
    "load_triples",
    "partition",
    "resolve",
    "split_frame",
]

if not TYPE_CHECKING:
    __getattr__ = missing(__name__, __all__)
