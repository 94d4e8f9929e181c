"""Constraint sets, and capabilities that some sets have."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np

from .arrays import Array, Known, Two

Retraction = Literal["polar", "polar-svd", "polar-eigh", "qr", "cholesky-qr"]
"""The retractions of a tangent step to the manifold; polar selects the fastest accurate of the
polar methods."""
Polar = Literal["polar", "polar-svd", "polar-eigh"]
"""The retractions that are projections."""
Direction = Literal["psi-b", "psi-br", "riemannian", "natural"]
"""The objective's part of the landing field of {x : x^T B x = I}: from products with B, with
B^{-1}, or the Riemannian gradient."""
MetricName = Literal["euclidean", "natural"]
"""The metric tr(u^T v), or tr(u^T B v) on {x : x^T B x = I}, in which that set is a Stiefel
manifold."""


@runtime_checkable
class ConstraintSet(Protocol):
    """A feasible set in ``R^shape``. All methods are per agent on stacked arrays."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def feasibility(self, x: Array) -> Array:
        """The measure of infeasibility that the source paper reports, ``(n_local,)``."""

    def random(self, rng: np.random.Generator) -> Array:
        """A random feasible point, of ``shape``."""


@runtime_checkable
class Projection(Protocol):
    """A set whose nearest point can be computed."""

    def project(self, y: Array, method: Polar = "polar-svd") -> Array:
        """Return the nearest points in a new array shaped like ``y``; metrics call them xhat.

        They are NaN for agents where ``y`` is not finite.
        """

    def distance(self, x: Array) -> Array:
        """The Frobenius distance to the nearest point, ``(n_local,)``."""


@runtime_checkable
class Riemannian(Protocol):
    """A set with tangent spaces."""

    def tangent(self, x: Array, g: Array) -> Array:
        """The Riemannian gradient at a feasible ``x`` from the Euclidean gradient ``g``."""


@runtime_checkable
class Retractable(Protocol):
    """A set with a retraction."""

    def retract(self, x: Array, v: Array, retraction: Retraction = "polar") -> Array:
        """Return the feasible points reached from ``x`` along ``v``, in a new array.

        x is feasible and v is tangent at x. The result is NaN for agents where ``x + v`` is not
        finite.
        """


class RetractableManifold(Riemannian, Retractable, Protocol):
    """A manifold with tangent spaces and a retraction."""


class ProjectableManifold(Riemannian, Projection, Protocol):
    """A manifold with tangent spaces and a projection."""


@runtime_checkable
class Spectral(Riemannian, Projection, Protocol):
    """A set of matrices, or several of them, with tangents, a projection and matrix signs."""

    @property
    def singular_values(self) -> int:
        """The number of singular values of a point, of all its matrices together."""

    def matrix_sign(self, v: Array) -> Array:
        """Return the matrix U V^T of each matrix v = U S V^T, in a new array.

        Only singular values that are not zero count.
        """


@runtime_checkable
class Landing(Protocol):
    """A set that is approached without retraction, along a landing field."""

    def relative_gradient(self, x: Array, g: Array) -> Array:
        """The objective's part of the landing field, defined off the set too."""

    def landing(self, x: Array, g: Array, penalty: Array) -> Array:
        """Return the landing field, shaped like ``x``; ``penalty`` is ``(n_local,)``."""

    def safe_step(self, x: Array, direction: Array, penalty: Array, eps: float) -> Array:
        """A step ``(n_local,)`` along ``-direction`` (the landing field at x) that stays within
        ``feasibility <= eps``."""

    def multiplier_norm(self, x: Array, g: Array) -> Array:
        """The constraint's contribution to the curvature at ``x``, ``(n_local,)``, from the
        Euclidean gradient."""


@runtime_checkable
class OrthonormalLanding(Landing, Protocol):
    """A set {x : x^T x = I} with the landing field skew(g x^T) x + penalty x (x^T x - I), which
    compiled kernels have too."""

    orthonormal: ClassVar[bool]


@runtime_checkable
class ByProducts(Protocol):
    """A set {x : x^T B x = I} known through products B x. Methods take ``bx``, the product, if the
    caller has it."""

    solvable: bool
    """True if `solve` can be called."""

    @property
    def largest(self) -> float:
        """A bound on the eigenvalues of B that is close to the largest."""

    def product(self, x: Array) -> Array:
        """The product B x."""

    def solve(self, g: Array) -> Array:
        """Return the solution B^{-1} g.

        Raises TypeError, with an alternative, if B is known by products only.
        """

    def tangent(self, x: Array, g: Array, bx: Known = None) -> Array:
        """The Riemannian gradient of the Euclidean metric."""

    def natural_gradient(self, x: Array, g: Array, bx: Known = None) -> Two:
        """The Riemannian gradient z of the metric tr(u^T B v) at a feasible x, and B z."""

    def natural_projection(self, x: Array, v: Array, bv: Array, bx: Array) -> Two:
        """The tangent z at a feasible x nearest to v in the metric tr(u^T B v), and B z, from B v
        and B x."""

    def retract_with(self, y: Array, by: Array, retraction: Retraction = "polar") -> Two:
        """Return the feasible point x to which the retraction brings y, and B x, in new arrays.

        ``by`` is B y.
        """


