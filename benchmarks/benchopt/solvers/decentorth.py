"""Methods of decentorth, named as on its command line: those of one agent for one agent, the others
on networks."""

from typing import ClassVar

from benchopt import BaseSolver

from decentorth.api import set_up

ONE = [
    "lbfgs:retraction=cholesky-qr",
    "conjugate_gradients:retraction=cholesky-qr",
    "rgd:step_size=bb,retraction=cholesky-qr",
]
SEVERAL = ["drfgt", "rfextra", "destiny", "drgta", "dprgt", "rextra"]


class Solver(BaseSolver):
    name = "decentorth"
    parameters: ClassVar = {"method": ONE + SEVERAL}
    sampling_strategy = "callback"

    def skip(self, problem, W, x0):
        return (self.method in ONE) != (W is None), "the method is for one agent, or the problem is"

    def set_objective(self, problem, W, x0):
        self.run_of = set_up(problem, self.method, W, comm="serial", x0=x0[0])
        self.x = x0

    def run(self, cb):
        for state in self.run_of.states():
            self.x = state.x
            if not cb():
                break

    def get_result(self):
        return {"x": self.x}
