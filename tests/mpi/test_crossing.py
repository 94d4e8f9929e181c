"""What crosses ranks beside the counted messages: each list is exact, so that it can only shrink."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.mpi import run_ranks

pytestmark = pytest.mark.ranks
ROWS = "running/metrics.py: StandardMetrics.__call__"
"""Sums of points, gradients, fields and values in each recorded row."""
CHECK = "problems/common/gradient_check.py: checked"
"""The slopes of the gradients' test."""
SUMS: Mapping[str, set[str]] = {
    **{name: set() for name in ("pca", "scaled pca", "cca", "maxvar", "lda", "rsr")},
    **{name: set() for name in ("dependent cca", "dependent maxvar", "sums", "direct")},
    # bundled data, which every rank has
    "ica": {ROWS, CHECK, "problems/common/pooled_rows.py: whitening"},
    "bundled lda": {
        *(ROWS, CHECK, "families/generalized/problems/gevp.py: PooledGEVP.__init__"),
        "families/generalized/problems/gevp.py: GEVP.find_answer",
        "families/generalized/problems/lda.py: class_sums",
        "families/generalized/problems/lda.py: agent_scatters",
    },
}
"""Sums over samples that pass along the ranks uncounted, by the problem: from each of them the next
rank learns those of the ranks before it. There are none over samples of sites."""
MAXIMA = {
    # of the agents' constants, of movement, of gains, of feasibility, of sizes of points, of signals
    "families/nonsmooth/problems/rsr.py: RobustSubspaceRecovery.prepare",
    "running/advice.py: _still",
    "running/checkpoint/writer.py: SharedLooks.largest",
    "running/metrics.py: StandardMetrics.__call__",
    "running/metrics.py: first_runaway",
    "running/parts.py: Parts.size",
}
DECISIONS = {
    # the eigenvalues of W; the end of the run
    "api/kinds/plain.py: Run._network",
    "running/recording.py: Recording.look",
}
"""What rank 0 tells the others, beside the totals of sums."""
FACTS = {
    # that a rank failed; hashes of arguments, start and W; hosts and their memory
    *(
        "api/kinds/plain.py",
        "api/rank_agreement.py",
        "api/sizes.py",
        "problems/common/gradient_check.py",
    ),
    # names of columns and sites, numbers of samples and of missing cells; names of classes
    *("data/labels.py", "data/sites.py", "problems/loadable.py", "problems/common/division.py"),
    *("problems/common/pooled_rows.py", "families/generalized/problems/lda.py"),
    "families/generalized/problems/cca.py",
    "families/generalized/problems/gevp.py",
    "families/generalized/problems/maxvar.py",
}
"""The files whose bytes go to every rank."""


@pytest.fixture(scope="module")
def crossing(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("sites")
    job = run_ranks(3, ["-m", "tests.mpi.crossing", str(folder)])
    assert job.returncode == 0, job.report()
    return json.loads(job.stdout)


def by(found: list[list[str]], *kinds: str) -> set[str]:
    return {asking for asking, kind in found if kind in kinds}


def test_the_sums_that_cross_ranks_uncounted(crossing: dict[str, Any]) -> None:
    assert {name: by(found, "send") for name, found in crossing.items()} == SUMS


def test_the_facts_that_cross_ranks(crossing: dict[str, Any]) -> None:
    every = [one for found in crossing.values() for one in found]
    assert by(every, "max") == MAXIMA
    assert by(every, "bcast", "bcast_bytes") - by(every, "send") == DECISIONS
    assert {asking.partition(":")[0] for asking in by(every, "allgather_bytes")} == FACTS


def test_a_cell_of_a_site_stays_on_its_screen(tmp_path: Any) -> None:
    """The other ranks read which site failed, on the command line and in Python."""
    for name, cell in (("north", "1"), ("south", "2"), ("west", "a patient")):
        rows = "\n".join(f"{k},{k * k},{k % 3}" for k in range(9))
        (tmp_path / f"{name}.csv").write_text(f"u,v,w\n{rows}\n{cell},2,3\n", encoding="utf-8")
    job = run_ranks(3, ["-m", "tests.mpi.cell", str(tmp_path)])
    assert job.returncode == 0, job.report()
    for errors in json.loads(job.stdout):
        *others, own = errors
        assert "'a patient' is not a number" in own
        for error in others:
            assert error.strip().removeprefix("decentorth: ") in (
                "",
                "site west cannot continue: the reason is on its own screen",
            )
        assert others[0]
