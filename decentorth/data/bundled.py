"""The bundled data sets, which come with a dependency, and the samples of a data specification: a
bundled name, else a path."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

from decentorth.data.array_files import ArrayReader, Content
from decentorth.data.files import MatrixFile, extension
from decentorth.data.labels import Labels
from decentorth.data.optional import needing
from decentorth.data.tables import ALL, Columns
from decentorth.protocols import Array
from topologies.line.words import suggestion


def digits() -> tuple[Array, Labels]:
    """The 8 x 8 images of handwritten digits in scikit-learn (a part of UCI's optical recognition
    of handwritten digits).

    Returns
    -------
    X : (1797, 64) float64
        Raw pixel intensities, integers from 0 to 16, one image per row.
    y : (1797,) int64
        The digits 0 to 9.

    Raises
    ------
    ModuleNotFoundError
        Without scikit-learn.
    """
    if package := importlib.util.find_spec("sklearn"):  # to import it takes a second
        file = Path(str(package.origin)).with_name("datasets") / "data" / "digits.csv.gz"
        if file.is_file():
            table = np.loadtxt(file, delimiter=",")
            return np.ascontiguousarray(table[:, :-1]), table[:, -1].astype(np.int64)
    with needing("scikit-learn", "the bundled data set 'digits'"):
        from sklearn.datasets import load_digits
    X, y = load_digits(return_X_y=True)
    return np.array(X, dtype=np.float64, order="C"), np.array(y, dtype=np.int64)


BUNDLED: dict[str, Callable[[], tuple[Array, Labels]]] = {"digits": digits}
"""The bundled data sets by name; each gives ``(X, y)``."""


def resolve(spec: str, columns: Columns = ALL) -> MatrixFile:
    """The samples that ``spec`` names: a bundled name, else the path of a file, of which
    ``columns`` are read.

    Raises
    ------
    ValueError
        When it is neither, with the nearest bundled name; otherwise as `MatrixFile`.
    FileNotFoundError
        When it looks like a path (a folder or a known extension) and there is no such file.
    """
    if spec in BUNDLED:
        if columns.by_name:
            raise ValueError(
                f"the bundled {spec} is no table: leave out {columns.given()}, which is for tables"
            )
        reader = ArrayReader(Path(spec), lambda _: Content(*BUNDLED[spec]()), spec)
        return MatrixFile(spec, reader=reader)
    path = Path(spec)
    keyed = re.search(r"(?i)\.(npz|mat):", spec)
    if not (path.exists() or path.name != spec or extension(path) or keyed):
        near = suggestion(spec, BUNDLED) or ";"
        raise ValueError(
            f"no bundled data set is named {spec!r}{near} there is {', '.join(BUNDLED)}. As a path "
            f"it was tried too, and there is no such file in {Path.cwd()}"
        )
    return MatrixFile(spec, columns)
