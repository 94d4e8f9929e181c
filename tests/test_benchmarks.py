"""The report of ``python -m benchmarks``: its rows agree with their numbers, what fails is named,
Ctrl-C keeps what is measured."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import topologies as tp
from benchmarks.__main__ import SECTIONS
from benchmarks.auto_steps import GRAPHS, METHODS
from benchmarks.report import sizes
from benchmarks.report.decentralized import PROBLEMS
from benchmarks.report.floors import KERNELS
from benchmarks.report.peers import INTERPRETERS
from benchmarks.report.rows import Case, Failure, Measured, Unmeasured, output, printed
from benchmarks.report.written import COLUMNS, earlier, key, machine, markdown
from benchmarks.when_gossip import between_changes, waiting
from decentorth.network.tree import spanning_tree
from tests.support.examples import run
from tests.support.mpi import HUNG, ROOT, run_ranks

ROWS = ["-m", "benchmarks", "--quick", "--peers", "none", "--rows", "floors", "--out"]


def given(*numbers: float) -> Any:
    left: Iterator[float] = iter(numbers)
    return lambda: next(left)


def fails() -> float:
    raise Unmeasured("it is not here")


def folder(out: Path) -> Path:
    (found,) = (path for path in out.iterdir() if path.name != "environments")
    return found


def stored(out: Path) -> dict[str, Any]:
    (path,) = folder(out).glob("*.json")
    kept: dict[str, Any] = json.loads(path.read_text())
    return kept


def tables(report: str) -> list[dict[str, str]]:
    """The rows of all tables of a report, by the names of their columns; those of the numbers are
    value and other."""
    names = [name or ("value" if place == 2 else "other") for place, name in enumerate(COLUMNS)]
    lines = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in report.splitlines()
        if line.startswith("| ")
    ]
    assert all(len(cells) == len(names) for cells in lines), report
    return [dict(zip(names, cells, strict=True)) for cells in lines if cells[0] != "case"]


def test_a_row_has_the_medians_and_the_ratios_of_its_blocks() -> None:
    done = Measured()
    works = {"ours": given(1.0, 4.0, 3.0), "rival": given(2.0, 2.0, 6.0)}
    done.add("floors", Case("a case", lambda: works, 3, goal=1.5, unit="iterations"))
    (row,) = done.rows
    assert (row.value, row.other_value, row.ratio, row.least, row.largest, row.goal) == (
        3.0,
        2.0,
        0.5,
        0.5,
        2.0,
        1.5,
    )
    assert not done.failures


def test_what_fails_is_named_and_the_rest_is_measured() -> None:
    done = Measured()
    program = printed(sys.executable, "-c", "import sys; print('1.0'); sys.exit('no such library')")
    works = {
        "ours": given(1.0),
        "absent": fails,
        "program": program,
        "nothing": given(float("nan")),
        "rival": given(4.0),
    }
    done.add("centralized", Case("first", lambda: works, 1))
    done.add("centralized", Case("second", lambda: {"ours": given(1.0), "rival": 1 / 0}, 1))
    done.add("centralized", Case("third", lambda: {"ours": given(2.0), "rival": given(1.0)}, 1))
    assert [(row.case, row.ours, row.other, row.ratio) for row in done.rows] == [
        ("first", "ours", "rival", 0.25),
        ("third", "ours", "rival", 2.0),
    ]
    assert done.failures == [
        Failure("centralized", "first", "absent", "it is not here"),
        Failure("centralized", "first", "program", "no such library"),
        Failure("centralized", "first", "nothing", "no positive number: nan"),
        Failure("centralized", "second", "all", "ZeroDivisionError: division by zero"),
    ]


def test_a_program_that_hangs_is_ended_and_named() -> None:
    with pytest.raises(Unmeasured, match=r"^not done in 0\.5 s$"):
        output([sys.executable, "-c", "import time; time.sleep(1e6)"], 0.5)


def test_all_problems_and_all_cells_have_rows() -> None:
    peers = dict.fromkeys(INTERPRETERS, "not asked for")
    problems = [case.name.split(",")[0] for case in SECTIONS["centralized"](True, peers)]
    assert problems == ["Procrustes", "GEVP", "PCA", "CCA", "ICA", "RSR", "ODL", "HEVP"]
    cells = [case.name for case in SECTIONS["decentralized"](False, peers) if case.goal is not None]
    assert {*cells} == {
        f"{method}, {problem}, {graph}"
        for method in METHODS
        for problem in PROBLEMS
        for graph in GRAPHS
    }
    assert len(PROBLEMS) == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--rows", "flors"], "'flors'"), (["--out", __file__], "name another folder")],
)
def test_bad_flags_are_one_line_and_exit_code_2(words: list[str], said: str) -> None:
    done = run_ranks(0, ["-m", "benchmarks", *words])
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.report()
    assert said in done.stderr


@pytest.mark.slow
@pytest.mark.ranks
def test_the_report_is_complete(tmp_path: Path) -> None:
    done = run_ranks(0, [*ROWS, str(tmp_path), "--note", "One of many"])
    assert done.returncode == 0, done.report()
    kept = stored(tmp_path)
    report = (folder(tmp_path) / "report.md").read_text()
    assert folder(tmp_path).name == kept["machine"] == machine()
    assert (folder(tmp_path) / "report.png").stat().st_size > 0
    assert not kept["failures"], kept["failures"]
    assert len(kept["rows"]) == len({key(row) for row in kept["rows"]}) == 7 + len(KERNELS)
    shown = tables(report)
    for row, cells in zip(kept["rows"], shown, strict=True):
        assert row["least"] <= row["ratio"] <= row["largest"]
        assert (
            row["least"] * (1 - 1e-12)
            <= row["value"] / row["other_value"]
            <= row["largest"] * (1 + 1e-12)
        )
        assert (cells["case"], cells["ours"], cells["against"]) == (
            row["case"],
            row["ours"],
            row["other"],
        )
        value, other = (float(cells[name].removesuffix(" ms")) for name in ("value", "other"))
        assert value == pytest.approx(1e3 * row["value"], rel=1e-3)
        assert other == pytest.approx(1e3 * row["other_value"], rel=1e-3)
        assert float(cells["ratio"]) == pytest.approx(row["ratio"], rel=1e-2)
        assert cells["goal"] == ("" if row["goal"] is None else f"{row['goal']:g}")
        assert cells["before"] == ""
    assert "One of many." in report
    for name in INTERPRETERS:
        assert f"- {name}: not asked for" in report
    again = tables(markdown(kept, earlier(folder(tmp_path))))
    assert [cells["before"] for cells in again] == [
        f"{cells['ratio']} ({kept['commit']})" for cells in shown
    ]


@pytest.mark.slow
def test_ctrl_c_keeps_the_rows_that_are_measured(tmp_path: Path) -> None:
    command = [sys.executable, "-u", *ROWS, str(tmp_path)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        first = next(line for line in process.stdout if line.startswith("  "))
        os.kill(process.pid, signal.SIGINT)
        said = process.communicate(timeout=HUNG)[0]
    assert process.returncode == 130, said
    kept = stored(tmp_path)
    assert kept["rows"]
    row = kept["rows"][0]
    assert first.startswith(f"  {row['case']}: {row['ours']} / {row['other']}")
    assert (
        "Ended by Ctrl-C: further rows were not measured."
        in (folder(tmp_path) / "report.md").read_text()
    )


@pytest.mark.slow
def test_a_run_holds_the_start_three_arrays_of_its_state_and_those_of_a_step() -> None:
    arrays = sizes.memory(10_000)["10,000 agents"]()
    assert 4.0 < arrays < 6.0


@pytest.mark.ranks
def test_the_published_exchange_multiplies_by_w(tmp_path: Path) -> None:
    code = """
