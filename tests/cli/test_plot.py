"""Figures and HTML reports carry exactly the numbers of the runs; a report opens without a
network."""

from __future__ import annotations

import base64
import html
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.linalg import subspace_angles

from decentorth.commands.line.config_files import InputError
from decentorth.commands.run.command import main as solve
from decentorth.lab.demo import main as demo
from decentorth.lab.plot.command import (
    PANELS,
    figure,
    labels_of,
    main,
    plot_histories,
    read_configuration,
)
from decentorth.lab.plot.player import HASH, SCRIPT
from decentorth.lab.plot.saved_graph import plot_agents
from decentorth.protocols import Row
from decentorth.records.run_files import RunFolder
from decentorth.records.saved_runs import final_points, read_history

KEYS = (
    "local_gradient_sum",
    "gradient_norm",
    "consensus_error",
    "distance_to_manifold",
    "consensus_rms",
    "feasibility",
)


def history(scale: float, rows: int = 30, keys: tuple[str, ...] = KEYS) -> dict[str, NDArray[Any]]:
    k = np.arange(rows)
    columns: dict[str, NDArray[Any]] = {
        "iteration": k,
        "rounds": 2 * k,
        "bytes": 16_000 * k,
        "gradients": k,
        "seconds": 0.25 * k,
    }
    return columns | {name: scale * (place + 1) / (1.0 + k) for place, name in enumerate(keys)}


def metrics(axes: Axes) -> list[str]:
    return [str(line.get_gid()) for line in axes.lines]


@pytest.mark.parametrize(
    ("against", "column", "x_scale", "y_scale"),
    [
        ("iterations", "iteration", "log", "log"),
        ("gradients", "gradients", "linear", "log"),
        ("bytes", "bytes", "log", "linear"),
    ],
)
def test_lines_are_the_columns_and_each_run_has_its_own_dashes_and_label(
    against: Any, column: str, x_scale: Any, y_scale: Any
) -> None:
    runs = {f"run {i}": history(2.0**i) for i in range(6)}
    drawn = plot_histories(runs, against=against, x=x_scale, y=y_scale)
    (legend,) = drawn.legends
    assert [text.get_text() for text in legend.get_texts()] == list(runs)
    for axes, names in zip(drawn.axes, PANELS, strict=True):
        assert (axes.get_xscale(), axes.get_yscale()) == (x_scale, y_scale)
        for name in names:
            lines = [line for line in axes.lines if line.get_gid() == name]
            assert len({str(line.get_linestyle()) + str(line._dash_pattern) for line in lines}) == 6  # type: ignore[attr-defined]
            for line, run in zip(lines, runs.values(), strict=True):
                assert np.array_equal(np.asarray(line.get_xydata()).T, (run[column], run[name]))
    assert plot_histories({"a": history(1.0)}).legends == []


def test_logarithmic_limits_hold_everything_positive_and_the_guide_has_slope_minus_one() -> None:
    run = history(1.0)
    run["consensus_error"][0] = 0.0
    run["distance_to_manifold"][0] = 1e-17
    run["distance_to_manifold"][-1] = np.inf
    drawn = plot_histories({"a": run}, x="log", guide=True)
    drawn.canvas.draw()
    for axes, names in zip(drawn.axes, PANELS, strict=True):
        low, high = axes.get_ylim()
        for name in names:
            y = run[name][1:][np.isfinite(run[name][1:])]
            assert low < y.min() <= y.max() < high < 1e3
        assert axes.get_xlim() == pytest.approx((1, 29))
        (guide,) = guides(axes)
        x, y = (
            np.log(np.asarray(guide.get_xdata(), float)),
            np.log(np.asarray(guide.get_ydata(), float)),
        )
        assert (y[1] - y[0]) / (x[1] - x[0]) == pytest.approx(-1.0, rel=1e-12)
        assert low < np.exp(y[1]) < np.exp(y[0]) < high
    assert not any(map(guides, plot_histories({"a": run}, x="log").axes))


def test_the_top_of_a_curve_is_its_start() -> None:
    run = history(1.0)
    run["gradient_norm"][0], run["local_gradient_sum"][0] = 2e4, 4e4
    assert plot_histories({"a": run}).axes[0].get_ylim()[1] > 4e4
    run["gradient_norm"][0] = np.inf
    assert plot_histories({"a": run}).axes[0].get_ylim()[1] > 4e4


