"""The Riemannian gradient of a problem at an answer, relative to that at the start; for several
agents, of their projected mean."""

import numpy as np
from benchopt import BaseObjective

from decentorth import RGD
from decentorth.api import set_up


class Objective(BaseObjective):
    """A smooth problem of decentorth on the Stiefel manifold, of one agent or of several on a
    network."""

    name = "Riemannian gradient"
    min_benchopt_version = "1.7"
    sampling_strategy = "callback"

    def set_data(self, problem, W):
        self.problem, self.W = problem, W
        self.x0 = set_up(problem, RGD() if W is None else "drfgt", W, comm="serial", seed=0).x0
        self.first = self.gradient(self.x0)

    def gradient(self, x):
        """The norm of the Riemannian gradient of the mean objective at the projected mean of the
        points ``(n, d, r)``."""
        hat = self.problem.constraint.project(x.mean(0)[None])
        g = self.problem.gradient(np.repeat(hat, len(x), axis=0)).mean(0)[None]
        return float(np.linalg.norm(self.problem.constraint.tangent(hat, g)))

    def evaluate_result(self, x):
        return {
            "value": self.gradient(x) / self.first,
            "consensus": float(np.linalg.norm(x - x.mean(0))),
            "feasibility": float(np.linalg.norm(x.swapaxes(1, 2) @ x - np.eye(x.shape[2]))),
        }

    def get_one_result(self):
        return {"x": self.x0}

    def get_objective(self):
        return {"problem": self.problem, "W": self.W, "x0": self.x0}
