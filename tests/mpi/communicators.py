"""Several communicators in one job: ``python -m tests.mpi.communicators CASE``."""

from __future__ import annotations

import sys

import numpy as np
from mpi4py import MPI

from decentorth.network import connect

WORLD = MPI.COMM_WORLD


def leave() -> None:
    """Open communicators of all ranks and of some, in turn, and end."""
    connect()
    for divisor in range(1, 4):
        connect(WORLD.Split(0, -WORLD.rank))
        connect(WORLD.Split(WORLD.rank // divisor))
        others = WORLD.Split(0 if WORLD.rank >= divisor else MPI.UNDEFINED)
        if others != MPI.COMM_NULL:
            connect(others)


def free() -> None:
    """Free communicators and open others, which may have the same handles, on all ranks or on some;
    print what they do."""
    one = WORLD.Split()
    kept = connect(one)
    one.Free()
    own = WORLD.Split(WORLD.rank)
    if connect(own).size != 1:
        raise AssertionError("this is the communicator that was freed")
    own.Free()
    if WORLD.rank == 0:
        MPI.COMM_SELF.Dup()
    two = WORLD.Split()
    largest = [
        communicator.max(np.array([communicator.rank + 1.0]))[0]
        for communicator in (kept, connect(two))
    ]
    sys.stdout.write(
        f"{largest == [WORLD.size] * 2} {connect(two) is connect(two)} {connect(two) is kept}\n"
    )


if __name__ == "__main__":
    {"leave": leave, "free": free}[sys.argv[1]]()
