"""The seconds of cdopt's constraint dissolving function with SciPy's L-BFGS-B on <x, H x> / 2 - <x,
K> over x^T x = I.

Its argument is a file with H, K, the start x0, the tolerance (of the Riemannian gradient, relative
to that at the start) and the most processor seconds.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from cdopt.core import problem as dissolved
from cdopt.manifold_np import stiefel_np
from scipy.optimize import minimize


def main(file: str) -> None:
    """Print the seconds of the processor."""
    given = np.load(file)
    H, K, x0 = given["H"], given["K"], given["x0"]
    limit, shape = float(given["seconds"]), x0.shape

    def riemannian(x: np.ndarray) -> float:
        q, _ = np.linalg.qr(x)
        x = q * np.sign(np.sum(q * x, axis=0))
        g = H @ x - K
        half = x.T @ g
        return float(np.linalg.norm(g - x @ (half + half.T) / 2))

    least, spent, begun = float(given["tolerance"]) * riemannian(x0), 0.0, time.process_time()
    made = dissolved(
        stiefel_np(shape),
        lambda x: float((x * (0.5 * (H @ x) - K)).sum()),
        obj_grad=lambda x: H @ x - K,
        obj_hvp=lambda x, v: H @ v,
        Xinit=x0,
    )

    class Done(Exception):
        pass

    def look(z: np.ndarray) -> None:
        nonlocal spent, begun, left, k
        k += 1
        if k % 5 == 0:
            spent += time.process_time() - begun
            left = riemannian(z.reshape(shape))
            if left < least or spent > limit:
                raise Done
            begun = time.process_time()

    left, k = np.inf, 0
    options = {"maxiter": 10**6, "maxfun": 10**7, "ftol": 0.0, "gtol": 0.0, "maxcor": 10}
    with contextlib.suppress(Done):
        minimize(
            made.cdf_fun_vec_np,
            x0.ravel(),
            jac=made.cdf_grad_vec_np,
            method="L-BFGS-B",
            callback=look,
            options=options,
        )
    if not left < least:
        sys.exit(
            f"not there after {k} iterations, {spent:.0f} s: the gradient is {left / least:.1g} "
            "times the tolerance"
        )
    print(spent)


if __name__ == "__main__":
    main(sys.argv[1])
