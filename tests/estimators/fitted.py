"""Each estimator fitted to ten agents' data, printed as JSON by rank 0: run alone, and on ranks."""

from __future__ import annotations

import hashlib
import json
import warnings
from typing import Any

import numpy as np

import topologies as tp
from decentorth.estimators import CCA, ICA, PCA
from decentorth.network import connect


def fitted() -> dict[str, str]:
    """SHA-256 of what each has found."""
    rng = np.random.default_rng(0)
    mixing = rng.standard_normal((5, 5))
    agents = [rng.laplace(size=(20 + 30 * i, 5)) @ mixing.T + i for i in range(10)]
    pairs = [(x, x[:, :3] + rng.standard_normal((len(x), 3))) for x in agents]
    W = tp.metropolis_weights(tp.ring(10))
    found: dict[str, tuple[Any, Any]] = {
        "pca": (PCA(2, max_iter=40, random_state=0), agents),
        "ica": (ICA(max_iter=40, random_state=0), agents),
        "cca": (CCA(2, max_iter=40, random_state=0), pairs),
    }
    names = {"pca": ("components_", "explained_variance_"), "ica": ("components_", "mixing_"), "cca": ("x_weights_", "coef_")}
    hashes = {}
    for name, (estimator, data) in found.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # so few iterations are not enough, and need not be
            estimator.fit_agents(data, W)
        arrays = [getattr(estimator, attribute) for attribute in names[name]]
        hashes[name] = hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()
    return hashes


if __name__ == "__main__":
    hashes = fitted()
    gathered = connect(None).allgather_bytes(json.dumps(hashes).encode())
    if connect(None).rank == 0:
        print(json.dumps([json.loads(one) for one in gathered]))
