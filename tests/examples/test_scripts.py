"""Scripts of examples and the notebooks reach what they and their pages claim."""

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

import decentorth as do
from decentorth.sets import JOrthogonal
from tests.support.examples import drawn, run
from tests.support.mpi import HUNG, ROOT


@pytest.mark.slow
@pytest.mark.ranks
def test_solve_converges_and_says_the_same_alone_and_on_three_ranks() -> None:
    alone = run("examples/solve.py")
    assert alone.startswith("converged after")
    assert run("examples/solve.py", ranks=3) == alone


@pytest.mark.slow
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
    plain = run("-m", "decentorth.run", *arguments, "--algorithm", "drfgt")
    assert math.isclose(first_step(damped), first_step(plain) / 2, rel_tol=1e-5)
    refused = subprocess.run(
        [sys.executable, *words, "--damping", "2"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "damping must lie in (0, 1], got 2.0" in refused.stderr


def first_step(said: str) -> float:
    found = re.search(r"^steps +step size ([^\s,]+)", said, re.M)
    assert found is not None
    return float(found[1])


@pytest.mark.slow
def test_one_neighbour_at_a_time_costs_least_and_converges(tmp_path: Path) -> None:
    said = drawn("examples/time_varying.py", tmp_path, "1000")
    rows = re.findall(r"^(\S.*?) +gradient norm (\S+), consensus error (\S+), (\d+) kB", said, re.M)
    cost = {name: int(kilobytes) for name, _, _, kilobytes in rows}
    assert cost == {"one-peer exponential": 16, "static exponential": 112, "ring": 32}
    reached = {name: float(norm) for name, norm, _, _ in rows}
    assert (
        reached["one-peer exponential"]
        < 1.1 * reached["static exponential"]
        < 0.1 * reached["ring"]
    )


@pytest.mark.slow
def test_directed_asynchronous_and_split_runs_cost_what_their_pages_say(tmp_path: Path) -> None:
    said = {
        name: run(f"examples/{name}.py", str(tmp_path / f"{name}.png"))
        for name in ("directed", "asynchronous", "split_features")
    }
    megabytes = dict(
        re.findall(
            r"^(\S.*?) +\d+ iterations, +(\S+) MB, gradient norm \S+ <= 1e-08",
            said["directed"],
            re.M,
        )
    )
    assert (
        float(megabytes["push-pull, one way"])
        < float(megabytes["DRFGT, both ways"])
        < float(megabytes["DRGTA, one way"])
    )
    periods = {
        name: int(number)
        for name, number in re.findall(r"^(\S.*?) +(\d+) periods", said["asynchronous"], re.M)
    }
    assert 1.4 * periods["asynchronous, 30 % lost"] < periods["DRFGT, none lost"]
    sent = {
        name: (int(k), float(one))
        for name, k, one in re.findall(
            r"^(\S.*?) +(\d+) iterations, +(\S+) MB", said["split_features"], re.M
        )
    }
    assert sent["LOBPCG"][0] <= 16
    assert 80 * sent["LOBPCG"][1] < sent["tracked landing"][1]
    assert all((tmp_path / f"{name}.png").stat().st_size > 10_000 for name in said)


@pytest.mark.slow
def test_figure_1_prints_slopes_of_the_curves_and_the_order(tmp_path: Path) -> None:
    said = drawn(
        "examples/figure1.py", tmp_path, "--rows", "10", "--seeds", "1", "--iterations", "200"
    )
    assert len(re.findall(r"^(?:DRFGT|DRGTA|DESTINY), step ", said, re.M)) == 6
    feasible = re.findall(r"^DRGTA, step .*\n(?:  .*\n)+?  distance_to_manifold +(\S+)", said, re.M)
    assert len(feasible) == 2
    assert all(float(one) < 1e-12 for one in feasible)
    best = said[said.index("best steps") :]
    assert all(float(slope) < -0.3 for slope in re.findall(r"gradient_norm .*slope (\S+)", best))
    assert "too few seeds to decide the order" in said


@pytest.mark.slow
def test_a_bad_network_with_repair_goes_as_a_good_one_and_short_messages_cost_less(
    tmp_path: Path,
) -> None:
    said = drawn("examples/bad_network.py", tmp_path, "600")
    rows = re.findall(
        r"^(\S.*?) +iterations +after +600 iterations, +(\S+) MB: gradient norm (\S+), tracking "
        r"error ([^\s,]+)",
        said,
        re.M,
    )
    cost = {name: float(megabytes) for name, megabytes, _, _ in rows}
    reached = {name: float(norm) for name, _, norm, _ in rows}
    drift = {name: float(error) for name, _, _, error in rows}
    assert (
        cost["good"] == cost["loss 10 %"] > 8 * cost["topk 10 %"] > 24 * cost["topk 10 %, 8 bits"]
    )
    assert (
        {name for name, error in drift.items() if error > 1e-9}
        == {"loss 10 %, no repair", "loss 10 %, corrected"}
        == set(re.findall(r"^(\S.*?) {2,}.*drifted", said, re.M))
    )
    assert reached["topk 10 %"] < 1.5 * reached["good"]
    assert reached["loss 10 %"] < 3 * reached["good"] < reached["loss 10 %, no repair"]
    assert 4 * drift["loss 10 %, corrected"] < drift["loss 10 %, no repair"]


EXACT = {
    "deepca": 1e-10,
    "destiny": 1e-5,
    "drfgt": 1e-10,
    "gradient_tracking": 1e-10,
    "rextra": 1e-10,
    "rfextra": 1e-10,
}
EXACT |= {"drgta": 1e-2, "dprgt": 1e-3, "dgd": 2.5, "dprgd": 2.5, "drsgd": 2.5}
"""The distance after the iterations of the script; the last three have steps that shrink, or a
bias."""


@pytest.mark.slow
def test_every_method_on_digits(tmp_path: Path) -> None:
    said = drawn("examples/digits.py", tmp_path)
    found = {
        name: float(distance)
        for name, distance in re.findall(r"^(\w+) +distance (\S+), consensus", said, re.M)
    }
    assert {*found} == {*EXACT}
    assert [name for name, distance in found.items() if distance >= EXACT[name]] == []


@pytest.mark.slow
def test_figures_of_paper_002(tmp_path: Path) -> None:
    """A tenth of the iterations: RSM and three numbers of blocks in two rows, each with what it
    needed."""
    said = drawn("examples/nonsmooth/figures.py", tmp_path, "rsr", "FIGURE", "1", "0.1")
    rows = re.findall(r"^  (RSM|RSSM, l = \d+) +error (\S+) \(.* on [01] of 1 seeds: ", said, re.M)
    assert [method for method, _ in rows] == 2 * [
        "RSM",
        "RSSM, l = 3",
        "RSSM, l = 5",
        "RSSM, l = 10",
    ]
    errors = [float(error) for _, error in rows]
    assert all(error < 0.06 for error in errors[:2] + errors[4:6])


@pytest.mark.slow
def test_subspaces_and_dictionaries_are_found_over_networks(tmp_path: Path) -> None:
    """Half the iterations: everybody comes near the subspace, and to the dictionary where the graph
    is not a ring."""
    said = drawn("examples/nonsmooth/network.py", tmp_path, "--seeds", "1", "--share", "0.5")
    rows = re.findall(
        r"^(\S.*), (ring|random graph|complete graph), steps (.*): error (\S+) \(.*; below 1e-06 "
        r"on [01] of 1",
        said,
        re.M,
    )
    errors = {(problem, graph, steps): float(error) for problem, graph, steps, error in rows}
    assert len(errors) == len(rows) == 3 * 2 * 3
    assert all(
        error < 1e-3
        for (problem, *_, steps), error in errors.items()
        if problem != "dictionary" and steps == "automatic"
    )
    assert all(
        errors["dictionary", graph, steps] < 1e-6
        for graph in ("random graph", "complete graph")
        for steps in ("automatic",)
    )


@pytest.mark.slow
def test_robust_subspaces_find_outliers_among_digits(tmp_path: Path) -> None:
    """Better than principal components of the same samples on the sphere, and as well over a
    network."""
    said = drawn("examples/nonsmooth/outliers.py", tmp_path, "2")
    rows = re.findall(
        r"^digit \d: .* sphere (\S+), robust subspace (\S+), robust subspace, 5 agents (\S+)$",
        said,
        re.M,
    )
    assert len(rows) == 2
    for sphere, alone, together in rows:
        assert float(alone) > max(float(sphere), 0.97)
        assert abs(float(alone) - float(together)) < 5e-3


# notebooks


def numbers(expression: str, text: str) -> list[float]:
    return [float(one) for one in re.findall(expression, text)]


@pytest.mark.slow
def test_four_sites_find_the_pooled_components_and_a_site_alone_does_not() -> None:
    for library in ("sklearn", "pandas", "matplotlib"):
        pytest.importorskip(library)
    said = run("examples/notebooks/components_of_sites.py")
    alone, together = (
        numbers(r"alone: +(\S+) degrees", said),
        numbers(r"others: +(\S+) degrees", said),
    )
    assert len(alone) == len(together) == 4
    assert min(alone) > 45.0
    assert max(together) < 1e-4


@pytest.mark.slow
def test_independent_sources_are_found_by_all_rooms() -> None:
    for library in ("jax", "matplotlib"):
        pytest.importorskip(library)
    said = run("examples/notebooks/objective_in_jax.py")
    (part,), (whole,) = numbers(r"one room: +(\S+)", said), numbers(r"together: +(\S+)", said)
    assert part < 0.95 < 0.99 < whole


@pytest.mark.slow
def test_the_comparison_has_the_order_that_its_text_explains() -> None:
    pytest.importorskip("matplotlib")
    said = run("examples/notebooks/fair_comparison.py")
    iterations, sent = {}, {}
    for name in ("drfgt", "rfextra", "deepca"):
        (iterations[name],) = numbers(rf"{name} +1e-06 .*? (\S+) iterations", said)
        (sent[name],) = numbers(rf"{name} +1e-06 .*? (\S+) MB", said)
    assert iterations["deepca"] < iterations["rfextra"]
    assert sent["deepca"] < sent["rfextra"] < sent["drfgt"]


@pytest.mark.slow
def test_what_agents_learn_of_the_covariance_decides_how_fast(tmp_path: Path) -> None:
    """Of CDADT's four variants each knows more than the one before; all of them descend."""
    said = drawn("examples/generalized/decentralized_cca.py", tmp_path, "400")
    gaps = [float(gap) for gap in re.findall(r"^CDADT.*; gap (\S+) after", said, re.M)]
    assert len(gaps) == 4
    assert all(after < 0.5 * before for before, after in pairwise(gaps))
    assert gaps[0] < 0.5


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
def test_figure_4_at_the_settings_of_the_paper(tmp_path: Path) -> None:
    """RGD with half the length of landing's field is behind after a pass; all come close to FastICA
    in three."""
    said = drawn("examples/generalized/figure4.py", tmp_path, "--samples", "20000", "--seeds", "1")
    first = {
        name: float(error)
        for name, error in re.findall(r"^(\S.*): Amari distance after a pass (\S+)", said, re.M)
    }
    assert list(first) == [
        "landing, online",
        "landing, rolling mean",
        "RGD, rolling mean",
        "RGD, twice the step",
    ]
    assert first["RGD, rolling mean"] > max(
        error for name, error in first.items() if name != "RGD, rolling mean"
    )
    fitted = {
        name: float(error) for name, error in re.findall(r"^(FastICA|ICA, fit): (\S+)", said, re.M)
    }
    assert math.isclose(fitted["FastICA"], fitted["ICA, fit"], rel_tol=0.05)


SMALL = "--dimension 40 --rank 4 --seeds 2 --iterations 120".split()
"""Of the figures of paper 003's eigenvalue problem."""


@pytest.mark.slow
def test_figure_2_of_paper_003_has_tuned_steps_and_ends_near_the_optimum(tmp_path: Path) -> None:
    said = drawn("examples/generalized/figure2.py", tmp_path, *SMALL)
    assert len(re.findall(r": step \S+, \S+ times the automatic one", said)) == 5
    gaps = {name: float(gap) for name, gap in re.findall(r"^(Barz.*?): gap (\S+)", said, re.M)}
    assert len(gaps) == 5
    assert gaps["Barzilai-Borwein steps, RGD, Cholesky-QR, natural metric"] < 1e-9
    assert "scipy.linalg.eigh" in said


@pytest.mark.slow
def test_figure_8_of_paper_003_counts_what_diverged(tmp_path: Path) -> None:
    said = drawn("examples/generalized/figure8.py", tmp_path, *SMALL, "--seeds", "1")
    assert len(re.findall(r"base step \S+, penalty \S+, gap 0?\S+e-0", said)) == 2
    assert len(re.findall(r"\d+ of 36 pairs reach a gap of \S+", said)) == 2
    lost = [int(number) for number in re.findall(r"(\d+) of 36 pairs diverged", said)]
    assert len(lost) == 2
    assert all(0 < number < 36 for number in lost)


@pytest.mark.slow
def test_figure_9_of_paper_003_tells_how_often_the_safe_step_counts(tmp_path: Path) -> None:
    """For three kinds of steps and two directions; no step as long as the bound of Lemma 2.4 leaves
    the region."""
    said = drawn("examples/generalized/figure9.py", tmp_path, *SMALL)
    assert (
        "automatic constant steps, landing, $\\Psi_B$: the safe step is the smaller one in 0%"
        in said
    )
    assert said.count("the safe step is the smaller one") == 6
    assert said.count("the bound of Lemma 2.4 with") == 12
    left = re.findall(r"with the true L_N .*leaves the region in (\S+)$", said, re.M)
    assert left == ["0%"] * 6


@pytest.mark.slow
def test_stochastic_cca_at_the_settings_of_the_paper(tmp_path: Path) -> None:
    """Nothing diverges; the rolling mean is nearer to the set than online landing, and RGD on
    it."""
    words = ("--images", "1100", "--seeds", "1", "--passes", "3")
    said = drawn("examples/generalized/figure3.py", tmp_path, *words)
    rows = re.findall(
        r"^p = (\d+), (.*): after a pass (\S+) .*\n +distance from the set after a pass (\S+)$",
        said,
        re.M,
    )
    assert len(rows) == 8
    for p in ("5", "10"):
        distances = {name: float(distance) for rank, name, _, distance in rows if rank == p}
        assert (
            distances["RGD natural, rolling mean"]
            < 1e-12
            > distances["RGD Euclidean, rolling mean"]
        )
        assert distances["landing, rolling mean"] < distances["landing, online"] < 1
    assert all(0.0 < float(share) < 1.0 for _, _, share, _ in rows)


@pytest.mark.slow
def test_safe_steps_keep_both_directions_in_the_region(tmp_path: Path) -> None:
    said = drawn("examples/generalized/safe_steps.py", tmp_path, "150")
    worst = re.findall(r"infeasibility at most (\S+)", said)
    assert len(worst) == 2
    assert all(float(value) <= 0.9 for value in worst)


@pytest.mark.slow
def test_safe_landing_diverges_at_no_pair_of_parameters(tmp_path: Path) -> None:
    said = drawn("examples/generalized/sensitivity.py", tmp_path, "1", "1")
    diverged = dict(re.findall(r"^(.*): best .* of it; (\d+) diverged", said, re.M))
    assert diverged["landing, exact, safe steps"] == "0"
    assert int(diverged["landing, exact"]) > 10 < int(diverged["landing on samples"])


def at_most(iterations: int) -> list[str]:
    """Flags for so many iterations of each method of paper 001, whatever time they take."""
    return ["--seconds", str(HUNG), "--iterations", str(iterations)]


@pytest.mark.slow
def test_the_structural_probe_changes_only_in_its_form_that_is_not_constant(tmp_path: Path) -> None:
    """And on planted distances ours and CSDM come near them, where the published rivals stand
    still."""
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
def test_the_structural_probe_of_a_file_has_both_kinds_of_distances(tmp_path: Path) -> None:
    """From the objectives that the same rows, columns and signs have on the command line."""
    path = tmp_path / "points.npy"
    np.save(path, np.random.default_rng(3).standard_normal((60, 8)))
    words = ["--data", str(path), *"--draw-rows 40 --draw-columns 6 --positive 3".split()]
    said = drawn("examples/j_orthogonal/hspp.py", tmp_path, *words, *at_most(5))
    assert "printed form" not in said
    starts = re.findall(r"^([\w ]+), p = 3: (\S+) at the start$", said, re.M)
    assert [kind for kind, _ in starts] == ["distances", "squared distances"]
    for (_, start), distances in zip(starts, ("euclidean", "squared"), strict=True):
        settings = do.problems.HSPPSettings(
            data=str(path),
            distances=distances,
            draw_rows=40,
            draw_columns=6,
            positive=3,
            smoothing=0.5,
        )
        result = do.solve(settings.problem(1, 0), do.CSDM(), iterations=0)
        assert float(start) == pytest.approx(result.history["objective"][0], rel=5e-4)


@pytest.mark.slow
def test_three_models_are_trained_on_a_generated_graph_by_one_loop() -> None:
    """In few epochs all rank held-out triples better than chance, which is 0.07."""
    words = (
        "examples/j_orthogonal/knowledge.py",
        "--entities",
        "60",
        "--epochs",
        "30",
        "--dimension",
        "8",
        "--held-out",
        "0.2",
    )
    said = run(*words, "--batch", "40")
    found = re.findall(
        r"^(\w+): MRR (\S+), hits@1 \S+, hits@10 \S+, 30.0 epochs, \S+ s, \d+ MB$", said, re.M
    )
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
    """On both planted sizes and on a folder of triples: losses fall, relations stay feasible, and
    few seeds say so."""
    said = drawn("examples/j_orthogonal/ultrae.py", tmp_path, "--epochs", "10")
    rows = re.findall(r"^(\S.*?) +(\d+) -> (\S+) +(\S+) \(.*\) .* (\S+)$", said, re.M)
    assert [name for name, *_ in rows[:9]] == [
        "J-JOBCD",
        "VR-J-JOBCD, b' = N/4",
        "VR-J-JOBCD, b' = sqrt(N)",
        *(f"CSDM, rate {rate}" for rate in ("0.005", "0.2", "0.4", "0.6", "0.8", "1.2")),
    ]
    assert len(rows) == 18
    assert len(re.findall(r"^best: CSDM, rate \S+", said, re.M)) == 2
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
        "examples/j_orthogonal/ultrae.py",
        str(tmp_path / "own.png"),
        "--data",
        str(tmp_path),
        "--triples",
        "20",
        "--epochs",
        "2",
    )
    assert "(20, 11, 12, 3); 2 epochs" in said


@pytest.mark.slow
def test_table_2_of_paper_001_counts_time_to_objectives(tmp_path: Path) -> None:
    """Of a file, in the form without a minimum: published rivals stand still, ours pass a thousand
    times the start's objective."""
    rows = np.random.default_rng(0).standard_normal((12, 10))
    written = [
        " ".join(["0", *(f"{j}:{value!r}" for j, value in enumerate(row.tolist(), 1))])
        for row in rows
    ]
    (tmp_path / "rows.svmlight").write_text("\n".join(written) + "\n")
    said = run(
        "examples/j_orthogonal/table2.py", "--data", str(tmp_path / "rows.svmlight"), *at_most(1000)
    )
    start = re.search(r"half objective at the start (\S+)", said)
    assert start is not None
    assert float(start[1]) == pytest.approx(-0.5 * float((rows**2).sum()), rel=1e-3)
    lines = dict(re.findall(r"^(\S.*?)  +(\S.*)$", said, re.M))
    objectives = {
        name: float(line.split()[0])
        for name, line in lines.items()
        if name not in ("method",) and "e" in line.split()[1]
    }
    assert len(objectives) == 16
    for name in (
        "GS-JOBCD",
        "J-JOBCD",
        "CSDM, published, then GS-JOBCD",
        "ADMM, published, from 1e5, then GS-JOBCD",
    ):
        assert objectives[name] < 1e3 * float(start[1])
    for name in ("UMCM, published, from 1e5", "ADMM, published, from 1e5", "CSDM, published"):
        assert objectives[name] > 10.0 * float(start[1])
    words = ("--start", "random", *at_most(1))
    said = run("examples/j_orthogonal/table2.py", "--data", str(tmp_path / "rows.svmlight"), *words)
    signs = np.repeat([1.0, -1.0], 5)
    x = JOrthogonal.with_signs(signs).random(np.random.default_rng(0))
    start = re.search(r"half objective at the start (\S+)", said)
    assert start is not None
    assert float(start[1]) == pytest.approx(-0.5 * float(((rows @ x) ** 2).sum()), rel=1e-3)


@pytest.mark.slow
def test_figure_1_of_paper_001_reaches_the_minimum(tmp_path: Path) -> None:
    said = drawn("examples/j_orthogonal/figure1.py", tmp_path, "--data", "randn10", *at_most(1000))
    well_posed = said.partition("well-posed")[2]
    gaps = {name: float(gap) for name, gap in re.findall(r"^  (.*): (\S+) after", well_posed, re.M)}
    assert len(gaps) == 15
    assert (
        max(gaps[name] for name in ("hyperbolic Jacobi", "GS-JOBCD", "RGD, Barzilai-Borwein"))
        < 1e-6
    )


@pytest.mark.slow
def test_table_3_of_paper_001_shows_that_large_penalties_keep_admm_at_the_start() -> None:
    """The larger beta, the closer to feasible and the farther from the minimum; a beta of the order
    of L comes to the minimum."""
    said = run("examples/j_orthogonal/table3.py", "--data", "randn10", "--iterations", "600")
    rows = re.findall(r"^  (\S.*?)  +\S+(?: \(\S+\))?  +(\S+) \((\S+)\)$", said, re.M)
    gaps = {name: float(gap) for name, gap, _ in rows}
    feasibility = {name: float(value) for name, _, value in rows}
    assert len(rows) == 7
    assert gaps["constant 1e+05"] < gaps["constant 1e+07"] <= gaps["constant 1e+09"]
    assert gaps["doubled from 1e+03"] < gaps["doubled from 1e+05"] <= gaps["doubled from 1e+07"]
    assert (
        feasibility["constant 1e+05"]
        > feasibility["constant 1e+07"]
        > feasibility["constant 1e+09"]
    )
    assert (
        abs(gaps["constant 0.3 L"])
        < 1e-6
        < 1e-2 * min(gap for name, gap in gaps.items() if name != "constant 0.3 L")
    )