def guides(axes: Axes) -> list[Any]:
    return [line for line in axes.lines if line.get_gid() == "guide"]


def test_what_is_not_above_zero_has_a_linear_axis_or_says_so() -> None:
    run = history(1.0, keys=("objective",))
    scales = [
        plot_histories({"a": run | {"objective": sign * run["objective"]}}).axes[0].get_yscale()
        for sign in (1, -1)
    ]
    assert scales == ["log", "linear"]
    flat = plot_histories({"a": history(1.0) | {"consensus_error": np.zeros(30)}})
    flat.canvas.draw()
    assert [text.get_text() for text in flat.axes[1].texts] == ["nothing above zero"]


def boxes(drawn: Figure) -> list[tuple[str, Any]]:
    """Where tick labels, axis labels, legends and titles lie, and the frame of each panel for those
    outside it."""
    canvas: Any = FigureCanvasAgg(drawn)
    canvas.draw()
    found: list[tuple[str, Any]] = [(text, each) for each in drawn.legends for text in ["legend"]]
    for axes in drawn.axes:
        ticks = [
            tick.label1
            for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim()))
            for tick in axis.get_major_ticks()
            if low <= tick.get_loc() <= high
        ]
        texts = [
            *ticks,
            axes.xaxis.label,
            axes.yaxis.label,
            axes.xaxis.get_offset_text(),
            axes.yaxis.get_offset_text(),
            axes.title,
        ]
        found += [
            (text.get_text(), text) for text in texts if text.get_visible() and text.get_text()
        ]
    renderer = canvas.get_renderer()
    return [(name, thing.get_window_extent(renderer)) for name, thing in found] + [
        ("panel", axes.bbox) for axes in drawn.axes
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "x_scale", "against", "runs"),
    [
        ("column", "linear", "bytes", 4),
        ("column", "log", "iterations", 1),
        ("page", "linear", "seconds", 6),
    ],
)
def test_nothing_overlaps_and_widths_are_those_of_papers(
    width: Any, x_scale: Any, against: Any, runs: int
) -> None:
    long = {
        f"drfgt, step size {0.1 * i:.3g}, penalty 10, adapt-then-combine, some more words to be "
        "wrapped": i
        for i in range(1, runs)
    }
    drawn = plot_histories(
        {name: history(2.0**i) for name, i in ({"drgta": 0} | long).items()},
        against=against,
        width=width,
        x=x_scale,
        metrics=[
            "gradient_norm",
            "consensus_error",
            "consensus_rms",
            "feasibility",
            "distance_to_manifold",
        ]
        if runs == 4
        else None,
    )
    assert drawn.get_figwidth() == {"column": 3.5, "page": 7.16}[width]
    placed = boxes(drawn)
    assert all(axes.title.get_window_extent().width <= axes.bbox.width for axes in drawn.axes)
    for place, (name, box) in enumerate(placed):
        assert min(box.x0, box.y0) >= -0.5, name
        assert box.x1 <= drawn.bbox.x1 + 0.5, name
        assert box.y1 <= drawn.bbox.y1 + 0.5, name
        for other, another in placed[place + 1 :]:
            assert not box.shrunk(0.97, 0.97).overlaps(another.shrunk(0.97, 0.97)), (name, other)


@pytest.mark.slow
def test_fonts_are_embedded_as_publishers_take_them(tmp_path: Path) -> None:
    drawn = figure([history(1.0)])
    for ending in ("pdf", "svg"):
        drawn.savefig(tmp_path / f"a.{ending}")
    pdf, svg = (tmp_path / "a.pdf").read_bytes(), (tmp_path / "a.svg").read_bytes()
    assert b"/CIDFontType2" in pdf or b"/TrueType" in pdf
    assert b"/Type3" not in pdf
    assert b"<text" in svg
    assert b'id="DejaVuSans' not in svg  # the outline of a letter