@runtime_checkable
class ProductLanding(Protocol):
    """A set {x : x^T B x = I} that is approached along one of several landing fields."""

    def landing_scale(self) -> float:
        """The largest ratio of the field psi-b to half the Riemannian gradient, by which steps are
        divided."""

    def product(self, x: Array) -> Array: ...
    def multiplier_norm(self, x: Array, g: Array, metric: MetricName = "euclidean") -> Array:
        """The contribution to the curvature as in `Landing`, in either metric."""

    def landing(
        self, x: Array, g: Array, penalty: Array, direction: Direction = "psi-b", bx: Known = None
    ) -> Array:
        """The field Psi(x) + penalty grad N(x), N = ||x^T B x - I||_F^2 / 2; ``penalty`` has shape
        ``(n_local,)``."""

    def landing_from_products(
        self, x: Array, g: Array, bx: Array, bx2: Array, penalty: Array
    ) -> Array:
        """The field psi-b from products with B, where ``bx`` and ``bx2`` may be two independent
        estimates of B x."""

    def natural_landing(self, x: Array, g: Array, penalty: Array, bx: Known = None) -> Two:
        """The field of the direction natural, and its product with B."""

    def safe_step(
        self, x: Array, direction: Array, penalty: Array, eps: float, *products: Array
    ) -> Array:
        """The largest step ``(n_local,)`` along ``-direction`` (with product ``image``) within
        ``feasibility <= eps``.

        ``products`` are B x and the product of B with ``direction``, where the caller has them.
        """


@runtime_checkable
class AugmentedLagrangian(Protocol):
    """A set {x : x^T B x = I} whose multiplier sym(x^T G) has a closed form."""

    def product(self, x: Array) -> Array: ...
    def augmented_gradient(self, x: Array, g: Array, penalty: Array, bx: Known = None) -> Array:
        """The field G - B x sym(x^T G) + penalty B x (x^T B x - I); ``penalty`` has shape
        ``(n_local,)``."""

    def column_tangent(self, x: Array, field: Array, bx: Known = None) -> Array:
        """The part of a field that keeps every x_j^T B x_j."""

    def normalized(self, y: Array) -> Two:
        """Return x, the columns of y scaled so that x_j^T B x_j = 1, and B x, in new arrays."""


@runtime_checkable
class TrackedProducts(Protocol):
    """A set {x : x^T B x = I}, or a product of such sets, with methods that take ``bx``, B x or an
    estimate of it, and not B."""

    rows: tuple[slice, ...]
    """The rows of each factor of a product in a point; all rows if there is one factor."""

    def feasibility(self, x: Array, bx: Known = None) -> Array: ...
    def retract_with(self, y: Array, by: Array, retraction: Retraction = "polar") -> Two: ...
    def multiplier_norm(self, x: Array, g: Array, metric: MetricName = "euclidean") -> Array:
        """The contribution to the curvature as in `ProductLanding`; the natural metric does not use
        B."""

    def dissolve_with(self, x: Array, bx: Array) -> Array:
        """Return the image A(x) in a new array.

        The smooth map A fixes the points of the set and flattens normal directions.
        """

    def dissolved_with(self, x: Array, g: Array, bx: Array, penalty: Array) -> Array:
        """The gradient of f(A(x)) + penalty/4 ||x^T B x - I||_F^2, with ``g`` the gradient of f at
        A(x)."""

    def landing_image(self, x: Array, g: Array, bx: Array, penalty: Array) -> Array:
        """The product of B and the landing field psi-br, with the penalty's gradient in the metric
        tr(u^T B v)."""


@runtime_checkable
class WithMatrices(Protocol):
    """A set {x : x^T B x = I} that can be rebuilt with another B."""

    def with_matrices(self, matrices: Array) -> Any:
        """The set with the B in ``matrices``, ``(n_local, n, w)``; those of a product are stacked
        by rows, padded with zeros."""


@runtime_checkable
class Divided(Protocol):
    """A product of sets."""

    def split(self, x: Array) -> list[Array]:
        """Each part's matrix in the points ``x``, as views."""


@runtime_checkable
class Signature(Protocol):
    """A set {x : x^T J x = J}, J a diagonal of signs."""

    signs: Array
    """The diagonal of J, ``(n,)``."""

    def corrected(self, x: Array) -> Array:
        """Return a new point near x that is closer to the set.

        Raises ValueError if the correction does not converge.
        """


@runtime_checkable
class Signatures(Protocol):
    """A set of J-orthogonal matrices of one signature, stacked by rows, with optional free rows
    below."""

    copies: int
    """The number of matrices."""

    @property
    def each(self) -> Signature:
        """The set of each matrix, with J of order n; the matrices are the first ``copies * n`` rows
        of a point."""

    def corrected(self, x: Array) -> Array:
        """The correction as in `Signature`; free rows do not change."""
