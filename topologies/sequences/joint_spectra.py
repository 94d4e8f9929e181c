"""The joint spectrum of a sequence of mixing matrices: the facts from which a method finds a step
that is stable on all of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topologies.sequences.sequences import WeightSequence
from topologies.spectra.eigenvalues import spectrum

LARGEST_JOINT = 1500
"""The largest number of agents whose matrices are multiplied, as dense ones."""
LEFT = 0.5
"""The share of a disagreement that a window leaves."""
LONGEST = 2**16
"""The most rounds of a window."""
LOOKED_AT = 20
"""The most matrices of a sequence without a period whose smallest eigenvalue is found."""


class JointSpectrum(NamedTuple):
    """Facts on a sequence of matrices that every agent can know in advance.

    Examples
    --------
    >>> import topologies as tp
    >>> round(tp.joint_spectrum(tp.OnePeerExponential(8)).gap, 3)
    0.333
    """

    gap: float
    """The share of a disagreement that a round removes on average in a window: (1 - d) / B, where
    products of B matrices leave at most the share d <= `LEFT` of every disagreement."""
    lambda_min: float
    """The smallest eigenvalue of a matrix."""
    independent: bool
    """True if the matrices are drawn independently."""


def joint_spectrum(sequence: WeightSequence) -> JointSpectrum:
    """The `JointSpectrum` of a sequence, from its first matrices.

    A window is a period, or one round of a sequence without a period, times the power of two that
    leaves at most half of every disagreement.

    Raises ValueError if there are more than 1,500 agents, or a window of 65,536 rounds leaves more
    than half, as where the graphs together do not connect the agents.
    """
    n = sequence.n
    if n > LARGEST_JOINT:
        raise ValueError(
            f"a changing network of {n} agents is too large for its joint spectrum: at most "
            f"{LARGEST_JOINT} agents"
        )
    rounds = 0
    window = sequence.period or 1
    left = 1.0
    product = np.eye(n) - 1.0 / n
    while left > LEFT:
        if window > LONGEST:
            raise ValueError(
                f"the changing network brings its agents together too slowly: {rounds} rounds "
                f"leave {left:.3g} of their disagreement"
            )
        for k in range(rounds, window):
            product = np.asarray(sequence.at(k) @ product)
        rounds = window
        window *= 2
        left = float(np.linalg.norm(product, 2))
    distinct = {sequence.distinct(k): k for k in reversed(range(sequence.period or LOOKED_AT))}
    smallest = min([spectrum(sequence.at(k)).lambda_min for k in distinct.values()])
    return JointSpectrum((1.0 - left) / rounds, smallest, sequence.independent)
