"""The HTML report holds the figures, counts and settings of the runs, and opens without a network."""

from __future__ import annotations

import base64
import html
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import subspace_angles

from decentorth.commands.demo import main as demo
from decentorth.commands.plot.command import main
from decentorth.commands.plot.player import HASH, SCRIPT
from decentorth.commands.run.command import main as run
from decentorth.records.saved_runs import final_points, read_history

RUNS = {
    "a": "--problem pca --data synthetic --topology torus:3x3 --agents 9 --iterations 20 --record-agents",
    "b": "--problem pca --data synthetic --agents 9 --topology torus:3x3 --iterations 20 --algorithm deepca",
}
HOSTILE = "</td><script>document.title='broken'</script>,<!--b"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("runs")
    for name, flags in RUNS.items():
        assert run([*flags.split(), "--quiet", "--out", str(found / name)]) == 0
    assert main([str(found / "a"), "--html", str(found / "a.html")]) == 0
    assert main([str(found / "a"), str(found / "b"), "--labels", HOSTILE, "--html", str(found / "both.html")]) == 0
    return found


def rows(page: str) -> dict[str, list[str]]:
    """The cells of the tables by the name of their row."""
    found = re.findall(r"<tr[^>]*><th>([^<]+)</th>(.*?)</tr>", page)
    return {name: re.findall("<td>(.*?)</td>", cells) for name, cells in found}


def pictures(page: str) -> list[str]:
    return [base64.b64decode(data).decode() for data in re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page)]


@pytest.mark.slow
def test_the_report_has_the_numbers_of_the_run(folder: Path) -> None:
    found = rows((folder / "a.html").read_text())
    history, summary = read_history(folder / "a"), json.loads((folder / "a" / "summary.json").read_text())
    for name in ("rounds", "bytes", "iterates_sha256"):
        assert found[name.replace("_", " ")] == [str(summary[name])]
    assert float(found["gradient norm"][0]) == pytest.approx(history["gradient_norm"][-1], rel=1e-6)
    assert found["topology"] == ["torus:3x3"]


def test_it_draws_curves_and_graphs_and_marks_where_runs_differ(folder: Path) -> None:
    page = (folder / "both.html").read_text()
    marked = re.findall(r'<tr class="differs"><th>([^<]+)</th>', page)
    assert ("algorithm" in marked, "topology" in marked) == (True, False)
    assert rows(page)["algorithm"] == ["drfgt", "deepca"]
    both = pictures(page)
    assert len(both) == 4 + 2
    for drawn in both[:4]:
        assert {"objective", "gradient_norm", "consensus_error"} <= set(re.findall(r'<g id="([^"]+)"', drawn))
    assert all("consensus error" in drawn or "bar x" in drawn or "PathCollection" in drawn for drawn in both[4:])


def test_nothing_is_loaded_from_elsewhere_and_labels_cannot_break_out(folder: Path) -> None:
    for name in ("a", "both"):
        text = (folder / f"{name}.html").read_text()
        assert "default-src 'none'" in text
        assert not re.search(r"""(?:src|href)=["'](?!data:)""", text)
        scripts = re.findall(r"<script[^>]*>(.*?)</script>", text, re.S)
        assert scripts.count(SCRIPT) == 1
        assert all(json.loads(one) for one in scripts if one != SCRIPT)  # numbers of a run, which are not executed
        assert f"script-src '{HASH}'" in text
        assert "<!--" not in text
    assert html.escape(HOSTILE.split(",")[0]) in (folder / "both.html").read_text()


def test_agents_are_recorded_over_the_iterations(folder: Path) -> None:
    """Their distances from the mean sum to the consensus error, and those of the last row are those of the final points."""
    history = read_history(folder / "a")
    agents = np.stack([history[f"agent_{agent}"] for agent in range(9)], axis=1)
    np.testing.assert_allclose(agents.sum(axis=1), history["consensus_error"], rtol=1e-12)
    x = final_points(folder / "a")
    np.testing.assert_allclose(agents[-1], np.linalg.norm(x - x.mean(axis=0), axis=(1, 2)), rtol=1e-12)


def test_the_angles_of_subspaces_are_recorded_and_played(folder: Path) -> None:
    history, x = read_history(folder / "a"), final_points(folder / "a")
    mean = x.mean(axis=0)
    for agent in range(9):
        angle = history[f"agent_{agent}_angle"][-1]
        assert angle == pytest.approx(subspace_angles(x[agent], mean)[0], rel=1e-9)
    (data,) = re.findall(r'<script type="application/json">(.*?)</script>', (folder / "a.html").read_text())
    played = json.loads(data)
    assert played["points"] is None
    assert played["angle"][-1][0] == pytest.approx(np.degrees(history["agent_0_angle"][-1]), rel=1e-5)
    assert len(played["edges"]) == 18


def test_a_demonstration_plays_the_points_of_its_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert demo([str(tmp_path / "d")]) == 0
    assert str(tmp_path / "d" / "demo.html") in capsys.readouterr().out
    (data,) = re.findall(r'<script type="application/json">(.*?)</script>', (tmp_path / "d" / "demo.html").read_text())
    played = json.loads(data)
    x = final_points(tmp_path / "d")
    np.testing.assert_allclose(played["points"][-1], x[..., 0], atol=1e-5)
    assert sorted(map(sorted, played["edges"])) == sorted(sorted((i, (i + 1) % 10)) for i in range(10))
    assert demo([str(tmp_path / "d")]) == 0  # again, in the same folder


def test_a_run_that_has_not_ended_has_its_curves_and_the_reason_for_what_is_missing(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "a", tmp_path / "cut")
    for name in ("summary.json", "final.npz"):
        (tmp_path / "cut" / name).unlink()
    assert main([str(tmp_path / "cut"), "--html", str(tmp_path / "x.html")]) == 0
    page = (tmp_path / "x.html").read_text()
    assert "The run has not ended." in page
    assert "cannot read the final points of" in page
    assert len(pictures(page)) == 4


def test_the_folder_of_a_comparison_is_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "comparison.yaml").write_text("problem: pca\n")
    for words, said in (
        ([], f"No such file or directory; is {tmp_path} the folder of a comparison that has ended?"),
        (["--html", str(tmp_path / "x.html")], "--html has no effect with the folder of a comparison: leave one of the two out"),
        ([str(tmp_path / "run"), "--out", "x.png"], "the folder of a run? A comparison is drawn alone"),
    ):
        assert main([str(tmp_path), *words]) == 2
        assert said in capsys.readouterr().err
