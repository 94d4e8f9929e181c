"""The files of a run: whole or absent, bit for bit what was written, and checkpoints that are gone
on from or refused."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import math
import os
import re
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given
from hypothesis import settings as profile
from hypothesis import strategies as st

from decentorth import DRFGT, Checkpoints, solve
from decentorth.__main__ import main as decentorth
from decentorth.commands.line.config_files import InputError
from decentorth.commands.run.command import main
from decentorth.network.collective import AgentCollective
from decentorth.protocols import Array, Row
from decentorth.records.run_files import (
    FINAL,
    HISTORY,
    SUMMARY,
    HistoryWriter,
    RunFolder,
    hold,
    write_final,
)
from decentorth.records.saved_runs import read_history, read_summary
from decentorth.running.checkpoint import kept
from tests.support.commands import comparable, run
from tests.support.disks import small_files
from tests.support.mpi import HUNG, ROOT, until
from tests.support.problems import GRAPHS, pca
from tests.support.threads import ThreadCommunicator, on_ranks

SMALL = "--dimension 6 --rank 2 --rows 4 --algorithm drfgt".split()

pytestmark = pytest.mark.usefixtures("folder")


def names(name: str) -> list[int]:
    return sorted(int(path.name) for path in kept(Path(name, "checkpoints")))


@pytest.mark.slow
def test_the_run_goes_on_in_another_folder_with_the_same_bits() -> None:
    words = [*SMALL, *"--step-size auto --order adapt-then-combine --record-every 10".split()]
    assert run(*words, "--iterations", "150", "--checkpoint-every", "50", "--out", "a") == 0
    assert run("--resume", "a", "--iterations", "300", "--out", "b") == 0
    assert run(*words, "--iterations", "300", "--out", "c") == 0
    b, c = read_summary("b"), read_summary("c")
    same = (
        "iterates_sha256 iterations rounds messages bytes gradients metrics steps status config W"
    ).split()
    assert {name: b[name] for name in same} == {name: c[name] for name in same}
    assert (b["resumed_from"], c["resumed_from"]) == ("a/checkpoints/000000150", None)
    assert comparable("b") == comparable("c")
    assert Path("b/history.csv").read_text().startswith(Path("a/history.csv").read_text())
    assert Path("b/config.yaml").read_text() == Path("c/config.yaml").read_text()
    assert (names("a"), names("b")) == ([50, 100, 150], [200, 250, 300])


@pytest.mark.slow
def test_the_run_goes_on_where_it_is() -> None:
    assert (
        run(
            *SMALL,
            "--iterations",
            "45",
            "--checkpoint-every",
            "20",
            "--keep-checkpoints",
            "2",
            "--out",
            "a",
        )
        == 0
    )
    assert names("a") == [40, 45]
    assert run("--resume", "a", "--iterations", "90") == 0
    assert names("a") == [80, 90]
    assert (
        run(
            "--resume",
            "a/checkpoints/000000080",
            "--out",
            "b",
            "--iterations",
            "100",
            "--checkpoint-every",
            "1h",
        )
        == 0
    )
    assert names("b") == [100]
    assert run(*SMALL, "--iterations", "100", "--out", "c") == 0
    assert read_summary("b")["iterates_sha256"] == read_summary("c")["iterates_sha256"]
    assert run("--resume", "a", "--out", "./a", "--iterations", "95") == 0
    assert read_summary("a")["iterations"] == 95


def test_a_run_that_has_ended_is_left_as_it_was() -> None:
    assert run(*SMALL, "--iterations", "60", "--checkpoint-every", "25", "--out", "a") == 0
    before, history = read_summary("a"), Path("a/history.csv").read_bytes()
    assert run("--resume", "a") == 0
    after = read_summary("a")
    assert Path("a/history.csv").read_bytes() == history
    # a checkpoint has the total of what was sent, not the table
    changes = {"started", "seconds", "command", "resumed_from", "sent"}
    assert {name for name in before if before[name] != after[name]} <= changes
    assert sum(row["bytes"] for row in after["sent"]) == after["bytes"]


@pytest.mark.slow
def test_what_may_be_given_anew(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*SMALL, "--iterations", "50", "--checkpoint-every", "25", "--out", "a") == 0
    again = (
        "--resume a --iterations 5000 --gradient-tolerance 1 --require-converged --record-every "
        "3 --placement fewer-cuts --out b"
    )
    assert run(*again.split()) == 0
    summary = read_summary("b")
    assert summary["status"] == "converged"
    assert (summary["config"]["record_every"], summary["config"]["placement"]) == (3, "fewer-cuts")
    assert main(["--resume", "a", "--print-config", "--step-size", "auto"]) == 0
    printed = yaml.safe_load(capsys.readouterr().out)
    assert {
        **yaml.safe_load(Path("a/config.yaml").read_text()),
        "out": "a",
        "plot": False,
        "quiet": False,
        "record": [],
    } | {
        "checkpoint_every": 25,
        "keep_checkpoints": 3,
    } == printed
    assert (
        run("--resume", "a", *SMALL, "--iterations", "50", "--checkpoint-every", "25", "--out", "a")
        == 0
    )


def test_a_number_of_agents_that_the_files_do_not_hold(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*SMALL, "--iterations", "20", "--checkpoint-every", "20", "--out", "a") == 0
    path = Path("a/checkpoints/000000020/manifest.json")
    whole = json.loads(path.read_text())
    whole["checkpoint"]["notes"]["settings"]["agents"] = 10**9
    canonical = json.dumps(whole["checkpoint"], sort_keys=True, separators=(",", ":"))
    path.write_text(json.dumps({**whole, "sha256": hashlib.sha256(canonical.encode()).hexdigest()}))
    capsys.readouterr()
    assert main(["--resume", "a"]) == 2
    assert (
        capsys.readouterr().err
        == "decentorth: the settings in a are for 1000000000 agents, its files for 10\n"
    )


REFUSED = [
    (
        "--resume a --step-size 0.5",
        "--step-size is auto in the run to resume, but 0.5 here; only --iterations,",
    ),
    ("--resume a --problem pca", "--problem is procrustes in the run to resume, but pca here"),
    (
        "--resume a --config other.yaml",
        "--self-weight is not given in the run to resume, but 0.7 here",
    ),
    (
        "--resume a --iterations 20",
        "a/checkpoints/000000060 is beyond --iterations 20: give more than 60",
    ),
    (
        "--resume late --activations 20",
        "late/checkpoints/000000060 is beyond --activations 20: give more than 60",
    ),
    ("--resume a --out held", "held already holds a run"),
    (
        "--resume a/checkpoints/000000060",
        "checkpoint_every needs a folder for the run: give --out FOLDER",
    ),
    ("--resume plain", "plain holds no checkpoint: was checkpoint_every"),
    (
        "--resume python",
        "the checkpoints in python were not written by this command: resume them in Python",
    ),
    ("--config resume.yaml", "resume.yaml: a file cannot name a run to resume; give --resume a"),
    (
        "--checkpoint-every 5",
        "--checkpoint-every: checkpoint_every needs a folder for the run: give --out FOLDER",
    ),
    (
        "--checkpoint-every 5d --out b",
        "checkpoint_every must be a number of iterations (100) or a time (30s, 10m, 2h), got '5d'",
    ),
]


@pytest.fixture
def runs(folder: Path) -> None:
    assert run(*SMALL, "--iterations", "60", "--checkpoint-every", "30", "--out", "a") == 0
    late = "--algorithm asynchronous_drfgt --activations 60 --checkpoint-every 30 --out late"
    assert run(*SMALL[:-2], *late.split()) == 0
    assert read_summary("late")["message"] == "stopped at the limit of 60 activations"
    assert run(*SMALL, "--iterations", "5", "--out", "held") == 0
    Path("plain").mkdir()
    Path("other.yaml").write_text("self_weight: 0.7\n")
    Path("resume.yaml").write_text("resume: a\n")
    solve(
        pca().problem, DRFGT(), GRAPHS["ring"](5), iterations=3, checkpoints=Checkpoints("python")
    )


@pytest.mark.slow
@pytest.mark.usefixtures("runs")
def test_what_is_refused_says_why_and_touches_nothing(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for words, phrase in REFUSED:
        assert main(words.split()) == 2, words
        printed = capsys.readouterr()
        assert printed.out == ""
        assert phrase in printed.err
        assert printed.err.startswith("decentorth: ")
        assert printed.err.count("\n") == 1
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_checkpoints_of_a_killed_run_are_not_run_over(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*SMALL, "--iterations", "40", "--checkpoint-every", "20", "--out", "a"]
    assert run(*words) == 0
    Path("a/summary.json").unlink()
    assert run(*words) == 2
    assert (
        "a holds the checkpoints of a run that did not end; continue with --resume a"
        in capsys.readouterr().err
    )
    assert names("a") == [20, 40]
    assert run(*words, "--overwrite") == 0
    assert names("a") == [20, 40]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGUSR1, None)]
)
def test_signals(number: signal.Signals, code: int | None) -> None:
    words = [
        sys.executable,
        "-m",
        "decentorth.run",
        *SMALL,
        "--iterations",
        "100000000",
        "--checkpoint-every",
        "1h",
        "--out",
        "a",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as process:
        until(
            lambda: (
                Path("a/history.csv").is_file()
                and Path("a/history.csv").read_text().count("\n") > 9
            ),
            process=process,
        )
        process.send_signal(number)
        until(lambda: names("a"), process=process)
        if code is None:
            assert process.poll() is None
            process.kill()
        said, _ = process.communicate(timeout=HUNG)
    (k,) = names("a")
    if code is not None:
        assert process.returncode == code
        assert (read_summary("a")["status"], read_summary("a")["iterations"]) == ("terminated", k)
        assert f"Ended by {number.name} after iteration {k}," in said
        assert "continue with --resume a." in said
        assert Path("a/final.npz").is_file()
    assert run("--resume", "a", "--iterations", str(k + 10), "--out", "b") == 0
    assert run(*SMALL, "--iterations", str(k + 10), "--out", "c") == 0
    assert read_summary("b")["iterates_sha256"] == read_summary("c")["iterates_sha256"]
    assert read_history("b")["iteration"][-1] == k + 10


def on_terminal(words: str, **environ: str) -> str:
    pty = pytest.importorskip("pty")
    own, its = pty.openpty()
    with subprocess.Popen(
        ["sh", "-c", f"stty cols 80; {sys.executable} -m decentorth {words}"],
        env={**os.environ, "TERM": "xterm-256color", **environ},
        stdout=its,
        stderr=its,
        stdin=its,
    ):
        os.close(its)
        said = b""
        with contextlib.suppress(OSError):  # the terminal's end
            while part := os.read(own, 1 << 16):
                said += part
    os.close(own)
    return said.decode()


ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("iterations", "step", "colour", "end"),
    [
        (3000, "1e-6", "33", "Stopped at the limit of 3000 iterations: "),
        (9000, "auto", "32", "Converged at iteration "),
        (9000, "10", "31", "Diverged: "),
    ],
)
def test_a_terminal_has_whole_counts_and_a_coloured_end(
    iterations: int, step: str, colour: str, end: str
) -> None:
    words = (
        f"run --problem pca --algorithm drfgt --gradient-tolerance 1e-4 --iterations {iterations} "
        f"--step-size {step}"
    )
    said = on_terminal(words)
    assert f"\x1b[1;{colour}m{end}" in said
    bars = [
        line
        for line in ESCAPES.sub("", said).replace("\r", "\n").splitlines()
        if "  consensus " in line
    ]
    assert bars or colour == "31"
    for bar in bars:
        assert re.match(rf" *\d+/{iterations} ", bar)
        assert len(bar) <= 80


@pytest.mark.slow
def test_a_terminal_without_colours_has_none() -> None:
    plain = on_terminal("run --iterations 9", NO_COLOR="1")
    assert "Stopped at the limit of 9 iterations" in plain
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", plain)


def row(k: int, values: Mapping[str, float], seconds: float = 0.5) -> Row:
    return Row(k, 2 * k, 20 * k, 16_000 * k, k + 1, seconds, values)


def written(
    path: Path, rows: Iterable[Row], earlier: Sequence[Row] = (), source: Path | None = None
) -> list[str]:
    """The lines of the history of a run, or of one that goes on with what memory kept of
    ``earlier`` rows."""
    writer = HistoryWriter(path, earlier, source)
    for one in rows:
        writer.record(one)
    writer.close()
    return path.read_text().splitlines()


@profile(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(
    values=st.lists(
        st.tuples(st.floats(), st.floats(), st.integers(0, 2**62)), min_size=1, max_size=5
    )
)
def test_history_reads_back_bit_for_bit(
    tmp_path: Path, values: list[tuple[float, float, int]]
) -> None:
    metrics = [{"objective": np.float64(a), "error": b} for a, b, _ in values]
    written(
        tmp_path / HISTORY,
        [
            Row(k, k, count, count, k, np.float64(b), metrics[k])
            for k, (_, b, count) in enumerate(values)
        ],
    )
    history = read_history(tmp_path)
    assert list(history) == [
        "iteration",
        "rounds",
        "messages",
        "bytes",
        "gradients",
        "seconds",
        "objective",
        "error",
    ]
    expected = np.array([[a, b] for a, b, _ in values])
    for name, column in (
        ("objective", expected[:, 0]),
        ("error", expected[:, 1]),
        ("seconds", expected[:, 1]),
    ):
        canonical = np.where(np.isnan(column), np.nan, column)
        assert (
            np.where(np.isnan(history[name]), np.nan, history[name]).tobytes()
            == canonical.tobytes()
        )
    assert history["bytes"].tolist() == [count for _, _, count in values]
    assert history["bytes"].dtype == np.int64


def test_each_row_is_on_disk_when_it_is_recorded(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path / HISTORY)
    for k in range(3):
        writer.record(row(k, {"objective": 1.0 / 3.0**k}))
        assert read_history(tmp_path)["objective"].tolist() == [1.0 / 3.0**j for j in range(k + 1)]
    with pytest.raises(ValueError, match=r"every row must hold the metrics \('objective',\)"):
        writer.record(row(4, {"error": 1.0}))
    writer.close()


def test_a_line_cut_short_is_left_out_with_a_note(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written(tmp_path / HISTORY, [row(k, {"objective": 0.1 * k}) for k in range(4)])
    whole = (tmp_path / HISTORY).read_bytes()
    for length in range(whole.rindex(b"\n", 0, -1) + 2, len(whole)):
        (tmp_path / HISTORY).write_bytes(whole[:length])
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert read_history(tmp_path)["iteration"].tolist() == [0, 1, 2]
        assert "the last line is incomplete" in caplog.text


@pytest.mark.parametrize("last", ["row", "finish", "copy"])
def test_rows_that_the_disk_did_not_take_are_written_when_it_does(
    last: str, tmp_path: Path
) -> None:
    rows = [row(k, {"objective": 1.0 / (k + 1)}) for k in range(9)]
    writer = HistoryWriter(tmp_path / HISTORY)
    for one in rows[:4]:
        writer.record(one)
    with small_files((tmp_path / HISTORY).stat().st_size + 10):
        for one in rows[4:8]:
            with pytest.raises(OSError, match=r"File too large: '.*history.csv'"):
                writer.record(one)
    if last == "row":
        writer.record(rows[8])
    if last == "copy":
        (tmp_path / HISTORY).unlink()
    if last != "row":
        writer.finish(tmp_path / HISTORY)
    writer.close()
    expected = written(tmp_path / "whole.csv", rows[: 9 if last == "row" else 8])
    assert (tmp_path / HISTORY).read_text().splitlines() == expected


def test_the_history_is_kept_whole_where_memory_kept_every_second_row(tmp_path: Path) -> None:
    rows = [row(k, {"objective": 1.0 / (k + 1)}) for k in range(9)]
    history = tmp_path / HISTORY
    whole, thinned = written(history, rows), rows[:8:2]
    assert written(tmp_path / "again.csv", [rows[7]], thinned, history) == [*whole[:8], whole[8]]
    assert written(tmp_path / "again.csv", [rows[7]], thinned, tmp_path / "missing.csv") == [
        whole[0],
        *whole[1:8:2],
        whole[8],
    ]
    assert written(tmp_path / "other.csv", [], [rows[0]._replace(seconds=3.0)], history) == [
        whole[0],
        "0,0,0,0,1,3.0,1.0",
    ]
    assert written(history, [], thinned, history) == whole[:8]


def test_what_a_killed_run_was_writing_goes_with_the_next_run(tmp_path: Path) -> None:
    for name in (".final.npz.123.part", ".summary.json.4.part", ".mine.part"):
        (tmp_path / name).write_text("half")
    RunFolder(tmp_path, "", continues=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".mine.part", "config.yaml"]


@pytest.mark.parametrize(
    ("name", "text", "phrase"),
    [
        (HISTORY, None, r"history\.csv does not exist; is .* the folder of a run"),
        (HISTORY, "", "not a history"),
        (HISTORY, "a,b\n1,2\n", "its first line must begin with iteration,rounds"),
        (
            HISTORY,
            "iteration,rounds,messages,bytes,gradients,seconds\n1,2\n",
            "line 2: 6 values expected, got 2",
        ),
        (
            HISTORY,
            "iteration,rounds,messages,bytes,gradients,seconds\n1,2,3,4,5,x\n",
            "column seconds: could not convert",
        ),
        (SUMMARY, '{"a":', "not well-formed JSON"),
        (SUMMARY, "[1]", "must hold a mapping, got list"),
    ],
)
def test_errors_name_the_file(tmp_path: Path, name: str, text: str | None, phrase: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=phrase) as caught:
        (read_history if name == HISTORY else read_summary)(tmp_path)
    assert str(tmp_path / name) in str(caught.value)


@pytest.mark.slow
def test_no_command_replaces_a_file_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    small = (
        "run --problem pca --data synthetic --dimension 4 --rank 2 --samples 9 --agents 3 "
        "--iterations 3 --quiet"
    )
    assert decentorth(f"{small} --out whole".split()) == 0
    asynchronous = small.replace("--iterations 3", "--algorithm asynchronous_drfgt --activations 9")
    for words, files in {
        f"{small} --overwrite --out .": "config.yaml history.csv final.npz history.png checkpoints",
        f"{asynchronous} --log out.log": "out.log",
        "plot whole --out figure.pdf": "figure.pdf",
        "plot whole --agents consensus --out figure.png": "figure.png",
        "plot whole --html report.html": "report.html",
        "graph ring:4 --plot graph": "graph.png",
        "compare --overwrite --out .": "trials.csv figure.svg table.md",
        "study consensus --quiet --out .": "consensus.csv consensus.png",
        "new algorithm mine": "mine.py test_mine.py",
    }.items():
        for file in files.split():
            Path(file).write_text("precious")
            assert decentorth(words.split()) == 2, (words, file)
            assert Path(file).read_text() == "precious", (words, file)
            Path(file).unlink()
            assert sorted(path.name for path in tmp_path.iterdir()) == ["whole"], (words, file)
    for words in ("plot whole --out figure.pdf", "graph ring:4 --plot graph"):
        assert [decentorth(words.split()) for _ in range(2)] == [0, 0]


def test_a_run_removes_no_checkpoints_but_those_of_runs(tmp_path: Path) -> None:
    models = tmp_path / "checkpoints" / "models"
    RunFolder(tmp_path, "", lock=hold(tmp_path)).close()
    models.mkdir(parents=True)
    (models / "best.pt").write_text("precious")
    (tmp_path / "checkpoints" / "000000020").mkdir()
    RunFolder(tmp_path, "", overwrite=True, lock=hold(tmp_path)).close()
    assert [path.name for path in models.parent.iterdir()] == ["models"]
    assert (models / "best.pt").read_text() == "precious"


def test_summary_is_strict_json_and_reads_back(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "a" / "b", "agents: 1\n")
    values = {
        "x": np.float64(0.1),
        "n": np.int64(3),
        "none": None,
        "inf": math.inf,
        "nan": [math.nan],
        "t": (1, 2),
        "ok": True,
    }
    folder.write_summary({"metrics": values})
    assert (tmp_path / "a" / "b" / "config.yaml").read_text() == "agents: 1\n"
    expected = {"x": 0.1, "n": 3, "none": None, "inf": None, "nan": [None], "t": [1, 2], "ok": True}
    assert read_summary(folder.path) == {"metrics": expected}
    assert json.loads((folder.path / SUMMARY).read_text()) == {"metrics": expected}


def test_a_folder_that_holds_a_run_is_refused_unless_it_is_to_be_replaced(tmp_path: Path) -> None:
    RunFolder(tmp_path, "agents: 1\n").write_summary({})
    for stale in (FINAL, HISTORY, "history.png"):
        (tmp_path / stale).write_text("old")
    (tmp_path / "mine.txt").write_text("kept")
    with pytest.raises(
        InputError,
        match=r"already holds a run \(summary.json\); choose another --out or give --overwrite",
    ):
        RunFolder(tmp_path, "agents: 2\n")
    assert (tmp_path / "config.yaml").read_text() == "agents: 1\n"
    RunFolder(tmp_path, "agents: 2\n", overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.yaml", "mine.txt"]
    assert (tmp_path / "config.yaml").read_text() == "agents: 2\n"


def test_a_place_that_cannot_be_written_to_is_refused_before_work(tmp_path: Path) -> None:
    with pytest.raises(
        InputError,
        match=r"run has [\d.]+ .B free, and final.npz needs 900 TB; choose another --out",
    ):
        RunFolder(tmp_path / "run", "", needed=9 * 10**14)


def written_on_ranks(
    folder: RunFolder, bounds: Sequence[int], arrays: Mapping[str, Array]
) -> list[str]:
    def write(communicator: ThreadCommunicator) -> str:
        own = slice(*bounds[communicator.rank : communicator.rank + 2])
        blocks = {name: array[own] for name, array in arrays.items()}
        collective = AgentCollective(communicator, np.array(bounds))
        try:
            write_final(None if communicator.rank else folder, blocks, collective)
        except OSError as error:
            return str(error)
        return ""

    return on_ranks(len(bounds) - 1, write)


def test_a_file_that_fails_half_way_leaves_the_old_one_whole(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "")
    folder.write_summary({"a": 1})
    with pytest.raises(TypeError):
        folder.write_summary({"a": object()})
    x = np.ones((6, 30, 1))
    with small_files(100):
        first, *others = written_on_ranks(folder, (0, 2, 4, 6), {"x": x, "y": x})
    assert re.search("File too large: '.*final.npz'", first)
    assert others == ["", ""]  # they have not waited for ever
    assert read_summary(tmp_path) == {"a": 1}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.yaml", SUMMARY]


@pytest.mark.parametrize("bounds", [(0, 7), (0, 1, 3, 7)])
def test_final_arrays_are_the_ranks_blocks_in_agent_order(
    tmp_path: Path, bounds: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(1)
    arrays = {"x": rng.standard_normal((7, 5, 2)), "part": rng.standard_normal((7, 10))[:, 2:9]}
    assert set(written_on_ranks(RunFolder(tmp_path, ""), bounds, arrays)) == {""}
    with np.load(tmp_path / FINAL, allow_pickle=False) as final:
        assert set(final) == set(arrays)
        for name, array in arrays.items():
            np.testing.assert_array_equal(final[name], array, strict=True)
    with zipfile.ZipFile(tmp_path / FINAL) as archive:
        assert archive.testzip() is None
