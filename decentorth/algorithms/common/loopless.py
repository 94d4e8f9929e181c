"""Loopless Chebyshev mixing: one exchange an iteration, and the rate of Chebyshev polynomials.

Averaging, x <- W x, is gradient descent with step 1 on the disagreement <x, (I - W) x> / 2. With
Nesterov's momentum and V = (1 - g) I + g W it is

    p_i <- x_i,    x_i <- sum_j V_ij (p_j + eta u_j),    u_i <- x_i - p_i

from u_i = 0 on. A deviation from the mean along an eigenvector of V with eigenvalue w falls by the
roots of z^2 - (1 + eta) w z + eta w = 0. Let h < 1 be the second eigenvalue of V and
s = sqrt(1 - h). With eta = (1 - s) / (1 + s) both roots are 1 - s at w = h, complex of modulus
sqrt(eta w) for 0 < w < h, and the larger one is s - 1 at w = -h / 3. So every deviation falls by
1 - s a round, where W alone leaves 1 - s^2, if no eigenvalue is below -h / 3. That is what g is
for, the largest share of W with this property: g = 4 / (3 (1 - lambda_min) + 1 - lambda_2), at
most 1. The mean of the u_i is 0 and stays 0, so the mean of the x_i stays.

Gradient tracking mixes points and trackers so, each with its momentum, in one message. For equal
agents of curvature t / alpha it is stable up to t = 0.76 or more, whatever the eigenvalues, if eta
is at most 0.94, which is s = 0.03 (a ring of 120). Beyond, eigenvalues near 1 limit t to about s.
So eta stays there for slower networks.

It is the building block LCA of Song, Shi, Pu, Yan, "Optimal gradient tracking for decentralized
optimization", Math. Programming 2024 (read in abstract; g, eta and what follows from them are
derived here), and needs no inner loop, unlike `mixing.mix`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ...protocols import Array, Network, Spectrum

_LEAST = 0.03
"""The least s that sets the momentum: see above."""


class Momenta(NamedTuple):
    """Changes of the points and of the trackers by the last exchange, each like x."""

    x: Array
    """u."""
    tracker: Array
    """v."""


class Loopless(NamedTuple):
    """The numbers of accelerated mixing on a network."""

    share: float
    """g, of W in V."""
    momentum: float
    """eta."""
    gap: float
    """A round leaves at most the share 1 - gap of a deviation from the mean."""


def loopless(spectrum: Spectrum) -> Loopless:
    """The numbers of accelerated mixing on a network with this spectrum."""
    slow = 1.0 - spectrum.lambda_2
    fast = 1.0 - spectrum.lambda_min
    share = min(1.0, 4.0 / (3.0 * fast + slow))
    s = min(1.0, math.sqrt(share * slow))
    q = max(s, _LEAST)
    h = 1.0 - s * s
    # the larger root at w = h, which is 1 - s where q is s
    root = (h + math.sqrt(h * (q * q - s * s))) / (1.0 + q)
    return Loopless(share, (1.0 - q) / (1.0 + q), 1.0 - root)


def mix_loopless(network: Network, x: Array, y: Array, last: Momenta) -> tuple[Array, Array]:
    """Return the sums sum_j V_ij (x_j + eta u_j) and sum_j V_ij (y_j + eta v_j), in new arrays."""
    share, eta, _ = loopless(network.spectrum)
    ahead: Any = x + eta * last.x
    shared: Any = y + eta * last.tracker
    mixed_x, mixed_y = network.mix(ahead, shared)
    if share == 1.0:
        return mixed_x, mixed_y
    return ahead + share * (mixed_x - ahead), shared + share * (mixed_y - shared)
