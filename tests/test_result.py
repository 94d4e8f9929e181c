"""Results in a session, in a notebook, as frames, and in a folder."""

from __future__ import annotations

import json
import os
import pickle
import re
import sys
import tracemalloc
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

import decentorth as do
import topologies as tp
from decentorth.api import Options, set_up
from decentorth.commands.line.config_files import InputError
from decentorth.commands.run.command import main as run
from decentorth.lab.plot import command as plot
from tests.support.mpi import run_ranks
from tests.support.threads import on_ranks

LABELS = ("Bern", "Oslo", "Rome", "Wien")
GRAPH: Any = nx.relabel_nodes(nx.cycle_graph(4), dict(enumerate(LABELS)))
PROBLEM = do.problems.PCA(np.random.default_rng(0).standard_normal((4, 20, 8)), 2)
RESULT = do.solve(PROBLEM, do.DRFGT(), GRAPH, iterations=30)


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        (
            "drfgt",
            {
                "channel": do.Channel(
                    "bursts:p=0.1", "failures:p=0.1", "sleep:p=0.1", "topk:share=0.5"
                )
            },
        ),
        ("drfgt", {"channel": do.Channel("loss:p=0.1", "crash:p=0.1", "delay:rounds=2")}),
        ("drfgt", {"stopping": do.stopping.LocalMaximum(1e-2)}),
        (do.DRFGT(step_size="growing"), {"stopping": 1e-2}),
        ("asynchronous_drfgt", {}),
    ],
)
def test_a_result_comes_back_from_another_process(method: Any, settings: dict[str, Any]) -> None:
    """As joblib, multiprocessing and executors send it."""
    result = do.solve(PROBLEM, method, GRAPH, iterations=30, **settings)
    again = pickle.loads(pickle.dumps(result))
    assert (again.x == result.x).all()
    assert repr(again) == repr(result)
    assert again.sent() == result.sent()
    assert again.summary() == result.summary()


def test_a_callback_may_change_what_it_is_given() -> None:
    def clear(row: Any) -> None:
        row.values.clear()

    result = do.solve(PROBLEM, "drfgt", GRAPH, iterations=30, callback=clear)
    assert result.row.values == RESULT.row.values
    assert repr(result).splitlines()[1:8] == repr(RESULT).splitlines()[1:8]


def test_a_history_without_metrics_is_not_drawn() -> None:
    with pytest.raises(InputError, match="no run has the metric 'objective'"):
        plot.plot_histories({"mine": {"iteration": np.arange(3), "seconds": np.arange(3.0)}})


def test_points_of_sites_keep_their_names_in_another_process() -> None:
    rows = np.random.default_rng(1).standard_normal((30, 5))
    problem = do.problems.PCA.from_sites({"north": rows[:12], "south": rows[12:]}, 2, scale=True)
    result = do.solve(problem, "drfgt", "ring", iterations=5)
    again = pickle.loads(pickle.dumps(result))
    x: Any = result.x
    for name in ("north", "south"):
        np.testing.assert_array_equal(again.x[name], x[name])
    assert again.sent() == result.sent()


@pytest.mark.ranks
def test_a_result_of_ranks_says_why_it_is_not_pickled() -> None:
    code = (
        "import decentorth as do, pickle\n"
        "problem = do.problems.PCASettings(data='synthetic', rank=2).problem(4, seed=0)\n"
        "result = do.solve(problem, 'drfgt', 'ring', iterations=3)\n"
        "try:\n    pickle.dumps(result)\n"
        "except TypeError as error:\n    print(error)"
    )
    job = run_ranks(2, ["-c", code])
    assert job.returncode == 0, job.report()
    said = "what ranks share cannot be pickled: write the run by result.save(folder)"
    assert job.stdout.count(said) == 2


def test_a_result_prints_in_a_few_lines() -> None:
    lines = repr(RESULT).splitlines()
    assert len(lines) <= 14
    assert max(map(len, lines)) <= 100
    for words in (
        "PCA by DRFGT",
        "iterations after 30 iterations",
        "8 x 2",
        "Bern",
        f"{RESULT.row.values['gradient_norm']:.3g}",
    ):
        assert words in repr(RESULT)


def test_a_notebook_shows_facts_and_a_curve_and_nothing_from_elsewhere() -> None:
    page = Page(RESULT._repr_html_())
    assert RESULT.message in page.text
    assert {tag for tag, _ in page.tags} <= set(
        "div strong table tr th td figure svg polyline figcaption small".split()
    )
    assert not any("src" in attributes or "href" in attributes for _, attributes in page.tags)
    (points,) = (
        str(attributes["points"]).split() for tag, attributes in page.tags if tag == "polyline"
    )
    norms, heights = (
        RESULT.history["gradient_norm"],
        np.array([float(point.split(",")[1]) for point in points]),
    )
    expected = np.log10(norms.max() / norms) / np.log10(norms.max() / norms.min())
    np.testing.assert_allclose((heights - heights.min()) / np.ptp(heights), expected, atol=2e-3)


