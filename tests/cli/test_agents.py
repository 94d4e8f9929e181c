"""The agents of a run on their graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from decentorth.commands.line.flags import InputError
from decentorth.commands.plot.agents import plot_agents
from decentorth.commands.plot.command import main, read_configuration
from decentorth.commands.run.command import main as run


@pytest.mark.slow
def test_colours_are_the_errors_of_the_final_points(tmp_path: Path) -> None:
    folder = str(tmp_path / "a")
    assert run(["--out", folder, "--iterations", "40", "--quiet", "--agents", "6", "--topology", "star"]) == 0
    x = np.load(tmp_path / "a" / "final.npz")["x"]
    expected = {
        "consensus": [np.linalg.norm(point - x.mean(axis=0)) for point in x],
        "feasibility": [np.linalg.norm(point.T @ point - np.eye(x.shape[2])) for point in x],
    }
    for quantity in ("consensus", "feasibility"):
        figure = plot_agents(folder, read_configuration(folder), quantity)
        coloured = [np.asarray(c.get_array()) for c in figure.axes[0].collections if c.get_array() is not None]
        (found,) = [values for values in coloured if values.shape == (6,)]
        np.testing.assert_allclose(found, expected[quantity], rtol=1e-12)
    assert main([folder, "--agents", "consensus"]) == 0
    assert (tmp_path / "a" / "agents.png").stat().st_size > 5000


def test_what_cannot_be_drawn_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "b")
    flags = "--topology one_peer_exponential --agents 8 --step-size 1e-3 --penalty 10 --iterations 2 --quiet"
    assert run([*flags.split(), "--out", folder]) == 0
    with pytest.raises(InputError, match="changes over time"):
        plot_agents(folder, read_configuration(folder), "consensus")
    assert main([folder, folder, "--agents", "consensus"]) == 2
    assert "one run at a time" in capsys.readouterr().err
