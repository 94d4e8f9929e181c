"""The report: methods, peers and floors against each other, every row a ratio within one run.

    python -m benchmarks --quick                                # under 5 minutes of a quiet machine
    python -m benchmarks                                        # more repetitions, sizes and cells; under an hour
    python -m benchmarks --rows centralized floors --peers none

Works that are compared are done in turn, in blocks, with one BLAS thread: a row has the median
ratio over the blocks and its range. Below 1 decentorth is ahead. Seconds are of the processor
unless a row says wall time. The report, a figure and the numbers go to ``--out``, in a folder for
the kind of machine; each row also shows its latest earlier ratio there. Peers run in environments
of their own, made there from ``benchmarks/peers/*.txt`` (geoopt's has torch, 5 GB on Linux); a peer
that cannot be installed, or does not reach an answer, is named with the reason, and Ctrl-C ends the
measurements, not the report.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import importlib.metadata
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from threadpoolctl import threadpool_limits

from .report import centralized, decentralized, floors, frameworks, sizes
from .report.peers import INTERPRETERS, environment, versions
from .report.rows import Measured
from .report.written import commit, draw, earlier, machine, markdown

SECTIONS = {
    "frameworks": frameworks.cases,
    "centralized": centralized.cases,
    "decentralized": decentralized.cases,
    "scaling": sizes.cases,
    "floors": floors.cases,
}
NO_SET = "has no set with x^T J x = J, so it is not in the row HEVP"
LEFT_OUT = {
    "pymanopt": NO_SET,
    "geoopt": NO_SET,
    "cdopt": "its hyperbolic set is x^T B x = I, so it is not in the row HEVP",
}
"""Peers that are not where they might be expected, and why."""
PACKAGES = ("decentorth", "numpy", "scipy", "pymanopt", "scikit-learn", "mpi4py")


class Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """The checked flags."""
    parser = Parser(prog="python -m benchmarks", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--quick", action="store_true", help="fewer repetitions, sizes and cells; under 5 minutes"
    )
    parser.add_argument(
        "--rows",
        nargs="+",
        choices=SECTIONS,
        default=list(SECTIONS),
        help="the sections (default: all)",
    )
    choices = [*INTERPRETERS, "none"]
    parser.add_argument(
        "--peers",
        nargs="+",
        choices=choices,
        default=list(INTERPRETERS),
        help="those to install (default: all)",
    )
    out = Path(__file__).parent / "results"
    parser.add_argument(
        "--out", type=Path, default=out, help="the folder of reports, numbers and environments"
    )
    parser.add_argument(
        "--note",
        action="append",
        default=[],
        help="a sentence for the report, such as what else was running",
    )
    given = parser.parse_args(words)
    if "none" in given.peers and len(given.peers) > 1:
        parser.error("--peers none stands alone: name the peers, or none")
    given.folder = given.out / machine()
    try:
        given.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"--out {given.out} cannot be made: {error.strerror}; name another folder")
    return given


def main(words: Sequence[str] | None = None) -> int:
    """Measure and write the report; 130 after Ctrl-C."""
    given = arguments(words)
    before, source = earlier(given.folder), commit()
    done, notes, ended = Measured(), list(given.note), 0
    peers: dict[str, Path | str] = dict.fromkeys(INTERPRETERS, "not asked for")
    try:
        for name in INTERPRETERS:
            if name in given.peers:
                peers[name] = environment(name, (given.out / "environments").absolute())
        with threadpool_limits(1), np.errstate(over="ignore", invalid="ignore"):
            for section in given.rows:
                for case in SECTIONS[section](given.quick, peers):
                    print(f"{section}: {case.name}", flush=True)
                    done.add(section, case)
    except KeyboardInterrupt:
        notes.append("Ended by Ctrl-C: further rows were not measured")
        ended = 130
    here = {name: one for name, one in peers.items() if isinstance(one, Path)}
    kept: dict[str, Any] = {
        "commit": source,
        "time": time.strftime("%Y-%m-%dT%H-%M-%S", time.gmtime()),
        "machine": machine(),
        "notes": notes,
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
        "left_out": LEFT_OUT | {name: one for name, one in peers.items() if isinstance(one, str)},
        "sections": given.rows,
        "rows": [asdict(row) for row in done.rows],
        "failures": [asdict(failure) for failure in done.failures],
    }
    for name in here:
        kept["versions"] |= versions(name)
    (given.folder / f"{kept['time']}.json").write_text(json.dumps(kept, indent=1))
    report = given.folder / "report.md"
    report.write_text(markdown(kept, before))
    if kept["rows"]:
        draw(kept["rows"], given.folder / "report.png")
    print(report.read_text(), f"\n{report}", sep="")
    return ended


if __name__ == "__main__":
    sys.exit(main())