def test_panels_follow_the_metrics_that_are_there() -> None:
    assert [
        metrics(axes) for axes in plot_histories({"a": history(1.0, keys=("objective",))}).axes
    ] == [["objective"]]
    chosen = plot_histories({"a": history(1.0)}, metrics=["distance_to_manifold", "gradient_norm"])
    assert [metrics(axes) for axes in chosen.axes] == [["distance_to_manifold"], ["gradient_norm"]]
    with pytest.raises(
        InputError, match=r"no run has the metric 'gradientnorm' .*did you mean 'gradient_norm'\?"
    ):
        plot_histories({"a": history(1.0)}, metrics=["gradientnorm"])
    with pytest.raises(InputError, match="nothing to plot"):
        plot_histories({})


BASE = {"problem": "pca", "algorithm": "drfgt", "step_size": 0.1, "seed": 0}
DRFGT, DRGTA = (
    BASE | {"safe": False, "record_every": 1},
    BASE | {"algorithm": "drgta", "rounds": 3, "step_size": 0.2},
)


@pytest.mark.parametrize(
    ("runs", "labels"),
    [
        ([BASE, BASE | {"algorithm": "landing"}], ["drfgt", "landing"]),
        (
            [BASE, BASE | {"step_size": 0.2, "seed": 1}],
            ["step size 0.1, seed 0", "step size 0.2, seed 1"],
        ),
        ([BASE, BASE], ["0", "1"]),
        ([BASE, BASE, BASE | {"seed": 1}], ["seed 0, 0", "seed 0, 1", "seed 1"]),
        ([BASE, BASE | {"eps": 0.5}], ["0", "eps 0.5"]),
        ([DRFGT, DRGTA], ["drfgt", "drgta"]),
        ([DRFGT, DRGTA, DRGTA | {"rounds": 1}], ["drfgt", "drgta, rounds 3", "drgta, rounds 1"]),
    ],
)
def test_labels_say_what_differs_and_nothing_else(
    runs: list[dict[str, Any]], labels: list[str]
) -> None:
    assert list(labels_of({str(place): run for place, run in enumerate(runs)}).values()) == labels


def make(folder: Path, config: str, scale: float) -> None:
    writer = RunFolder(folder, config).history()
    for k in range(20):
        writer.record(Row(k, k, k, 8 * k, k, 0.1 * k, dict.fromkeys(KEYS, scale / (k + 1))))
    writer.close()


