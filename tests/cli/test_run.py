"""The command: what it prints, writes and returns, in this process and on ranks."""

from __future__ import annotations

import hashlib
import math
import re
import signal
import subprocess
import sys
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
import yaml
from numpy.lib import format as npy

import topologies as tp
from decentorth import DRFGT, solve
from decentorth.api import Run
from decentorth.commands.line.shell import one_line, together
from decentorth.commands.line.wiring import read_weights
from decentorth.commands.run.command import main
from decentorth.commands.run.dryrun import crossing
from decentorth.display import size
from decentorth.network.transport.communicator import SerialCommunicator
from decentorth.problems import Deferred, PCASettings, ProcrustesSettings
from decentorth.protocols import SETUP
from decentorth.records import progress_bar
from decentorth.records.progress_bar import Lines
from decentorth.records.run_files import hold
from decentorth.records.saved_runs import final_points, read_history, read_start, read_summary
from tests.reference.naive import landing_field
from tests.support.commands import comparable, run
from tests.support.mpi import HUNG, Job, run_ranks, until
from tests.support.threads import on_ranks
from topologies.line import progress as telling

SMALL = "--dimension 6 --rank 2 --rows 4 --iterations 40 --algorithm drfgt".split()
MODULE = ["-m", "decentorth.run"]

pytestmark = pytest.mark.usefixtures("folder")
ALONE_AND_ON_RANKS = [0, pytest.param(2, marks=pytest.mark.ranks)]