def test_names_that_are_html_are_shown_as_text() -> None:
    graph: Any = nx.relabel_nodes(
        nx.path_graph(4), {0: "<script>alert(1)</script>", 1: "a", 2: "b", 3: "c"}
    )
    shown = do.solve(PROBLEM, "drfgt", graph, iterations=1)._repr_html_()
    assert "<script>" not in shown
    assert "<script>alert(1)</script>" in Page(shown).text


def test_other_objects_print_in_a_line() -> None:
    assert repr(PROBLEM) == "PCA(n_agents=4, constraint=St(8, 2))"
    assert repr(PROBLEM.restrict(slice(1, 3))) == "PCA(n_agents=4, here=1..2, constraint=St(8, 2))"
    assert repr(RESULT.history).startswith(
        "History(19 rows of iterations 0 to 30: iteration, rounds, "
    )
    assert repr(RESULT.network) == "Network(n_agents=4, edges=4, ranks=1)"
    assert repr(tp.OnePeerExponential(16)) == "OnePeerExponential(n=16, period=4)"
    assert repr(set_up(PROBLEM, "drfgt", GRAPH)).startswith("Run(problem=PCA(n_agents=4, ")
    for thing in (PROBLEM, RESULT.history, RESULT.network, do.DRFGT(penalty=3.0)):
        assert type(thing).__name__ in Page(thing._repr_html_()).text


@pytest.mark.slow
def test_a_saved_result_is_read_bit_for_bit(tmp_path: Path) -> None:
    RESULT.save(tmp_path)
    found = do.load(tmp_path)
    np.testing.assert_array_equal(found.x, RESULT.x, strict=True)
    assert dict(found.history).keys() == dict(RESULT.history).keys()
    for name, column in RESULT.history.items():
        np.testing.assert_array_equal(found.history[name], column, strict=True)
    assert (found.status, found.converged, found.message, found.labels) == (
        RESULT.status,
        False,
        RESULT.message,
        LABELS,
    )
    assert (found.row, found.n_agents, found.seconds) == (RESULT.row, 4, RESULT.seconds)
    assert found.iterations == RESULT.iterations == RESULT.state.k
    lines = [line for line in repr(RESULT).splitlines() if not line.startswith("  advice ")]
    assert repr(found).splitlines()[1:] == lines[2:]
    with pytest.raises(
        ValueError, match=r"already holds a run: choose another folder, or give overwrite=True"
    ):
        RESULT.save(tmp_path)
    RESULT.save(tmp_path, overwrite=True)
    assert plot.main([str(tmp_path)]) == 0
    assert run(["--config", str(tmp_path / "config.yaml")]) == 2


def test_a_result_is_saved_with_its_own_counts_after_another_solve_of_the_run(
    tmp_path: Path,
) -> None:
    made = set_up(PROBLEM, "drfgt", GRAPH)
    first, _ = made.solve(Options(iterations=2)), made.solve(Options(iterations=4))
    first.save(tmp_path)
    assert json.loads((tmp_path / "summary.json").read_text())["rounds"] == first.row.rounds


def test_ranks_save_one_folder(tmp_path: Path) -> None:
    def save(communicator: Any) -> list[str]:
        seen: list[int] = []
        more: Any = {"comm": communicator, "callback": lambda row: seen.append(row.iteration)}
        result = do.solve(PROBLEM, "drfgt", GRAPH, iterations=30, **more)
        assert bool(seen) == (communicator.rank == 0)
        result.save(tmp_path)
        try:
            result.save(tmp_path)
        except ValueError as error:
            return [str(error).removeprefix("on rank 0: ")]
        return []

    assert (
        on_ranks(2, save)
        == [[f"{tmp_path} already holds a run: choose another folder, or give overwrite=True"]] * 2
    )
    np.testing.assert_array_equal(do.load(tmp_path).x, RESULT.x)


def test_a_run_of_the_command_line_is_loaded(tmp_path: Path) -> None:
    assert run(["--agents", "4", "--iterations", "5", "--out", str(tmp_path / "a"), "--quiet"]) == 0
    found = do.load(tmp_path / "a")
    assert (found.status, found.row.iteration, found.n_agents, found.labels) == (
        "iterations",
        5,
        4,
        None,
    )


class Trap:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize(
    ("file", "words"),
    [("history.csv", "no rows"), ("final.npz", "cannot read"), ("complex", "is complex")],
)
def test_a_damaged_folder_is_refused_and_nothing_in_it_runs(
    tmp_path: Path, file: str, words: str
) -> None:
    RESULT.save(tmp_path / "a")
    trap = Trap(tmp_path / "sprung")
    if file == "history.csv":
        path = tmp_path / "a" / file
        path.write_text(path.read_text().partition("\n")[0] + "\n")
    else:
        np.savez(
            tmp_path / "a" / "final.npz",
            x=RESULT.x + 1j if file == "complex" else np.array([trap], dtype=object),
        )
    with pytest.raises(ValueError, match=words):
        do.load(tmp_path / "a")
    assert not trap.path.exists()


