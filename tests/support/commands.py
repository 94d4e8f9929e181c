"""What tests of the commands share."""

from __future__ import annotations

from pathlib import Path

from decentorth.commands.run.command import main
from decentorth.records.saved_runs import read_history, read_summary

OWN_METHOD = """
import sys
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from decentorth import register
from decentorth.lab.compare.command import main

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


def comparable(folder: str | Path) -> tuple[str, dict[str, bytes]]:
    """What two runs with the same bits have in common: the hash of their points and the columns of
    their histories but seconds."""
    history = read_history(folder)
    columns = {name: column.tobytes() for name, column in history.items() if name != "seconds"}
    return read_summary(folder)["iterates_sha256"], columns
