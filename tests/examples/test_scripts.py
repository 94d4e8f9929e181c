"""The scripts at the top of ``examples`` run, alone and, where they say so, under mpirun, and reach what they claim."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.examples import run
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


@pytest.mark.parametrize("words", [[], ["autograd"], ["numpy", "figure.png"]])
def test_an_own_objective_without_its_arguments_says_what_to_type(words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "examples/own_objective.py", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.endswith("python examples/own_objective.py autograd figure.png\n")


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
    said = run("examples/time_varying.py", str(tmp_path / "figure.png"), "1000")
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
@pytest.mark.parametrize("rows", ["10", "500"])
def test_figure_1_prints_slopes_of_the_curves_and_the_order(tmp_path: Path, rows: str) -> None:
    """With the published steps and with the best ones, in both readings of the number of rows."""
    said = run("examples/figure1.py", str(tmp_path / "figure.png"), "--rows", rows, "--seeds", "1", "--iterations", "200")
    assert len(re.findall(r"^(?:DRFGT|DRGTA|DESTINY), step ", said, re.M)) == 6
    feasible = re.findall(r"^DRGTA, step .*\n(?:  .*\n)+?  distance_to_manifold +(\S+)", said, re.M)
    assert len(feasible) == 2
    assert all(float(one) < 1e-12 for one in feasible)
    best = said[said.index("best steps") :]
    assert all(float(slope) < -0.3 for slope in re.findall(r"gradient_norm .*slope (\S+)", best))
    assert "too few seeds to decide the order" in said
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
