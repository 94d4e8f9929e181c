"""A run on ranks that each have a working folder of their own, with the file of their own site and
nothing else."""

from __future__ import annotations

import os
import sys

from mpi4py import MPI

from decentorth.commands.run.command import main

if __name__ == "__main__":
    os.chdir(f"{sys.argv[1]}/{MPI.COMM_WORLD.rank}")
    sys.exit(main(sys.argv[2:]))
