"""The promises of the papers of DESTINY, CDADT and RF-EXTRA, as their abstracts state them: fixed
points, limits and rates.

Their full texts were not at hand, so the constants are derived here, and not compared with printed
ones.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, get_args

import numpy as np
import pytest

from decentorth import CDADT, DESTINY, RFEXTRA, iterate
from decentorth.algorithms.common.automatic_steps import Order
from decentorth.network import Network
from decentorth.numerics.random_streams import CounterStreams
from decentorth.problems import PCA, FunctionProblem
from decentorth.protocols import Array
from decentorth.sets import Stiefel
from decentorth.theory import solution
from tests.reference import naive, rivals
from tests.reference.generalized import norm
from tests.support.distributed import OwnMatrices, own_pencils, sharing_the_identity
from tests.support.problems import GRAPHS, point, procrustes, stack

N = 5
W = GRAPHS["ring"](N)
NETWORK, STREAMS = Network(W), CounterStreams(0, slice(0, N))
# the second largest eigenvalue of W, whose smallest is positive
SIGMA = 0.6 + 0.4 * np.cos(2 * np.pi / N)
ORDERS: tuple[Order, ...] = ("combine-then-adapt", "adapt-then-combine")


def advanced(method: Any, problem: Any, state: Any, iterations: int = 1) -> Any:
    """The state after some iterations, from copies of the arrays in it."""
    state = type(state)(
        *(value.copy() if isinstance(value, np.ndarray) else value for value in state)
    )
    for _ in range(iterations):
        state = method.step(problem, NETWORK, STREAMS, state)
    return state


def squares(array: Array) -> float:
    return float(np.sum(array * array))


# DESTINY: every iteration lowers a merit function, which bounds the least of the squared errors by
# a constant over K.


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
def test_destiny_descends_and_so_its_least_squared_gradient_is_of_order_1_over_k(
    order: Order,
) -> None:
    """The dissolved variant tracks the gradients of h_i(x) = f_i(A(x)) + beta/4 ||x^T x - I||^2,
    A(x) = x (3I - x^T x)/2.

    For PCA with ||C_i|| <= 1, where all ||x_i||_2^2 <= S, each grad h_i has the Lipschitz constant
    L = (3/2 + S)^2 + 3 sqrt(S) + beta (2 S + 1): f_i(A(x)) has ||DA||^2 and ||A|| ||D^2 A||, the
    penalty 2 S + 1. With r = (1 + sigma^2)/2, q = (1 + sigma^2)/(1 - sigma^2) and w = ||W - I|| a
    step eta below (1 - r)/(5 q L max(w, 1)) lowers

        V = h(mean x) + a ||x - mean||^2 + b ||y - mean||^2,    a = eta L^2/(n (1 - r)),  b = 2 a q eta^2/(1 - r),

    in every iteration by at least eta/2 ||grad h(mean x)||^2 + eta L^2/(4 n) ||x - mean||^2. V is
    at least the least f. So the least of these squares in K iterations is at most 2 (V_0 - min
    f)/(eta K).
    """
    rng = np.random.default_rng(0)
    C = np.array([a @ a.T / np.linalg.norm(a @ a.T, 2) for a in rng.standard_normal((N, 6, 3))])
    problem = PCA([np.sqrt(6.0) * np.linalg.cholesky(c + 1e-12 * np.eye(6)).T for c in C], 2)
    beta, S, r = 2.0, 1.5, (1 + SIGMA**2) / 2
    L, q = (1.5 + S) ** 2 + 3 * np.sqrt(S) + beta * (2 * S + 1), 2 * r / (1 - SIGMA**2)
    eta = (1 - r) / (5 * q * L)
    a = eta * L**2 / (N * (1 - r))
    b = 2 * a * q * eta**2 / (1 - r)
    mean = naive.mean(C)

    def h(x: Array) -> float:
        e = x.T @ x - np.eye(2)
        y = x - x @ e / 2
        return -float(np.trace(y.T @ mean @ y)) / 2 + beta / 4 * squares(e)

    def gradient(x: Array) -> Array:
        e = x.T @ x - np.eye(2)
        g = -mean @ (x - x @ e / 2)
        return g @ (np.eye(2) - e / 2) - x @ naive.sym(x.T @ g) + beta * x @ e

    method = DESTINY(variant="dissolved", order=order, step_size=eta, penalty=beta)
    merits, promised = [], []
    for state in islice(iterate(problem, method, W), 1001):
        assert max(np.linalg.norm(x, 2) for x in state.x) ** 2 <= S
        hat = naive.mean(state.x)
        apart = squares(state.x - hat)
        merits.append(h(hat) + a * apart + b * squares(state.tracker - naive.mean(state.tracker)))
        promised.append(eta / 2 * squares(gradient(hat)) + eta * L**2 / (4 * N) * apart)
    drops = -np.diff(merits)
    assert (drops >= promised[:-1]).all()
    assert np.median(drops / promised[:-1]) < 4.0
    least = -np.linalg.eigvalsh(mean)[-2:].sum() / 2
    assert merits[-1] > least
    for K in (1, 10, 100, 1000):
        assert min(promised[:K]) <= (merits[0] - least) / K


def quartic() -> Any:
    """f_i(x) = x_2^4 + x_3^4 + x_4^4 + <c_i, x> on the sphere in R^4, with c_i that add up to 0.

    Along gradient descent to the first unit vector each small entry x_j follows x' = -4 x^3, so
    that x_j^2 = 1/(8 t) in the end, and the squared norm of the gradient of f is 3 / (32 t^3) with
    t the sum of the steps.
    """
    c = np.random.default_rng(1).standard_normal((N, 4, 1))
    c -= c.mean(axis=0)
    small = np.array([[0.0], [1.0], [1.0], [1.0]])
    return FunctionProblem(
        lambda i, x: (small * x**4 + c[i] * x).sum((-2, -1)),
        lambda i, x: 4 * small * x**3 + c[i],
        Stiefel(4, 1),
        N,
        stacked=True,
    )


DEGENERATE: dict[str, tuple[Any, float]] = {
    **{
        f"destiny {variant} {order}": (
            DESTINY(variant=variant, order=order, step_size=0.1, penalty=2.0),
            0.1,
        )
        for variant in get_args(rivals.Variant)
        for order in ORDERS
    },
    "cdadt": (CDADT(momentum=0.0, preconditioner="none", step_size=0.1, penalty=2.0), 0.1),
    "cdadt with momentum": (
        CDADT(momentum=0.5, preconditioner="none", step_size=0.05, penalty=2.0),
        0.1,
    ),
    "rfextra": (RFEXTRA(step_size=0.2, penalty=1.0), 0.1),
}
"""Methods, and how far they go along the Riemannian gradient in an iteration."""


@pytest.mark.slow
@pytest.mark.parametrize("name", DEGENERATE)
def test_the_squares_of_all_three_errors_fall_at_least_as_1_over_k_without_a_linear_rate(
    name: str,
) -> None:
    """Stationarity, feasibility and consensus together; the gradient at the rate of gradient
    descent of f, 3/32 (step k)^-3.

    The step counts up to a share of its own order, since the agents' multipliers x^T c_i differ.
    """
    method, pace = DEGENERATE[name]
    problem = quartic()
    if name.startswith("cdadt"):
        problem = sharing_the_identity(problem)
    x0 = np.array([[2.0], [1.0], [-1.0], [1.0]]) / np.sqrt(7.0)
    counts, errors, gradients = [], [], []
    for state in islice(iterate(problem, method, W, x0=x0), 5001):
        if state.k and state.k % 100 == 0:
            hat = naive.mean(state.x)
            x = hat / norm(hat)
            g = 4 * np.array([[0.0], [1.0], [1.0], [1.0]]) * x**3
            gradients.append(squares(g - x * float(np.sum(x * g))))
            errors.append(gradients[-1] + squares(hat.T @ hat - 1) + squares(state.x - hat) / N)
            counts.append(state.k)
    k, least = np.array(counts), np.minimum.accumulate(errors)
    assert (np.diff(k * least) < 0).all()
    late = k >= 1500
    assert np.polyfit(np.log(k[late]), np.log(least[late]), 1)[0] == pytest.approx(-3, abs=0.1)
    times = (3 / 32 / np.array(gradients)) ** (1 / 3)
    assert np.polyfit(k[late], times[late], 1)[0] == pytest.approx(pace, rel=0.06)


class Quartics(OwnMatrices):
    """f_i(x) = -1/2 tr(x^T A_i x) + 1/4 sum x^4 over {x : x^T B x = I}, the B_i known to one agent
    each."""

    def value(self, x: Array) -> Array:
        return super().value(x) + (x**4).sum((-2, -1)) / 4

    def gradient(self, x: Array) -> Array:
        return super().gradient(x) + x**3


@pytest.mark.parametrize(
    ("momentum", "iterations"), [pytest.param(0.0, 6000, marks=pytest.mark.slow), (0.9, 1500)]
)
def test_limits_of_cdadt_are_first_order_points_of_the_original_problem(
    momentum: float, iterations: int
) -> None:
    """G = B x sym(x^T G) and x^T B x = I, with the means G and B that no agent knows, for an f that
    is not quadratic."""
    from_pencils = own_pencils(condition=3.0)
    problem: Any = Quartics(from_pencils.A, from_pencils.B, 2)
    x0 = np.random.default_rng(1).standard_normal(problem.shape)
    (state,) = islice(
        iterate(problem, CDADT(momentum=momentum), W, x0=x0), iterations, iterations + 1
    )
    B, x = naive.mean(problem.B), state.x[0]
    assert norm(state.x - x) < 1e-9
    g = naive.mean(problem.gradient(stack(x, N)))
    assert norm(g) > 0.1
    assert norm(g - B @ x @ naive.sym(x.T @ g)) < 1e-8
    assert norm(x.T @ B @ x - np.eye(2)) < 1e-8


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_first_order_point_is_where_cdadt_rests_whatever_the_steps_and_preconditioners(
    momentum: float,
) -> None:
    """With the trackers at the means, which all iterations conserve, and not elsewhere."""
    problem = own_pencils()
    x = problem.optimum()
    method = CDADT(momentum=momentum)
    state = method.init(problem, NETWORK, STREAMS, stack(x, N))
    rng = np.random.default_rng(2)
    points = stack(x, N)
    own, fields = problem.B @ points, problem.gradient(points)
    state = state._replace(
        x=points,
        before=points.copy(),
        product=own,
        field=fields,
        product_tracker=stack(naive.mean(own), N),
        tracker=stack(naive.mean(fields), N),
        step_size=state.step_size * rng.uniform(0.3, 1.0, N),
        weights=state.weights * rng.uniform(0.5, 1.0, state.weights.shape),
    )
    assert norm(advanced(method, problem, state, 20).x - points) < 1e-12
    wrong = state._replace(tracker=state.tracker + 0.1 * rng.standard_normal(points.shape))
    assert norm(advanced(method, problem, wrong).x - points) > 1e-4


@pytest.mark.slow
def test_rfextra_rests_exactly_where_agents_agree_on_a_critical_point_of_the_problem() -> None:
    """There u_i = alpha Lambda_i. From points and corrections of any kind, if these add up to zero,
    it comes to such a point."""
    problem = procrustes(rows=(30, 28, 27, 32, 31), d=4, r=2).problem
    method, x0 = RFEXTRA(), point(problem)
    start = method.init(problem, NETWORK, STREAMS, stack(x0, N))
    x = solution(problem, advanced(method, problem, start, 1500).x[0], float(start.penalty[0]))
    alpha = start.step_size[:, None, None]
    fields = problem.constraint.landing(stack(x, N), problem.gradient(stack(x, N)), start.penalty)
    assert norm(fields) > 1.0
    rest = start._replace(x=stack(x, N), dual=alpha * fields)
    assert norm(advanced(method, problem, rest, 50).x - rest.x) < 1e-11
    rng = np.random.default_rng(0)
    corrections = 0.1 * alpha * rng.standard_normal(fields.shape)
    near = start._replace(
        x=rest.x + 0.05 * rng.standard_normal(fields.shape),
        dual=rest.dual + corrections - corrections.mean(0),
    )
    assert norm(advanced(method, problem, near, 3000).x - rest.x) < 1e-9
    far = near._replace(dual=near.dual + 0.1 * alpha * rng.standard_normal(x.shape))
    assert norm(advanced(method, problem, far, 1500).x - rest.x) > 1e-3
