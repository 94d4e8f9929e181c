"""The HTML report holds the numbers of the runs, opens without a network, and its script draws them."""

from __future__ import annotations

import csv
import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decentorth.cli.saved_runs import final_points, read_history
from decentorth.compare.command import main as compare
from decentorth.plot import main
from decentorth.run import main as run
from tests.support.mpi import HUNG

RUNS = {
    "a": "--problem pca --data synthetic --topology torus:3x3 --agents 9 --iterations 60 --record-agents",
    "b": "--problem pca --data synthetic --agents 9 --topology torus:3x3 --iterations 60 --algorithm deepca",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, and the reports of the first one and of both."""
    found = tmp_path_factory.mktemp("runs")
    for name, flags in RUNS.items():
        assert run([*flags.split(), "--quiet", "--out", str(found / name)]) == 0
    assert main([str(found / "a"), "--html", str(found / "a.html")]) == 0
    hostile = "</script><script>document.title='broken'</script>,<!--b"
    assert main([str(found / "a"), str(found / "b"), "--labels", hostile, "--html", str(found / "both.html")]) == 0
    return found


def data(path: Path) -> dict[str, Any]:
    """The data in a report."""
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', path.read_text(), re.S)
    found: dict[str, Any] = json.loads(text)
    return found


def test_the_report_has_the_numbers_of_the_run(folder: Path) -> None:
    (found,) = data(folder / "a.html")["runs"]
    history = read_history(folder / "a")
    for name, column in found["history"].items():
        np.testing.assert_allclose(np.array(column, dtype=float), history[name], rtol=1e-6)
    summary = json.loads((folder / "a" / "summary.json").read_text())
    assert {name: found["counts"][name] for name in ("rounds", "bytes", "iterates_sha256")} == {
        name: summary[name] for name in ("rounds", "bytes", "iterates_sha256")
    }
    assert found["configuration"]["topology"] == "torus:3x3"


def test_agents_are_recorded_over_the_iterations(folder: Path) -> None:
    """Their distances from the mean sum to the consensus error, and those of the last row are those of the final points."""
    history = read_history(folder / "a")
    agents = np.stack([history[f"agent_{agent}"] for agent in range(9)], axis=1)
    np.testing.assert_allclose(agents.sum(axis=1), history["consensus_error"], rtol=1e-12)
    x = final_points(folder / "a")
    np.testing.assert_allclose(agents[-1], np.linalg.norm(x - x.mean(axis=0), axis=(1, 2)), rtol=1e-12)
    (found,) = data(folder / "a.html")["runs"]
    np.testing.assert_allclose(found["agents"]["rows"], agents, rtol=1e-6)
    np.testing.assert_array_equal(found["agents"]["iterations"], history["iteration"])


def test_a_run_without_them_has_the_last_points_and_says_so(folder: Path) -> None:
    _, found = data(folder / "both.html")["runs"]
    x = final_points(folder / "b")
    np.testing.assert_allclose(found["agents"]["rows"], [np.linalg.norm(x - x.mean(axis=0), axis=(1, 2))], rtol=1e-6)
    assert "--record-agents" in found["without"]


def test_nothing_is_loaded_from_elsewhere_and_labels_cannot_break_out(folder: Path) -> None:
    for name in ("a", "both"):
        text = (folder / f"{name}.html").read_text()
        assert "default-src 'none'" in text
        assert not re.search(r"""(?:src|href)=["'](?!data:,)""", text)
        assert text.count("</script>") == 2
    assert [one["label"] for one in data(folder / "both.html")["runs"]][1] == "<!--b"


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison of three methods, one of which has no step, and its report."""
    found = tmp_path_factory.mktemp("comparison") / "made"
    case = "--problem pca --data synthetic --agents 5 --iterations 60 --trials 2 --tolerances 1e-1,1e-2 --workers 1 --network wan"
    assert compare([*case.split(), "--algorithms", "drfgt,drgta,deepca", "--no-plot", "--quiet", "--out", str(found)]) == 0
    assert main([str(found), "--html", str(found / "report.html")]) == 0
    return found


def test_the_report_of_a_comparison_has_its_curves_tables_and_settings(comparison: Path) -> None:
    found = data(comparison / "report.html")
    rows = list(csv.DictReader((comparison / "curves.csv").read_text().splitlines()))
    for one, name in zip(found["runs"], ("drfgt", "drgta", "deepca"), strict=True):
        own = [row for row in rows if row["algorithm"] == name]
        assert one["label"].partition(",")[0] == name
        assert one["history"]["seconds on wan"] == [float(row["seconds on wan"]) for row in own]
        assert one["history"]["gradient_norm"] == [float(row["gradient_norm median"]) for row in own]
        assert one["ranges"]["objective"] == [[float(row[f"objective {kind}"]) for row in own] for kind in ("low", "high")]
    text = (comparison / "table.md").read_text()
    _, first, second = found["tables"]
    assert (first["title"], second["title"]) == ("To 0.1", "To 0.01")
    for table in (first, second):
        assert [row[0] for row in table["rows"]] == ["method", "drfgt", "drgta", "deepca"]
        assert all(cell in text for row in table["rows"] for cell in row)
    assert second["notes"] == re.findall(r"^- (.*)", text, re.M)
    assert found["configuration"]["algorithms"] == ["drfgt", "drgta", "deepca"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "is the folder of a comparison: its figures are in it, and decentorth plot"),
        (["--html", "x.html", "--labels", "a"], "--labels has no effect with --html of a comparison"),
        (["--html", "x.pdf"], "x.pdf: a report must end in .html"),
    ],
)
def test_the_folder_of_a_comparison_is_refused_where_it_is_no_run(
    comparison: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(comparison), *words]) == 2
    assert message in capsys.readouterr().err


def test_a_comparison_without_its_curves_or_with_damaged_ones_says_what_to_do(
    comparison: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "comparison.yaml").write_text("problem: pca\n")
    for content, message in ((None, "curves.csv: No such file"), ("algorithm,step,iterations\na,auto,none\n", "is damaged")):
        if content is not None:
            (tmp_path / "curves.csv").write_text(content)
            (tmp_path / "table.md").write_text("# Title\n")
        assert main([str(tmp_path), "--html", str(tmp_path / "x.html")]) == 2
        said = capsys.readouterr().err
        assert message in said
        assert "the same comparison again writes it" in said


@pytest.mark.parametrize("file", ["curves.csv", "table.md", "comparison.yaml"])
@pytest.mark.parametrize("size", [None, 4 << 30])
def test_a_file_of_a_comparison_without_an_end_is_refused(
    comparison: Path, tmp_path: Path, file: str, size: int | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pipe, and a file with 4 GiB of zeros."""
    folder = tmp_path / "damaged"
    shutil.copytree(comparison, folder)
    (folder / file).unlink(missing_ok=True)
    if size is None:
        os.mkfifo(folder / file)
    else:
        with (folder / file).open("wb") as content:
            content.truncate(size)
    assert main([str(folder), "--html", str(tmp_path / "x.html")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert file in line


def opened(page: Path, profile: Path) -> str:
    """The document after its script has run in a browser, which says nothing on its console."""
    flags = "--headless --no-sandbox --disable-gpu --enable-logging=stderr --v=0 --virtual-time-budget=5000 --dump-dom"
    done = subprocess.run(
        ["chromium", *flags.split(), f"--user-data-dir={profile}", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=HUNG,
        check=True,
    )
    assert "CONSOLE" not in done.stderr, done.stderr
    return done.stdout


browser = pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium: apt-get install chromium")


@pytest.mark.slow
@browser
@pytest.mark.parametrize(("name", "runs"), [("a", 1), ("both", 2)])
def test_a_browser_draws_it_without_an_error(folder: Path, tmp_path: Path, name: str, runs: int) -> None:
    page = folder / f"{name}.html"
    dom, read = opened(page, tmp_path), data(page)
    paths = re.findall(r'<path[^>]*d="([^"]+)" class="curve"', dom)
    assert len(paths) == runs * len(read["shown"])
    rows = len(read["runs"][0]["history"]["iteration"])
    assert [len(re.findall("[ML]", path)) for path in paths[:runs]] == [rows] * runs
    assert dom.count('class="agent"') == 9
    assert len(set(re.findall(r'class="agent" fill="(rgb[^"]+)"', dom))) > 1
    assert f"<p>Iteration {read['runs'][0]['agents']['iterations'][-1]}: distances" in dom
    title = re.findall(r"<title>(.*?)</title>", dom)[0]
    assert html.unescape(title) == ("2 runs compared" if runs == 2 else read["runs"][0]["label"])
    assert f"<td>{read['runs'][0]['counts']['rounds']}</td>" in dom


@pytest.mark.slow
@browser
def test_a_browser_draws_a_comparison_with_its_ranges_and_tables(comparison: Path, tmp_path: Path) -> None:
    page = comparison / "report.html"
    dom, read = opened(page, tmp_path), data(page)
    assert dom.count('class="curve"') == dom.count('class="range"') == 3 * len(read["shown"])
    assert "modelled seconds on wan" in dom
    assert f"<h2>{read['tables'][1]['title']}</h2>" in dom
    assert html.unescape(re.findall(r"<title>(.*?)</title>", dom)[0]) == "Methods at their own steps"
    assert "<b>" in dom
    assert 'id="networks"' not in dom


PRESSED = """<script>
const change = (node, value, event) => { node.value = value; node.dispatchEvent(new Event(event)); };
document.querySelector("#runs button").click();
change(document.querySelectorAll("#scales select")[1], "log", "change");
change(document.querySelector("#slider"), 0, "input");
document.querySelector("#charts svg[data-metric=gradient_norm]").dispatchEvent(new PointerEvent("pointermove", { clientX: 9999 }));
</script></body>"""


@pytest.mark.slow
@browser
def test_scales_slider_and_buttons_do_what_they_say(folder: Path, tmp_path: Path) -> None:
    """One of two runs is hidden, iteration 0 is not on a logarithmic axis, and the slider and the pointer tell their numbers."""
    page = tmp_path / "pressed.html"
    page.write_text((folder / "both.html").read_text().replace("</body>", PRESSED))
    dom, (hidden, shown) = opened(page, tmp_path), data(page)["runs"]
    paths = re.findall(r'<path[^>]*d="([^"]+)" class="curve"', dom)
    assert len(paths) == len(data(page)["shown"])
    assert len(re.findall("[ML]", paths[0])) == len(shown["history"]["iteration"]) - 1
    assert "<p>Iteration 0: distances" in dom
    said = re.findall(r'class="readout">([^<]+)<', dom)
    assert any(f"at iteration {shown['history']['iteration'][-1]}" in words for words in said)
    assert hidden["label"] != shown["label"]
