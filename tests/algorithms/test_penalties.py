"""The formula that the help of a penalty gives is the one that is used."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import decentorth as do

STEP = 0.01
COMBINE = partial(do.DRFGT, order="combine-then-adapt")
PROBLEM = do.problems.PCA(np.random.default_rng(0).standard_normal((2, 20, 5)), 2)


@pytest.mark.parametrize("least", [-0.8, -0.2])
@pytest.mark.parametrize("kind", [COMBINE, do.VRDRFGT, do.SagaDRFGT, do.EFLanding])
def test_automatic_penalties_beside_a_given_step(kind: Any, least: float) -> None:
    """min(0.1, u / 4) / step_size, u = (1 + lambda_min)^2 / 2."""
    W = np.full((2, 2), 0.5) + 0.5 * least * np.array([[1.0, -1.0], [-1.0, 1.0]])
    result = do.solve(PROBLEM, kind(step_size=STEP), W, iterations=1)
    expected = min(0.1, (1.0 + least) ** 2 / 8.0) / STEP
    np.testing.assert_allclose(result.state.penalty, expected, rtol=1e-12)


def test_penalties_of_accelerated_mixing_follow_its_gap() -> None:
    """s / 4 / step_size. Metropolis weights of a ring of ten have lambda_min = -1/3."""
    slow = (1.0 - np.cos(np.pi / 5.0)) * 2.0 / 3.0
    gap = np.sqrt(4.0 / (4.0 + slow) * slow)
    data = np.random.default_rng(0).standard_normal((10, 20, 5))
    method = do.DRFGT(step_size=STEP, order="accelerated")
    result = do.solve(do.problems.PCA(data, 2), method, "ring", iterations=1)
    np.testing.assert_allclose(result.state.penalty, gap / 4.0 / STEP, rtol=1e-12)
