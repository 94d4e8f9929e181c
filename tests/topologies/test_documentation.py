"""Every command and name in the topologies page works."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import topologies
from topologies.command import command as run_command

PAGE = Path(topologies.__file__).parent.parent / "docs" / "topologies.md"
TEXT = PAGE.read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```\n(.*?)```", TEXT, re.S) for line in block.splitlines()]


@pytest.mark.slow_cases(
    "python -m topologies ring:10 --compare", "python -m topologies ring:10 --weights metropolis --plot ring.png"
)
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = shlex.split(command)
    assert words[:3] == ["python", "-m", "topologies"]
    assert run_command(words[3:]) == 0
    for name in re.findall(r"--plot (\S+)", command):
        assert (tmp_path / name).stat().st_size > 0


def test_functions_and_names_exist() -> None:
    called = set(re.findall(r"`(\w+)\(", TEXT)) | {"available", "fastest_weights", "curvature_scenarios"}
    missing = [name for name in called if not hasattr(topologies, name)]
    assert missing == []
    for name in re.findall(r"`((?:random_matching|random_gossip|link_failures|periodic|one_peer_exponential)[:@][^`]+)`", TEXT):
        assert topologies.sequence_from_name(name).n == (20 if "4x5" in name else 16 if "16" in name else 10)
    for rule in re.findall(r"`weights_from_name.*?`: (.*?), each also", TEXT, re.S)[0].split(","):
        for written in re.findall(r"`([a-z-]+)`", rule):
            assert written in topologies.available_weights()
