"""``python -m decentorth study``: what it writes, says and refuses."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from decentorth.commands.study.command import STUDIES, main
from decentorth.commands.study.sweep import kept
from tests.support.mpi import HUNG, ROOT, until


@pytest.mark.slow
def test_a_study_from_end_to_end_and_once_more(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
        (["spectrl"], "no study is called 'spectrl' (there are spectral, consensus, drfgt); did you mean spectral?"),
        (["spectral", "--workers", "0"], "workers must be at least 1, got 0"),
        (["spectral", "--seed", "-1"], "seed must be at least 0, got -1"),
        (["spectral", "--fulll"], "unknown flag --fulll; did you mean --full?"),
        (["spectral", "consensus"], "unexpected 'consensus'; settings are flags, as --out VALUE, and"),
        (["--full"], "name a study first, as in: decentorth study spectral --full"),
        (["spectral", "--out", "/dev/null/x"], "cannot use /dev/null/x"),
    ],
)
def test_bad_input_is_refused_with_the_reason(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("matplotlib", 'figures need matplotlib: pip install "decentorth[plot]"'),
        ("pandas", 'the tables of a study need pandas: pip install "decentorth[frames]"'),
    ],
)
def test_a_missing_package_is_named_before_the_first_trial(
    missing: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else find(name))
    assert main(["spectral", "--out", str(tmp_path / "out"), "--workers", "1"]) == 2
    assert capsys.readouterr() == ("", f"decentorth study: {message}\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_interrupted_twice_it_ends_and_keeps_whole_trials(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "decentorth", "study", "drfgt", "--workers", "2", "--out", str(tmp_path)]
    study = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
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
    assert len(kept(file, list(STUDIES["drfgt"].trials(False, 0)[0]))) == file.read_bytes().count(b"\n") - 1 > 0
