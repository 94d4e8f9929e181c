"""Figures carry exactly the numbers of the histories."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from numpy.typing import NDArray

from decentorth.cli.flags import InputError
from decentorth.cli.outputs import RunFolder
from decentorth.plot import PANELS, labels, main, plot_histories
from decentorth.protocols import Row

KEYS = ("local_gradient_sum", "gradient_norm", "consensus_error", "distance_to_manifold")


def history(scale: float, rows: int = 30, keys: tuple[str, ...] = KEYS) -> dict[str, NDArray[Any]]:
    k = np.arange(rows)
    columns: dict[str, NDArray[Any]] = {"iteration": k, "rounds": 2 * k, "bytes": 16_000 * k, "seconds": 0.25 * k}
    return columns | {name: scale * (place + 1) / (1.0 + k) for place, name in enumerate(keys)}


def curves(axes: Axes) -> dict[str, tuple[NDArray[Any], NDArray[Any]]]:
    """The drawn data by metric, guides apart."""
    return {
        str(line.get_gid()): (np.asarray(line.get_xdata()), np.asarray(line.get_ydata()))
        for line in axes.lines
        if line.get_gid() != "guide"
    }


@pytest.mark.parametrize(
    ("against", "column"), [("iterations", "iteration"), ("rounds", "rounds"), ("bytes", "bytes"), ("seconds", "seconds")]
)
@pytest.mark.parametrize("linear", [False, True])
def test_lines_are_the_columns(against: Any, column: str, linear: bool) -> None:
    run = history(3.0)
    figure = plot_histories({"a": run}, against=against, linear=linear)
    assert len(figure.axes) == 3
    for axes, names in zip(figure.axes, PANELS, strict=True):
        assert list(curves(axes)) == list(names)
        assert (axes.get_xscale(), axes.get_yscale()) == (("linear",) * 2 if linear else ("log",) * 2)
        for name, (x, y) in curves(axes).items():
            assert np.array_equal(x, run[column])
            assert np.array_equal(y, run[name])


def test_each_run_has_its_own_line_dashes_and_label() -> None:
    runs = {f"run {i}": history(2.0**i) for i in range(6)}
    figure = plot_histories(runs)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == list(runs)
    for axes, names in zip(figure.axes, PANELS, strict=True):
        thick = [line for line in axes.lines if line.get_gid() == names[0]]
        for line, run in zip(thick, runs.values(), strict=True):
            assert np.array_equal(np.asarray(line.get_ydata()), run[names[0]])
        assert len({str(line.get_linestyle()) + str(line._dash_pattern) for line in thick}) == 6  # type: ignore[attr-defined]
    assert plot_histories({"a": history(1.0)}).legends == []


def test_logarithmic_limits_hold_everything_positive_and_the_guide_has_slope_minus_one() -> None:
    run = history(1.0)
    run["consensus_error"][0] = 0.0
    run["distance_to_manifold"][0] = 1e-17
    run["distance_to_manifold"][-1] = np.inf
    figure = plot_histories({"a": run})
    figure.canvas.draw()
    for axes, names in zip(figure.axes, PANELS, strict=True):
        low, high = axes.get_ylim()
        for name in names:
            y = run[name][1:][np.isfinite(run[name][1:])]
            assert low < y.min() <= y.max() < high < 1e3
        assert axes.get_xlim() == pytest.approx((1, 29))
        (guide,) = [line for line in axes.lines if line.get_gid() == "guide"]
        x, y = np.log(np.asarray(guide.get_xdata(), float)), np.log(np.asarray(guide.get_ydata(), float))
        assert (y[1] - y[0]) / (x[1] - x[0]) == pytest.approx(-1.0, rel=1e-12)
        assert low < np.exp(y[1]) < np.exp(y[0]) < high


def test_a_metric_that_is_zero_throughout_says_so() -> None:
    run = history(1.0)
    run["consensus_error"] = np.zeros(30)
    figure = plot_histories({"a": run})
    figure.canvas.draw()
    assert [text.get_text() for text in figure.axes[1].texts] == ["nothing above zero"]


def test_panels_follow_the_metrics_that_are_there() -> None:
    assert [list(curves(axes)) for axes in plot_histories({"a": history(1.0, keys=("objective",))}).axes] == [["objective"]]
    chosen = plot_histories({"a": history(1.0)}, metrics=["distance_to_manifold", "gradient_norm"])
    assert [list(curves(axes)) for axes in chosen.axes] == [["distance_to_manifold"], ["gradient_norm"]]
    with pytest.raises(InputError, match=r"no run has the metric 'gradientnorm' .*did you mean gradient_norm\?"):
        plot_histories({"a": history(1.0)}, metrics=["gradientnorm"])
    with pytest.raises(InputError, match="nothing to plot"):
        plot_histories({})


def test_labels_say_what_differs_and_nothing_else() -> None:
    base = {"problem": "pca", "algorithm": "drfgt", "step_size": 0.1, "seed": 0}
    assert labels({"a": base, "b": base | {"algorithm": "landing"}}) == {"a": "drfgt", "b": "landing"}
    assert labels({"a": base, "b": base | {"step_size": 0.2, "seed": 1}}) == {
        "a": "step size 0.1, seed 0",
        "b": "step size 0.2, seed 1",
    }
    assert labels({"a": base, "b": base}) == {"a": "a", "b": "b"}
    assert labels({"a": base, "b": base, "c": base | {"seed": 1}}) == {"a": "seed 0, a", "b": "seed 0, b", "c": "seed 1"}
    assert labels({"a": base, "b": base | {"eps": 0.5}}) == {"a": "a", "b": "eps 0.5"}


def make(folder: Path, config: str, scale: float) -> None:
    writer = RunFolder(folder, config).history()
    for k in range(20):
        writer.record(Row(k, k, k, 8 * k, k, 0.1 * k, dict.fromkeys(KEYS, scale / (k + 1))))
    writer.close()


def test_command_draws_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path / "a", "step_size: 0.1\n", 1.0)
    make(tmp_path / "b", "step_size: 0.2\n", 2.0)
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    assert main([a]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'a' / 'history.png'}\n"
    assert (tmp_path / "a" / "history.png").read_bytes().startswith(b"\x89PNG")
    assert (
        main([a, b, "--out", str(tmp_path / "f.svg"), "--against", "bytes", "--metrics", "gradient_norm", "consensus_error"]) == 0
    )
    assert b"<svg" in (tmp_path / "f.svg").read_bytes()
    assert main([a, b, "--out", str(tmp_path / "f.pdf"), "--linear"]) == 0
    assert (tmp_path / "f.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("tokens", "phrase"),
    [
        ([], "give the folder of at least one run"),
        (["a", "b"], "several runs go into one figure: say where with --out"),
        (["a", "--agents", "consensus", "--linear"], "--linear has no effect with --agents"),
        (["a", "--agents", "consensus", "--against", "bytes"], "--against has no effect with --agents"),
        (["nowhere"], "is nowhere the folder of a run?"),
        (["a", "--against", "byte"], 'Did you mean "bytes"?'),
        (["a", "--out", "f.jpg"], "f.jpg: a figure must end in .png, .svg or .pdf"),
        (["a", "--out", "none/f.png"], "cannot write none/f.png"),
    ],
)
def test_errors_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tokens: list[str], phrase: str
) -> None:
    monkeypatch.chdir(tmp_path)
    make(Path("a"), "seed: 0\n", 1.0)
    assert main(tokens) == 2
    error = capsys.readouterr().err
    assert phrase in error
    assert error.startswith("decentorth.plot: ")


def test_missing_matplotlib_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InputError, match=r'pip install "decentorth\[plot\]"'):
        plot_histories({"a": history(1.0)})
