"""Runs on the processes of torchrun: the bits of one process, the end of a lost process, and what
is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import decentorth as do
from decentorth.estimators import PCA
from tests.support.conformance import CHECKS
from tests.support.mpi import run_ranks

pytest.importorskip("torch")
from tests.support.torch_jobs import run_torch, start_torch


@pytest.mark.ranks
def test_the_published_experiment_has_the_bits_of_one_process(tmp_path: Path) -> None:
    """A command runs on all processes, and one of them prints and writes."""
    words = ["decentorth.run", "--iterations", "200"]
    job = run_torch(2, "-m", *words, "--out", str(tmp_path / "torch"))
    assert job.stdout.count("Stopped at the limit of 200 iterations") == 1
    assert "on 2 ranks of 5 agents" in job.stdout
    alone = run_ranks(0, ["-m", *words, "--out", str(tmp_path / "alone")])
    assert alone.returncode == 0, alone.report()
    found, expected = (
        json.loads((tmp_path / folder / "summary.json").read_text())
        for folder in ("torch", "alone")
    )
    assert found["iterates_sha256"] == expected["iterates_sha256"]


SCRIPT = """
import numpy as np
import torch
import decentorth as do
from decentorth.estimators import PCA

comm = do.connect("torch")
problem = do.problems.PCASettings(data="digits", rank=3).problem(5, seed=0)
runs = {
    "drfgt": ("drfgt", {}),
    "deepca": ("deepca", {}),
    "drgta": ("drgta", {}),
    "lossy": ("drfgt", {"channel": "loss:p=0.2"}),
    "changing": ("drfgt:step_size=1e-3", {"W": "link_failures:p=0.2@ring"}),
    "stopped": ("drfgt", {"stopping": do.stopping.GradientNorm(1e-1)}),
}
same = []
for name, (method, settings) in runs.items():
    settings = {"W": "ring", "iterations": 40, **settings}
    ours = do.solve(problem, method, **settings)
    alone = do.solve(problem, method, **settings, comm="serial")
    if ours.x.tobytes() == alone.x[ours.network.agents].tobytes():
        same.append(name)
x = np.random.default_rng(0).normal(size=(5, 30, 8))
found = PCA(2, random_state=0).fit_agents(list(x), "ring")
group = torch.distributed.new_group([2, 0, 1])
of_group = do.connect(group)
if comm.rank == 0:
    print(same == list(runs), do.connect(group) is of_group, do.connect() is comm, of_group.size)
    print(found.components_.tobytes().hex())
"""


@pytest.mark.ranks
def test_methods_channels_stopping_and_estimators_have_the_bits_of_one_process(
    tmp_path: Path,
) -> None:
    """After ``connect("torch")``, which is then the default; a process group is one too."""
    (tmp_path / "script.py").write_text(SCRIPT)
    first, components = run_torch(3, str(tmp_path / "script.py")).stdout.splitlines()
    assert first == "True True True 3"
    x = np.random.default_rng(0).normal(size=(5, 30, 8))
    found = PCA(2, random_state=0).fit_agents(list(x), "ring")
    assert components == found.components_.tobytes().hex()


SUITE = ("-m", "tests.support.conformance", "tests/support/edges.py:torch")


@pytest.mark.ranks
def test_the_processes_of_torchrun_do_what_every_transport_does() -> None:
    """Late ones too: neighbours are a round ahead."""
    job = run_torch(4, *SUITE)
    assert job.stdout == f"{len(CHECKS)} checks on 4 ranks\n"


@pytest.mark.ranks
@pytest.mark.parametrize("how", ["kill", "stop", "leave"])
def test_a_lost_process_ends_the_job_with_the_reason(how: str) -> None:
    job = start_torch(3, *SUITE, "--lose", how)
    assert job.returncode == 1, job.report()
    assert re.search(
        r"rank [01] waits for messages, but a rank has ended, or has not answered for 10 s",
        job.stderr,
    )
    assert "has not noticed" not in job.stderr
    assert job.left == 0


@pytest.mark.ranks
@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("--iterations -3", "decentorth: --iterations: iterations must be at least 0"),
        (
            "--algorithm asynchronous_drfgt --activations 30",
            "decentorth: agents that do not wait for each other need ranks of MPI, or one process, "
            "and this is torch.distributed: take drfgt",
        ),
    ],
    ids=["flag", "asynchronous"],
)
def test_bad_input_is_one_line_of_one_process(words: str, line: str) -> None:
    """Its exit code is 2. Torchrun then terminates processes that have not ended yet, and itself
    ends with 1."""
    job = start_torch(2, "-m", "decentorth.run", *words.split())
    assert job.stderr.count(line) == 1
    first, *others = re.findall(r"failed \(exitcode: (\S+)\)", job.stderr)
    assert first == "2"
    assert not others
    assert {*re.findall(r"exitcode  : (\S+)", job.stderr)} <= {"2", "-15"}
    assert job.returncode == 1
    assert job.left == 0
    assert not job.stdout


@pytest.mark.ranks
def test_doctor_examines_the_processes_of_torchrun() -> None:
    job = run_torch(2, "-m", "decentorth", "doctor")
    assert re.search(r"works +torchrun +PyTorch", job.stdout)
    assert "20 iterations of the main job have the bits of one process" in job.stdout


def test_torchrun_without_a_choice_is_refused_with_both() -> None:
    processes = {"WORLD_SIZE": "2", "RANK": "1", "TORCHELASTIC_RUN_ID": "1"}
    job = run_ranks(0, ["-c", "import decentorth as do; do.connect()"], settings=processes)
    assert job.returncode == 1
    assert "give comm='torch', or call decentorth.connect('torch') first" in job.stderr
    assert "for separate runs give comm='serial'" in job.stderr


def test_without_torchrun_torch_is_refused() -> None:
    with pytest.raises(RuntimeError, match="processes that torchrun started"):
        do.connect("torch")
