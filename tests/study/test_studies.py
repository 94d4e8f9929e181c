"""What the studies measure, against closed forms, bounds and predictions."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from decentorth.commands.study import consensus, drfgt, spectral
from decentorth.commands.study.command import STUDIES
from decentorth.commands.study.families import RULES
from decentorth.commands.study.sweep import Trial
from tests.support.marks import first_row_is_quick


@cache
def drfgt_row(problem: str, family: str, weights: str, order: str = "combine-then-adapt", n: int = 10) -> dict[str, Any]:
    trial: Trial = {"problem": problem, "family": family, "n": n, "weights": weights, "order": order, "seed": 0}
    (row,) = drfgt.run(trial)
    return dict(row)


@pytest.mark.parametrize(
    ("family", "n", "edges", "degree", "diameter", "sigma"),
    [
        ("ring", 16, 16, 2, 8, (1.0 + 2.0 * math.cos(math.pi / 8.0)) / 3.0),
        ("complete", 16, 120, 15, 1, 0.0),
        ("star", 16, 15, 15, 2, 15.0 / 16.0),
        ("torus", 64, 128, 4, 8, (1.0 + 2.0 + 2.0 * math.cos(math.pi / 4.0)) / 5.0),
    ],
)
def test_spectral_rows_have_their_closed_forms(family: str, n: int, edges: int, degree: int, diameter: int, sigma: float) -> None:
    (row,) = spectral.run({"family": family, "n": n, "weights": "metropolis", "seed": 0})
    assert (row["edges"], row["degree_max"], row["diameter"]) == (edges, degree, diameter)
    assert row["sigma"] == pytest.approx(sigma, abs=1e-12)
    assert row["bytes_per_round"] == 2 * edges * 2 * 50 * 20 * 8
    if sigma > 0.0:
        assert sigma ** float(row["rounds_per_decade"] or 0) == pytest.approx(0.1, rel=1e-9)


@pytest.mark.parametrize(("family", "weights"), [("path", "lazy-metropolis"), ("torus", "best-constant"), ("star", "metropolis")])
def test_averaging_stays_below_sigma_to_the_k_and_comes_to_its_rate(family: str, weights: str) -> None:
    rows = consensus.run({"family": family, "n": 16, "weights": weights, "seed": 1})
    errors, bounds = (np.array([row[name] for row in rows], dtype=float) for name in ("error", "bound"))
    assert (errors <= bounds * (1 + 1e-9)).all()
    assert errors[-1] < 1e-9
    assert rows[-1]["rate"] == pytest.approx(rows[-1]["sigma"], rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("weights", "order", "rate", "step"),
    [
        ("metropolis", "combine-then-adapt", 0.938, 0.067),
        ("metropolis", "adapt-then-combine", 0.933, 0.071),
        ("best-constant", "combine-then-adapt", 0.988, 0.012),
    ],
)
def test_ten_ring_converges_at_its_best_rate_to_three_digits(weights: str, order: str, rate: float, step: float) -> None:
    row = drfgt_row("quadratic", "ring", weights, order)
    assert row["predicted"] == pytest.approx(rate, abs=6e-4)
    assert row["step"] == pytest.approx(step, abs=6e-4)
    assert row["measured"] == pytest.approx(row["predicted"], abs=5e-4)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["ring", "erdos_renyi"])
def test_the_widest_gap_is_not_the_fewest_iterations(family: str) -> None:
    metropolis, best = (drfgt_row("quadratic", family, rule) for rule in ("metropolis", "best-constant"))
    assert best["gap"] > metropolis["gap"]
    assert best["iterations"] > metropolis["iterations"]


@pytest.mark.parametrize(
    ("problem", "family", "order"),
    first_row_is_quick([("pca", "ring", "combine-then-adapt"), ("procrustes", "star", "adapt-then-combine")]),
)
def test_rate_is_predicted_from_the_linearisation_within_ten_percent(problem: str, family: str, order: str) -> None:
    row = drfgt_row(problem, family, "metropolis", order)
    assert math.log(row["measured"]) == pytest.approx(math.log(row["predicted"]), rel=0.1)
    assert row["bound"] > 1e6 * row["iterations"]
    exchanges = 2 if order == "adapt-then-combine" else 1
    edges = {"ring": 20, "star": 18}[family]
    spent = row["rounds"] - exchanges * row["iterations"]
    assert 0 < spent < 200
    assert row["bytes"] == row["iterations"] * edges * 2 * 6 * 2 * 8 + spent * edges * 5 * 8


def test_trials_are_named_once() -> None:
    for study in STUDIES.values():
        for full in (False, True):
            trials = study.trials(full, 0)
            assert len({study.named(trial) for trial in trials}) == len(trials)
            assert all(tuple(trial) == study.key for trial in trials)


@pytest.mark.slow
def test_figures_show_every_point() -> None:
    rows = pd.DataFrame(
        row
        for family in ("ring", "complete")
        for rule in RULES
        for row in spectral.run({"family": family, "n": 16, "weights": rule, "seed": 0})
    )
    gap = spectral.figure(rows).axes[0]
    shown = {line.get_label(): np.asarray(line.get_xydata()) for line in gap.lines}
    assert set(shown) == {"ring", "complete"}
    np.testing.assert_allclose(shown["ring"], np.array([[16.0, rows["gap"][0]]], dtype=float))
    made = pd.DataFrame(drfgt_row(problem, "complete", rule, n=4) for problem in drfgt.PROBLEMS for rule in RULES)
    axes = drfgt.figure(made).axes
    for panel, problem in zip(axes, drfgt.PROBLEMS, strict=False):
        points = np.concatenate([np.asarray(line.get_xydata()) for line in panel.lines if line.get_label() != "predicted"])
        expected = made[made["problem"] == problem][["gap", "iterations"]].to_numpy()
        np.testing.assert_allclose(points[np.lexsort(points.T)], expected[np.lexsort(expected.T)])
