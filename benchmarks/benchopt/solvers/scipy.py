"""SciPy's eigenvectors, where the problem is a principal component analysis of one agent."""

import numpy as np
import scipy.linalg
from benchopt import BaseSolver

from decentorth.problems import PCA


class Solver(BaseSolver):
    name = "scipy"
    sampling_strategy = "run_once"

    def skip(self, problem, W, x0):
        return W is not None or not isinstance(
            problem, PCA
        ), "eigenvectors are the answer of PCA of one agent alone"

    def set_objective(self, problem, W, x0):
        self.problem, self.x = problem, x0

    def run(self, _):
        n, p = self.x.shape[1:]
        covariance = -self.problem.gradient(np.eye(n)[None])[0]
        self.x = scipy.linalg.eigh(covariance, subset_by_index=[n - p, n - 1])[1][None]

    def get_result(self):
        return {"x": self.x}
