"""``python -m decentorth compare``: what it writes, says and refuses, alone and on ranks."""

from __future__ import annotations

import contextlib
import csv
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import topologies as tp
from decentorth import DRFGT
from decentorth.compare import Rules, compare, load
from decentorth.figures.canvas import save
from decentorth.lab.compare.command import CompareForm, main
from decentorth.lab.compare.tuning import own_step
from decentorth.lab.plot.command import main as plot
from decentorth.problems import ProcrustesSettings
from tests.support.commands import OWN_METHOD
from tests.support.disks import small_files
from tests.support.mpi import HUNG, ROOT, run_ranks, until

MODULE = ("-m", "decentorth", "compare")
SMALL = (
    "--dimension 5 --rank 2 --rows 4 --agents 4 --iterations 200 --tolerances 1,1e-1 --trials 2 "
    "--workers 1"
).split()
BOTH = [
    "--algorithms",
    "drfgt:order=combine-then-adapt,penalty=auto,drfgt:order=adapt-then-combine",
]
FILES = {
    *("comparison.csv", "comparison.yaml", "trials.csv", "curves.csv", "table.md", "table.tex"),
    *("figure.png", "figure.svg", "comparison.json", "runs"),
}


def read(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def timeless(table: str) -> list[dict[str, str]]:
    return [
        {name: value for name, value in row.items() if "seconds" not in name}
        for row in csv.DictReader(table.splitlines())
    ]


def counts(folder: Path) -> list[dict[str, str]]:
    return timeless((folder / "comparison.csv").read_text())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compare") / "out"
    words = "--tune --grid 3 --tune-seeds 1 --network wan,lan --quiet".split()
    assert main([*SMALL, *BOTH, *words, "--out", str(folder)]) == 0
    return folder


@pytest.mark.slow
def test_a_comparison_is_that_of_the_programming_interface(made: Path) -> None:
    assert {path.name for path in made.iterdir()} == FILES
    settings = ProcrustesSettings(dimension=5, rank=2, rows=4)
    rules = Rules(trials=2, iterations=200, tolerances=(1.0, 1e-1), tune=True, grid=3, tune_seeds=1)
    W = tp.metropolis_weights(tp.ring(4))
    found = compare(
        lambda seed: settings.problem(4, seed), BOTH[1], W, rules, networks=("wan", "lan")
    )
    assert counts(made) == timeless(found.table("csv"))
    assert any(line.reached == 2 for line in found.lines)


def test_auto_and_methods_by_sums_beside_gossip(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rows of auto are those of the method that it takes."""
    words = "--problem pca --data digits --rank 2 --agents 4 --iterations 300 --trials 1"
    methods = "auto,direct,block_krylov,lbfgs,deepca"
    given = [*words.split(), "--algorithms", methods, "--tolerances", "1e-3", "--no-plot"]
    assert main([*given, "--out", str(tmp_path), "--workers", "1"]) == 0
    rows = {row["algorithm"]: row for row in counts(tmp_path)}
    assert [*rows] == methods.split(",")
    assert all(row["reached"] == "1" for row in rows.values())
    own, direct = (dict(rows[name]) for name in ("auto", "direct"))
    assert (own.pop("step"), direct.pop("step")) == ("takes Direct", "none")
    assert own.pop("algorithm") != direct.pop("algorithm")
    assert own == direct
    assert "| takes Direct " in capsys.readouterr().out


def test_a_full_disk_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that cannot be stored, and tables that cannot be written: these have been printed."""
    words = [*"--problem pca --data synthetic --no-plot --out".split(), str(tmp_path), *SMALL[6:]]
    with small_files(2_000):
        assert main([*words, "--quiet", "--algorithms", "drfgt", "--tolerances", "1e-6"]) == 1
    said, err = capsys.readouterr()
    assert (said, err.count("\n")) == ("", 1)
    assert f"decentorth compare: cannot use {tmp_path}/runs/drfgt-seed0" in err
    assert {path.name for path in tmp_path.rglob("*")} == {"comparison.yaml", "runs"}
    with small_files(2_000):
        assert main([*words, "--overwrite", "--algorithms", "deepca"]) == 2
    said, err = capsys.readouterr()
    assert "| deepca" in said
    assert (err.count("\n"), f"cannot use {tmp_path}/curves.csv: File too large" in err) == (
        1,
        True,
    )


@pytest.mark.slow
def test_the_same_command_makes_nothing_again(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.stat().st_mtime_ns for path in (made / "runs").iterdir()}
    entries = load(made).entries
    assert len(before) == sum(
        len(one.tried) + 2 + 2 * (one.chosen is not own_step(one.tried)) for one in entries
    )
    assert main(["--config", str(made / "comparison.yaml"), "--out", str(made)]) == 0
    assert {path: path.stat().st_mtime_ns for path in (made / "runs").iterdir()} == before
    said = capsys.readouterr().out
    assert "methods: 2; runs: at most 20, in up to" in said
    assert "Methods at tuned steps" in said
    assert "Tuning tries 3 steps of each method, factors of two about its own, with seed 2." in said
    assert "It continues while the best is the smallest or the largest." in said
    assert f"Files in {made}." in said


@pytest.mark.slow
def test_the_plot_of_a_comparison_is_that_of_the_programming_interface(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (one.label for one in load(made).entries)
    words = (
        "--against bytes --x linear --width column --band quartiles --labels ours,theirs".split()
    )
    assert (
        plot(
            [str(made), *words, "--order", f"{second},{first}", "--out", str(tmp_path / "cli.png")]
        )
        == 0
    )
    looks: dict[str, Any] = {"x": "bytes", "log": "y", "width": "column", "band": "quartiles"}
    drawn = load(made).plot(
        order=[second, first], labels={second: "ours", first: "theirs"}, **looks
    )
    save(drawn, tmp_path / "python.png")
    assert (tmp_path / "cli.png").read_bytes() == (tmp_path / "python.png").read_bytes()
    some = ["--against", "iterations,bytes", "--labels", f"{second}=ours"]
    assert plot([str(made), *some, "--out", str(tmp_path / "cli.png")]) == 0
    drawn = load(made).plot(x=["iterations", "bytes"], labels={second: "ours"})
    assert len(drawn.axes) == 2
    save(drawn, tmp_path / "python.png")
    assert (tmp_path / "cli.png").read_bytes() == (tmp_path / "python.png").read_bytes()
    capsys.readouterr()
    for flags, said in (
        (
            [str(made), "--labels", "a"],
            "give one label for each method, all different, 2 in all, or NAME=LABEL for some; got a",
        ),
        (
            [str(tmp_path), "--band", "none"],
            "--band has no effect with runs, which are no comparison: leave one of the two out",
        ),
    ):
        assert plot(flags) == 2
        assert said in capsys.readouterr().err


@pytest.mark.slow
def test_a_kept_run_that_is_damaged_is_named(
    made: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(made, tmp_path / "copy"))
    path = min((copy / "runs").iterdir())
    for damage in ("\0", '{"history": 5}', "x" * 99):
        path.write_text(damage)
        assert main(["--config", str(made / "comparison.yaml"), "--out", str(copy), "--quiet"]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"decentorth compare: {path} is damaged (")
        assert line.endswith("): remove it, and its run is made again")


@pytest.mark.slow
def test_another_comparison_is_kept_unless_told(
    made: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """With other seconds on another network, as the model says, and without the runs again."""
    words = [
        "--config",
        str(made / "comparison.yaml"),
        "--network",
        "ideal:latency=1,compute=0",
        "--no-plot",
        "--quiet",
    ]
    assert main([*words, "--out", str(made)]) == 2
    assert (
        "holds another comparison (comparison.yaml): choose another --out, or give --overwrite"
        in capsys.readouterr().err
    )
    copy = Path(shutil.copytree(made, tmp_path / "copy"))
    before = {path: path.stat().st_mtime_ns for path in (copy / "runs").iterdir()}
    assert main([*words, "--out", str(copy), "--overwrite"]) == 0
    assert {path: path.stat().st_mtime_ns for path in (copy / "runs").iterdir()} == before
    for row in read(copy / "comparison.csv"):
        assert np.isclose(
            float(row["seconds on ideal:latency=1,compute=0 median"]),
            float(row["rounds median"]),
            rtol=1e-12,
        )
    assert yaml.safe_load((copy / "comparison.yaml").read_text())["network"] == [
        "ideal:latency=1",
        "compute=0",
    ]


def test_the_printed_configuration_is_a_fixed_point(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = [
        *SMALL,
        *BOTH,
        *"--network wan:latency=0.2,compute=2,lan --metric gradient_norm --panels feasibility "
        "--out o".split(),
    ]
    assert main([*words, "--print-config"]) == 0
    printed = capsys.readouterr().out
    (tmp_path / "a.yaml").write_text(printed)
    assert main(["--config", str(tmp_path / "a.yaml"), "--print-config"]) == 0
    assert capsys.readouterr().out == printed
    held = yaml.safe_load(printed)
    assert set(held) > set(CompareForm.own) - {"overwrite", "config", "print_config"}
    assert (held["tolerances"], held["network"]) == (
        [1.0, 0.1],
        ["wan:latency=0.2", "compute=2", "lan"],
    )
    first, again = (
        CompareForm(given, *rest).resolve()
        for given, rest in ((words, ()), ((), ("a.yaml", printed.encode())))
    )
    assert (first.methods, first.networks) == (again.methods, again.networks)
    assert list(first.methods.values()) == [
        DRFGT(order="combine-then-adapt"),
        DRFGT(order="adapt-then-combine"),
    ]


@pytest.mark.parametrize("word", ["a,b:x=1,c", ["a", "b:x=1", "c"]])
def test_a_file_may_hold_a_list_or_text(word: Any) -> None:
    form = CompareForm(
        (), "a.yaml", yaml.safe_dump({"algorithms": word, "tolerances": 0.5}).encode()
    )
    given, _ = form.given()
    assert (given["tolerances"], given["algorithms"]) == ((0.5,), ("a", "b:x=1", "c"))


BAD = [
    ("", "algorithms must name at least one method, as drfgt,drgta"),
    ("--algorithms drfgt,hyperbolic_jacobi", "HyperbolicJacobi needs TraceForm of its problem"),
    (
        "--algorithms drfgt --penalty 3",
        "it is a setting of methods: write --algorithms NAME:penalty=...",
    ),
    ("--algorithms drfgt --partition even", ", and this comparison's problem is 'procrustes'"),
    (
        "--algorithms drfgt --data mine.csv",
        "the problem is procrustes by default: give another, as --problem pca",
    ),
    ("--algorithms drfgt --metric error", "metric: error needs a problem whose answer is known"),
    ("--algorithms drfgt --out x --panels fog", "no run has the metric 'fog' (there are bytes, "),
    (
        "--algorithms drgta --topology one_peer_exponential --agents 8",
        "a time-varying network lacks the eigenvalues",
    ),
    ("--algorithms drfgt --out /dev/null/x", "cannot write to /dev/null/x"),
    (
        "--algorithms drsm --problem rsr",
        "metric: gradient_norm needs a differentiable problem, and this one is not; take error or",
    ),
]


@pytest.mark.parametrize(("words", "phrase"), BAD)
def test_bad_input_is_one_line_before_anything_runs(
    words: str, phrase: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert printed.err.startswith("decentorth compare: ")
    assert phrase in printed.err


@pytest.mark.slow
@pytest.mark.ranks
def test_ranks_count_the_same(made: Path, tmp_path: Path) -> None:
    words = [
        "--config",
        str(made / "comparison.yaml"),
        "--out",
        str(tmp_path / "ranks"),
        "--no-plot",
    ]
    job = run_ranks(2, [*MODULE, *words])
    assert (job.returncode, job.stderr) == (0, ""), job.report()
    assert job.stdout.count("methods: 2; runs: at most 20, each on 2 ranks") == 1, job.report()
    assert counts(tmp_path / "ranks") == counts(made)
    names = [
        {path.name for path in (folder / "runs").iterdir()} for folder in (made, tmp_path / "ranks")
    ]
    assert names[0] == names[1]


@pytest.mark.slow
def test_a_method_of_ones_own_is_compared_in_other_processes(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN_METHOD)
    words = [
        *SMALL[:-1],
        "2",
        "--algorithms",
        "averaging:rounds=3,drfgt",
        "--tune",
        "--grid",
        "2",
        "--no-plot",
    ]
    job = run_ranks(0, [str(tmp_path / "mine.py"), *words, "--out", str(tmp_path / "out")])
    assert job.returncode == 0, job.report()
    assert "averaging:rounds=3 takes no step_size to tune." in job.stdout
    rows = read(tmp_path / "out" / "comparison.csv")
    assert {row["step"] for row in rows if row["algorithm"] == "averaging:rounds=3"} == {"none"}
    assert any(row["reached"] == "2" for row in rows if row["algorithm"] == "drfgt")


@pytest.mark.slow
def test_a_script_whose_worker_dies_ends_with_a_line(tmp_path: Path) -> None:
    script = OWN_METHOD.replace('if __name__ == "__main__":', "if True:")
    (tmp_path / "mine.py").write_text(
        script.replace(
            "        return State(network.mix", "        import os; os._exit(3); (network.mix"
        )
    )
    job = run_ranks(
        0, [str(tmp_path / "mine.py"), *SMALL[:-1], "2", "--algorithms", "averaging", "--quiet"]
    )
    assert job.returncode == 1, job.report()
    assert job.stderr.startswith("decentorth compare: a worker process died (")
    assert (job.stdout, job.stderr.count("\n")) == ("", 1), job.report()


@pytest.mark.slow
def test_interrupted_it_says_so_and_goes_on(tmp_path: Path) -> None:
    flags = (
        "--algorithms drfgt --trials 10 --iterations 300 --tolerances 1e-30 --dimension 5 --rank "
        "2 --agents 4 --workers 2"
    )
    words = [
        sys.executable,
        *MODULE,
        *flags.split(),
        "--quiet",
        "--no-plot",
        "--out",
        str(tmp_path / "o"),
    ]
    runs = tmp_path / "o" / "runs"
    process = subprocess.Popen(
        words,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        until(lambda: runs.exists() and any(runs.glob("*.json")), process=process)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=HUNG)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert (process.returncode, said) == (
        130,
        "decentorth compare: interrupted; with --out the same command continues\n",
    )
    kept = {path: path.stat().st_mtime_ns for path in runs.glob("*.json")}
    assert 0 < len(kept) < 10
    assert main(words[1 + len(MODULE) :]) == 0
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert len(read(tmp_path / "o" / "trials.csv")) == 10