def test_published_experiment_is_what_no_arguments_mean(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--iterations", "30", "--out", "a"]) == 0
    printed = capsys.readouterr().out
    assert "the published experiment (paper 004)" in printed
    assert "step size 0.01, penalty 10" in printed
    summary = read_summary("a")
    assert summary["steps"] == {"step_size": [0.01, 0.01], "penalty": [10.0, 10.0]}
    assert summary["W"]["sigma_W"] == pytest.approx(0.8 + 0.2 * math.cos(math.pi / 5), abs=1e-14)
    assert summary["W"]["gap"] == pytest.approx(0.2 - 0.2 * math.cos(math.pi / 5), abs=1e-14)
    assert (summary["rounds"], summary["messages"], summary["bytes"]) == (
        30,
        30 * 20,
        30 * 20 * 2 * 50 * 20 * 8,
    )
    assert (summary["iterations"], summary["gradients"]) == (30, 31)
    assert final_points("a").shape == (10, 50, 20)


def test_the_published_experiment_is_the_loop_of_the_paper() -> None:
    """Every agent of the ring weighs its own values 0.8 and those of its two neighbours 0.1."""
    assert run("--iterations", "30", "--out", "a") == 0
    named = "--weights uniform --self-weight 0.8 --order combine-then-adapt"
    assert run(*named.split(), "--iterations", "30", "--out", "b") == 0
    assert read_summary("a")["iterates_sha256"] == read_summary("b")["iterates_sha256"]
    start = solve(ProcrustesSettings().problem(10, 0), DRFGT(), "ring", iterations=0)
    x = [*start.x]

    def fields() -> list[np.ndarray]:
        gradients = start.problem.gradient(np.array(x))
        return [landing_field(own, g, 10.0) for own, g in zip(x, gradients, strict=True)]

    def mixed(values: list[np.ndarray], i: int) -> np.ndarray:
        return 0.8 * values[i] + 0.1 * values[i - 1] + 0.1 * values[(i + 1) % 10]

    old = fields()
    y = [*old]
    for _ in range(30):
        x = [mixed(x, i) - 0.01 * y[i] for i in range(10)]
        new = fields()
        y = [mixed(y, i) + new[i] - old[i] for i in range(10)]
        old = new
    np.testing.assert_allclose(final_points("a"), x, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_outputs_agree_with_each_other() -> None:
    assert run(*SMALL, "--out", "a", "--plot") == 0
    names = [".lock", "config.yaml", "final.npz", "history.csv", "history.png", "summary.json"]
    assert sorted(path.name for path in Path("a").iterdir()) == names
    summary, history = read_summary("a"), read_history("a")
    x = final_points("a")
    assert summary["iterates_sha256"] == hashlib.sha256(x.astype("<f8").tobytes()).hexdigest()
    assert {name: history[name][-1] for name in summary["metrics"]} == summary["metrics"]
    for ours, theirs in (
        ("iterations", "iteration"),
        *((name, name) for name in ("rounds", "messages", "bytes", "gradients")),
    ):
        assert history[theirs][-1] == summary[ours]
    assert set(summary["seconds"]) == {"compute", "wait", "metrics", "checkpoints", "total"}
    gram = np.swapaxes(x, 1, 2) @ x - np.eye(2)
    assert summary["metrics"]["feasibility"] == pytest.approx(
        np.linalg.norm(gram, axis=(1, 2)).max(), rel=1e-12
    )
    spread = np.linalg.norm(x - x.mean(0), axis=(1, 2)).sum()
    assert summary["metrics"]["consensus_error"] == pytest.approx(spread, rel=1e-10)
    assert summary["config"] == yaml.safe_load(Path("a/config.yaml").read_text())
    W = tp.metropolis_weights(tp.ring(10))
    parts = (W.indptr.astype("<i8"), W.indices.astype("<i8"), W.data.astype("<f8"))
    assert (
        summary["W"]["sha256"]
        == hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()
    )
    assert {"python", "numpy", "scipy", "networkx", "mpi4py", "numba", "decentorth"} == set(
        summary["versions"]
    )


@pytest.mark.slow
def test_a_saved_or_printed_configuration_reproduces_the_run_exactly(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = [
        *SMALL,
        "--topology",
        "erdos_renyi:p=0.6",
        "--seed",
        "4",
        "--order",
        "adapt-then-combine",
    ]
    assert main([*words, "--print-config", "--out", "c"]) == 0
    assert not Path("c").exists()
    Path("printed.yaml").write_text(capsys.readouterr().out)
    assert (
        run(*words, "--out", "a")
        == run("--config", "a/config.yaml", "--out", "b")
        == run("--config=printed.yaml")
        == 0
    )
    for folder in "bc":
        assert comparable(Path(folder)) == comparable(Path("a"))
        assert Path(folder, "config.yaml").read_bytes() == Path("a/config.yaml").read_bytes()


@pytest.mark.slow
def test_tolerances_must_all_hold_and_time_does_not_converge(
    capsys: pytest.CaptureFixture[str],
) -> None:
    easy, hard = (
        ("--consensus-tolerance", "1e3", "--gradient-tolerance", "1e3"),
        ("--gradient-tolerance", "1e-30"),
    )

    def ended(code: int, *words: str) -> tuple[str, bool]:
        assert main([*SMALL, *words, "--out", "a", "--overwrite"]) == code
        return read_summary("a")["status"], read_summary("a")["converged"]

    assert ended(0, *easy, "--require-converged") == ("converged", True)
    assert "Converged at iteration 0 (gradient norm" in capsys.readouterr().out
    assert ended(4, *easy[:2], *hard, "--require-converged") == ("iterations", False)
    assert re.search(
        r"Stopped at the limit of 40 iterations: gradient norm .* its tolerance of 1e-30\.\n$",
        capsys.readouterr().out,
    )
    assert ended(0, *easy[:2], *hard) == ("iterations", False)
    assert ended(4, *hard, "--time-limit", "1e-9", "--require-converged") == ("time_limit", False)
    assert "Stopped at the time limit of 1e-09 s: gradient norm" in capsys.readouterr().out
    assert ended(0, "--objective-below", "1e3") == ("objective_floor", False)


def test_a_run_that_diverges_says_so_and_leaves_its_history(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*SMALL, "--step-size", "100", "--out", "a"]) == 3
    assert "Diverged: the point of agent" in capsys.readouterr().out
    summary = read_summary("a")
    assert (summary["status"], summary["converged"]) == ("diverged", False)
    assert read_history("a")["iteration"][-1] < summary["iterations"] <= 40
    assert run(*SMALL, "--safety-region", "1e-12", "--out", "b") == 3
    assert read_summary("b")["status"] == "left_safe_region"
    assert (
        main(
            ["--problem", "pca", "--data", "synthetic", "--algorithm", "dgd", "--iterations", "400"]
        )
        == 3
    )
    printed = capsys.readouterr().out
    assert (
        "note        dgd does not keep points on St(10, 5), and they may leave it for good"
        in printed
    )
    assert "Diverged: the points have left the constraint set (feasibility" in printed


@pytest.mark.slow
def test_a_run_goes_on_where_another_ended(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*SMALL, "--out", "a") == 0
    first, last = read_history("a"), final_points("a")
    np.save("point.npy", last[0])
    for start in ("a", "point.npy"):
        np.testing.assert_array_equal(read_start(start), last[0])
        assert run(*SMALL, "--start", start, "--out", "b", "--overwrite") == 0
        assert read_history("b")["gradient_norm"][0] < first["gradient_norm"][0]
    np.savez("a/final.npz", y=last)
    np.save("small.npy", last[0, :2])
    for start, message in (
        ("a", "a/final.npz cannot be read: it holds no array 'x'; give a run's folder"),
        ("small.npy", "x0 (--start) must have the shape of one agent's point"),
    ):
        assert main([*SMALL, "--start", start]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(("method", "warned"), [("drgta", True), ("drsm", False)])
def test_a_smooth_method_on_a_nonsmooth_problem_is_told_so(
    method: str, warned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(f"--problem rsr --algorithm {method} --iterations 3 --agents 4".split()) == 0
    note = (
        "note        rsr is not differentiable: with steps that do not shrink drgta stops near "
        "the answer; drsm is made for it"
    )
    assert (note in capsys.readouterr().out) == warned


def test_an_objective_without_a_minimum_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    printed = (
        "--problem hevp --agents 1 --form as-printed --data randn10 --algorithm j_jobcd "
        "--gradient-tolerance 1e-300"
    ).split()
    assert main([*printed, "--time-limit", str(HUNG), "--require-converged", "--out", "a"]) == 4
    assert "The objective is unbounded below: rows" in capsys.readouterr().out
    assert read_summary("a")["status"] == "unbounded"


@pytest.mark.slow
def test_a_knowledge_graph_by_path_is_judged_by_its_test_triples(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("graph").mkdir()
    triples = [f"e{i}\tnext\te{(i + 1) % 9}\n" for i in range(9)] + [
        f"e{(i + 1) % 9}\tbefore\te{i}\n" for i in range(9)
    ]
    Path("graph/train.txt").write_text("".join(triples[:-3]))
    Path("graph/test.txt").write_text("".join(triples[-3:]))
    words = (
        "--problem ultrae --data graph --dimension 4 --negatives 3 --agents 1 --iterations 30"
    ).split()
    assert main([*words, "--algorithm", "csdm", "--learning-rate", "0.1", "--out", "a"]) == 0
    assert re.search(r"mrr +\S+ -> \S+", capsys.readouterr().out)
    summary, history = read_summary("a"), read_history("a")
    metrics = summary["metrics"]
    assert metrics["objective"] < history["objective"][0]
    assert 0.0 < metrics["mrr"] <= 1.0
    assert metrics["hits_at_1"] <= metrics["hits_at_3"] <= metrics["hits_at_10"] == 1.0
    with np.load("a/final.npz") as final:
        assert final["relations"].shape == (1, 2, 4, 4)
        assert final["biases"].shape == (1, 9)
    assert (
        run(*words, "--algorithm", "j_jobcd", "--spread-samples", "2", "--start", "a", "--out", "b")
        == 0
    )
    assert read_history("b")["mrr"][0] == metrics["mrr"]


BAD = [
    (
        "--problem pca --data synthetic --rank 3 --algorithm rssm --agents 1 --dry-run",
        "blocks must be at most the number of columns",
    ),
    ("--config broken.yaml", "broken.yaml: not well-formed YAML"),
    ("--topology rng", "unknown graph 'rng'; did you mean 'ring'?"),
    ("--rank 7 --dimension 6", "d = 6 and r = 7"),
    (
        "--algorithm landing --topology directed_ring",
        "Landing on several agents adds exactly along a tree, with messages both ways, and this "
        "graph is directed: take push_pull, or drgta",
    ),
    (
        "--problem gevp --algorithm destiny",
        "Algorithms that fit with their default settings: drfgt, dprgt",
    ),
    (
        "--problem hspp --agents 1 --algorithm umcm --spread-samples 3",
        "UMCM needs HessianProducts of its problem; SpreadProblem",
    ),
    (
        "--problem hspp --agents 1 --algorithm csdm --spread-samples 51",
        "pairs of 100 points make from 1 to 50 blocks, got 51",
    ),
    ("--problem pca --data missing.npy", "missing.npy"),
    (
        "--weights-file ring.npy --agents 10",
        "ring.npy is for 4 agents: leave --agents out (now 10)",
    ),
    ("--weights-file apart.npy --agents 4", "connected"),
    (
        "--weights-file ring.txt --agents 4",
        "weights_file cannot be used: ring.txt must end in .npy, .npz, .mtx or .mtx.gz",
    ),
    (
        "--weights-file nan.npy --agents 40",
        "nan.npy must be square, one row and one column for each agent, but has shape (40, 5)",
    ),
    ("--topology file:nothing.mtx", "its matrix is empty: shape (0, 0)"),
    (
        "--topology torus:1000000x1000000 --agents 10",
        "has 1000000000000 agents, but n_agents (--agents) is 10",
    ),
    ("--start many", "many/final.npz:x must hold a point for each agent, but has shape (0, 6, 2)"),
    (
        "--consensus-tolerance 1e-4",
        "a tolerance of consensus or feasibility alone is met before the first iteration: also "
        "give a gradient",
    ),
    (
        "--problem rsr --relative-gradient-tolerance 1e-6 --dry-run",
        "a gradient tolerance needs a differentiable problem",
    ),
    ("--start huge.npy --dimension 6 --rank 2", "x0 (--start) must have no entry beyond 1e+50"),
    # and no RuntimeWarning
    ("--start wide.npy --dimension 6 --rank 2", "x0 (--start) must be finite"),
    ("--out broken.yaml/run", "cannot write to broken.yaml/run: Not a directory"),
    ("--rows 1000000000000", "not enough memory: the data and the agents' points would take "),
    ("--dimension 1000000", " are free; give smaller numbers, or more ranks on more hosts\n"),
    (
        "--out held",
        "held already holds a run (summary.json); choose another --out or give --overwrite",
    ),
]


@pytest.fixture
def bad_files(folder: Path) -> None:
    (folder / "broken.yaml").write_text("agents: 10\ntopo")
    (folder / "held").mkdir()
    (folder / "held" / "summary.json").write_text("{}")
    np.save("nan.npy", np.full((40, 5), np.nan))
    np.save("ring.npy", tp.uniform_weights(tp.ring(4), 0.5).toarray())
    (folder / "nothing.mtx").write_text("%%MatrixMarket matrix array real general\n0 0\n")
    (folder / "many").mkdir()
    np.savez(folder / "many" / "final.npz", x=np.zeros((0, 6, 2)))
    np.save("huge.npy", np.full((6, 2), 1e300))
    np.save("wide.npy", np.full((6, 2), np.longdouble("1e4000")))
    np.save("apart.npy", np.kron(np.eye(2), np.full((2, 2), 0.5)))


@pytest.mark.parametrize(("words", "phrase"), BAD)
@pytest.mark.usefixtures("bad_files")
def test_bad_input_is_one_line_on_standard_error(
    words: str, phrase: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("decentorth: ")
    assert printed.err.count("\n") == 1
    assert phrase.lower() in printed.err.lower()


def test_a_run_that_is_to_be_replaced_stays_where_the_new_one_is_refused() -> None:
    assert run(*SMALL, "--out", "a") == 0
    first = read_summary("a")["iterates_sha256"]
    assert run(*SMALL, "--seed", "1", "--rank", "9", "--out", "a", "--overwrite") == 2
    assert read_summary("a")["iterates_sha256"] == first
    assert run(*SMALL, "--seed", "1", "--out", "a", "--overwrite") == 0
    assert read_summary("a")["iterates_sha256"] != first


def test_weights_from_a_file_are_the_same_weights() -> None:
    W = tp.metropolis_weights(tp.ring(10))
    np.save("w.npy", W.toarray())
    np.savez("w.npz", anything=W.toarray())
    sp.save_npz("sparse.npz", W)
    scipy.io.mmwrite("w.mtx", sp.coo_array(W), precision=17)
    for name in ("w.npy", "w.npz", "sparse.npz", "w.mtx"):
        assert np.array_equal(sp.csr_array(read_weights(name)).toarray(), W.toarray())
    assert (
        run(*SMALL, "--step-size", "auto", "--out", "a")
        == run(*SMALL, "--weights-file", "w.mtx", "--out", "b")
        == 0
    )
    assert read_summary("a")["iterates_sha256"] == read_summary("b")["iterates_sha256"]


def test_nothing_pickled_is_read() -> None:
    np.save("objects.npy", np.array([{}, {}], dtype=object), allow_pickle=True)
    assert run(*SMALL, "--weights-file", "objects.npy") == 2
    assert run("--problem", "pca", "--data", "objects.npy") == 2


def test_dry_run_counts_and_writes_nothing(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    assert (
        main(
            "--problem pca --data synthetic --agents 4 --algorithm drfgt --step-size 1e308 "
            "--dry-run".split()
        )
        == 0
    )
    assert capsys.readouterr().err == ""  # no warning of an overflow
    assert main(["--dry-run", "--out", "a", "--overwrite"]) == 0
    printed = capsys.readouterr().out
    assert (
        "iteration   1 rounds, 20 messages between agents, 320 kB (16 kB along each directed edge)"
        in printed
    )
    assert "rank 0      agents 0 to 9, state 240 kB" in printed
    assert list(folder.iterdir()) == []


def test_dry_run_has_the_counts_of_the_runs_of_its_alternatives(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    """The chosen method and each other one: set-up and iterations as the runs count them."""
    words = "--problem pca --data digits --rank 3 --agents 4".split()
    assert main([*words, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "iteration   no messages\n" in said
    (chosen,) = re.findall(r"^set-up +(.*)$", said, re.M)
    others = re.findall(r"^instead +(\w+): iteration (.*); set-up about (.*)$", said, re.M)
    assert [name for name, *_ in others] == ["block_krylov", "lbfgs", "deepca", "drfgt"]
    problem = PCASettings(data="digits", rank=3).problem(4, seed=0)
    for name, each, first in (("direct", "0 rounds, 0 messages, 0 B", chosen), *others):
        history = solve(problem, name, "ring", iterations=2, record_every=1).history
        sent = np.stack([history[column] for column in ("rounds", "messages", "bytes")], axis=1)
        for found, words in ((sent[0], first), (sent[-1] - sent[-2], each)):
            rounds, messages, size_sent = found.tolist()
            assert words == f"{rounds} rounds, {messages} messages, {size(size_sent)}"


SUMMED = [
    "pca --rank 2 --exclude group",
    "pca --rank 2 --scale --exclude group",
    "pca --rank 2 --missing mean --exclude group",
    "cca --columns a,b --columns-y c,d --rank 1",
    "cca --columns a,b --columns-y c,d --rank 1 --missing mean",
    "maxvar --views 2,2 --rank 1 --exclude group",
    "maxvar --views 2,2 --rank 1 --scale --exclude group",
    "lda --label-column group",
    "lda --label-column group --rank 1 --scale",
    "lda --label-column group --missing mean",
    "gevp --agents 3",
]
"""Problems that `direct` solves, with what asks for more sums at the set-up."""


@pytest.mark.parametrize("sums", [(), ("--secure",)])
@pytest.mark.parametrize("flags", SUMMED)
def test_a_dry_run_has_the_counts_of_the_exact_sums(
    capsys: pytest.CaptureFixture[str], folder: Path, flags: str, sums: tuple[str, ...]
) -> None:
    rng = np.random.default_rng(0)
    for name, number in (("north", 20), ("south", 30), ("west", 40)):
        rows = [",".join(map(repr, row)) for row in rng.standard_normal((number, 4)).tolist()]
        lines = [f"{row},{'xyz'[k % 3]}" for k, row in enumerate(rows)]
        (folder / f"{name}.csv").write_text("\n".join(["a,b,c,d,group", *lines, ""]))
    words = ["--problem", *flags.split(), "--topology", "path", "--algorithm", "direct", *sums]
    if "gevp" not in flags:
        words += ["--data", "north.csv,south.csv,west.csv"]
    assert main([*words, "--dry-run"]) == 0
    (said,) = re.findall(r"^set-up +(.*)$", capsys.readouterr().out, re.M)
    assert main([*words, "--out", "out", "--quiet"]) == 0
    history = read_history("out")
    rounds, messages, sent = (int(history[name][0]) for name in ("rounds", "messages", "bytes"))
    assert said == f"{rounds} rounds, {messages} messages, {size(sent)}"


SIZED = [
    "pca --data synthetic --samples 40 --dimension 12",
    "pca --data long.npy --rank 3 --center --partition by-label --labels labels.txt --algorithm "
    "deepca",
    "procrustes --dimension 12 --rank 3",
    "ica --sources 4 --imbalance 3 --algorithm drfgt",
    "odl --dimension 8 --samples 203 --algorithm drsm",
    "sparse_pca --data long.npy --rank 2 --algorithm drsm",
    "robust_pca --data long.npy --rank 2 --algorithm drproxgt",
    "matrix_completion --data long.npy --rank 2 --held-out 0.3 --algorithm drfgt",
    "pca --data long.npy --rank 2 --agents 1 --spread-samples 6 --algorithm landing",
    "cca --data long.npy --data-y wide.npy --rank 2 --algorithm cdadt",
    "cca --data even.npy --width 4 --rank 2 --ridge 0.1 --scale view --algorithm generalized_drfgt",
    "sparse_cca --data long.npy --data-y wide.npy --rank 2",
    "maxvar --data long.npy --views 2,1,3 --rank 2 --ridge 0 --algorithm cdadt",
    "lda --data long.npy --labels labels.txt --partition by-label --agents 4 --algorithm cdadt "
    "--scale",
    "lda --data wide.npy --labels labels.txt --agents 4 --split features",
    "pca --data wide.npy --rank 3 --agents 4 --split features --scale",
    "cca --data wide.npy --data-y long.npy --rank 2 --agents 4 --split features",
    "procrustes --dimension 12 --rank 3 --algorithm drgta --batch-size 40",
]


def without_alternatives(printed: str) -> list[str]:
    """The lines but those of other methods, whose line searches depend on the samples."""
    return [line for line in printed.splitlines() if not line.startswith("instead ")]


@pytest.mark.parametrize("flags", SIZED)
def test_a_dry_run_prints_the_sizes_without_the_data(
    flags: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    np.save("long.npy", rng.standard_normal((120, 6)))
    np.save("even.npy", rng.standard_normal((120, 32)))
    np.save("wide.npy", rng.standard_normal((120, 31)))
    Path("labels.txt").write_text("\n".join(map(str, rng.integers(0, 4, 120))))
    arguments = ["--problem", *flags.split(), "--dry-run"]
    monkeypatch.setattr(Run, "_answered", False)  # no answer is found of random samples
    assert main(arguments) == 0
    found = without_alternatives(capsys.readouterr().out)
    monkeypatch.setattr(Deferred, "stand_in", lambda self, more=0: self)
    assert main(arguments) == 0
    lines = without_alternatives(capsys.readouterr().out)
    expected = [
        line for line in lines if not line.startswith("classes ")
    ]  # of samples that are read
    for i, line in enumerate(found):
        if (
            line == "steps       chosen from the data when the run begins"
            or "sm: step size auto" in line
        ):
            found[i] = expected[i]
    assert found == expected


@pytest.mark.parametrize(
    ("rows", "more", "data"),
    [
        ({"large": 2**22}, ["--no-shuffle"], "data 2.15 GB in all"),
        ({"north": 2**23, "south": 2**20}, [], "data 4.83 GB in all"),
    ],
)
def test_a_dry_run_of_files_reads_their_headers(
    rows: dict[str, int], more: list[str], data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Gigabytes of numbers that are not there, in files of holes: nothing of their size is made."""
    for name, number in rows.items():
        with Path(f"{name}.npy").open("wb") as file:
            npy.write_array_header_1_0(
                file, {"descr": "<f4", "fortran_order": False, "shape": (number, 64)}
            )
            file.truncate(file.tell() + 4 * 64 * number)
    tracemalloc.start()
    assert (
        main(
            [
                "--problem",
                "pca",
                "--data",
                ",".join(f"{name}.npy" for name in rows),
                "--dry-run",
                *more,
            ]
        )
        == 0
    )
    assert tracemalloc.get_traced_memory()[1] < 2**24
    tracemalloc.stop()
    printed = capsys.readouterr().out
    assert "x is 64 x 5" in printed
    assert data in printed


def test_rows_that_cross_between_ranks() -> None:
    bounds, W = (
        np.array([0, 1, 2, 9]),
        tp.metropolis_weights(tp.erdos_renyi(9, 0.4, seed=2)).tolil(),
    )
    W[8, 0] = 0.0  # of a directed graph
    home = [0, 1, *[2] * 7]
    rows = {(home[j], home[i], j) for i, j in np.argwhere(W.toarray()) if home[i] != home[j]}
    assert crossing(W.tocsr(), bounds) == Counter(row[:2] for row in rows)


@pytest.mark.parametrize("every", [1, 7, 100])
def test_about_ten_plain_lines(every: int, capsys: pytest.CaptureFixture[str]) -> None:
    show = Lines(1000)
    for k in (*range(0, 1000, every), 1000):
        show(k, "objective 1", "")
    printed = [int(line.split("/")[0]) for line in capsys.readouterr().out.splitlines()]
    assert len(printed) == 11
    assert (printed[0], printed[-1]) == (0, 1000)
    assert all(tenth * 100 <= k < tenth * 100 + every for tenth, k in enumerate(printed))


def test_a_line_a_minute_with_the_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    """Also between two rows, if nothing has been printed for a minute."""
    now = 0.0
    show = Lines(10_000, clock=lambda: now)
    run = SimpleNamespace(iteration=0)
    show.follow(run)
    show(0, "objective 3", "")
    for second in range(1, 301):
        now, run.iteration = float(second), 2 * second
        if second == 90:
            show(180, "objective 2", "")
        show.between()
    assert capsys.readouterr().out.splitlines() == [
        "    0/10000  objective 3",
        "  120/10000  last row: objective 3  1 h 22 min left",
        "  240/10000  last row: objective 2  1 h 21 min left",
        "  360/10000  last row: objective 2  1 h 20 min left",
        "  480/10000  last row: objective 2  1 h 19 min left",
        "  600/10000  last row: objective 2  1 h 18 min left",
    ]


def test_a_run_says_its_checkpoints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    tokens = f"--agents 4 --iterations 30 --checkpoint-every 10m --out {out}"
    assert main(tokens.split()) == 0
    assert f"checkpoint {out / 'checkpoints' / '000000030'}" in capsys.readouterr().out
    assert main([*tokens.split(), "--overwrite", "--quiet"]) == 0
    assert capsys.readouterr().out == ""


def test_what_fails_on_one_rank_fails_on_all() -> None:
    def said(communicator: Any, faulty: Sequence[int]) -> str:
        def work() -> None:
            if communicator.rank in faulty:
                raise OSError(2, "No such file or directory", f"{communicator.rank}.npy")

        with pytest.raises(ValueError, match="cannot use") as caught:
            together(communicator, work)
        return str(caught.value)

    assert (
        on_ranks(3, lambda communicator: said(communicator, (0, 2)))
        == ["cannot use 0.npy: No such file or directory"] * 3
    )
    assert (
        on_ranks(3, lambda communicator: said(communicator, (1,)))
        == ["on rank 1: cannot use 1.npy: No such file or directory"] * 3
    )
    assert on_ranks(3, lambda communicator: together(communicator, lambda: communicator.rank)) == [
        0,
        1,
        2,
    ]


def test_words_of_an_error_are_one_line_that_can_be_printed() -> None:
    assert one_line(ValueError("a\n  b")) == "a b"
    assert one_line(KeyError()) == "KeyError()"
    assert one_line(ValueError("\udcff")) == r"\udcff"
    assert one_line(ValueError(f"before {'9' * 5000} after")) == f"before {'9' * 80}... after"
    long = one_line(ValueError(f"before {'9, ' * 5000} after"))
    assert len(long) < 1000
    assert long.startswith("before 9, 9,")
    assert long.endswith("9, after")


def test_a_fault_keeps_its_traceback() -> None:
    """An error that says nothing of what was asked for is none of the asker's."""

    def fail() -> None:
        raise KeyError("typo")

    with pytest.raises(KeyError, match="typo"):
        together(SerialCommunicator(), fail)


@pytest.mark.ranks
def test_ranks_give_the_same_bits_and_files(folder: Path) -> None:
    words = ["--iterations", "60", "--out"]
    assert run(*words, "serial") == 0
    job = run_ranks(3, [*MODULE, *words, str(folder / "ranks")])
    assert (job.returncode, job.stderr) == (0, ""), job.report()
    assert job.stdout.count("Stopped at the limit of 60 iterations") == 1, job.report()
    assert comparable(folder / "ranks") == comparable(folder / "serial")
    summary = read_summary("ranks")
    assert (summary["ranks"], summary["transport"]["messages"]) == (3, 3 * 2 * 60)
    assert final_points("ranks").tobytes() == final_points("serial").tobytes()


def test_the_summary_names_the_measure_of_the_error() -> None:
    words = "--problem pca --data synthetic --heterogeneity 0.5 --agents 4 --iterations 400"
    assert run(*words.split(), "--out", "a") == 0
    assert read_summary("a")["error_name"] == "subspace_distance"
    assert read_summary("a")["metrics"]["error"] < 1e-2 < read_history("a")["error"][0]


@pytest.mark.slow
def test_an_interrupted_run_says_so_and_keeps_its_history(tmp_path: Path) -> None:
    words = [
        sys.executable,
        "-m",
        "decentorth.run",
        "--iterations",
        "100000000",
        "--quiet",
        "--out",
        str(tmp_path / "a"),
    ]
    with subprocess.Popen(
        words, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    ) as process:
        history = tmp_path / "a" / "history.csv"
        until(lambda: history.is_file() and history.read_text().count("\n") > 20, process=process)
        process.send_signal(signal.SIGINT)
        try:
            _, said = process.communicate(timeout=HUNG)
        finally:
            process.kill()
    assert (process.returncode, said.count("\n")) == (130, 1)
    assert said == f"decentorth: interrupted; the history so far is in {tmp_path}/a/history.csv\n"
    assert len(read_history(tmp_path / "a")["iteration"]) >= 20


EVENTFUL = "tests/support/eventful.py"
RESULTS = {".lock", "config.yaml", "final.npz", "history.csv", "summary.json"}


def eventful(
    folder: Path, rank: int, events: str, *words: str, ranks: int = 0
) -> tuple[Job, set[str]]:
    job = run_ranks(
        ranks,
        [
            EVENTFUL,
            str(rank),
            events,
            "--quiet",
            "--iterations",
            "200",
            *words,
            "--out",
            str(folder),
        ],
    )
    assert job.stdout == "", job.report()
    return job, {path.name for path in folder.iterdir()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("events", "more", "code"),
    [
        ("start:SIGUSR1,loop:SIGUSR1,end:SIGUSR1", [], 0),
        ("end:SIGTERM", ["--checkpoint-every", "1h"], 143),
        ("end:SIGINT", [], 130),
    ],
)
@pytest.mark.parametrize("ranks", ALONE_AND_ON_RANKS)
def test_a_signal_waits_until_the_folder_is_whole(
    ranks: int, events: str, more: list[str], code: int, folder: Path
) -> None:
    """On the last rank: all of them end with its code."""
    job, files = eventful(folder / "a", max(ranks - 1, 0), events, *more, ranks=ranks)
    assert (job.returncode, files - {"checkpoints"}) == (code, RESULTS), job.report()
    assert len(read_history("a")["iteration"]) > 0
    assert read_summary("a")["status"] == "iterations"


@pytest.mark.slow
def test_a_second_interrupt_ends_the_run_while_it_writes(folder: Path) -> None:
    job, files = eventful(folder / "a", 0, "end:SIGINT,end:SIGINT")
    assert (job.returncode, files) == (130, {".lock", "config.yaml", "history.csv"}), job.report()
    assert (
        job.stderr == f"decentorth: interrupted; the history so far is in {folder}/a/history.csv\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ranks", "event", "why"),
    [
        pytest.param(2, "remove", "a was removed during the run", marks=pytest.mark.ranks),
        (0, "replace", "a was removed during the run"),
        (0, "fill", "cannot use FOLDER/a/final.npz: No space left on device"),
    ],
)
def test_results_find_a_place(ranks: int, event: str, why: str, folder: Path) -> None:
    """A folder that is gone is made again, with all rows; where another run has taken it, or the
    disk is full, temporary files have room."""
    (folder / "tmp").mkdir()
    words = ["--quiet", "--iterations", "200", "--out"]
    job = run_ranks(
        ranks,
        [EVENTFUL, "0", f"loop:{event}", *words, str(folder / "a")],
        settings={"TMPDIR": str(folder / "tmp")},
    )
    assert job.returncode == 1, job.report()
    (said,) = [line for line in job.stderr.splitlines() if line.startswith("decentorth: ")]
    (place,) = [folder / "a"] if event == "remove" else (folder / "tmp").glob("decentorth-*")
    assert why.replace("FOLDER", str(folder)) in said
    assert said.endswith(f"; all files of the run are in {place}")
    eventful(folder / "whole", 0, "")
    assert comparable(place) == comparable(folder / "whole")
    assert {path.name for path in place.iterdir()} >= RESULTS - {".lock"}
    assert event != "replace" or [path.name for path in (folder / "a").iterdir()] == [".lock"]


@pytest.mark.slow
def test_a_recorder_that_fails_takes_no_results_with_it(folder: Path) -> None:
    rows = folder / "rows"
    rows.mkdir()
    eventful(folder / "whole", 0, "")
    places = [f"parquet:{rows}/run.parquet", f"tensorboard:{rows}/events", f"mlflow:{rows}/store"]
    words = [word for place in places for word in ("--record", place)]
    job, files = eventful(folder / "a", 0, "loop:strip", *words)
    assert (job.returncode, files) == (1, RESULTS), job.report()
    said = [line for line in job.stderr.splitlines() if line.startswith("decentorth: ")]
    failures = read_summary(folder / "a")["failures"]
    for place in places:
        (line,) = [line for line in said if place in line]
        (failure,) = [failure for failure in failures if place in failure]
        assert line == f"decentorth: {failure}; the run and its results do not depend on it"
    assert "Traceback" not in job.stderr
    assert comparable(folder / "a") == comparable(folder / "whole")


@pytest.mark.slow
@pytest.mark.ranks
def test_a_last_checkpoint_that_cannot_be_written_takes_no_results_with_it(folder: Path) -> None:
    job, files = eventful(folder / "a", 0, "loop:block", "--checkpoint-every", "1h", ranks=2)
    assert (job.returncode, files) == (1, RESULTS | {"checkpoints"}), job.report()
    (failure,) = read_summary(folder / "a")["failures"]
    assert (
        failure
        == f"cannot write the checkpoint of iteration 200: File exists: {folder}/a/checkpoints"
    )
    assert failure in job.stderr.splitlines()


@pytest.mark.slow
def test_a_log_that_cannot_be_written_takes_no_results_with_it(folder: Path) -> None:
    log = folder / "rows" / "run.log"
    log.parent.mkdir()
    words = [
        "--algorithm",
        "asynchronous_drfgt",
        "--activations",
        "2000",
        "--log",
        str(log),
        "--out",
        str(folder / "a"),
    ]
    job = run_ranks(0, [EVENTFUL, "0", "loop:strip", "--quiet", *words])
    assert (job.returncode, {path.name for path in (folder / "a").iterdir()}) == (1, RESULTS), (
        job.report()
    )
    (failure,) = read_summary(folder / "a")["failures"]
    assert failure == f"the log {log} is not written: Not a directory"
    assert job.stderr.splitlines() == [failure]


@pytest.mark.slow
@pytest.mark.ranks
def test_a_second_run_in_a_folder_is_refused(folder: Path) -> None:
    """It touches nothing, whether it is to replace the run or to go on with it; when the first has
    ended, it may."""
    words = [*SMALL, "--quiet", "--out", str(folder / "a")]
    again = ["--quiet", "--resume", str(folder / "a"), "--iterations", "60"]
    assert main([*words, "--checkpoint-every", "20"]) == 0
    before = {path: path.read_bytes() for path in (folder / "a").rglob("*") if path.is_file()}
    with hold(folder / "a"):
        for second in ([*words, "--overwrite"], again):
            job = run_ranks(2, [*MODULE, *second])
            assert job.returncode == 2, job.report()
            said = (
                f"decentorth: another run writes to {folder}/a: wait for its end, or choose "
                "another --out"
            )
            assert [line for line in job.stderr.splitlines() if line.startswith("decentorth")] == [
                said
            ], job.report()
    assert {
        path: path.read_bytes() for path in (folder / "a").rglob("*") if path.is_file()
    } == before
    assert main(again) == 0


FULL = (
    "decentorth: cannot write to standard output (No space left on device); nothing more is "
    "printed\n"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("streams", "code", "prints", "said"),
    [
        ("2>&-", 0, True, ""),
        (">&- 2>&- <&-", 0, False, ""),
        ("> /dev/full", 0, False, FULL),
        ("--dry-run > /dev/full", 1, False, FULL),
        ("--stepsize 1 2> /dev/full", 2, False, ""),
    ],
)
def test_a_run_does_without_streams_that_cannot_be_written_to(
    streams: str, code: int, prints: bool, said: str, folder: Path
) -> None:
    command = f"{sys.executable} -m decentorth.run {' '.join(SMALL)} --out {folder}/a {streams}"
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert (done.returncode, bool(done.stdout), done.stderr) == (code, prints, said)
    if code == 0:
        assert {path.name for path in (folder / "a").iterdir()} == RESULTS
        assert read_history("a")["iteration"][-1] == 40


def test_a_long_set_up_says_what_it_does_and_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("PATIENCE", "EVERY", "TICK"):
        monkeypatch.setattr(telling, name, 0.0)
    said: list[str] = []

    def has_said(line: str) -> bool:
        said.append(capsys.readouterr().out)
        return f"setting up: {line} (" in "".join(said)

    with progress_bar.SettingUp(True):
        for part in (1, 2):
            SETUP.info("parts, %d of %d", part, 2)
            until(lambda part=part: has_said(f"parts, {part} of 2"))  # type: ignore[misc]
    capsys.readouterr()
    with progress_bar.SettingUp(False):
        SETUP.info("more parts")
    assert capsys.readouterr().out == ""
    assert SETUP.handlers == []


def test_weights_of_edges_that_are_not_read_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    Path("roads.csv").write_text("from,to,km\nBerlin,Hamburg,289\nHamburg,Bremen,126\n")
    words = [
        "--problem",
        "pca",
        "--data",
        "synthetic",
        "--topology",
        "file:roads.csv",
        "--iterations",
        "1",
    ]
    assert main(words) == 0
    assert (
        "3 agents, file:roads.csv (km of the edges not read), metropolis weights"
        in capsys.readouterr().out
    )


def test_edge_weights_make_the_mixing_matrix(capsys: pytest.CaptureFixture[str]) -> None:
    Path("roads.csv").write_text("from,to,km\nBern,Thun,30\nThun,Brig,60\nBrig,Bern,80\n")
    case = ("--problem", "procrustes", "--topology", "file:roads.csv", "--iterations", "3")
    assert main([*case, "--edge-weight", "1/km", "--out", "a"]) == 0
    assert "file:roads.csv, metropolis weights of conductances 1/km," in capsys.readouterr().out
    W = tp.conductance_weights(tp.graph_from_file("roads.csv"), "1/km")
    np.save("W.npy", W.toarray())
    own = ("--problem", "procrustes", "--weights-file", "W.npy", "--iterations", "3")
    assert run(*own, "--out", "b") == 0
    assert comparable("a") == comparable("b")
    for more, message in (
        ("--edge-weight 1/miles", "every edge needs the attribute 'miles', and"),
        ("--edge-weight km --weights fmmc", "edge_weight gives Metropolis weights"),
        ("--edge-weight km --weights-file W.npy", "weights_file holds the whole W"),
    ):
        assert run(*case, *more.split()) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "more"), [("t.csv", ""), ("t.csv", "--label-column c"), ("t.txt", "")]
)
def test_a_dry_run_names_columns_of_text(
    name: str, more: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error of the run itself, also in a file whose rows a dry run only estimates."""
    rows = [f"n{i},p{i},{i},{i * i % 7},{i % 3}" for i in range(60_000)]
    for count in (40, 60_000):
        Path(name).write_text("\n".join(["name,place,a,b,c", *rows[:count]]))
        words = ["--problem", "pca", "--data", name, "--rank", "2", "--agents", "4", *more.split()]
        assert main([*words, "--dry-run"]) == 2
        assert "--exclude name,place" in capsys.readouterr().err
        assert main([*words, "--exclude", "name,place", "--dry-run"]) == 0
        capsys.readouterr()
