"""What the scripts of launch/ make of their arguments: mpirun is one that prints its own, a word a
line."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from decentorth.commands.launch import main as launch
from tests.support.mpi import HUNG, ROOT

LAUNCH = ROOT / "launch"
MPIRUN = """#!/bin/sh
[ "$1" != --version ] || exec echo HYDRA
printf '%s\\n' "$@"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder to start scripts in, beside that of mpirun."""
    (tmp_path / "bin").mkdir()
    for name, text in (("mpirun", MPIRUN), ("python", "#!/bin/sh\n")):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    here = tmp_path / "here"
    here.mkdir()
    return here


def call(
    folder: Path, script: str, *words: str, **environ: str
) -> subprocess.CompletedProcess[str]:
    path = {"PATH": f"{folder.parent / 'bin'}:{os.defpath}"}
    command = [str(LAUNCH / script), *words]
    return subprocess.run(
        command,
        cwd=folder,
        env=path | environ,
        capture_output=True,
        text=True,
        timeout=HUNG,
        check=False,
    )


def started(folder: Path, script: str, *words: str, **environ: str) -> list[str]:
    done = call(folder, script, *words, **environ)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def refused(folder: Path, script: str, *words: str, **environ: str) -> str:
    """The one line with which the script refuses its arguments."""
    done = call(folder, script, *words, **environ)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done
    assert done.stderr.startswith(f"{script}: ")
    assert list(folder.glob("pwned*")) == []
    return done.stderr


def task(number: str) -> dict[str, str]:
    job = {"SLURM_JOB_NAME": "sweep", "SLURM_JOB_ID": "8", "SLURM_NTASKS": "2"}
    return job | {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": number}


@pytest.mark.parametrize("script", ["local.sh", "hosts.sh", "slurm.sbatch"])
def test_usage(script: str, folder: Path) -> None:
    asked = call(folder, script, "--help")
    assert (asked.returncode, asked.stderr) == (0, "")
    assert f"launch/{script} " in asked.stdout
    assert not any(
        line.startswith(("#", "set ")) or "SBATCH" in line for line in asked.stdout.splitlines()
    )
    without = call(folder, script)
    assert (without.returncode, without.stdout, without.stderr) == (2, "", asked.stdout)


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_every_line_of_a_sweep_is_a_run(end: str, folder: Path) -> None:
    """The last one too, where the file does not end with a line end; further flags are those of all
    runs."""
    (folder / "sweep.txt").write_text(f"--penalty 10\n--penalty 20 --data *{end}")
    (folder / "other").touch()
    for number, own in (("1", ["--penalty", "10"]), ("2", ["--penalty", "20", "--data", "*"])):
        words = started(folder, "slurm.sbatch", "sweep.txt", "--rank", "3", **task(number))
        expected = [
            "--checkpoint-every",
            "10m",
            "--overwrite",
            *own,
            "--rank",
            "3",
            "--out",
            f"runs/sweep-7/{number}",
        ]
        assert words == ["-n", "2", "python", "-m", "decentorth.run", *expected]


@pytest.mark.parametrize("number", ["0", "5", "99999999999", "x[$(touch pwned)]"])
def test_a_task_beyond_the_sweep_is_refused(number: str, folder: Path) -> None:
    (folder / "sweep.txt").write_text("--penalty 10\n\n  # all of them\n--penalty 20")
    said = refused(folder, "slurm.sbatch", "sweep.txt", **task(number))
    assert f"task {number} has no line in sweep.txt, which has lines 1 to 4" in said


@pytest.mark.parametrize("number", ["2", "3"])
def test_a_line_of_a_sweep_without_flags_is_refused(number: str, folder: Path) -> None:
    (folder / "sweep.txt").write_text("--penalty 10\n \t\n  # all of them\n--penalty 20")
    said = refused(folder, "slurm.sbatch", "sweep.txt", **task(number))
    assert f"line {number} of sweep.txt is blank or a comment" in said


def test_a_sweep_that_is_missing_and_a_script_outside_slurm_are_refused(folder: Path) -> None:
    assert "there is no file 'sweep.txt'" in refused(
        folder, "slurm.sbatch", "sweep.txt", **task("1")
    )
    assert "submit this script with sbatch" in refused(folder, "slurm.sbatch", "--agents", "10")


def test_hosts_and_their_ranks(folder: Path) -> None:
    words = started(folder, "hosts.sh", "h1:4,node-2.net:3", "--out", "a b")
    assert words[:6] == ["-hosts", "h1:4,node-2.net:3", "-launcher", "ssh", "-n", "7"]
    assert words[7:] == ["-m", "decentorth.run", "--out", "a b"]


@pytest.mark.parametrize(
    "hosts",
    [
        "h1:PATH[$(touch pwned)0]",
        "h?:3",
        "h1,h2",
        "h1:0",
        "h1:4,",
        "h1:4 h2:3",
        "-x:1",
        "h1:1e3",
        "",
    ],
)
def test_hosts_that_cannot_be_meant_are_refused(hosts: str, folder: Path) -> None:
    (folder / "h1:3").touch()
    assert f"must be written as h1:4,h2:3,h3:3, got '{hosts}'" in refused(folder, "hosts.sh", hosts)


def test_local_goes_on_in_its_own_folder_only(folder: Path) -> None:
    (folder / "run" / "checkpoints" / "000000100").mkdir(parents=True)
    begun = ["--checkpoint-every", "10m", "--rank", "3", "--out"]
    assert started(folder, "local.sh", "3", "r*", "--rank", "3")[5:] == [*begun, "r*"]
    assert started(folder, "local.sh", "3", "a b", "--rank", "3")[5:] == [*begun, "a b"]
    assert started(folder, "local.sh", "3", "run", "--rank", "3")[5:] == [
        "--rank",
        "3",
        "--resume",
        "run",
    ]


@pytest.mark.parametrize("ranks", ["0", "two", "PATH[$(touch pwned)0]", "-1"])
def test_a_number_of_ranks_that_cannot_be_meant_is_refused(ranks: str, folder: Path) -> None:
    assert f"the number of ranks must be at least 1, got '{ranks}'" in refused(
        folder, "local.sh", ranks, "a"
    )


def test_the_command_prints_the_scripts_with_the_resources_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for kind, script in (("slurm", "slurm.sbatch"), ("hosts", "hosts.sh"), ("local", "local.sh")):
        assert launch([kind]) == 0
        assert capsys.readouterr().out == (LAUNCH / script).read_text()
    assert launch(["slurm", "--ntasks", "24", "--time", "36h", "--job-name", "digits"]) == 0
    changed = set(capsys.readouterr().out.splitlines()) - set(
        (LAUNCH / "slurm.sbatch").read_text().splitlines()
    )
    assert changed == {
        "#SBATCH --ntasks=24",
        "#SBATCH --time=36:00:00",
        "#SBATCH --job-name=digits",
    }


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "name a script"),
        (["slrum"], "did you mean"),
        (["hosts", "--ntasks", "3"], "--ntasks belongs to decentorth launch slurm"),
        (["slurm", "--time", "soon"], "time"),
        (["slurm", "--job-name", "a b"], "--job-name must be one word"),
    ],
)
def test_a_wrong_request_is_one_line(
    words: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert launch(words) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert reason in err


def test_lines_for_a_cluster_work_without_their_mark(folder: Path) -> None:
    """sbatch reads options up to the first command only."""
    text = (LAUNCH / "slurm.sbatch").read_text()
    header = text[: text.index("set -euo")].replace("##SBATCH", "#SBATCH")
    options = [line for line in header.splitlines() if line.startswith("#SBATCH")]
    assert {"account", "partition", "mem-per-cpu"} <= {
        line.removeprefix("#SBATCH --").partition("=")[0] for line in options
    }
    assert "\n#module load " in header
    used = text.replace("\n#export OMP_NUM_THREADS=1", "\nexport OMP_NUM_THREADS=1")
    used = used.replace("\n#source ", "\ntrue ").replace("##SBATCH", "#SBATCH")
    assert used.count("\nexport OMP_NUM_THREADS=1\n") == 1
    script = folder.parent / "bin" / "own.sbatch"
    script.write_text(used)
    script.chmod(0o755)
    job = {"SLURM_JOB_NAME": "own", "SLURM_JOB_ID": "8", "SLURM_NTASKS": "2"}
    done = call(folder, str(script), "--rank", "3", **job)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-2:] == ["--out", "runs/own-8"]
