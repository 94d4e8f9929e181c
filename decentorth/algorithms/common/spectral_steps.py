"""Steps along matrix signs: steepest descent in the spectral norm, as in Muon.

Let v = U S V^T, of the singular values that are not zero. Of all u with spectral norm at most 1,
the matrix sign msgn(v) = U V^T has the largest inner product <v, u>: the nuclear norm ||v||_* of v.

- ``length="unit"``, as in Muon: steps eta msgn(v). With a constant eta points stop at a distance of
  its order.
- ``length="nuclear"``: steps eta ||v||_* msgn(v), steepest descent in the spectral norm, exact with
  a constant eta. Since ||u||_F^2 is at most the number m of singular values, eta = c / (m L) is as
  safe as the step c / L of gradient descent.

A point of several matrices, as of the layers of a module, has the signs of each, and the sum of
their nuclear norms.
"""

from __future__ import annotations

from typing import Annotated, Literal

from ...numerics.ordered_sums import sums
from ...protocols import Array, Spectral
from ...settings import Share

_LENGTHS = (
    "Steps along matrix signs, which must shrink, or these times the direction's nuclear norm."
)
Length = Annotated[Literal["unit", "nuclear"], _LENGTHS]
Weight = Annotated[Share, "theta, the weight of the new gradient in its running mean."]


def spectral_step(constraint: Spectral, x: Array, v: Array, eta: Array, length: str) -> Array:
    """The step to subtract at x along the tangent part of v; ``eta`` is ``(n_local,)``."""
    along = constraint.tangent(x, v)
    sign = constraint.matrix_sign(along)
    if length == "nuclear":
        eta = eta * sums(sign * along)
    return eta[:, None, None] * sign
