"""Block Krylov iterations: the leading eigenvectors of C by one product with a block of columns an
iteration.

Golub, Underwood, "The block Lanczos method for computing eigenvalues", Mathematical Software III
1977, with all blocks orthogonal to each other and the thick restart of Wu, Simon, "Thick-restart
Lanczos method for large symmetric eigenvalue problems", SIAM Journal on Matrix Analysis and
Applications 2000. For f(x) = -1/2 tr(x^T C x) over St(d, r):

    Q <- an orthonormal basis of the part of C Q that is orthogonal to S                  (1)
    S <- [S Q],   C S <- [C S  C Q]                                                       (2)
    x <- S V,     V the leading eigenvectors of S^T C S                                   (3)

    S     the filled rows of state.basis, transposed     C S   those of state.images
    Q     the last b columns of S, at the start x_0 and random columns

Q has b = r + guard columns. Where S has as many columns as fit, its b leading vectors S V take the
places of S and Q before (1); C S V takes no product. A space of at most `WHOLE` blocks is taken
whole: C is multiplied by an orthonormal basis once, and one iteration finds the answer.

A run on several agents makes one exact sum of d x b numbers an iteration.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple, Protocol

import numpy as np

from ...numerics.ordered_sums import norms
from ...protocols import Array, Eigenproblem, Network, Problem, Stop, Streams
from ...protocols.sets import Riemannian
from ...settings import Count, Range
from ..common import SingleAgentMethod

WHOLE = 5
"""The number of blocks up to which all of space is taken: fewer products take as many numbers."""
PASSES = 3
"""How often the parts along S are removed from a block: twice, and once more for columns of which
nothing is left, which QR replaces by others."""
ROUNDING = 4.0 * float(np.finfo(np.float64).eps)
"""The residual that is rounding, as a share of the largest eigenvalue for each root of an entry."""


class Carried(NamedTuple):
    """The gradient -C x at the point of an iteration, ``(1, d, r)``."""

    gradient: Array


class BlockKrylovState(NamedTuple):
    """The point x ``(1, d, r)``; of the basis and the images, ``(1, m b, d)`` with vectors as rows,
    the first ``filled`` count.

    The residual ``(1,)`` is ||C x - x T||_F over the largest eigenvalue in size, T = x^T C x.
    """

    x: Array
    point: Carried
    basis: Array
    images: Array
    residual: Array
    filled: int
    k: int
    gradients: int


class EigenproblemOfOne(Problem[Riemannian], Eigenproblem, Protocol):
    """An eigenproblem of a single agent."""


P = EigenproblemOfOne
State = BlockKrylovState


@dataclass(frozen=True, kw_only=True)
class BlockKrylov(SingleAgentMethod):
    """Block Krylov iterations for principal components (Golub, Underwood 1977; Wu, Simon 2000),
    without a step size.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=3)
    >>> problem = settings.problem(10, seed=0)
    >>> method = do.BlockKrylov()
    >>> result = do.solve(problem, method, "ring", iterations=30)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < 1e-12 * norm[0])
    True
    """

    requires: ClassVar[tuple[type, ...]] = (Eigenproblem,)

    guard: Annotated[Count, "Columns of a block beside those of the answer."] = 4
    blocks: Annotated[int, Range(least=3), "The most blocks in the basis."] = 12

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> State:
        d, r = x0.shape[1:]
        b = self._width(d, r)
        drawn = streams.integers("start", 0, d * (b - r), 1 << 30)[0] / 2.0**29 - 1.0
        first = np.linalg.qr(np.concatenate((x0[0], drawn.reshape(d, b - r)), axis=1))[0]
        basis = np.zeros((1, b * min(self.blocks, d // b), d))
        images = np.zeros_like(basis)
        basis[0, :b], images[0, :b] = first.T, _product(problem, first).T
        S = basis[0, :b].T
        CS = images[0, :b].T
        image = CS @ (S.T @ x0[0])
        return _at(State(x0, Carried(x0), basis, images, np.zeros(1), b, 0, 1), x0[0].copy(), image)

    def step(self, problem: P, network: Network, streams: Streams, state: State) -> State:
        basis = state.basis[0]
        images = state.images[0]
        filled = state.filled
        d, r = state.x.shape[1:]
        b = self._width(d, r)
        if b < d:
            if filled == len(basis):
                x, image = _leading(basis.T, images.T, b)
                basis[:b], images[:b], filled = x.T, image.T, b
            Q = _beyond(images[filled - b : filled].T, basis[:filled].T)  # (1)
            new = slice(filled, filled + b)
            basis[new], images[new] = Q.T, _product(problem, Q).T  # (2)
            filled += b
        x, image = _leading(basis[:filled].T, images[:filled].T, r)  # (3)
        spent = state.gradients + (b < d)
        return _at(state._replace(filled=filled, k=state.k + 1, gradients=spent), x, image)

    def ending(self, problem: P, state: State) -> Stop | None:
        """The end of a run whose residual is rounding; not at the start, which may be any
        eigenvectors."""
        residual = float(state.residual[0])
        if state.k == 0 or not residual <= ROUNDING * math.sqrt(state.x.size):
            return None
        return Stop(
            "converged",
            True,
            f"the residual of the eigenvectors is {residual:.1e} of the largest eigenvalue, which "
            "is rounding",
        )

    def _width(self, d: int, r: int) -> int:
        """The number b of the columns of a block."""
        b = r + self.guard
        return b if d > WHOLE * b else d


def _product(problem: P, block: Array) -> Array:
    """``(d, b)``: the product C Q."""
    return problem.product(np.ascontiguousarray(block)[None])[0]


def _beyond(block: Array, S: Array) -> Array:
    """An orthonormal basis of the part of a block that is orthogonal to S."""
    for _ in range(PASSES):
        block = np.linalg.qr(block - S @ (S.T @ block))[0]
    return block


def _leading(S: Array, CS: Array, count: int) -> tuple[Array, Array]:
    """The vectors S V and their images C S V, V the leading eigenvectors of S^T C S; the largest
    entry of each vector is positive, whatever signs LAPACK gives."""
    T = S.T @ CS
    V = np.linalg.eigh(0.5 * (T + T.T))[1][:, : -count - 1 : -1]
    x = S @ V
    largest = np.take_along_axis(x, np.abs(x).argmax(-2)[None], -2)
    signs = np.where(largest < 0.0, -1.0, 1.0)
    return x * signs, (CS @ V) * signs


def _at(state: State, x: Array, image: Array) -> State:
    """The state at the point x ``(d, r)``, with the image C x."""
    T = x.T @ image
    size = np.abs(np.linalg.eigvalsh(0.5 * (T + T.T))).max(-1)
    residual = norms((image - x @ T)[None]) / (size or 1.0)
    gradient = np.ascontiguousarray(-image)[None]
    return state._replace(
        x=np.ascontiguousarray(x)[None], point=Carried(gradient), residual=residual
    )
