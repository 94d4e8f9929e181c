"""Bad networks from the command line: what is said, what is stored, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import topologies as tp
from decentorth.api import set_up
from decentorth.commands.run.command import main
from decentorth.network import ChannelError
from decentorth.problems import Deferred
from decentorth.registry import algorithms


def summary(folder: Path, *words: str) -> dict[str, object]:
    assert main(["--iterations", "60", "--out", str(folder), *words]) == 0
    found: dict[str, object] = json.loads((folder / "summary.json").read_text())
    return found


@pytest.mark.slow
def test_the_summary_says_whether_tracking_was_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    channel = ["--channel", "loss:p=0.1", "--channel", "quantize:bits=8,feedback=true"]
    faults = ["loss:p=0.1", "quantize:feedback=true,bits=8"]
    kept = summary(tmp_path / "kept", *channel)
    said = capsys.readouterr().out
    assert kept["channel"] == {"faults": faults, "repair": True, "correction": 0.0, "tracking": "kept"}
    assert "with repair" in said
    assert "drifted" not in said
    left = summary(tmp_path / "left", *channel, "--no-repair", "--tracker-correction", "0.5")
    assert left["channel"] == {"faults": faults, "repair": False, "correction": 0.5, "tracking": "drifted"}
    said = capsys.readouterr().out
    assert "without repair, trackers corrected by 0.5 / iteration" in said
    assert "the mean of the trackers drifted by" in said
    assert "channel" not in summary(tmp_path / "good")


@pytest.mark.slow
def test_a_saved_configuration_and_a_resumed_run_have_the_channel(tmp_path: Path) -> None:
    words = ["--channel", "topk:share=0.2,feedback=true", "--channel", "bursts:p=0.2,length=3"]
    whole = summary(tmp_path / "whole", *words)
    again = summary(tmp_path / "again", "--config", str(tmp_path / "whole" / "config.yaml"))
    assert again["iterates_sha256"] == whole["iterates_sha256"]
    half = tmp_path / "half"
    assert main([*words, "--iterations", "25", "--out", str(half), "--checkpoint-every", "100"]) == 0
    assert main(["--resume", str(half), "--iterations", "60"]) == 0
    resumed = json.loads((half / "summary.json").read_text())
    assert [resumed[name] for name in ("iterates_sha256", "bytes")] == [whole[name] for name in ("iterates_sha256", "bytes")]


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("lost:p=0.1", "unknown fault 'lost'; did you mean 'loss'? known faults: loss"),
        ("loss:p=1.5", "p must be at least 0 and below 1"),
    ],
)
def test_what_is_refused(written: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--channel", written]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--algorithm rextra --channel crash:p=0.1", "this method also keeps dual: take sleep"),
        ("--algorithm dgd --penalty 1 --channel loss:p=0.1 --tracker-correction 1", "this method has none"),
        ("--tracker-correction 1", "tracker_correction is for a faulty channel"),
    ],
)
def test_a_method_that_a_channel_does_not_suit_is_refused_before_there_are_files(
    words: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words.split(), "--iterations", "3", "--out", str(tmp_path / "out")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("algorithm", ["drfgt", "destiny"])
@pytest.mark.parametrize("late", ["delay:rounds=1", "delay:rounds=2,random=true"])
def test_safe_steps_over_a_late_channel_are_refused_before_work(
    algorithm: str, late: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the command line before there are files, and in Python before there is a problem."""
    out = tmp_path / "out"
    assert main(["--algorithm", algorithm, "--safe", "--channel", late, "--out", str(out)]) == 2
    assert f"cannot distinguish earlier messages if these are late: drop safe or {late.partition(':')[0]}\n" in (
        capsys.readouterr().err
    )
    assert not out.exists()

    def never(agents: slice, collective: Any) -> Any:
        raise AssertionError("built")

    with pytest.raises(ChannelError, match="if these are late"):
        set_up(
            Deferred(4, never), algorithms.get(algorithm)(safe=True), tp.metropolis_weights(tp.ring(4)), comm="serial", channel=late
        )