@pytest.mark.slow
def test_command_draws_folders(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(Path("a"), "step_size: 0.1\n", 1.0)
    make(Path("b"), "step_size: 0.2\n", 2.0)
    assert main(["a"]) == 0
    assert capsys.readouterr().out == "a/history.png\n"
    assert Path("a/history.png").read_bytes().startswith(b"\x89PNG")
    assert (
        main("a b --out f.svg --against bytes --metrics gradient_norm,consensus_error".split()) == 0
    )
    assert b"<svg" in Path("f.svg").read_bytes()
    assert main("a b --out f.pdf --labels A,B --width page --y linear".split()) == 0
    assert Path("f.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("tokens", "phrase"),
    [
        ([], "give the folder of at least one run"),
        (["a", "b"], "several runs go into one figure: say where with --out"),
        (["a", "--agents", "consensus", "--guide"], "--guide has no effect with --agents"),
        (
            ["a", "--labels", "x,y"],
            "give one label for each run, all different, 1 in all, or NAME=LABEL for some; got x, y",
        ),
        (["a", "--guide"], "give x log"),
        (["nowhere"], "is nowhere the folder of a run?"),
        (["a", "--against", "byte"], "did you mean 'bytes'?"),
        (
            ["a", "--against", "bytes,rounds"],
            "drawn against one count, got bytes, rounds: give one",
        ),
        (["a", "--out", "f.jpg"], "f.jpg: a figure must end in .png, .svg or .pdf"),
        (["a", "--out", "none/f.png"], "cannot write none/f.png"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_errors_of_the_command(
    capsys: pytest.CaptureFixture[str], tokens: list[str], phrase: str
) -> None:
    make(Path("a"), "seed: 0\n", 1.0)
    assert main(tokens) == 2
    error = capsys.readouterr().err
    assert phrase in error
    assert error.startswith("decentorth plot: ")


def test_missing_matplotlib_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.style", None)
    with pytest.raises(InputError, match="pip install matplotlib"):
        plot_histories({"a": history(1.0)})


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_colours_are_the_errors_of_the_final_points() -> None:
    assert (
        solve(
            "--out a --algorithm drfgt --iterations 40 --quiet --agents 6 --topology star".split()
        )
        == 0
    )
    x = np.load("a/final.npz")["x"]
    expected = {
        "consensus": np.linalg.norm(x - x.mean(axis=0), axis=(1, 2)),
        "feasibility": np.linalg.norm(x.swapaxes(1, 2) @ x - np.eye(x.shape[2]), axis=(1, 2)),
    }
    for quantity in ("consensus", "feasibility"):
        drawn = plot_agents("a", read_configuration("a"), quantity)
        coloured = [
            np.asarray(c.get_array())
            for c in drawn.axes[0].collections
            if c.get_array() is not None
        ]
        (found,) = [values for values in coloured if values.shape == (6,)]
        np.testing.assert_allclose(found, expected[quantity], rtol=1e-12)
    assert main(["a", "--agents", "consensus"]) == 0
    assert Path("a/agents.png").stat().st_size > 5000


@pytest.mark.usefixtures("folder")
def test_what_cannot_be_drawn_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    flags = (
        "--algorithm drfgt --topology one_peer_exponential --agents 8 --step-size 1e-3 --penalty 10 --iterations 2 "
        "--quiet --out b"
    )
    assert solve(flags.split()) == 0
    for tokens, said in (
        (["b", "--agents", "consensus"], "changes over time"),
        (["b", "b", "--agents", "consensus"], "one run at a time"),
    ):
        assert main(tokens) == 2
        assert said in capsys.readouterr().err


RUNS = {
    "a": "--problem pca --data synthetic --topology torus:3x3 --agents 9 --iterations 20 "
    "--algorithm drfgt --record-agents",
    "b": "--problem pca --data synthetic --agents 9 --topology torus:3x3 --iterations 20 --algorithm "
    "deepca",
}
HOSTILE = "</td><script>document.title='broken'</script>,<!--b"


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("runs")
    for name, flags in RUNS.items():
        assert solve([*flags.split(), "--quiet", "--out", str(found / name)]) == 0
    assert main([str(found / "a"), "--html", str(found / "a.html")]) == 0
    assert (
        main(
            [
                str(found / "a"),
                str(found / "b"),
                "--labels",
                HOSTILE,
                "--html",
                str(found / "both.html"),
            ]
        )
        == 0
    )
    return found


def rows(page: str) -> dict[str, list[str]]:
    found = re.findall(r"<tr[^>]*><th>([^<]+)</th>(.*?)</tr>", page)
    return {name: re.findall("<td>(.*?)</td>", cells) for name, cells in found}


def animation(report: Path) -> Any:
    (data,) = re.findall(r'<script type="application/json">(.*?)</script>', report.read_text())
    return json.loads(data)


def pictures(page: str) -> list[str]:
    return [
        base64.b64decode(data).decode()
        for data in re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page)
    ]


@pytest.mark.slow
def test_the_report_has_the_numbers_of_the_run(reports: Path) -> None:
    found = rows((reports / "a.html").read_text())
    history, summary = (
        read_history(reports / "a"),
        json.loads((reports / "a" / "summary.json").read_text()),
    )
    for name in ("rounds", "bytes", "iterates_sha256"):
        assert found[name.replace("_", " ")] == [str(summary[name])]
    assert float(found["gradient norm"][0]) == pytest.approx(history["gradient_norm"][-1], rel=1e-6)
    assert found["topology"] == ["torus:3x3"]


def test_it_draws_curves_and_graphs_and_marks_where_runs_differ(reports: Path) -> None:
    page = (reports / "both.html").read_text()
    marked = re.findall(r'<tr class="differs"><th>([^<]+)</th>', page)
    assert ("algorithm" in marked, "topology" in marked) == (True, False)
    assert rows(page)["algorithm"] == ["drfgt", "deepca"]
    both = pictures(page)
    assert len(both) == 5 + 2
    for drawn in both[:5]:
        assert {"objective", "gradient_norm", "consensus_error"} <= set(
            re.findall(r'<g id="([^"]+)"', drawn)
        )
    assert all(
        "consensus error" in drawn or "bar x" in drawn or "PathCollection" in drawn
        for drawn in both[5:]
    )


def test_nothing_is_loaded_from_elsewhere_and_labels_cannot_break_out(reports: Path) -> None:
    for name in ("a", "both"):
        text = (reports / f"{name}.html").read_text()
        assert "default-src 'none'" in text
        assert not re.search(r"""(?:src|href)=["'](?!data:)""", text)
        scripts = re.findall(r"<script[^>]*>(.*?)</script>", text, re.S)
        assert scripts.count(SCRIPT) == 1
        # numbers of a run, which are not executed
        assert all(json.loads(one) for one in scripts if one != SCRIPT)
        assert f"script-src '{HASH}'" in text
        assert "<!--" not in text
    assert html.escape(HOSTILE.split(",")[0]) in (reports / "both.html").read_text()


def test_agents_are_recorded_over_the_iterations(reports: Path) -> None:
    history = read_history(reports / "a")
    agents = np.stack([history[f"agent_{agent}"] for agent in range(9)], axis=1)
    np.testing.assert_allclose(agents.sum(axis=1), history["consensus_error"], rtol=1e-12)
    x = final_points(reports / "a")
    np.testing.assert_allclose(
        agents[-1], np.linalg.norm(x - x.mean(axis=0), axis=(1, 2)), rtol=1e-12
    )


def test_the_angles_of_subspaces_are_recorded_and_played(reports: Path) -> None:
    history, x = read_history(reports / "a"), final_points(reports / "a")
    mean = x.mean(axis=0)
    for agent in range(9):
        angle = history[f"agent_{agent}_angle"][-1]
        assert angle == pytest.approx(subspace_angles(x[agent], mean)[0], rel=1e-9)
    played = animation(reports / "a.html")
    assert played["points"] is None
    assert played["angle"][-1][0] == pytest.approx(
        np.degrees(history["agent_0_angle"][-1]), rel=1e-5
    )
    assert len(played["edges"]) == 18


def test_a_demonstration_plays_the_points_of_its_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert demo([str(tmp_path / "d")]) == 0
    assert str(tmp_path / "d" / "demo.html") in capsys.readouterr().out
    played = animation(tmp_path / "d" / "demo.html")
    x = final_points(tmp_path / "d")
    np.testing.assert_allclose(played["points"][-1], x[..., 0], atol=1e-5)
    assert sorted(map(sorted, played["edges"])) == sorted(
        sorted((i, (i + 1) % 10)) for i in range(10)
    )
    assert demo([str(tmp_path / "d")]) == 0  # again, in the same folder


def test_a_demonstration_replaces_no_run_of_its_user(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "--problem pca --data synthetic --seed 3 --iterations 5 --quiet --out"
    assert solve([*words.split(), str(tmp_path / "mine")]) == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "mine").iterdir()}
    assert demo([str(tmp_path / "mine")]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "mine holds another run (config.yaml): give the demo another folder" in err
    assert {path.name: path.read_bytes() for path in (tmp_path / "mine").iterdir()} == before


def test_a_run_that_has_not_ended_has_its_curves_and_the_reason_for_what_is_missing(
    reports: Path, tmp_path: Path
) -> None:
    shutil.copytree(reports / "a", tmp_path / "cut")
    for name in ("summary.json", "final.npz"):
        (tmp_path / "cut" / name).unlink()
    assert main([str(tmp_path / "cut"), "--html", str(tmp_path / "x.html")]) == 0
    page = (tmp_path / "x.html").read_text()
    assert "The run has not ended." in page
    assert "cannot read the final points of" in page
    assert len(pictures(page)) == 5


def test_the_folder_of_a_comparison_is_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "comparison.yaml").write_text("problem: pca\n")
    for words, said in (
        (
            [],
            f"No such file or directory; is {tmp_path} the folder of a comparison that has ended?",
        ),
        (
            ["--html", str(tmp_path / "x.html")],
            "--html has no effect with the folder of a comparison: leave one of the two out",
        ),
        (
            [str(tmp_path / "run"), "--out", "x.png"],
            "the folder of a run? A comparison is drawn alone",
        ),
    ):
        assert main([str(tmp_path), *words]) == 2
        assert said in capsys.readouterr().err
