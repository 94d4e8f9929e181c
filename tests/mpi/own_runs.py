"""Runs one after the other on ranks that each have a working folder of their own: the code and the
errors of every rank as JSON."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from pathlib import Path

from mpi4py import MPI

from decentorth.commands.run.command import main

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    every = []
    for words in json.loads((folder / "runs.json").read_text(encoding="utf-8")):
        os.chdir(folder / str(MPI.COMM_WORLD.rank))
        with contextlib.redirect_stderr(io.StringIO()) as written:
            code = main(words)
        every.append(MPI.COMM_WORLD.gather((code, written.getvalue())))
    if MPI.COMM_WORLD.rank == 0:
        print(json.dumps(every))
