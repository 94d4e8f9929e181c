"""pymanopt's solvers with the objective and the gradient of the problem, for one agent."""

from typing import ClassVar

import numpy as np
import pymanopt
import pymanopt.manifolds
import pymanopt.optimizers
from benchopt import BaseSolver


class Solver(BaseSolver):
    name = "pymanopt"
    parameters: ClassVar = {"optimizer": ["ConjugateGradient", "TrustRegions"]}
    sampling_strategy = "iteration"

    def skip(self, problem, W, x0):
        return W is not None, "it has one agent"

    def set_objective(self, problem, W, x0):
        self.x0 = self.x = x0
        manifold = pymanopt.manifolds.Stiefel(*x0.shape[1:])
        make = pymanopt.function.numpy(manifold)
        self.problem = pymanopt.Problem(
            manifold,
            make(lambda x: float(problem.value(x[None])[0])),
            euclidean_gradient=make(lambda x: problem.gradient(x[None])[0]),
            # linear
            euclidean_hessian=make(
                lambda x, v: problem.gradient((x + v)[None])[0] - problem.gradient(x[None])[0]
            ),
        )

    def run(self, n_iter):
        optimizer = getattr(pymanopt.optimizers, self.optimizer)
        found = optimizer(
            verbosity=0, max_iterations=n_iter + 1, min_gradient_norm=0.0, min_step_size=0.0
        )
        self.x = (
            np.asarray(found.run(self.problem, initial_point=self.x0[0]).point)[None]
            if n_iter
            else self.x0
        )

    def get_result(self):
        return {"x": self.x}
