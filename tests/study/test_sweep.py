"""Sweeps: the same bytes for any number of workers and after any interruption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from decentorth.cli.flags import InputError
from decentorth.study import consensus, spectral
from decentorth.study.sweep import Study, sweep
from decentorth.study.table import Row, Trial

FEW = [{"family": family, "n": 16, "weights": "metropolis", "seed": 3} for family in ("ring", "random_geometric", "star")]


def refuse(trial: Trial) -> list[Row]:
    raise ValueError("not again")


def written(study: Study, trials: Sequence[Trial], path: Path, workers: int = 1) -> bytes:
    sweep(study, trials, path, workers=workers, advance=lambda trial: None)
    return path.read_bytes()


@pytest.mark.parametrize("study", [spectral.STUDY, consensus.STUDY], ids=lambda study: study.name)
def test_the_number_of_workers_leaves_every_byte(study: Study, tmp_path: Path) -> None:
    assert written(study, FEW, tmp_path / "one.csv", 1) == written(study, FEW, tmp_path / "two.csv", 2)


def test_an_interrupted_sweep_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    study, path = consensus.STUDY, tmp_path / "study.csv"
    whole = written(study, FEW, path)
    path.write_bytes(whole[: int(0.6 * len(whole))])
    made: list[str] = []
    sweep(study, FEW, path, workers=1, advance=lambda trial: made.append(str(trial["family"])))
    assert path.read_bytes() == whole
    assert made == ["random_geometric", "star"]


def test_rows_that_are_there_are_not_made_again(tmp_path: Path) -> None:
    path = tmp_path / "study.csv"
    whole = written(spectral.STUDY, FEW, path)
    assert written(replace(spectral.STUDY, run=refuse), FEW, path) == whole


def test_trials_that_come_in_between_are_put_into_their_place(tmp_path: Path) -> None:
    path = tmp_path / "study.csv"
    whole = written(spectral.STUDY, FEW, tmp_path / "other.csv")
    written(spectral.STUDY, FEW[1:], path)
    assert written(spectral.STUDY, FEW, path) == whole


def test_other_trials_in_the_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "study.csv"
    whole = written(spectral.STUDY, FEW, path)
    with pytest.raises(InputError, match=r"holds 2 trials that this study would not make, as .* \(another --seed\?\)"):
        written(spectral.STUDY, FEW[:1], path)
    assert path.read_bytes() == whole


def test_a_failing_trial_is_named(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="the trial with family ring, n 16, weights metropolis, seed 3 failed: not again"):
        written(replace(spectral.STUDY, run=refuse), FEW, tmp_path / "study.csv")
