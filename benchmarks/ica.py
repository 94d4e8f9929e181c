"""Time of `ICA.fit` over that of scikit-learn's FastICA, the least of three each, in turn.

OPENBLAS_NUM_THREADS=1 python benchmarks/ica.py
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.decomposition import FastICA

from decentorth.estimators import ICA

SIZE = 100_000, 10


def seconds(estimator: Any, X: Any) -> float:
    """The time of a fit."""
    begin = time.perf_counter()
    estimator.fit(X)
    return time.perf_counter() - begin


def main() -> None:
    for kind in ("laplace", "logistic", "uniform"):
        rng = np.random.default_rng(1)
        X = getattr(rng, kind)(size=SIZE) @ rng.standard_normal((SIZE[1], SIZE[1]))
        ours, theirs = ICA(random_state=0), FastICA(random_state=0, whiten="unit-variance")
        pairs = [(seconds(ours, X), seconds(theirs, X)) for _ in range(3)]
        ratio = min(own for own, _ in pairs) / min(other for _, other in pairs)
        slope = ours.history_["gradient_norm"][-1]
        print(f"{kind:9} {ratio:5.2f}, {ours.n_iter_} and {theirs.n_iter_} iterations, {slope:.0e}")


if __name__ == "__main__":
    main()
