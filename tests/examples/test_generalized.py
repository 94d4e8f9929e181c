"""The figures of paper 003 and decentralized canonical correlations: their scripts run and reach what they claim."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.examples import drawn, run


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
    """RGD with half the length of landing's field is behind after a pass; all come close to FastICA in three."""
    said = drawn("examples/generalized/figure4.py", tmp_path, "--samples", "20000", "--seeds", "1")
    first = {name: float(error) for name, error in re.findall(r"^(\S.*): Amari distance after a pass (\S+)", said, re.M)}
    assert list(first) == ["landing, online", "landing, rolling mean", "RGD, rolling mean", "RGD, twice the step"]
    assert first["RGD, rolling mean"] > max(error for name, error in first.items() if name != "RGD, rolling mean")
    fitted = {name: float(error) for name, error in re.findall(r"^(FastICA|ICA, fit): (\S+)", said, re.M)}
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
    said = drawn("examples/generalized/figure9.py", tmp_path, *SMALL)
    assert "automatic constant steps, landing, $\\Psi_B$: the safe step is the smaller one in 0%" in said
    assert said.count("the safe step is the smaller one") == said.count("the bound of Lemma 2.4 in") == 4


@pytest.mark.slow
def test_stochastic_cca_at_the_settings_of_the_paper(tmp_path: Path) -> None:
    """Nothing diverges; the rolling mean is nearer to the set than online landing, and RGD on it."""
    words = ("--images", "1100", "--seeds", "1", "--passes", "3")
    said = drawn("examples/generalized/figure3.py", tmp_path, *words)
    rows = re.findall(r"^p = (\d+), (.*): after a pass (\S+) .*\n +distance from the set after a pass (\S+)$", said, re.M)
    assert len(rows) == 8
    for p in ("5", "10"):
        distances = {name: float(distance) for rank, name, _, distance in rows if rank == p}
        assert distances["RGD natural, rolling mean"] < 1e-12 > distances["RGD Euclidean, rolling mean"]
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
