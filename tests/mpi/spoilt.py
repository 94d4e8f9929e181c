"""The command line with a user's own algorithm, spoilt: ``python tests/mpi/spoilt.py --algorithm
spoilt --fault raises``."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Literal

import decentorth as do
from decentorth.commands.run.command import main
from decentorth.protocols import Network, Streams
from tests.mpi.faulty import AFTER, STOPS


@do.register("spoilt", kind="algorithm")
@dataclass(frozen=True, kw_only=True)
class Spoilt(do.DRFGT):
    """DRFGT that stops one rank of several in the middle of the run.

    Parameters
    ----------
    fault, faulty_rank
        How, and which.
    """

    fault: Literal["raises", "exits-3", "exits-0", "killed", "paused", "stuck", "computes"] = (
        "raises"
    )
    faulty_rank: int = 1

    def step(self, problem: Any, network: Network, streams: Streams, state: Any) -> Any:
        own = do.connect()
        if state.k == AFTER and own.rank == self.faulty_rank and own.size > 1:
            STOPS[self.fault]()
        return super().step(problem, network, streams, state)


if __name__ == "__main__":
    sys.exit(main())
