"""Agents that decide about the end and faulty channels, from the command line: what is said, stored
and refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import topologies as tp
from decentorth import DESTINY
from decentorth.api import set_up
from decentorth.commands.run.command import main
from decentorth.network import ChannelError
from decentorth.problems import Deferred

SMALL = "--algorithm drfgt --dimension 6 --rank 2 --rows 4 --agents 6 --iterations 4000".split()
SIXTY = ["--iterations", "60"]
LOCAL = ["--local-tolerance", "1e-2", "--local-every", "20"]


def summary(folder: Path, *words: str) -> dict[str, Any]:
    assert main([*words, "--out", str(folder)]) == 0
    found: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return found


@pytest.mark.slow
def test_the_last_line_and_the_summary_name_what_agreeing_took(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A ring of six: three rounds, and one exchange of points, over twelve directed edges."""
    found = summary(tmp_path / "a", *SMALL, *LOCAL, "--require-converged")
    said = capsys.readouterr().out
    agreement, attempts = found["agreement"], found["iterations"] // 20 + 1
    counted = {
        "every": 20,
        "rounds_each": 4,
        "attempts": attempts,
        "rounds": 4 * attempts,
        "messages": 48 * attempts,
    }
    assert (
        agreement.items()
        >= (
            counted
            | {"bytes": attempts * 12 * 8 * (6 * 2 + 3 * 3), "iteration": found["iterations"]}
        ).items()
    )
    assert max(agreement["maxima"].values()) <= 1e-2
    assert (
        "agents agree on their largest gradient, disagreement, feasibility: 4 rounds every 20 "
        "iterations" in said
    )
    assert (
        f"Converged at iteration {found['iterations']} (the agents agreed by 3 rounds of "
        "max-consensus: local gradient " in said
    )
    apart = (
        f"{agreement['rounds']} of {found['rounds']} rounds, {agreement['messages']} of "
        f"{found['messages']} messages"
    )
    assert f" {apart}, " in said.partition("agreeing")[2]
    assert "agreement" not in summary(tmp_path / "b", *SMALL[:-1], "10")


@pytest.mark.slow
def test_quantities_and_rounds_are_given_by_flag_or_file(tmp_path: Path) -> None:
    words = [
        "--local-quantity",
        "movement",
        "--local-quantity",
        "disagreement",
        "--local-rounds",
        "5",
    ]
    found = summary(tmp_path / "a", *SMALL, *LOCAL, *words)
    assert list(found["agreement"]["maxima"]) == ["movement", "disagreement"]
    assert found["agreement"]["rounds_each"] == 6
    saved = yaml.safe_load((tmp_path / "a" / "config.yaml").read_text())
    assert (saved["local_tolerance"], saved["local_quantity"]) == (
        1e-2,
        ["movement", "disagreement"],
    )
    again = summary(tmp_path / "b", "--config", str(tmp_path / "a" / "config.yaml"))
    assert again["iterates_sha256"] == found["iterates_sha256"]
    assert again["agreement"] == found["agreement"]


@pytest.mark.slow
def test_a_run_that_goes_on_may_be_given_a_first_local_tolerance(tmp_path: Path) -> None:
    further = [*LOCAL, "--gradient-tolerance", "1e-4"]
    whole = summary(tmp_path / "whole", *SMALL, *further)
    assert whole["metrics"]["gradient_norm"] <= 1e-4
    assert re.search("gradient norm .*, the agents agreed by ", whole["message"])
    a = tmp_path / "a"
    summary(a, *SMALL[:-1], "15", "--checkpoint-every", "100")
    found = summary(a, "--resume", str(a), "--iterations", "4000", *further)
    assert all(found[part] == whole[part] for part in ("iterates_sha256", "iterations", "message"))
    # the one at the start
    assert found["agreement"]["attempts"] == whole["agreement"]["attempts"] - 1


@pytest.mark.slow
def test_the_summary_says_whether_tracking_was_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    channel = ["--channel", "loss:p=0.1", "--channel", "quantize:bits=8,feedback=true"]
    faults = ["loss:p=0.1", "quantize:feedback=true,bits=8"]
    kept = summary(tmp_path / "kept", *SIXTY, *channel)
    said = capsys.readouterr().out
    assert kept["channel"] == {
        "faults": faults,
        "repair": True,
        "correction": 0.0,
        "tracking": "kept",
    }
    assert "with repair" in said
    assert "drifted" not in said
    left = summary(
        tmp_path / "left", *SIXTY, *channel, "--no-repair", "--tracker-correction", "0.5"
    )
    assert left["channel"] == {
        "faults": faults,
        "repair": False,
        "correction": 0.5,
        "tracking": "drifted",
    }
    said = capsys.readouterr().out
    assert "without repair, trackers corrected by 0.5 / iteration" in said
    assert "the mean of the trackers drifted by" in said
    assert "channel" not in summary(tmp_path / "good", *SIXTY)


@pytest.mark.slow
def test_a_saved_configuration_and_a_resumed_run_have_the_channel(tmp_path: Path) -> None:
    words = ["--channel", "topk:share=0.2,feedback=true", "--channel", "bursts:p=0.2,length=3"]
    whole = summary(tmp_path / "whole", *SIXTY, *words)
    again = summary(tmp_path / "again", "--config", str(tmp_path / "whole" / "config.yaml"))
    half = tmp_path / "half"
    summary(half, *words, "--iterations", "25", "--checkpoint-every", "100")
    for found in (again, summary(half, "--resume", str(half), "--iterations", "60")):
        assert (found["iterates_sha256"], found["bytes"]) == (
            whole["iterates_sha256"],
            whole["bytes"],
        )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "--local-tolerance 0",
            "--local-tolerance: local_tolerance must be positive and finite, got 0",
        ),
        (
            "--local-tolerance 1 --local-quantity size",
            "local_quantity must be one of gradient, movement, disagreement or feas",
        ),
        ("--local-every 5", "--local-every: local_every needs local_tolerance"),
        (
            "--local-tolerance 1 --local-rounds 2",
            "2 rounds of max-consensus are too few for this network: it takes 5",
        ),
        (
            "--local-tolerance 1 --algorithm dgd --local-quantity gradient",
            "this method have no estimate",
        ),
        ("--channel lost:p=0.1", "unknown fault 'lost'; did you mean 'loss'? known faults: loss"),
        ("--channel loss:p=1.5", "p must be at least 0 and below 1"),
        ("--algorithm rextra --channel crash:p=0.1", "this method also keeps dual: take sleep"),
        (
            "--algorithm dgd --penalty 1 --channel loss:p=0.1 --tracker-correction 1",
            "this method has none",
        ),
        ("--tracker-correction 1", "tracker_correction is for a faulty channel"),
        (
            "--algorithm drfgt --safe --channel delay:rounds=1",
            "cannot distinguish earlier messages if these are late: drop safe or delay\n",
        ),
    ],
)
def test_what_is_refused_leaves_no_files(
    words: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words.split(), "--iterations", "3", "--out", str(tmp_path / "out")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_safe_steps_over_a_late_channel_are_refused_before_there_is_a_problem() -> None:
    def never(agents: slice, collective: Any) -> Any:
        raise AssertionError("built")

    W, method = tp.metropolis_weights(tp.ring(4)), DESTINY(safe=True)
    with pytest.raises(ChannelError, match="if these are late"):
        set_up(Deferred(4, never), method, W, comm="serial", channel="delay:rounds=2,random=true")
