"""The scripts at the top of ``examples``, those of paper 002 and the notebooks reach what they and their pages claim."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.examples import drawn, run
from tests.support.mpi import ROOT


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
    assert math.isclose(first_step(damped), first_step(run("-m", "decentorth.run", *arguments)) / 2, rel_tol=1e-5)
    refused = subprocess.run([sys.executable, *words, "--damping", "2"], cwd=ROOT, capture_output=True, text=True, check=False)
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
    assert reached["one-peer exponential"] < 1.1 * reached["static exponential"] < 0.1 * reached["ring"]


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
def test_figure_1_prints_slopes_of_the_curves_and_the_order(tmp_path: Path) -> None:
    said = drawn("examples/figure1.py", tmp_path, "--rows", "10", "--seeds", "1", "--iterations", "200")
    assert len(re.findall(r"^(?:DRFGT|DRGTA|DESTINY), step ", said, re.M)) == 6
    feasible = re.findall(r"^DRGTA, step .*\n(?:  .*\n)+?  distance_to_manifold +(\S+)", said, re.M)
    assert len(feasible) == 2
    assert all(float(one) < 1e-12 for one in feasible)
    best = said[said.index("best steps") :]
    assert all(float(slope) < -0.3 for slope in re.findall(r"gradient_norm .*slope (\S+)", best))
    assert "too few seeds to decide the order" in said


@pytest.mark.slow
def test_a_bad_network_with_repair_goes_as_a_good_one_and_short_messages_cost_less(tmp_path: Path) -> None:
    said = drawn("examples/bad_network.py", tmp_path, "600")
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


EXACT = {"deepca": 1e-10, "destiny": 1e-5, "drfgt": 1e-10, "gradient_tracking": 1e-10, "rextra": 1e-10, "rfextra": 1e-10}
EXACT |= {"drgta": 1e-2, "dprgt": 1e-3, "dgd": 2.5, "dprgd": 2.5, "drsgd": 2.5}
"""The distance after the iterations of the script; the last three have steps that shrink, or a bias."""


@pytest.mark.slow
def test_every_method_on_digits(tmp_path: Path) -> None:
    said = drawn("examples/digits.py", tmp_path)
    found = {name: float(distance) for name, distance in re.findall(r"^(\w+) +distance (\S+), consensus", said, re.M)}
    assert {*found} == {*EXACT}
    assert [name for name, distance in found.items() if distance >= EXACT[name]] == []


@pytest.mark.slow
def test_figures_of_paper_002(tmp_path: Path) -> None:
    """A tenth of the iterations: RSM and three numbers of blocks in two rows, each with what it needed."""
    said = drawn("examples/nonsmooth/figures.py", tmp_path, "rsr", "FIGURE", "1", "0.1")
    rows = re.findall(r"^  (RSM|RSSM, l = \d+) +error (\S+) \(.* on [01] of 1 seeds: ", said, re.M)
    assert [method for method, _ in rows] == 2 * ["RSM", "RSSM, l = 3", "RSSM, l = 5", "RSSM, l = 10"]
    errors = [float(error) for _, error in rows]
    assert all(error < 0.06 for error in errors[:2] + errors[4:6])


@pytest.mark.slow
def test_subspaces_and_dictionaries_are_found_over_networks(tmp_path: Path) -> None:
    """Half the iterations: everybody comes near the subspace, and to the dictionary where the graph is not a ring."""
    said = drawn("examples/nonsmooth/network.py", tmp_path, "--seeds", "1", "--share", "0.4")
    rows = re.findall(
        r"^(\S.*), (ring|random graph|complete graph), steps (.*): error (\S+) \(.*; below 1e-06 on [01] of 1", said, re.M
    )
    errors = {(problem, graph, steps): float(error) for problem, graph, steps, error in rows}
    assert len(errors) == len(rows) == 3 * 2 * 3
    assert all(error < 1e-3 for (problem, *_, steps), error in errors.items() if problem != "dictionary" and steps == "automatic")
    assert all(
        errors["dictionary", graph, steps] < 1e-6 for graph in ("random graph", "complete graph") for steps in ("automatic",)
    )


@pytest.mark.slow
def test_robust_subspaces_find_outliers_among_digits(tmp_path: Path) -> None:
    """Better than principal components of the same samples on the sphere, and as well over a network."""
    said = drawn("examples/nonsmooth/outliers.py", tmp_path, "2")
    rows = re.findall(r"^digit \d: .* sphere (\S+), robust subspace (\S+), robust subspace, 5 agents (\S+)$", said, re.M)
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
    alone, together = numbers(r"alone: +(\S+) degrees", said), numbers(r"others: +(\S+) degrees", said)
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
