"""Several rounds of mixing as one: W^t, or the Chebyshev polynomial of W that averages best in t
rounds.

Chebyshev acceleration (Auzinger; Scaman et al. 2017, "Optimal algorithms for smooth and strongly
convex distributed optimization"): P_t(w) = T_t(z(w)) / T_t(z(1)), where z maps the interval
[lambda_min, lambda_2] of W's other eigenvalues to [-1, 1]. P_t(1) = 1, so the mean is kept, and
every other eigenvalue is at most 1 / T_t(z(1)), about 2 exp(-2 t sqrt(gap / (lambda_2 -
lambda_min))) where W^t leaves exp(-t gap).
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np

from ...protocols import Array, Arrays, Network, Spectrum

_BEST = "Mix by the best averaging polynomial of W in `rounds` rounds, not by W to that power."
Chebyshev = Annotated[bool, _BEST]


def mix(network: Network, rounds: int, chebyshev: bool, *xs: Array, push: Arrays = ()) -> Arrays:
    """Mix each array to ``W^rounds x`` or ``P_rounds(W) x``, with one message per neighbour and
    round; fresh arrays.

    A directed network mixes the arrays in ``push`` by B, always without P_rounds.
    """
    if not chebyshev:
        return network.mix(*xs, rounds=rounds, push=push)
    xs += push
    low = network.spectrum.lambda_min
    high = network.spectrum.lambda_2
    if high - low < 1e-12:  # one eigenvalue beside 1: P_1 maps it to 0
        pairs = zip(network.mix(*xs), xs, strict=True)
        return tuple([(mixed - high * x) / (1.0 - high) for mixed, x in pairs])
    at_one = (2.0 - high - low) / (high - low)
    ratio = 1.0 / at_one  # T_{t-1}(z(1)) / T_t(z(1)): unlike the two, it never overflows
    previous = xs
    current = tuple([ratio * image for image in _image(network, low, high, xs)])
    for _ in range(rounds - 1):
        before = ratio
        ratio = 1.0 / (2.0 * at_one - ratio)
        images = zip(_image(network, low, high, current), previous, strict=True)
        previous = current
        current = tuple([ratio * (2.0 * z - before * p) for z, p in images])
    return current


def _image(network: Network, low: float, high: float, xs: Arrays) -> list[Array]:
    """The product z(W) x for each array."""
    pairs = zip(network.mix(*xs), xs, strict=True)
    return [(2.0 * mixed - (high + low) * x) / (high - low) for mixed, x in pairs]


def growth(spectrum: Spectrum, rounds: int) -> float:
    """The factor T_rounds(z(1)) by which Chebyshev mixing damps the deviations from the mean."""
    low = spectrum.lambda_min
    high = spectrum.lambda_2
    if high - low < 1e-12:
        return math.inf
    return math.cosh(min(rounds * math.acosh((2.0 - high - low) / (high - low)), 700.0))


def effective(spectrum: Spectrum, rounds: int, chebyshev: bool) -> Spectrum:
    """Bounds on the eigenvalues other than 1 of the matrix that `mix` multiplies by."""
    if chebyshev:
        left = 1.0 / growth(spectrum, rounds)
        return Spectrum(left, -left)
    if rounds == 1:
        return spectrum
    largest = max(spectrum.lambda_2**rounds, spectrum.lambda_min**rounds)
    return Spectrum(largest, 0.0 if rounds % 2 == 0 else min(spectrum.lambda_min**rounds, 0.0))


def fewest_rounds(spectrum: Spectrum, left: float, chebyshev: bool = True) -> int:
    """The fewest rounds of `mix` that leave at most the share ``left`` < 1 of the deviations from
    the mean."""
    rounds = 1
    while max(np.abs(effective(spectrum, rounds, chebyshev))) > left:
        rounds += 1
    return rounds


def average(network: Network, values: Array, accuracy: float = 1e-2) -> Array:
    """The network means of the agents' ``values``, ``(n_local, ...)``, by Chebyshev-accelerated
    rounds.

    Enough rounds are made that no agent's error exceeds ``accuracy`` times the root mean square
    deviation of the numbers: about ``log(2 sqrt(n) / accuracy) / sqrt(2 gap)``, where plain
    averaging would need the order of ``1 / gap``.
    """
    return averages(network, accuracy, values)[0]


def averages(network: Network, accuracy: float, *values: Array) -> Arrays:
    """The `average` of each of several arrays, in the same messages."""
    n = network.n_agents
    rounds = 1
    if n == 1:
        return tuple([one.copy() for one in values])
    rows = tuple([np.ascontiguousarray(one.reshape(len(one), -1)) for one in values])
    if network.directed:
        if (sigma := network.push_pull_spectrum.sigma) > 0.0:
            rounds = math.ceil(math.log(accuracy / n) / math.log(sigma))
        means = push_sum(network, rounds, *rows)
    elif network.changes:
        gap = network.joint_spectrum.gap
        rounds = math.ceil(math.log(accuracy / math.sqrt(n)) / math.log1p(-gap)) if gap < 1.0 else 1
        means = network.mix(*rows, rounds=rounds)
    else:
        means = mix(network, fewest_rounds(network.spectrum, accuracy / math.sqrt(n)), True, *rows)
    return tuple([mean.reshape(one.shape) for mean, one in zip(means, values, strict=True)])


def push_sum(network: Network, rounds: int, *values: Array) -> Arrays:
    """The network means of the agents' ``values``, each ``(n_local, width)``, after ``rounds``
    rounds, on directed networks too.

    Kempe, Dobra and Gehrke, "Gossip-based computation of aggregate information" (2003). Mass is
    pushed by B, and a weight w_i, which is 1 at first, along with it: s <- B s, w <- B w. B^k tends
    to v 1^T, so s_i / w_i tends to the mean, whatever v is.
    """
    *sums, weights = network.mix(push=(*values, np.ones((len(values[0]), 1))), rounds=rounds)
    return tuple([one / weights for one in sums])
