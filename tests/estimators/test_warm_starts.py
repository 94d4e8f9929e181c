"""Fits that start from the answer of the last one: the same answers as from random starts, in fewer rounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg

from decentorth.estimators import CCA, ICA, LDA, MultiviewCCA, OrthogonalDictionary, RobustSubspace
from decentorth.protocols import Array


def windows() -> list[list[Array]]:
    """Three windows of fresh samples of five agents, each turned a little further."""
    rng = np.random.default_rng(0)
    mixing, drift = rng.standard_normal((6, 6)), rng.standard_normal((6, 6))
    turns = [scipy.linalg.expm(0.003 * window * drift) @ mixing for window in range(3)]
    return [[rng.laplace(size=(600, 6)) @ turn + 1.0 for _ in range(5)] for turn in turns]


def given(estimator: Any, window: list[Array]) -> list[Any]:
    """The window as the estimator takes it."""
    if type(estimator) is CCA:
        return [(a[:, :3], a[:, 3:]) for a in window]
    if type(estimator) is LDA:
        return [(a, (a[:, 0] > 1.0) + (a[:, 1] > 2.0)) for a in window]
    return window


QUICK: dict[str, Any] = {"tol": 1e-6, "random_state": 0}


@pytest.mark.parametrize(
    "make",
    [
        lambda: ICA(**QUICK),
        lambda: CCA(2, **QUICK),
        lambda: MultiviewCCA(2, views=(3, 3), **QUICK),
        pytest.param(lambda: LDA(**QUICK), marks=pytest.mark.slow),
    ],
    ids=["ica", "cca", "multiview", "lda"],
)
def test_warm_starts_find_the_same_answers_in_fewer_rounds(make: Any) -> None:
    warm, rounds = make(), np.zeros(2)
    for number, window in enumerate(windows()):
        samples = given(warm, window)
        cold = make().fit_agents(samples, "ring")
        warm.fit_agents(samples, "ring", warm_start=number > 0)
        name = "x_weights_" if type(cold) is CCA else "components_"
        np.testing.assert_allclose(getattr(warm, name), getattr(cold, name), atol=2e-5)
        if number > 0:
            rounds += warm.communication_["rounds"], cold.communication_["rounds"]
    assert rounds[0] < 0.9 * rounds[1]


@pytest.mark.parametrize("make", [OrthogonalDictionary, lambda **more: RobustSubspace(2, **more)])
def test_a_warm_start_of_subgradient_methods_begins_at_the_last_answer(make: Any) -> None:
    """Whatever the seed: the first point, which one iteration with short steps hardly changes."""
    first, second, _ = windows()
    last = make(tol=1e-3, random_state=0).fit_agents(first, "ring")
    before = last.components_.copy()
    last.set_params(algorithm="drsm", step_size="geometric:initial=1e-6,ratio=0.9", max_iter=1, random_state=7)
    with pytest.warns(Warning, match="stopped after 1 iterations"):
        last.fit_agents(second, "ring", warm_start=True)
    cosines = np.linalg.svd(before @ last.components_.T)[1]
    np.testing.assert_allclose(cosines, 1.0, atol=1e-6)


def test_warm_starts_of_other_sizes_are_refused() -> None:
    window, other, _ = windows()
    found = MultiviewCCA(2, views=(3, 3), **QUICK).fit_agents(window, "ring")
    with pytest.raises(ValueError, match="warm_start continues from 2 components: set n_components=2"):
        found.set_params(n_components=3).fit_agents(other, "ring", warm_start=True)
    pairs = CCA(2, **QUICK).fit_agents(given(CCA(), window), "ring")
    with pytest.raises(ValueError, match="warm_start continues from 3 features, got 2: leave it out"):
        pairs.fit_agents([(a[:, :2], a[:, 3:]) for a in other], "ring", warm_start=True)
    with pytest.raises(ValueError, match="warm_start is for agents that hold samples"):
        CCA(1).fit_agents([(a, a) for a in other[:1]], "path", split="features", warm_start=True)
