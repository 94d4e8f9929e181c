"""The seconds of geoopt's RiemannianSGD with momentum 0.9 and the best of 4 steps on <x, H x> / 2 -
<x, K> over x^T x = I.

Its argument is a file with H, K, the start x0, the tolerance (of the Riemannian gradient, relative
to that at the start) and the most processor seconds. The best step is that with the smallest
gradient after 50 iterations, which are not timed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import geoopt
import numpy as np
import torch


def main(file: str) -> None:
    """Print the seconds of the processor."""
    torch.set_num_threads(1)
    given = np.load(file)
    H, K, x0 = (torch.from_numpy(given[name]) for name in ("H", "K", "x0"))
    limit, manifold = float(given["seconds"]), geoopt.EuclideanStiefel()

    def size(x: torch.Tensor) -> float:
        return float(torch.linalg.norm(manifold.egrad2rgrad(x, H @ x - K)))

    def descend(step: float) -> Iterator[tuple[int, float, torch.Tensor]]:
        x = geoopt.ManifoldParameter(x0.clone(), manifold=manifold)
        optimizer, spent = geoopt.optim.RiemannianSGD([x], lr=step, momentum=0.9), 0.0
        for k in range(1, 10**6):
            begun = time.process_time()
            with torch.no_grad():
                x.grad = H @ x - K
            optimizer.step()
            spent += time.process_time() - begun
            yield k, spent, x.detach()

    def after(step: float) -> float:
        found = next(size(x) for k, _, x in descend(step) if k == 50)
        return found if np.isfinite(found) else np.inf

    steepest = float(torch.linalg.matrix_norm(H, 2))
    least = float(given["tolerance"]) * size(x0)
    for k, spent, x in descend(min((c / steepest for c in (0.05, 0.1, 0.2, 0.4)), key=after)):
        if k % 5 == 0:
            left = size(x)
            if left < least:
                return print(spent)
            if spent > limit or not np.isfinite(left):
                sys.exit(
                    f"not there after {k} iterations, {spent:.0f} s: the gradient is "
                    f"{left / least:.1g} times the tolerance"
                )


if __name__ == "__main__":
    main(sys.argv[1])
