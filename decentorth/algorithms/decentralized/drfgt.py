"""DRFGT: decentralized retraction-free gradient tracking.

Sun, Chen, Garcia, Shahrampour, "Global convergence of decentralized retraction-free optimization on
the Stiefel manifold" (paper 004), Algorithm 1. From a common start x_i(0) = x_0 and y_i(0) =
Lambda_i(x_i(0)), every agent repeats

    x_i <- sum_j W_ij x_j - alpha y_i                                                  (10)
    y_i <- sum_j W_ij y_j + Lambda_i(new x_i) - Lambda_i(old x_i)                      (10)

where Lambda_i is the landing field of f_i with penalty lambda (5). Both sums use the values of the
same iteration, so one message per neighbour carries x and y. The mean of the trackers y_i stays the
mean of the landing fields.

    W_ij    network.mix             alpha   step_size  (n_local,)
    x_i     state.x                 lambda  penalty    (n_local,)
    y_i     state.tracker           Lambda  constraint.landing(x, gradient, penalty)

This is ``order="combine-then-adapt"``. Beyond the paper: ``order="accelerated"``, which mixes points
and trackers with momentum (see `loopless` for V, eta and the momenta u and v, and
``docs/accelerated.md``), still in one exchange,

    p_i <- x_i - alpha y_i
    x_i <- sum_j V_ij (p_j + eta u_j),             u_i <- x_i - p_i
    y_i <- sum_j V_ij (y_j + eta v_j) + Lambda_i(new x_i) - Lambda_i(old x_i),
           where v_i <- what this sum changed in y_i;

``order="adapt-then-combine"``, x_i <- sum_j W_ij (x_j - alpha y_j), and the same for y: stable at
larger steps, at the price of two dependent exchanges an iteration (the same bytes in twice the
rounds); ``step_size="auto"``; ``safe=True`` (see `safe`); ``kernel="numba"``, the same
step in one compiled pass over each agent's arrays (`kernels.tracking_kernels`). With one agent it is the
landing algorithm. It runs on any constraint set that has a landing field.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Self, cast

from ...numerics.kernels import compiled_tracking
from ...numerics.ordered_sums import subtract_scaled
from ...protocols import Array, Landing, Network, OrthonormalLanding, Problem, Streams
from ..common import (
    Momenta,
    Order,
    blockwise,
    following,
    landing,
    mix_loopless,
    refresh,
    resolve,
    schedule,
    tracking_aim,
)
from .tracking import PenalisedState as State
from .tracking import PenalisedTracking

P = Problem[Landing]


@dataclass(frozen=True, kw_only=True)
class DRFGT(PenalisedTracking):
    """Decentralized retraction-free gradient tracking (paper 004, Algorithm 1).

    Parameters
    ----------
    penalty
        lambda > 0 of the landing field, or auto: 0.1 / step_size, smaller on sparse graphs.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=3)
    >>> problem = settings.problem(10, seed=0)
    >>> method = do.DRFGT()
    >>> result = do.solve(problem, method, "ring", iterations=300)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < 1e-2 * norm[0])
    True
    """

    requires_set: ClassVar[tuple[type, ...]] = (Landing,)
    gradient_factor: ClassVar[float] = 2.0
    on_devices: ClassVar[bool] = True
    on_changing: ClassVar[bool] = True

    kernel: Annotated[Literal["numpy", "numba"], "numba: one compiled pass, on St(d, r)."] = "numpy"

    def for_network(self, network: Network) -> Self:
        """Return this method with its order resolved for the network.

        Raises ImportError with the command that installs numba, if the numba kernel is chosen
        and numba is missing.
        """
        if self.kernel == "numba":
            compiled_tracking()
        return super().for_network(network)

    def for_problem(self, problem: P) -> Self:
        """Return this method, checked for the problem.

        Raises TypeError if the compiled kernel lacks the landing field of the problem's set.
        """
        if self.kernel == "numba" and not isinstance(problem.constraint, OrthonormalLanding):
            raise TypeError(
                f"the kernel numba is for points on St(d, r), got {problem.constraint!r}: leave "
                "kernel out"
            )
        return self

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> State:
        aim = partial(tracking_aim, network, cast(Order, self.order), self.step_size)
        base, penalty, spent = resolve(self, problem, network, streams, x0, aim, self.batch_size)
        step = base * schedule(self.step_size).scale(0)
        field = blockwise(landing, self.oracle(problem, streams, 0), x0, penalty)
        x = x0.copy()
        tracker = field.copy()
        momenta = self.at_rest(x0)
        return State(x, tracker, field, step, base, penalty, 0, spent + 1, momenta)

    def step(self, problem: P, network: Network, streams: Streams, state: State) -> State:
        if self.kernel == "numba":
            return self._in_one_pass(problem, network, streams, state)
        f = self.oracle(problem, streams, state.k + 1)
        alpha = state.step_size
        y = state.tracker
        momenta = state.momenta
        if self.order == "accelerated":
            # x_i <- sum_j V_ij (p_j + eta u_j),  p_i = x_i - alpha y_i
            p = state.x - alpha[:, None, None] * y
            x, mixed = mix_loopless(network, p, y, momenta)
            momenta = Momenta(x - p, mixed - y)
            # y_i <- sum_j V_ij (y_j + eta v_j) + Lambda_i(new x_i) - Lambda_i(old x_i)
            field = refresh(landing, f, x, mixed, state.field, state.penalty)
        elif self.order == "combine-then-adapt":
            x, mixed = network.mix(state.x, y)
            # x_i <- sum_j W_ij x_j - alpha y_i  (10)
            subtract_scaled(alpha, y, x)
            # y_i <- sum_j W_ij y_j + Lambda_i(new x_i) - Lambda_i(old x_i)  (10)
            field = refresh(landing, f, x, mixed, state.field, state.penalty)
        else:
            # x_i <- sum_j W_ij (x_j - alpha y_j)
            (x,) = network.mix(state.x - alpha[:, None, None] * y)
            # y_i <- sum_j W_ij (y_j + Lambda_j(new x_j) - Lambda_j(old x_j))
            field = refresh(landing, f, x, y, state.field, state.penalty)
            (mixed,) = network.mix(y)
        return self._after(state, x, mixed, field, momenta)

    def _in_one_pass(self, problem: P, network: Network, streams: Streams, state: State) -> State:
        """Take the step by a compiled pass over each agent's arrays.

        The pass moves x, and adds the new field less the old one to y.
        """
        f = self.oracle(problem, streams, state.k + 1)
        alpha = state.step_size
        y = state.tracker
        old = state.field
        momenta = state.momenta
        change = compiled_tracking().landing_change
        if self.order == "accelerated":
            p = state.x - alpha[:, None, None] * y
            x, mixed = mix_loopless(network, p, y, momenta)
            momenta = Momenta(x - p, mixed - y)
            field = blockwise(change, f, x, mixed, old, state.penalty, out=old)
        elif self.order == "combine-then-adapt":
            x, mixed = network.mix(state.x, y)
            field = blockwise(change, f, x, mixed, old, state.penalty, alpha, y, out=old)
        else:
            (x,) = network.mix(state.x - alpha[:, None, None] * y)
            field = blockwise(change, f, x, y, old, state.penalty, out=old)
            (mixed,) = network.mix(y)
        return self._after(state, x, mixed, field, momenta)

    def _after(self, state: State, x: Array, y: Array, field: Array, momenta: Any) -> State:
        step = following(self.step_size, state)
        k = state.k + 1
        spent = state.gradients + 1
        return State(x, y, field, step, state.base, state.penalty, k, spent, momenta)
