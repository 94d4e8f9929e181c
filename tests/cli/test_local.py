"""Agents that decide about the end, from the command line: what is said, what is stored, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from decentorth.commands.run.command import main

SMALL = ["--dimension", "6", "--rank", "2", "--rows", "4", "--agents", "6", "--iterations", "4000"]
LOCAL = ["--local-tolerance", "1e-2", "--local-every", "20"]


def summary(folder: Path, *words: str) -> dict[str, Any]:
    assert main([*words, "--out", str(folder)]) == 0
    found: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return found


@pytest.mark.slow
def test_the_last_line_and_the_summary_name_what_agreeing_took(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A ring of six: three rounds, and one exchange of points, over twelve directed edges."""
    found = summary(tmp_path / "a", *SMALL, *LOCAL, "--require-converged")
    said = capsys.readouterr().out
    agreement = found["agreement"]
    attempts = found["iterations"] // 20 + 1
    assert (found["status"], found["iterations"] % 20) == ("converged", 0)
    assert (agreement["every"], agreement["rounds_each"], agreement["attempts"]) == (20, 4, attempts)
    assert (agreement["rounds"], agreement["messages"]) == (4 * attempts, 48 * attempts)
    assert agreement["bytes"] == attempts * 12 * 8 * (6 * 2 + 3 * 3)
    assert agreement["iteration"] == found["iterations"]
    assert max(agreement["maxima"].values()) <= 1e-2
    assert "agents agree on their largest gradient, disagreement, feasibility: 4 rounds every 20 iterations" in said
    assert f"Converged at iteration {found['iterations']} (the agents agreed by 3 rounds of max-consensus: local gradient " in said
    apart = f"{agreement['rounds']} of {found['rounds']} rounds, {agreement['messages']} of {found['messages']} messages"
    assert f" {apart}, " in said.partition("agreeing")[2]
    assert "agreement" not in summary(tmp_path / "b", *SMALL[:-1], "10")


@pytest.mark.slow
def test_quantities_and_rounds_are_given_by_flag_or_file(tmp_path: Path) -> None:
    words = ["--local-quantity", "movement", "--local-quantity", "disagreement", "--local-rounds", "5"]
    found = summary(tmp_path / "a", *SMALL, *LOCAL, *words)
    assert list(found["agreement"]["maxima"]) == ["movement", "disagreement"]
    assert found["agreement"]["rounds_each"] == 6
    saved = yaml.safe_load((tmp_path / "a" / "config.yaml").read_text())
    assert (saved["local_tolerance"], saved["local_quantity"]) == (1e-2, ["movement", "disagreement"])
    again = summary(tmp_path / "b", "--config", str(tmp_path / "a" / "config.yaml"))
    assert again["iterates_sha256"] == found["iterates_sha256"]
    assert again["agreement"] == found["agreement"]


@pytest.mark.slow
def test_tolerances_of_agents_and_observer_must_both_hold(tmp_path: Path) -> None:
    found = summary(tmp_path / "a", *SMALL, *LOCAL, "--gradient-tolerance", "1e-4")
    assert found["metrics"]["gradient_norm"] <= 1e-4
    assert "the agents agreed by" in found["message"]
    assert "gradient norm" in found["message"]


@pytest.mark.slow
def test_a_run_that_goes_on_may_be_given_another_local_tolerance(tmp_path: Path) -> None:
    """Or a first one."""
    whole = summary(tmp_path / "whole", *SMALL, *LOCAL)
    for name, words in (("with", LOCAL), ("without", [])):
        folder = tmp_path / name
        assert main([*SMALL[:-1], "15", *words, "--checkpoint-every", "100", "--out", str(folder), "--quiet"]) == 0
        found = summary(folder, "--resume", str(folder), "--iterations", "4000", *LOCAL)
        assert [found[part] for part in ("iterates_sha256", "iterations", "message")] == [
            whole[part] for part in ("iterates_sha256", "iterations", "message")
        ]
    assert found["agreement"]["attempts"] == whole["agreement"]["attempts"] - 1  # the one at the start


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--local-tolerance", "0"], "--local-tolerance: local_tolerance must be positive and finite, got 0"),
        (
            ["--local-tolerance", "1", "--local-quantity", "size"],
            "local_quantity must be one of gradient, movement, disagreement or feas",
        ),
        (["--local-every", "5"], "--local-every: local_every needs local_tolerance"),
        (["--local-tolerance", "1", "--local-rounds", "2"], "2 rounds of max-consensus are too few for this network: it takes 5"),
        (["--local-tolerance", "1", "--algorithm", "dgd", "--local-quantity", "gradient"], "this method have no estimate"),
    ],
)
def test_what_is_refused(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--iterations", "10"]) == 2
    assert said in capsys.readouterr().err
