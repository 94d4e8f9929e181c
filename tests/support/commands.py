"""What tests of the commands share."""

from __future__ import annotations

from decentorth.commands.run.command import main

OWN_METHOD = """
import sys
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from decentorth import register
from decentorth.commands.compare import main

class State(NamedTuple):
    x: np.ndarray
    k: int
    gradients: int

@register("averaging", kind="algorithm")
@dataclass(frozen=True)
class Averaging:
    '''Only averages.

    Parameters
    ----------
    rounds
        Of averaging, in each iteration.
    '''
    requires = requires_set = ()
    network = "decentralized"
    rounds: int = 1

    def init(self, problem, network, streams, x0):
        return State(x0.copy(), 0, 0)

    def step(self, problem, network, streams, state):
        return State(network.mix(state.x, rounds=self.rounds)[0], state.k + 1, 0)

if __name__ == "__main__":
    sys.exit(main())
"""
"""A user's script that compares with one method more, ``averaging``."""


def run(*words: str) -> int:
    """A run that prints nothing."""
    return main([*words, "--quiet"])
