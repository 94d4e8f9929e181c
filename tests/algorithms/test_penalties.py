"""The formula that the help of a penalty gives is the one that is used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import decentorth as do

STEP = 0.01
PROBLEM = do.problems.PCA(np.random.default_rng(0).standard_normal((2, 20, 5)), 2)


@pytest.mark.parametrize("least", [-0.8, -0.2])
@pytest.mark.parametrize("kind", [do.DRFGT, do.VRDRFGT, do.SagaDRFGT, do.EFLanding])
def test_automatic_penalties_beside_a_given_step(kind: Any, least: float) -> None:
    """min(0.1, u / 4) / step_size, u = (1 + lambda_min)^2 / 2."""
    W = np.full((2, 2), 0.5) + 0.5 * least * np.array([[1.0, -1.0], [-1.0, 1.0]])
    result = do.solve(PROBLEM, kind(step_size=STEP), W, iterations=1)
    expected = min(0.1, (1.0 + least) ** 2 / 8.0) / STEP
    np.testing.assert_allclose(result.state.penalty, expected, rtol=1e-12)
