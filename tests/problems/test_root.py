"""A root of the agents' second moments, by sums of products, has the digits of a triangular factor of
their samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from decentorth.problems.common.pooled_rows import HERE, root
from decentorth.protocols import Array


def lengths_and_values(R: Array) -> tuple[Array, Array]:
    """The lengths of the columns, and the singular values of columns of length 1."""
    lengths: Any = np.sqrt((R * R).sum(axis=0))
    values: Any = np.linalg.svd(R / np.where(lengths > 0.0, lengths, 1.0), compute_uv=False)
    return lengths, values


@pytest.mark.parametrize("shape", [(100, 6), (2000, 60)])
@pytest.mark.parametrize("apart", [1.0, 1e-6, 1e-10, 1e-12])
def test_small_singular_values_keep_their_digits(apart: float, shape: Any) -> None:
    """Of a sum of products alone, values below 1e-8 would be rounding."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal(shape)
    A[:, -1] = A[:, 0] - 2.0 * A[:, 1] + apart * A[:, -1]
    A *= 10.0 ** rng.uniform(-3, 3, shape[1])
    lengths, values = lengths_and_values(root(np.array_split(A, 5), HERE))
    right, least = lengths_and_values(np.linalg.qr(A)[1])
    np.testing.assert_allclose(lengths, right, rtol=1e-13)
    np.testing.assert_allclose(values, least, rtol=1e-13 / apart + 1e-12, atol=1e-15)


def test_dependent_and_empty_columns_have_no_length() -> None:
    A = np.random.default_rng(0).standard_normal((100, 6))
    A[:, 4] = 0.0
    A[:, 5] = A[:, 0] + A[:, 1]
    R = root(np.array_split(A, 5), HERE)
    assert np.linalg.norm(R[:, 4]) <= 1e-15
    _, values = lengths_and_values(R[:, [0, 1, 2, 3, 5]])
    assert values[-1] <= 1e-15 * values[0] * 10.0
