"""L-BFGS: the centralized Riemannian quasi-Newton method with limited memory.

Liu, Nocedal, "On the limited memory BFGS method for large scale optimization", Mathematical
Programming 1989, with the two loops of Nocedal & Wright, "Numerical optimization", 2006, Algorithm
7.4; on manifolds as in Huang, Gallivan, Absil, "A Broyden class of quasi-Newton methods for
Riemannian optimization", SIAM Journal on Optimization 2015, but with transports by projection that
are put off:

    x <- y = R_x(a d),   d <- -P_y(H z),   z = grad f(y)
    H: from <s, t> / <t, t> times the identity, one BFGS update for each of the last m pairs s = y - x, t = z - grad f(x)

    x     state.point                          grad f   state.point.field, in the metric of `rgd`
    s, t  state.pairs, the oldest first        P_y      constraint.tangent or natural_projection
    a     `line_search`, |phi'(a)| <= SIGMA |phi'(0)|   R_x   constraint.retract or retract_with

The pairs stay vectors of the space around the manifold, with the metric's inner product: H is
positive definite there whenever all <s, t> > 0, so that <z, d> = -<z, H z> < 0 without a transport
of the pairs, which would take two projections for each. A pair with <s, t> <= 0 is left out, and
where no step is found all are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from ...protocols import Array, Network, Problem, RetractableManifold, Streams
from ...settings import Count
from .line_search import Searching, last, search
from .search_points import Point, Vector, begun, field, projected, viewed

SIGMA = 0.9
"""The share of the slope that may be left after a step."""
_SHORTEST = 1e3 * float(np.finfo(np.float64).eps)
"""The length of a move, as a share of the point's, below which the change of the gradient is mostly
rounding: it has fewer than three digits."""


class Pair(NamedTuple):
    """One pair of vectors s and t, ``(1, n, p)``, and their products with B.

    ``inner``, ``(1,)``, is <s, t>. It is zero where no pair is stored.
    """

    moved: Array
    moved_image: Array
    change: Array
    change_image: Array
    inner: Array


class LBFGSState(NamedTuple):
    """The state of L-BFGS.

    It holds the point x ``(1, n, p)``, the `Point` of the iteration in its own variables, and m
    pairs. ``tangent`` and ``along`` are the direction and its product with B. Two arrays
    ``(1,)`` hold the step that led to x and the next trial step. The former is zero at the start
    and if no step was found, the latter if none is left.
    """

    x: Array
    point: Point
    pairs: tuple[Pair, ...]
    tangent: Array
    along: Array
    step_size: Array
    trial: Array
    k: int
    gradients: int


P = Problem[RetractableManifold]


@dataclass(frozen=True, kw_only=True)
class LBFGS(Searching):
    """Riemannian L-BFGS for a single agent (Liu, Nocedal 1989; Huang, Gallivan, Absil 2015).

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=3)
    >>> problem = settings.problem(1, seed=0)
    >>> method = do.LBFGS()
    >>> result = do.solve(problem, method, iterations=300)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < 1e-6 * norm[0])
    True
    """

    on_devices: ClassVar[bool] = True

    memory: Annotated[Count, "m, the pairs that are kept."] = 5

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> LBFGSState:
        point, first = begun(problem, x0)
        pairs = self._none(point)
        ahead = field(point).times(-1.0)
        return LBFGSState(x0.copy(), point, pairs, *ahead, np.zeros(1), first, 0, 1)

    def step(self, problem: P, network: Network, streams: Streams, state: LBFGSState) -> LBFGSState:
        k = state.k + 1
        view = viewed(problem)
        d = Vector(state.tangent, state.along)
        old = state.point
        trial = float(state.trial[0])
        x = Vector(old.x, old.product)
        length = np.sqrt(d.inner(d))
        size = np.sqrt(x.inner(x))
        if trial * length > size > 0.0:  # a longer move leads anywhere on the set
            trial = size / length
        point, step, _, spent = search(view, old, d, trial, SIGMA, self.retraction, k)
        pairs = self._none(point)
        z = field(point)
        if step > 0.0:
            s = Vector(point.x - old.x, point.product - old.product)
            t = Vector(point.field - old.field, point.image - old.image)
            inner = s.inner(t)
            pairs = state.pairs
            if inner > 0.0 and np.sqrt(s.inner(s)) > _SHORTEST * size:
                pairs = (*pairs[1:], Pair(*s, *t, np.array([inner])))
        ahead = z.times(-1.0)
        following = state.trial
        if pairs[-1].inner[0] > 0.0:
            along = two_loops(pairs, ahead).tangent
            ahead = projected(view, point, along)
            following = np.ones(1)
            if not z.inner(ahead) < 0.0:
                ahead = z.times(-1.0)
        if last(old, d, step):
            following = np.zeros(1)
        spent = state.gradients + spent
        return LBFGSState(state.x, point, pairs, *ahead, np.array([step]), following, k, spent)

    def _none(self, point: Point) -> tuple[Pair, ...]:
        """The places of the pairs, all empty."""
        zeros = np.zeros_like(point.x)
        images = np.zeros_like(point.image)
        return (Pair(zeros, images, zeros, images, np.zeros(1)),) * self.memory


def two_loops(pairs: Sequence[Pair], q: Vector) -> Vector:
    """Return the product H q by the two-loop recursion; overwrites ``q``."""
    there = [pair for pair in pairs if pair.inner[0] > 0.0]
    used = [(Vector(*pair[:2]), Vector(*pair[2:4]), float(pair.inner[0])) for pair in there]
    shares = []
    for s, t, inner in reversed(used):
        shares.append(s.inner(q) / inner)
        q.add(-shares[-1], t)
    _, t, inner = used[-1]
    q = q.times(inner / t.inner(t))
    for (s, t, inner), share in zip(used, reversed(shares), strict=True):
        q.add(share - t.inner(q) / inner, s)
    return q
