"""Matrices in MATLAB's ``.mat`` files up to version 7, dense and sparse, through SciPy."""

from __future__ import annotations

import math
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy import io, sparse

from decentorth.data.checks import did_you_mean
from decentorth.data.labels import Labels, as_labels
from decentorth.data.sparse import StoredReader
from decentorth.protocols import Array
from topologies.matrix_files import Stored, require_matrix, require_real, require_unpacked

_NUMBERS = frozenset("double single int8 uint8 int16 uint16 int32 uint32 int64 uint64 logical sparse".split())
_SHOWN = 20


class MatReader(StoredReader):
    """One matrix of a ``.mat`` file: the only one of numbers, or the one named by ``key``."""

    def __init__(self, path: Path, key: str | None = None) -> None:
        super().__init__(path)
        self.key = key

    @cached_property
    def _chosen(self) -> str:
        try:
            listed = {name: (shape, kind) for name, shape, kind in io.whosmat(str(self.path))}
        except NotImplementedError:
            raise ValueError(
                f"{self.path} is of version 7.3, which is not read: save it in MATLAB by save('{self.path.name}', 'A', '-v7')"
            ) from None
        except Exception as error:  # SciPy's reader has many ways to fail on a damaged file
            raise self._damaged(error) from error
        names = [name for name, (_, kind) in listed.items() if kind in _NUMBERS]
        words = ", ".join([*map(repr, names[:_SHOWN]), *(["..."] if len(names) > _SHOWN else [])]) or "none"
        if self.key is not None and self.key not in names:
            raise ValueError(f"{self.path} holds no matrix {self.key!r}{did_you_mean(self.key, names)}: its matrices are {words}")
        if self.key is None and len(names) != 1:
            choice = f": choose one, as in {self.path}:{names[0]}" if names else ""
            raise ValueError(f"{self.path} holds {len(names)} matrices of numbers, {words}{choice}")
        name = self.key or names[0]
        shape, kind = listed[name]
        if kind != "sparse":
            require_unpacked(math.prod(map(int, shape)), self.path.stat().st_size, f"{self.path}:{name}")
        return name

    def _damaged(self, error: Exception) -> ValueError:
        return ValueError(
            f"{self.path} cannot be read as a .mat file: {' '.join(str(error).split())[:200] or type(error).__name__}"
        )

    @cached_property
    def _content(self) -> Stored:
        name = self._chosen
        try:
            found = io.loadmat(str(self.path), variable_names=[name])[name]
        except Exception as error:
            raise self._damaged(error) from error
        what = f"{self.path}:{name}"
        require_real(found.dtype, what)
        require_matrix(found.shape, what)
        if sparse.issparse(found):
            matrix: Any = found
            stored: sparse.coo_array[Any, tuple[int, int]] = sparse.coo_array(matrix)
            where = np.stack([stored.row, stored.col])
            if stored.nnz and (where.min() < 0 or (where.max(-1) >= stored.shape).any()):
                raise ValueError(f"{what} is damaged: it stores an entry outside of its shape {stored.shape}")
            return stored
        dense: Array = np.asarray(found, dtype=np.float64)
        return dense

    def labels(self) -> Labels:
        content = self._content
        if not isinstance(content, np.ndarray) or 1 not in content.shape:
            raise ValueError(f"{self.path} must hold a vector of labels, but has shape {content.shape}")
        return as_labels(content.ravel(), str(self.path))
