"""Studies against closed forms, bounds and predictions; and sweeps, with the same bytes after any
interruption."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from decentorth.commands.line.config_files import InputError
from decentorth.lab.study import consensus, drfgt_study, spectral
from decentorth.lab.study.command import STUDIES, main
from decentorth.lab.study.study_graphs import RULES
from decentorth.lab.study.sweep import Row, Study, Trial, kept, named, sweep
from tests.support.marks import first_row_is_quick
from tests.support.mpi import HUNG, ROOT, until


@cache
def drfgt_row(
    problem: str, family: str, weights: str, order: str = "combine-then-adapt", n: int = 10
) -> dict[str, Any]:
    trial: Trial = {
        "problem": problem,
        "family": family,
        "n": n,
        "weights": weights,
        "order": order,
        "seed": 0,
    }
    (row,) = drfgt_study.run(trial)
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
def test_spectral_rows_have_their_closed_forms(
    family: str, n: int, edges: int, degree: int, diameter: int, sigma: float
) -> None:
    (row,) = spectral.run({"family": family, "n": n, "weights": "metropolis", "seed": 0})
    assert (row["edges"], row["degree_max"], row["diameter"]) == (edges, degree, diameter)
    assert row["sigma"] == pytest.approx(sigma, abs=1e-12)
    assert row["bytes_per_round"] == 2 * edges * 2 * 50 * 20 * 8
    if sigma > 0.0:
        assert sigma ** float(row["rounds_per_decade"] or 0) == pytest.approx(0.1, rel=1e-9)


@pytest.mark.parametrize(
    ("family", "weights"),
    [("path", "lazy-metropolis"), ("torus", "best-constant"), ("star", "metropolis")],
)
def test_averaging_stays_below_sigma_to_the_k_and_comes_to_its_rate(
    family: str, weights: str
) -> None:
    rows = consensus.run({"family": family, "n": 16, "weights": weights, "seed": 1})
    errors, bounds = (
        np.array([row[name] for row in rows], dtype=float) for name in ("error", "bound")
    )
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
def test_ten_ring_converges_at_its_best_rate_to_three_digits(
    weights: str, order: str, rate: float, step: float
) -> None:
    row = drfgt_row("quadratic", "ring", weights, order)
    assert row["predicted"] == pytest.approx(rate, abs=6e-4)
    assert row["step"] == pytest.approx(step, abs=6e-4)
    assert row["measured"] == pytest.approx(row["predicted"], abs=5e-4)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["ring", "erdos_renyi"])
def test_the_widest_gap_is_not_the_fewest_iterations(family: str) -> None:
    metropolis, best = (
        drfgt_row("quadratic", family, rule) for rule in ("metropolis", "best-constant")
    )
    assert best["gap"] > metropolis["gap"]
    assert best["iterations"] > metropolis["iterations"]


@pytest.mark.parametrize(
    ("problem", "family", "order"),
    first_row_is_quick(
        [("pca", "ring", "combine-then-adapt"), ("procrustes", "star", "adapt-then-combine")]
    ),
)
def test_rate_is_predicted_from_the_linearisation_within_ten_percent(
    problem: str, family: str, order: str
) -> None:
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
            assert len({named(trial) for trial in trials}) == len(trials)
            assert all(tuple(trial) == tuple(trials[0]) for trial in trials)


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
    made = pd.DataFrame(
        drfgt_row(problem, "complete", rule, n=4)
        for problem in drfgt_study.PROBLEMS
        for rule in RULES
    )
    axes = drfgt_study.figure(made).axes
    for panel, problem in zip(axes, drfgt_study.PROBLEMS, strict=False):
        points = np.concatenate(
            [
                np.asarray(line.get_xydata())
                for line in panel.lines
                if line.get_label() != "predicted"
            ]
        )
        expected = made[made["problem"] == problem][["gap", "iterations"]].to_numpy()
        np.testing.assert_allclose(points[np.lexsort(points.T)], expected[np.lexsort(expected.T)])


FEW = [
    {"family": family, "n": 16, "weights": "metropolis", "seed": 3}
    for family in ("ring", "random_geometric", "star")
]


def written(study: Study, trials: Sequence[Trial], path: Path, workers: int = 1) -> bytes:
    sweep(study, trials, path, workers=workers, advance=lambda trial: None)
    return path.read_bytes()


@pytest.mark.slow
def test_the_number_of_workers_leaves_every_byte(tmp_path: Path) -> None:
    assert written(spectral.STUDY, FEW, tmp_path / "one.csv", 1) == written(
        spectral.STUDY, FEW, tmp_path / "two.csv", 2
    )


@pytest.mark.parametrize("done", [0, 2])
def test_an_interrupted_sweep_goes_on_to_the_same_bytes(done: int, tmp_path: Path) -> None:
    study, path = consensus.STUDY, tmp_path / "study.csv"
    whole = written(study, FEW, tmp_path / "whole.csv")

    def interrupt(trial: Trial) -> None:
        if trial is FEW[done]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(study, FEW, path, workers=1, advance=interrupt)
    assert whole.startswith(path.read_bytes())
    assert {name: len(rows) for name, rows in kept(path, list(FEW[0])).items()} == {
        named(trial): consensus.POINTS for trial in FEW[: done + 1]
    }
    made: list[str] = []
    sweep(study, FEW, path, workers=1, advance=lambda trial: made.append(str(trial["family"])))
    assert path.read_bytes() == whole
    assert made == [trial["family"] for trial in FEW[done + 1 :]]


def test_numbers_keep_every_digit(tmp_path: Path) -> None:
    drawn = np.random.default_rng(0).bytes(8 * 2000)
    values: list[float | None] = [each for each in np.frombuffer(drawn).tolist() if each == each]
    values += [0.0, 5e-324, 1.7976931348623157e308, math.inf, -math.inf, 0.1, 1e16, 3, -7, None]

    def run(trial: Trial) -> list[Row]:
        return [{**trial, "value": value, "whole": place} for place, value in enumerate(values)]

    study = replace(spectral.STUDY, run=run)
    rows = sweep(
        study, [{"name": "torus"}], tmp_path / "study.csv", workers=1, advance=lambda trial: None
    )
    assert set(rows["name"]) == {"torus"}
    np.testing.assert_array_equal(rows["value"], np.array(values, dtype=float))
    np.testing.assert_array_equal(rows["whole"], np.arange(len(values)), strict=True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"n,family,weights,seed,sigma\n16,ring,metropolis,0,1\n",
            "has other columns than this study, or is damaged",
        ),
        (
            b"family,n,weights,seed,sigma\nring,16\n",
            "has other columns than this study, or is damaged",
        ),
        (b"\xff\xfe\n", "cannot read"),
    ],
)
def test_a_file_that_is_not_of_the_study_is_refused(
    content: bytes, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "study.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"{message}.*choose another --out, or remove it"):
        written(spectral.STUDY, FEW, path)
    assert path.read_bytes() == content


def test_a_whole_file_without_a_measured_column_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trials = spectral.trials(False, 0)
    lines = [",".join(map(str, one)) for one in (trials[0], *(trial.values() for trial in trials))]
    (tmp_path / "spectral.csv").write_text("\n".join(lines))
    assert main(["spectral", "--out", str(tmp_path), "--quiet"]) == 2
    assert "lacks the column 'gap': choose another --out, or remove it" in capsys.readouterr().err


def test_trials_are_put_into_their_place_and_others_in_the_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "study.csv"
    whole = written(spectral.STUDY, FEW, tmp_path / "other.csv")
    written(spectral.STUDY, FEW[1:], path)
    assert written(spectral.STUDY, FEW, path) == whole
    with pytest.raises(
        InputError,
        match=r"holds 2 trials that this study would not make, as .* \(another --seed\?\)",
    ):
        written(spectral.STUDY, FEW[:1], path)
    assert path.read_bytes() == whole


def test_a_failing_trial_is_named(tmp_path: Path) -> None:
    def refuse(trial: Trial) -> list[Row]:
        raise ValueError("not again")

    with pytest.raises(
        RuntimeError,
        match="the trial with family ring, n 16, weights metropolis, seed 3 failed: not again",
    ):
        written(replace(spectral.STUDY, run=refuse), FEW, tmp_path / "study.csv")


@pytest.mark.slow
def test_a_study_from_end_to_end_and_once_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["consensus", "--out", str(tmp_path), "--seed", "2", "--workers", "1"]
    assert main(words) == 0
    first = capsys.readouterr().out
    assert "39/39 trials" in first
    assert "never exceeds sigma^k" in first
    whole = (tmp_path / "consensus.csv").read_bytes()
    assert (tmp_path / "consensus.png").read_bytes()[:4] == b"\x89PNG"
    assert main(words) == 0
    again = capsys.readouterr().out
    assert "holds 39 of 39 trials already" in again
    assert "trials  " not in again
    assert (tmp_path / "consensus.csv").read_bytes() == whole
    assert main([*words[:3], "--seed", "3"]) == 2
    assert "another --seed?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "spectrl",
            "no study is called 'spectrl' (there are spectral, consensus, drfgt); did you mean "
            "spectral?",
        ),
        ("spectral --workers 0", "workers must be at least 1, got 0"),
        ("spectral --fulll", "unknown flag --fulll; did you mean --full?"),
        ("--full", "name a study first, as in: decentorth study spectral --full"),
        ("spectral --out /dev/null/x", "cannot use /dev/null/x"),
    ],
)
def test_bad_input_is_refused_with_the_reason(
    words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["matplotlib", "pandas"])
def test_a_missing_package_is_named_before_the_first_trial(
    missing: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == missing else find(name)
    )
    assert main(["spectral", "--out", str(tmp_path / "out"), "--workers", "1"]) == 2
    out, err = capsys.readouterr()
    assert (out, f"need {missing}: pip install {missing}\n" in err) == ("", True)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_interrupted_twice_it_ends_and_keeps_whole_trials(tmp_path: Path) -> None:
    words = [
        sys.executable,
        "-m",
        "decentorth",
        "study",
        "drfgt",
        "--workers",
        "2",
        "--out",
        str(tmp_path),
    ]
    study = subprocess.Popen(
        words,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    file = tmp_path / "drfgt.csv"
    try:
        until(lambda: file.exists() and file.read_bytes().count(b"\n") > 1, process=study)
        for _ in range(2):
            os.killpg(study.pid, signal.SIGINT)
            time.sleep(0.1)
        _, said = study.communicate(timeout=HUNG)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(study.pid, signal.SIGKILL)
    assert study.returncode == 130
    assert "the same command continues where it stopped" in said
    assert (
        len(kept(file, list(STUDIES["drfgt"].trials(False, 0)[0])))
        == file.read_bytes().count(b"\n") - 1
        > 0
    )
