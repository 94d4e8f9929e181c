"""What estimators refuse, in one line that says what to give instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_wine

from decentorth import DRFGT, RSM
from decentorth.estimators import (
    CCA,
    ICA,
    LDA,
    PCA,
    MultiviewCCA,
    OrthogonalDictionary,
    RobustSubspace,
)

HALF = np.full((2, 2), 0.5)
rng = np.random.default_rng(0)
X, Y = rng.standard_normal((90, 6)), rng.standard_normal((90, 4))
NEAR = np.column_stack((X[:, :3], X[:, 0] + X[:, 1] + 1e-9 * rng.standard_normal(90)))
FLAT = np.where(np.arange(6) == 2, 1.0, X)
SITES = [X[:40], X[40:]]
VIEWS = [(a, a[:, :4]) for a in SITES]
wine, kind = load_wine(return_X_y=True)
wine = (wine - wine.mean(0)) / wine.std(0)
KINDS = np.array(["red", "rose", "white"])[kind]
COLLINEAR = X[:, :1] * (1.0, 2.0, 1.0) + kind[:90, None] * (1.0, 2.0, 1.0)
COLLINEAR += 1e-9 * rng.standard_normal((90, 3))
WARD = pd.DataFrame(X[:, :5], columns=list("abcde")).assign(ward=7.0)
BRIEF: dict[str, Any] = {"tol": 1e-4, "random_state": 0}


def warm(estimator: Any, agents: Any, other: Any, **changed: Any) -> Any:
    """A fit that starts from the answer of another one."""
    return (
        estimator.fit_agents(agents, HALF)
        .set_params(**changed)
        .fit_agents(other, HALF, warm_start=True)
    )


def streamed(estimator: Any) -> Any:
    return estimator.partial_fit_agents(SITES, HALF).partial_fit_agents(np.split(X, 3), "ring")


BAD: tuple[tuple[Callable[[], Any], str], ...] = (
    (
        lambda: PCA(7).fit(X),
        "n_components must be between 1 and 6, the fewer of samples and features, got 7",
    ),
    (lambda: PCA(cast(Any, "mle")).fit(X), "n_components must be an instance of int, not str"),
    (lambda: CCA(True).fit(X, Y), "n_components must be a whole number or None, got True"),
    (lambda: PCA(1.5).fit(X), "n_components must be an instance of int, not float"),
    (
        lambda: CCA().fit_agents([(csr_array(np.eye(3)), np.eye(3))] * 2, HALF),
        "X of agent 0 is sparse, and must be dense here: give its toarray()",
    ),
    (
        lambda: PCA(2, algorithm="rgd").fit(csr_array(X)),
        "sparse samples need algorithm='auto', got 'rgd': or give X.toarray()",
    ),
    (
        lambda: PCA(algorithm="deepca", step_size=0.1).fit(X),
        "DeEPCA takes no step_size, got 0.1: leave it at 'auto'",
    ),
    (
        lambda: PCA(algorithm=DRFGT(), step_size=0.1).fit(X),
        "step_size belongs to the algorithm where that is an object, got 0.1",
    ),
    (
        lambda: PCA(2, algorithm="generalized_landing").fit_agents(SITES, HALF),
        "GeneralizedLanding needs ProductLanding of its problem",
    ),
    (
        lambda: PCA(max_iter=cast(Any, 1.5), algorithm="rgd").fit(X),
        "max_iter must be an instance of int, not float",
    ),
    (
        lambda: PCA(2).fit(np.eye(4)).inverse_transform(np.ones((1, 3))),
        "a column for each of the 2 components, got 3 columns",
    ),
    (
        lambda: PCA(2, weights="agents").fit_agents(SITES, "path", split="features"),
        "so weights must be 'samples', got 'agents'",
    ),
    (lambda: PCA(3).fit(X[:4] * (1, 1, 1, 0, 0, 0)).score(X), "ask for fewer components"),
    (
        lambda: PCA(2, missing=cast(Any, "median")).fit(X),
        "missing must be 'refuse' or 'mean', got 'median'",
    ),
    (lambda: PCA(2, scale=True).fit_agents([X, X * np.nan], "path"), "X of agent 1 must be finite"),
    (
        lambda: PCA(2, scale=True).fit_agents([WARD, WARD], "path"),
        "column 'ward' is constant over all samples of all agents",
    ),
    (
        lambda: warm(PCA(2, **BRIEF), SITES, [a[:, :3] for a in SITES]),
        "warm_start continues from 6 features, got 3: leave it out",
    ),
    (
        lambda: warm(PCA(2, **BRIEF), SITES, SITES, n_components=3),
        "continues from 2 components: set n_components=2",
    ),
    (
        lambda: PCA(2).fit_agents(SITES, "path", split="features", warm_start=True),
        "warm_start is for agents that hold samples",
    ),
    (
        lambda: streamed(PCA(2, **BRIEF)),
        "the stream has 2 agents with 6 features, got 3 with 6: give the same",
    ),
    (lambda: PCA(2).fit(1e62 * X), "X of agent 0 must be at most 1e+60 in size"),
    (lambda: PCA(2).fit(1e-62 * X), "X of agent 0 must have an entry of at least 1e-60 in size"),
    (lambda: PCA(2).partial_fit(1e-62 * X), "multiply all by one number"),
    (lambda: LDA().fit(1e-62 * X, np.arange(90) % 2), "multiply all by one number"),
    (lambda: ICA().partial_fit(1e62 * X), "divide all by one number"),
    (lambda: CCA(2).partial_fit(X, 1e62 * Y), "y of agent 0 must be at most 1e+60 in size"),
    (
        lambda: ICA(7).fit(X),
        "n_components must be between 1 and 6, the fewer of samples and features, got 7",
    ),
    (
        lambda: ICA(6).fit(FLAT),
        "whitening to 6 components needs samples that vary in as many directions, but",
    ),
    (
        lambda: ICA().partial_fit(X[:3]),
        "whitening to 6 components needs samples that vary in as many directions, but",
    ),
    (
        lambda: ICA(2).partial_fit(X),
        "there must be as many sources as features, 6, but n_components is 2: leave it out",
    ),
    (
        lambda: ICA().fit_agents([X, X * np.nan], HALF),
        "X of agent 1 must be finite; entry [0, 0] is nan",
    ),
    (
        lambda: CCA(5).fit(X, Y),
        "n_components must be between 1 and 4, the fewest of samples, features and targets, got 5",
    ),
    (
        lambda: CCA().fit_agents([(X, Y), (X, Y, Y)], HALF),
        "an agent holds a pair (X_i, y_i), got 3 arrays of agent 1",
    ),
    (
        lambda: CCA().fit_agents([(X, Y), (X, Y[1:])], HALF),
        "those of agent 1 have 90 and 89 rows: row k of both is",
    ),
    (
        lambda: CCA().fit_agents([(X, Y), (X, Y[:, 1:])], HALF),
        "y of agent 0 has 4 columns, that of agent 1 has 3",
    ),
    (lambda: CCA(2).partial_fit(X[:6], Y[:6]), "6 samples of views with 6 and 4 columns"),
    (
        lambda: CCA(2).fit(X[:5], Y[:5]),
        "5 samples of X with 6 columns determine no correlations: give more, or ridge=1e-2",
    ),
    (lambda: CCA(2).fit(FLAT, Y), "X has constant columns (2): give ridge=1e-2, or drop them"),
    (lambda: CCA(2, ridge=cast(Any, "auto")).fit(X, Y), "ridge must be a number, got 'auto'"),
    (
        lambda: CCA(2).fit(NEAR, Y),
        "3 columns of X nearly depend on each other (0, 1, 3): give ridge=1e-2, or drop one of "
        "them",
    ),
    (
        lambda: CCA(2).fit_agents([(NEAR[i::3], Y[i::3]) for i in range(3)], "ring"),
        "3 columns of X nearly depend on",
    ),
    (
        lambda: warm(CCA(1, **BRIEF), VIEWS, [(x[:, :2], y) for x, y in VIEWS]),
        "warm_start continues from 6 features, got 2",
    ),
    (
        lambda: LDA(3).fit(wine, KINDS),
        "n_components must be between 1 and 2, one less than classes, and the number of features",
    ),
    (
        lambda: LDA().fit(wine[:9], KINDS[:9]),
        "LDA needs samples of 2 classes or more, got 1 class: red",
    ),
    (
        lambda: LDA().fit_agents([(wine, KINDS), (wine[:9], KINDS[:8])], HALF),
        "y of agent 1 has shape (8,), and X has 9 rows",
    ),
    (
        lambda: LDA().fit(np.column_stack((wine, wine[:, 0])), KINDS),
        "within their classes the samples vary in only 13 of 14 directions: give ridge=1e-2",
    ),
    (
        lambda: LDA().fit(COLLINEAR, KINDS[:90]),
        "within their classes the samples vary in only 1 of 3 directions: give ridge=1e-2",
    ),
    (
        lambda: LDA().fit(np.column_stack((wine, 0.1 * kind)), KINDS),
        "within their classes the samples vary in only 13 of 14 directions: give ridge=1e-2",
    ),
    (
        lambda: LDA().fit(np.array([[0.0], [1.0], [1.0]]), [0, 1, 1]),
        "all samples of a class are equal",
    ),
    (
        lambda: MultiviewCCA(views=(3, 4)).fit(X),
        "views must be the columns of each view, 6 in all, got 3, 4",
    ),
    (
        lambda: MultiviewCCA(views=(1, 4)).fit(np.column_stack((Y[:, 0], NEAR))),
        "columns of view 1 nearly depend on each other (",
    ),
    (
        lambda: RobustSubspace(6).fit(X),
        "n_components must be between 1 and 5, one less than the features, got 6",
    ),
    (
        lambda: RobustSubspace().fit_agents([X[:, :1]] * 2, HALF),
        "needs samples with at least 2 features, got 1",
    ),
    (lambda: RobustSubspace(4, tol=1.0).fit(X), "tol must be above 0 and below 1, got 1.0"),
    (
        lambda: RobustSubspace(4, algorithm=RSM(), step_size=0.1).fit(X),
        "step_size belongs to the algorithm where",
    ),
    (lambda: RobustSubspace(4).fit_agents([X, X[:, :5]], HALF), "that of agent 1 has 5"),
    (lambda: OrthogonalDictionary(tol=0.0).fit(X), "tol must be above 0 and below 1, got 0"),
)


@pytest.mark.parametrize(
    ("fit", "words"),
    [pytest.param(*one, id=f"{number} {one[1][:60]}") for number, one in enumerate(BAD)],
)
def test_what_cannot_be_fitted_is_refused_in_one_line(fit: Callable[[], Any], words: str) -> None:
    with pytest.raises((ValueError, TypeError)) as refused:
        fit()
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