import numpy as np
from mpi4py import MPI
import topologies as tp
from benchmarks.ranks import Published
comm = MPI.COMM_WORLD
W = tp.metropolis_weights(tp.torus(3, 5))
bounds = np.array([0, 4, 9, 15])
mine = slice(int(bounds[comm.rank]), int(bounds[comm.rank + 1]))
x = np.random.default_rng(0).standard_normal((15, 4))
gap = np.abs(Published(comm, W, mine, bounds) @ x[mine] - (W @ x)[mine]).max()
assert comm.allreduce(gap, MPI.MAX) < 1e-15
"""
    script = tmp_path / "exchange.py"
    script.write_text(code)
    done = run_ranks(3, [str(script)])
    assert done.returncode == 0, done.report()


def test_sums_between_changes_of_a_graph_by_hand() -> None:
    """Depth 2: a search of 2 rounds after each change, then sums of 4 rounds."""
    assert between_changes(1, 5, 2) == np.inf
    assert between_changes(1, 6, 2) == 6
    assert between_changes(3, 6, 2) == 18
    assert between_changes(3, 10, 2) == 10 + 6  # two before a change, one after
    assert between_changes(3, 100, 2) == 14


def test_sums_wait_for_lost_messages() -> None:
    """Without losses a sum takes two depths; on a star each way waits for the slowest leaf."""
    path = spanning_tree(tp.metropolis_weights(tp.path(7)))
    assert waiting(path, 0.0) == 2 * path.depth == 6
    star = spanning_tree(tp.metropolis_weights(tp.star(5)))
    rounds = np.arange(1, 200)
    slowest = 1.0 + np.sum(1.0 - (1.0 - 0.5**rounds) ** 4)
    assert waiting(star, 0.5) == pytest.approx(2.0 * slowest, rel=0.05)


@pytest.mark.slow
def test_gossip_wins_where_its_page_says() -> None:
    said = run("benchmarks/when_gossip.py", "--quick")
    ahead = re.findall(r"^(\w+) is ahead of (\w+) at: (.*)$", said, re.M)
    assert ahead == [
        ("drfgt", "lbfgs", "0.1, 0.01, 0.0001"),
        *(("drfgt", sums, "1, 14") for sums in ("direct", "lbfgs")),
        *(("deepca", "direct", "none"), ("drfgt", "lbfgs", "none")),
        *(("asynchronous_drfgt", sums, "none") for sums in ("direct", "lbfgs")),
    ]
