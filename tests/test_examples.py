"""Every example runs, alone and, where it says so, under mpirun, and reaches what it claims."""

from __future__ import annotations

import math
import re
import runpy
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.mpi import HUNG, ROOT


def run(*arguments: str, ranks: int = 1) -> str:
    launcher = [str(Path(sys.prefix, "bin", "mpirun")), "-n", str(ranks)] if ranks > 1 else []
    done = subprocess.run(
        [*launcher, sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=HUNG, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.ranks
def test_solve_converges_and_says_the_same_alone_and_on_three_ranks() -> None:
    alone = run("examples/solve.py")
    assert alone.startswith("converged after")
    assert run("examples/solve.py", ranks=3) == alone


def test_own_problem_becomes_stationary_in_consensus() -> None:
    values = re.search(r"-> (\S+), consensus (\S+)", run("examples/own_problem.py"))
    assert values is not None
    assert all(float(value) < 1e-12 for value in values.groups())


@pytest.mark.slow
def test_own_algorithm_is_reachable_by_name() -> None:
    arguments = "--problem pca --rank 3 --iterations 1".split()
    words = ["examples/own_algorithm.py", *arguments, "--algorithm", "damped_drfgt"]
    damped = run(*words, "--damping", "0.5")
    assert "damping 0.5" in damped
    assert math.isclose(first_step(damped), first_step(run("-m", "decentorth.run", *arguments)) / 2, rel_tol=1e-5)
    refused = subprocess.run([sys.executable, *words, "--damping", "2"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "damping must lie in (0, 1], got 2.0" in refused.stderr


def first_step(said: str) -> float:
    """The smallest step size in the opening lines, printed with six digits."""
    found = re.search(r"^steps +step size ([^\s,]+)", said, re.M)
    assert found is not None
    return float(found[1])


@pytest.mark.slow
def test_one_neighbour_at_a_time_costs_least_and_converges(tmp_path: Path) -> None:
    said = run("examples/time_varying.py", str(tmp_path / "figure.png"))
    rows = re.findall(r"^(\S.*?) +gradient norm (\S+), consensus error (\S+), (\d+) kB", said, re.M)
    cost = {name: int(kilobytes) for name, _, _, kilobytes in rows}
    assert cost == {"one-peer exponential": 16, "static exponential": 112, "ring": 32}
    reached = {name: float(norm) for name, norm, _, _ in rows}
    assert reached["one-peer exponential"] < 1.1 * reached["static exponential"] < 0.1 * reached["ring"]
    assert (tmp_path / "figure.png").stat().st_size > 10_000


@pytest.mark.slow
def test_directed_asynchronous_and_split_runs_cost_what_their_pages_say(tmp_path: Path) -> None:
    said = {
        name: run(f"examples/{name}.py", str(tmp_path / f"{name}.png")) for name in ("directed", "asynchronous", "split_features")
    }
    megabytes = dict(re.findall(r"^(\S.*?) +\d+ iterations, +(\S+) MB, gradient norm \S+ <= 1e-08", said["directed"], re.M))
    assert float(megabytes["push-pull, one way"]) < float(megabytes["DRFGT, both ways"]) < float(megabytes["DRGTA, one way"])
    periods = {name: int(number) for name, number in re.findall(r"^(\S.*?) +(\d+) periods", said["asynchronous"], re.M)}
    assert 2 * periods["asynchronous, 30 % lost"] < periods["DRFGT, none lost"]
    sent = {
        name: (int(k), float(one))
        for name, k, one in re.findall(r"^(\S.*?) +(\d+) iterations, +(\S+) MB", said["split_features"], re.M)
    }
    assert sent["LOBPCG"][0] <= 16
    assert 100 * sent["LOBPCG"][1] < sent["tracked landing"][1]
    assert all((tmp_path / f"{name}.png").stat().st_size > 10_000 for name in said)


@pytest.mark.slow
def test_figure_1_prints_slopes_and_the_order(tmp_path: Path) -> None:
    said = run("examples/figure1.py", str(tmp_path / "figure.png"), "1", "200")
    assert len(re.findall(r"^(?:DRFGT|DRGTA|DESTINY): tuned step", said, re.M)) == 3
    feasible = re.search(r"^DRGTA.*?feasibility, worst of all agents and rows (\S+)", said, re.M | re.S)
    assert feasible is not None
    assert float(feasible[1]) < 1e-12
    assert all(float(slope) < -0.3 for slope in re.findall(r"over the run, slope (\S+)", said))
    assert (tmp_path / "figure.png").stat().st_size > 10_000


@pytest.mark.slow
def test_what_agents_learn_of_the_covariance_decides_how_fast(tmp_path: Path) -> None:
    """Of CDADT's four variants each knows more than the one before; all of them descend."""
    said = run("examples/generalized/decentralized_cca.py", str(tmp_path / "figure.png"), "400")
    gaps = [float(gap) for gap in re.findall(r"^CDADT.*; gap (\S+) after", said, re.M)]
    assert len(gaps) == 4
    assert all(after < 0.5 * before for before, after in pairwise(gaps))
    assert gaps[0] < 0.5
    assert (tmp_path / "figure.png").stat().st_size > 10_000


@pytest.mark.slow
def test_more_columns_of_the_sketch_mend_the_condition_of_wide_views() -> None:
    """On 1000 images and 20 iterations; with the whole covariance the condition is 1."""
    said = run("examples/generalized/wide_views.py", "20", "1", "1000")
    conditions = [float(found) for found in re.findall(r"condition of P B ([\d.]+);", said)]
    gaps = [float(gap) for gap in re.findall(r"gap (\S+) after", said)]
    assert len(conditions) == len(gaps) == 4
    assert all(after < 0.5 * before for before, after in pairwise(conditions))
    assert conditions[-1] == 1.0
    assert gaps == sorted(gaps, reverse=True)


@pytest.mark.slow
def test_figure_4_has_fastica_in_its_table(tmp_path: Path) -> None:
    """All but the first passes come close to FastICA, the rolling mean closest."""
    said = run("examples/generalized/figure4.py", str(tmp_path / "figure.png"), "1", "10000")
    rows = re.findall(r"^(\S.*?)  +(\S+) \(\S+ to \S+\) +(\S+)", said, re.M)
    last = {name: float(error) for name, error, _ in rows}
    assert list(last) == [
        "landing on samples",
        "landing, rolling mean",
        "RGD, rolling mean",
        "FastICA",
        "ICA, fit",
        "ICA, partial_fit",
    ]
    assert max(last.values()) < 0.03
    assert math.isclose(last["FastICA"], last["ICA, fit"], rel_tol=0.05)
    assert last["RGD, rolling mean"] < last["landing on samples"]
    assert (tmp_path / "figure.png").stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.parametrize(("problem", "share", "start"), [("rsr", "0.1", 0.12), ("odl", "0.05", 36.0)])
def test_figures_of_paper_002(problem: str, share: str, start: float, tmp_path: Path) -> None:
    """A tenth of the iterations, or a twentieth: RSM and three numbers of blocks in two rows, each with what it needed."""
    said = run("examples/nonsmooth/figures.py", problem, str(tmp_path / "figure.png"), "1", share)
    rows = re.findall(r"^  (RSM|RSSM, l = \d+) +error (\S+) \(.* on [01] of 1 seeds: ", said, re.M)
    assert [method for method, _ in rows] == 2 * ["RSM", "RSSM, l = 3", "RSSM, l = 5", "RSSM, l = 10"]
    errors = [float(error) for _, error in rows]
    assert all(error < 0.5 * start for error in errors[:2] + errors[4:6])
    assert (tmp_path / "figure.png").stat().st_size > 10_000


@pytest.mark.slow
def test_subspaces_and_dictionaries_are_found_over_networks(tmp_path: Path) -> None:
    """Half the iterations: everybody comes near the subspace, and to the dictionary where the graph is not a ring."""
    said = run("examples/nonsmooth/network.py", str(tmp_path / "figure.png"), "--seeds", "1", "--share", "0.5")
    rows = re.findall(
        r"^(\S.*), (ring|random graph|complete graph), steps (.*): error (\S+) \(.*; below 1e-06 on [01] of 1", said, re.M
    )
    errors = {(problem, graph, steps): float(error) for problem, graph, steps, error in rows}
    assert len(errors) == len(rows) == 3 * 2 * 3
    assert all(error < 1e-3 for (problem, *_, steps), error in errors.items() if problem != "dictionary" and steps == "automatic")
    assert all(
        errors["dictionary", graph, steps] < 1e-6 for graph in ("random graph", "complete graph") for steps in ("automatic",)
    )
    assert (tmp_path / "figure.png").stat().st_size > 10_000


@pytest.mark.slow
def test_robust_subspaces_find_outliers_among_digits(tmp_path: Path) -> None:
    """Better than principal components of the same samples on the sphere, and as well over a network."""
    said = run("examples/nonsmooth/outliers.py", str(tmp_path / "figure.png"), "2")
    rows = re.findall(r"^digit \d: .* sphere (\S+), robust subspace (\S+), robust subspace, 5 agents (\S+)$", said, re.M)
    assert len(rows) == 2
    for sphere, alone, together in rows:
        assert float(alone) > max(float(sphere), 0.97)
        assert abs(float(alone) - float(together)) < 5e-3
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def at_most(iterations: int) -> list[str]:
    """Flags for so many iterations of each method of paper 001, whatever time they take."""
    return ["--seconds", str(HUNG), "--iterations", str(iterations)]


SMALL = "--dimension 40 --rank 4 --seeds 2 --iterations 120".split()
"""Of the figures of paper 003's eigenvalue problem."""


@pytest.mark.slow
def test_figure_2_of_paper_003_has_tuned_steps_and_ends_near_the_optimum(tmp_path: Path) -> None:
    said = run("examples/generalized/figure2.py", str(tmp_path / "figure.png"), *SMALL)
    assert len(re.findall(r": step \S+, \S+ times the automatic one", said)) == 5
    gaps = {name: float(gap) for name, gap in re.findall(r"^(Barz.*?): gap (\S+)", said, re.M)}
    assert len(gaps) == 5
    assert gaps["Barzilai-Borwein steps, RGD, Cholesky-QR, natural metric"] < 1e-9
    assert "scipy.linalg.eigh" in said
    assert (tmp_path / "figure.png").stat().st_size > 10_000


@pytest.mark.slow
def test_figure_7_of_paper_003_times_everything(tmp_path: Path) -> None:
    said = run("examples/generalized/figure7.py", str(tmp_path / "figure.png"), "--largest", "80", "--repeats", "3")
    assert len(re.findall(r"\d ms", said)) == 2 * 9
    assert (tmp_path / "figure.png").stat().st_size > 10_000


@pytest.mark.slow
def test_figure_8_of_paper_003_counts_what_diverged(tmp_path: Path) -> None:
    said = run("examples/generalized/figure8.py", str(tmp_path / "figure.png"), *SMALL)
    assert len(re.findall(r"base step \S+, penalty \S+, gap 0?\S+e-0", said)) == 2
    lost = [int(number) for number in re.findall(r"(\d+) of 36 pairs diverged", said)]
    assert len(lost) == 2
    assert all(0 < number < 36 for number in lost)
    assert (tmp_path / "figure.png").stat().st_size > 10_000


@pytest.mark.slow
def test_figure_9_of_paper_003_tells_how_often_the_safe_step_counts(tmp_path: Path) -> None:
    said = run("examples/generalized/figure9.py", str(tmp_path / "figure.png"), *SMALL)
    assert "automatic constant steps, landing, $\\Psi_B$: the safe step is the smaller one in 0%" in said
    assert said.count("the safe step is the smaller one") == 4
    assert (tmp_path / "figure.png").stat().st_size > 10_000


EXACT = {"deepca": 1e-10, "destiny": 1e-5, "drfgt": 1e-10, "gradient_tracking": 1e-10, "rextra": 1e-10, "rfextra": 1e-10}
EXACT |= {"drgta": 1e-2, "dprgt": 1e-3}
"""After so many iterations; the manifold methods' automatic steps are cautious on heterogeneous data."""


@pytest.mark.slow
@pytest.mark.parametrize("script", sorted(Path(ROOT, "examples", "digits").glob("*.py")), ids=lambda script: str(script.stem))
def test_every_method_on_digits(script: Path) -> None:
    said = re.search(r"distance (\S+), consensus", run(str(script)))
    assert said is not None
    assert float(said[1]) < EXACT.get(script.stem, 2.5)


@pytest.mark.slow
def test_the_structural_probe_changes_only_in_its_form_that_is_not_constant(tmp_path: Path) -> None:
    """And on planted distances ours and CSDM come near them, where the published rivals stand still."""
    sizes = "--kinds planted --points 40 --dimension 10".split()
    said = run("examples/j_orthogonal/hspp.py", str(tmp_path / "figure.png"), *sizes, *at_most(250))
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
    assert (tmp_path / "figure.png").stat().st_size > 10_000


@pytest.mark.slow
def test_three_models_are_trained_on_a_generated_graph_by_one_loop() -> None:
    """In few epochs all rank held-out triples better than chance, which is 0.07; so does UltraE with each ingredient changed."""
    words = ("examples/j_orthogonal/knowledge.py", "--entities", "60", "--epochs", "30", "--dimension", "8", "--held-out", "0.2")
    said = run(*words, "--batch", "40")
    found = re.findall(r"^(\w+): MRR (\S+), hits@1 \S+, hits@10 \S+, 30.0 epochs, \S+ s, \d+ MB$", said, re.M)
    assert [name for name, _ in found] == ["UltraE", "ComplEx", "DistMult"]
    assert all(float(mrr) > 0.1 for _, mrr in found)
    changed = re.findall(r"^(.*): MRR (\S+), hits@1", run(*words, "--batch", "40", "--ingredients"), re.M)
    assert len(changed) == 13
    assert all(0.0 < float(mrr) < 1.0 for _, mrr in changed)


@pytest.mark.parametrize("name", ["J-JOBCD", "VR-J-JOBCD", "CSDM"])
def test_figure_9_of_paper_001_counts_every_gradient(name: str) -> None:
    """Those of single triples, wherever the method takes them; the loss falls meanwhile."""
    example, counted = runpy.run_path(str(ROOT / "examples" / "j_orthogonal" / "figure9.py")), []
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
def test_figure_9_of_paper_001_draws_both_sizes_of_graphs(tmp_path: Path) -> None:
    """In two epochs J-JOBCD and CSDM rank better than chance, 0.04 and 0.03."""
    said = run("examples/j_orthogonal/figure9.py", str(tmp_path / "figure.png"), "--seeds", "1", "--epochs", "2")
    rows = re.findall(r"^(\S+) +[\d.]+ +(\S+) +\S+ +(\S+)  \S+ \(\S+ to \S+\), ", said, re.M)
    assert [name for name, *_ in rows] == 2 * ["J-JOBCD", "VR-J-JOBCD", "CSDM"]
    assert all(float(end) > 1.5 * float(start) for name, start, end in rows if name != "VR-J-JOBCD")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    assert len((tmp_path / "figure.csv").read_text().splitlines()) == 1 + len(rows) * 3


@pytest.mark.slow
def test_knowledge_graphs_are_learned_by_every_method() -> None:
    """A twentieth of the default: losses fall far, relations stay feasible."""
    said = run("examples/j_orthogonal/ultrae.py", "--seeds", "1", "--epochs", "40", "--entities", "30", "--triples", "300")
    rows = re.findall(r"^(\S.*): loss (\S+) -> (\S+) \(.*, MRR (\S+) .* of 1, .*feasibility (\S+), ", said, re.M)
    assert [name for name, *_ in rows] == [
        *("CSDM", "J-JOBCD", "J-JOBCD, one round", "VR-J-JOBCD", "CSDM, same rate", "CSDM, published steps")
    ]
    for _, start, end, mrr, feasibility in rows:
        assert float(end) < 0.9 * float(start)
        assert 0.0 < float(mrr) < 1.0
        assert float(feasibility) < 1e-9


@pytest.mark.slow
def test_stochastic_cca_narrows_the_gap(tmp_path: Path) -> None:
    """The start's gap is a half; RGD with a rolling mean ends feasible, landing on samples within a region."""
    said = run("examples/generalized/figure3.py", str(tmp_path / "figure.png"), "1", "128")
    rows = re.findall(r"^p = (\d+), (.*): relative gap (\S+) .*, feasibility (\S+), after", said, re.M)
    assert len(rows) == 6
    for p, name, gap, feasibility in rows:
        assert float(gap) < (0.05 if name.startswith("RGD") else 0.2 if p == "5" else 0.4)
        assert float(feasibility) < (1e-12 if name.startswith("RGD") else 2.0)
    assert (tmp_path / "figure.png").stat().st_size > 10_000


@pytest.mark.slow
def test_safe_steps_keep_both_directions_in_the_region(tmp_path: Path) -> None:
    said = run("examples/generalized/safe_steps.py", str(tmp_path / "figure.png"), "150")
    worst = re.findall(r"infeasibility at most (\S+)", said)
    assert len(worst) == 2
    assert all(float(value) <= 0.9 for value in worst)
    assert (tmp_path / "figure.png").stat().st_size > 10_000


@pytest.mark.slow
def test_safe_landing_diverges_at_no_pair_of_parameters(tmp_path: Path) -> None:
    said = run("examples/generalized/sensitivity.py", str(tmp_path / "figure.png"), "1", "1")
    diverged = dict(re.findall(r"^(.*): best .* of it; (\d+) diverged", said, re.M))
    assert diverged["landing, exact, safe steps"] == "0"
    assert int(diverged["landing, exact"]) > 10 < int(diverged["landing on samples"])
    assert (tmp_path / "figure.png").stat().st_size > 10_000


@pytest.mark.slow
def test_a_bad_network_with_repair_goes_as_a_good_one_and_short_messages_cost_less(tmp_path: Path) -> None:
    said = run("examples/bad_network.py", str(tmp_path / "figure.png"), "600")
    rows = re.findall(
        r"^(\S.*?) +iterations +after +600 iterations, +(\S+) MB: gradient norm (\S+), tracking error ([^\s,]+)", said, re.M
    )
    cost = {name: float(megabytes) for name, megabytes, _, _ in rows}
    reached = {name: float(norm) for name, _, norm, _ in rows}
    drift = {name: float(error) for name, _, _, error in rows}
    assert cost["good"] == cost["loss 10 %"] > 8 * cost["topk 10 %"] > 24 * cost["topk 10 %, 8 bits"]
    assert (
        {name for name, error in drift.items() if error > 1e-9}
        == {"loss 10 %, no repair", "loss 10 %, corrected"}
        == set(re.findall(r"^(\S.*?) {2,}.*drifted", said, re.M))
    )
    assert reached["topk 10 %"] < 1.5 * reached["good"]
    assert reached["loss 10 %"] < 3 * reached["good"] < reached["loss 10 %, no repair"]
    assert 4 * drift["loss 10 %, corrected"] < drift["loss 10 %, no repair"]
    assert (tmp_path / "figure.png").stat().st_size > 10_000


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
    assert len(objectives) == 12
    for name in ("GS-JOBCD", "J-JOBCD", "ADMM, published, then GS-JOBCD", "CSDM, published, then GS-JOBCD"):
        assert objectives[name] < 1e3 * float(start[1])
    for name in ("UMCM, published", "ADMM, published", "CSDM, published"):
        assert objectives[name] > 10.0 * float(start[1])


@pytest.mark.slow
def test_figure_1_of_paper_001_reaches_the_minimum(tmp_path: Path) -> None:
    said = run("examples/j_orthogonal/figure1.py", str(tmp_path / "figure.png"), "--data", "randn10", *at_most(1000))
    well_posed = said.partition("well-posed")[2]
    gaps = {name: float(gap) for name, gap in re.findall(r"^  (.*): (\S+) after", well_posed, re.M)}
    assert len(gaps) == 13
    assert max(gaps[name] for name in ("hyperbolic Jacobi", "GS-JOBCD", "RGD, Barzilai-Borwein")) < 1e-6
    assert (tmp_path / "figure.png").stat().st_size > 10_000


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
