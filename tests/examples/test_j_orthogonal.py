"""The figures and tables of paper 001: their scripts run and reach what they claim."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.examples import drawn, run
from tests.support.mpi import HUNG, ROOT


def at_most(iterations: int) -> list[str]:
    """Flags for so many iterations of each method of paper 001, whatever time they take."""
    return ["--seconds", str(HUNG), "--iterations", str(iterations)]


@pytest.mark.slow
def test_the_structural_probe_changes_only_in_its_form_that_is_not_constant(tmp_path: Path) -> None:
    """And on planted distances ours and CSDM come near them, where the published rivals stand still."""
    sizes = "--kinds planted --points 40 --dimension 10".split()
    said = drawn("examples/j_orthogonal/hspp.py", tmp_path, *sizes, *at_most(250))
    changes = re.search(r"^printed form: changes by (\S+) of itself", said)
    assert changes is not None
    assert float(changes[1]) < 1e-12
    start = re.search(r"^planted: (\S+) at the start", said, re.M)
    assert start is not None
    rows = re.findall(r"^(\S.*?)  +(\d\S*) +(\d\S*) +(\d\S*)  ", said, re.M)
    shares = {name: [float(value) / float(start[1]) for value in values] for name, *values in rows}
    assert len(shares) == 11
    assert all(1.0 >= first >= second >= last for first, second, last in shares.values())
    assert shares["CSDM"][-1] < 0.2
    assert shares["J-JOBCD"][-1] < 0.7
    assert shares["GS-JOBCD"][-1] < 0.9
    assert min(shares[name][-1] for name in ("ADMM, published", "UMCM, published")) > 0.95


@pytest.mark.slow
def test_three_models_are_trained_on_a_generated_graph_by_one_loop() -> None:
    """In few epochs all rank held-out triples better than chance, which is 0.07."""
    words = ("examples/j_orthogonal/knowledge.py", "--entities", "60", "--epochs", "30", "--dimension", "8", "--held-out", "0.2")
    said = run(*words, "--batch", "40")
    found = re.findall(r"^(\w+): MRR (\S+), hits@1 \S+, hits@10 \S+, 30.0 epochs, \S+ s, \d+ MB$", said, re.M)
    assert [name for name, _ in found] == ["UltraE", "ComplEx", "DistMult"]
    assert all(float(mrr) > 0.1 for _, mrr in found)


@pytest.mark.parametrize("name", ["J-JOBCD", "VR-J-JOBCD", "CSDM"])
def test_the_signed_score_counts_every_gradient(name: str) -> None:
    """Those of single triples, wherever the method takes them; the loss falls meanwhile."""
    example, counted = runpy.run_path(str(ROOT / "examples" / "j_orthogonal" / "signed.py")), []
    problem = example["problem_of"]((100, 20, 45, 4), 0)
    assert [len(part) for part in problem.graph[:3]] == [100, 20, 20]
    gradient, gradient_on = problem.gradient, problem.gradient_on

    def whole(x: Any) -> Any:
        counted.append(100)
        return gradient(x)

    def part(x: Any, batch: Any) -> Any:
        counted.append(batch.size)
        return gradient_on(x, batch)

    problem.gradient, problem.gradient_on = whole, part
    first, last = example["path"](problem, name, 0.02, [0, 8], 0)
    assert last.epochs * 100 == pytest.approx(sum(counted))
    assert last.loss < 0.9 * first.loss


@pytest.mark.slow
def test_the_signed_score_draws_both_sizes_of_graphs(tmp_path: Path) -> None:
    """In two epochs J-JOBCD and CSDM rank better than chance, 0.04 and 0.03."""
    said = drawn("examples/j_orthogonal/signed.py", tmp_path, "--seeds", "1", "--epochs", "2")
    rows = re.findall(r"^(\S+) +[\d.]+ +(\S+) +\S+ +(\S+)  \S+ \(\S+ to \S+\), ", said, re.M)
    assert [name for name, *_ in rows] == 2 * ["J-JOBCD", "VR-J-JOBCD", "CSDM"]
    assert all(float(end) > 1.5 * float(start) for name, start, end in rows if name != "VR-J-JOBCD")
    assert len((tmp_path / "figure.csv").read_text().splitlines()) == 1 + len(rows) * 3


@pytest.mark.slow
def test_figures_9_to_12_of_paper_001_at_its_settings(tmp_path: Path) -> None:
    """On both planted sizes and on a folder of triples: losses fall, relations stay feasible, and few seeds say so."""
    said = drawn("examples/j_orthogonal/ultrae.py", tmp_path, "--epochs", "10")
    rows = re.findall(r"^(\S.*?) +(\d+) -> (\S+) +(\S+) \(.*\) .* (\S+)$", said, re.M)
    assert [name for name, *_ in rows[:5]] == [
        *("J-JOBCD", "VR-J-JOBCD, b' = N/4", "VR-J-JOBCD, b' = sqrt(N)", "CSDM, rate 0.005", "CSDM, rate 0.2")
    ]
    assert len(rows) == 10
    for _, start, end, mrr, feasibility in rows:
        assert float(end) < float(start)
        assert 0.0 < float(mrr) < 1.0
        assert float(feasibility) < 1e-9
    assert said.count("few seeds decide nothing") == 2
    for ending in ("png", "pdf", "svg", "caption.txt"):
        assert (tmp_path / f"figure.{ending}").stat().st_size > 200
    lines = [f"{h}\tr{(h + k) % 3}\t{(h + 1 + k) % 12}\n" for h in range(12) for k in range(3)]
    (tmp_path / "train.txt").write_text("".join(lines))
    (tmp_path / "test.txt").write_text("".join(lines[:4]))
    said = run(
        "examples/j_orthogonal/ultrae.py", str(tmp_path / "own.png"), "--data", str(tmp_path), "--triples", "20", "--epochs", "2"
    )
    assert "(20, 11, 12, 3); 2 epochs" in said


@pytest.mark.slow
def test_table_2_of_paper_001_counts_time_to_objectives(tmp_path: Path) -> None:
    """Of a file, in the form without a minimum: published rivals stand still, ours pass a thousand times the start's objective."""
    rows = np.random.default_rng(0).standard_normal((12, 10))
    written = [" ".join(["0", *(f"{j}:{value!r}" for j, value in enumerate(row.tolist(), 1))]) for row in rows]
    (tmp_path / "rows.svmlight").write_text("\n".join(written) + "\n")
    said = run("examples/j_orthogonal/table2.py", "--data", str(tmp_path / "rows.svmlight"), *at_most(1000))
    start = re.search(r"half objective at the start (\S+)", said)
    assert start is not None
    assert float(start[1]) == pytest.approx(-0.5 * float((rows**2).sum()), rel=1e-3)
    lines = dict(re.findall(r"^(\S.*?)  +(\S.*)$", said, re.M))
    objectives = {
        name: float(line.split()[0]) for name, line in lines.items() if name not in ("method",) and "e" in line.split()[1]
    }
    assert len(objectives) == 16
    for name in ("GS-JOBCD", "J-JOBCD", "CSDM, published, then GS-JOBCD", "ADMM, published, from 1e5, then GS-JOBCD"):
        assert objectives[name] < 1e3 * float(start[1])
    for name in ("UMCM, published, from 1e5", "ADMM, published, from 1e5", "CSDM, published"):
        assert objectives[name] > 10.0 * float(start[1])


