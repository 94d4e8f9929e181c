"""The command line with a full disk on one rank: ``python tests/mpi/full_disk.py RANK BYTES
words...``; no file can grow beyond."""

from __future__ import annotations

import resource
import sys

import decentorth as do
from decentorth.commands.run.command import main

if __name__ == "__main__":
    if do.connect().rank == int(sys.argv[1]):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
    sys.exit(main(sys.argv[3:]))