KINDS = ("pipe", "device", "zeros", "tail of zeros")


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        *(("history.csv", kind) for kind in KINDS),
        ("summary.json", "zeros"),
        ("config.yaml", "pipe"),
    ],
)
def test_a_file_without_an_end_is_refused(
    kind: str, file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With one line, and without reading its 4 GiB."""
    RESULT.save(tmp_path)
    path = tmp_path / file
    if kind in ("pipe", "device"):
        path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        with path.open("r+b") as content:
            if kind == "zeros":
                content.truncate(0)
            content.truncate(4 << 30)
    tracemalloc.start()
    try:
        assert plot.main([str(tmp_path), "--html", str(tmp_path / "report.html")]) == 2
        if file != "config.yaml":  # which load does not read
            with pytest.raises(ValueError, match=file):
                do.load(tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 2**27
    finally:
        tracemalloc.stop()
    (line,) = capsys.readouterr().err.splitlines()
    assert file in line


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"labels": 5}, "labels must be the names of the 4 agents, or null, got 5"),
        ({"agent": 4}, "agent must be the number of one of the agents, got 4 of 4"),
        ({"agent": "0"}, "agent must be the number of one of the agents, got '0' of 4"),
        ({"seconds": {}}, "seconds must hold numbers, and their total, got {}"),
        ({"seconds": {"total": 10**400}}, "seconds must hold numbers"),
        ({"status": {}}, "lacks status"),
        ({"sent": [{"site": "a"}]}, "sent must hold rows of site, to, quantity, numbers and bytes"),
        ({"sent": 5}, "sent must hold rows of site, to, quantity, numbers and bytes"),
    ],
)
def test_odd_fields_of_a_summary_are_refused(
    tmp_path: Path, facts: dict[str, Any], words: str
) -> None:
    RESULT.save(tmp_path)
    path = tmp_path / "summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **facts}))
    with pytest.raises(ValueError, match=r"summary\.json: .*" + re.escape(words)):
        do.load(tmp_path)


def test_a_loaded_run_lists_what_was_sent(tmp_path: Path) -> None:
    RESULT.save(tmp_path)
    loaded = do.load(tmp_path)
    assert loaded.sent() == RESULT.sent()
    assert sum(row.bytes for row in loaded.sent()) == RESULT.row.bytes
    path = tmp_path / "summary.json"
    facts = json.loads(path.read_text())
    path.write_text(json.dumps({**facts, "sent": []}))
    with pytest.raises(ValueError, match="does not list what was sent"):
        do.load(tmp_path).sent()


def test_frames_and_figures_have_what_the_history_has() -> None:
    frame = RESULT.to_pandas()
    assert list(frame) == list(RESULT.history)
    np.testing.assert_array_equal(frame["gradient_norm"], RESULT.history["gradient_norm"])
    figure = RESULT.plot(metrics=["objective"], y="linear")
    (line,) = (line for line in figure.axes[0].lines if line.get_gid() == "objective")
    np.testing.assert_array_equal(line.get_ydata(), RESULT.history["objective"])
    assert figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]  # what a notebook shows
    assert tp.draw_graph(GRAPH)._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]


def test_data_sets_have_iterations_and_agents() -> None:
    pytest.importorskip("xarray")
    found = RESULT.to_xarray()
    assert found["x"].dims == ("agent", "row", "column")
    assert tuple(found["agent"].values) == LABELS
    np.testing.assert_array_equal(found["x"].sel(agent="Rome"), RESULT.x[2])
    np.testing.assert_array_equal(
        found["objective"].sel(iteration=30), RESULT.history["objective"][-1]
    )
    assert found["distance_from_mean"].sum() == pytest.approx(RESULT.history["consensus_error"][-1])


def test_progress_in_a_process_without_standard_streams_has_the_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As under pythonw, and in services, where both streams are None."""
    quiet = do.solve(PROBLEM, "drfgt", GRAPH, iterations=30)
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert (
        do.solve(PROBLEM, "drfgt", GRAPH, iterations=30, progress=True).iterates_sha256
        == quiet.iterates_sha256
    )


def test_rows_are_called_back_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[Any] = []
    result = do.solve(PROBLEM, "drfgt", GRAPH, iterations=30, callback=rows.append, progress=True)
    assert tuple(rows) == result.history.rows
    lines = capsys.readouterr().out.splitlines()
    assert 10 <= len(lines) <= 12
    assert lines[-1].startswith("30/30  objective ")
    assert result.iterates_sha256 == RESULT.iterates_sha256
