"""On every rank: what it reads of a site whose table has a cell of text, in Python and on the
command line, as JSON."""

from __future__ import annotations

import contextlib
import io
import json
import sys

from mpi4py import MPI

import decentorth as do
from decentorth.commands.run.command import main

if __name__ == "__main__":
    files = [f"{sys.argv[1]}/{name}.csv" for name in ("north", "south", "west")]
    raised = ""
    try:
        do.solve(do.problems.PCA.from_sites(files, 2), "drfgt", "path", iterations=2)
    except ValueError as error:
        raised = str(error)
    with contextlib.redirect_stderr(io.StringIO()) as written:
        main(["--problem", "pca", "--rank", "2", "--quiet", "--data", ",".join(files)])
    every = [MPI.COMM_WORLD.gather(text) for text in (raised, written.getvalue())]
    if MPI.COMM_WORLD.rank == 0:
        print(json.dumps(every))