@pytest.mark.slow
def test_figure_1_of_paper_001_reaches_the_minimum(tmp_path: Path) -> None:
    said = drawn("examples/j_orthogonal/figure1.py", tmp_path, "--data", "randn10", *at_most(1000))
    well_posed = said.partition("well-posed")[2]
    gaps = {name: float(gap) for name, gap in re.findall(r"^  (.*): (\S+) after", well_posed, re.M)}
    assert len(gaps) == 15
    assert max(gaps[name] for name in ("hyperbolic Jacobi", "GS-JOBCD", "RGD, Barzilai-Borwein")) < 1e-6


@pytest.mark.slow
def test_table_3_of_paper_001_shows_that_large_penalties_keep_admm_at_the_start() -> None:
    """The larger beta, the closer to feasible and the farther from the minimum; a beta of the order of L comes to the minimum."""
    said = run("examples/j_orthogonal/table3.py", "--data", "randn10", "--iterations", "600")
    rows = re.findall(r"^  (\S.*?)  +\S+(?: \(\S+\))?  +(\S+) \((\S+)\)$", said, re.M)
    gaps = {name: float(gap) for name, gap, _ in rows}
    feasibility = {name: float(value) for name, _, value in rows}
    assert len(rows) == 7
    assert gaps["constant 1e+05"] < gaps["constant 1e+07"] <= gaps["constant 1e+09"]
    assert gaps["doubled from 1e+03"] < gaps["doubled from 1e+05"] <= gaps["doubled from 1e+07"]
    assert feasibility["constant 1e+05"] > feasibility["constant 1e+07"] > feasibility["constant 1e+09"]
    assert abs(gaps["constant 0.3 L"]) < 1e-6 < 1e-2 * min(gap for name, gap in gaps.items() if name != "constant 0.3 L")
