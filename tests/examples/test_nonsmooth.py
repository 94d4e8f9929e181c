"""The figures of paper 002: their scripts run and reach what they claim."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.examples import run


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
