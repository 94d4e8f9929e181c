"""The choice of ``auto``: the method by problem, network and faults."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.linalg
import yaml

import decentorth as do
import topologies as tp
from decentorth.api import set_up
from decentorth.commands.run.command import main

N = 4
LINK = "link_failures:p=0.2@ring"


def drawn(name: str, n_agents: int = N, **settings: Any) -> Any:
    return getattr(do.problems, f"{name}Settings")(**settings).problem(n_agents, 0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def chosen(problem: Any, W: Any, **more: Any) -> str:
    run = set_up(problem, W=W, comm="serial", **more)
    assert run.choice is not None
    assert type(run.algorithm) is do.registry.algorithms.get(run.choice.name)
    return run.choice.name


@pytest.mark.parametrize(
    ("problem", "ring", "directed", "lossy"),
    [
        ("PCA", "direct", "push_pull", "deepca"),
        ("CCA", "direct", "push_pull", "cdadt"),
        ("LDA", "direct", "push_pull", "cdadt"),
        ("Procrustes", "lbfgs", "push_pull", "drfgt"),
        ("ICA", "lbfgs", "push_pull", "drfgt"),
        ("L1PCA", "rsm", "", "drsm"),
    ],
)
def test_problem_network_and_faults_decide(
    problem: str, ring: str, directed: str, lossy: str
) -> None:
    own = drawn(problem)
    assert chosen(own, "ring") == chosen(drawn(problem, 1), None) == ring
    assert chosen(own, "ring", channel="loss:p=0.1") == lossy
    graph = "directed_ring:chords=1"
    if directed:
        assert chosen(own, graph) == directed
    else:
        with pytest.raises(TypeError, match=r"auto lacks a method for .*name one"):
            set_up(own, W=graph, comm="serial")


def test_drfgt_runs_where_the_network_changes_and_says_that_its_step_is_cautious(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for problem in ("PCA", "CCA", "Procrustes"):
        assert chosen(drawn(problem), LINK) == "drfgt"
    result = do.solve(drawn("Procrustes"), W="ring", channel="loss:p=0.1", iterations=1)
    assert "a given step_size may be faster" in str(result)
    command = f"run --problem procrustes --agents 4 --topology {LINK} --iterations 1"
    for more in ("", " --algorithm drfgt"):
        assert main((command + more).split()[1:]) == 0
        assert len(re.findall("may be faster", capsys.readouterr().out)) == 1


def test_other_methods_need_their_steps_where_the_network_changes() -> None:
    with pytest.raises(TypeError, match=r"auto lacks .* and give step_size and penalty"):
        set_up(drawn("L1PCA"), W=LINK, comm="serial")


def test_many_moments_are_not_sent() -> None:
    """300 columns have 45,150 second moments, of which a point of one component is 300."""
    rows = np.random.default_rng(0).standard_normal((N, 5, 300))
    assert chosen(do.problems.PCA(rows, 1), "ring") == "block_krylov"


def test_a_device_or_a_rank_that_may_leave_takes_gossip() -> None:
    assert chosen(drawn("PCA"), "ring", on_rank_loss="shrink") == "deepca"


def test_a_deferred_problem_is_chosen_for_once_it_is_built() -> None:
    def load(agent: int) -> Any:
        return np.random.default_rng(agent).standard_normal((30, 6)) * np.arange(1, 7)

    problem = do.problems.PCA.from_loader(load, N, 2, center=True)
    result = do.solve(problem, W="ring")
    rows = np.vstack([load(agent) for agent in range(N)])
    values = np.linalg.svd(rows - rows.mean(axis=0))
    assert scipy.linalg.subspace_angles(result.x[0], values[2][:2].T).max() < 1e-12
    assert "21 numbers" in result.choice  # 6 * 7 / 2
    assert "direct: linear algebra solves it" in repr(result)


def test_a_network_in_the_place_of_the_algorithm_is_refused() -> None:
    with pytest.raises(ValueError, match="'ring' is a network, not an algorithm: give W='ring'"):
        do.solve(drawn("PCA"), "ring")
    for network in (nx.cycle_graph(N), tp.metropolis_weights(tp.ring(N)).toarray()):
        with pytest.raises(TypeError, match="is a network, not an algorithm: give it as W="):
            do.solve(drawn("PCA"), network)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="has 4 agents, so W is needed"):
        do.solve(drawn("PCA"))


@pytest.mark.usefixtures("folder")
def test_wine_takes_three_sums(capsys: pytest.CaptureFixture[str]) -> None:
    """Count and means, deviations, and second moments, each ten rounds of a ring of ten; the pooled
    answer."""
    datasets = pytest.importorskip("sklearn.datasets")
    rows = datasets.load_wine().data
    np.savetxt("wine.csv", rows, delimiter=",", header=",".join("abcdefghijklm"), comments="")
    words = "--problem pca --data wine.csv --scale --center --out a --agents 10"
    assert main(words.split()) == 0
    printed = capsys.readouterr().out
    assert (
        "auto        direct: linear algebra solves it; second moments of each agent, 91" in printed
    )
    assert "; or --algorithm block_krylov, lbfgs, deepca" in printed
    summary = json.loads(Path("a/summary.json").read_text())
    assert (summary["rounds"], summary["config"]["algorithm"]) == (30, "direct")
    assert summary["bytes"] < 25_000
    scaled = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    answer = np.linalg.svd(scaled)[2][:5].T
    assert scipy.linalg.subspace_angles(np.load("a/final.npz")["x"][0], answer).max() < 1e-12
    assert yaml.safe_load(Path("a/config.yaml").read_text())["algorithm"] == "direct"


@pytest.mark.usefixtures("folder")
def test_collinear_spectra_are_solved(capsys: pytest.CaptureFixture[str]) -> None:
    rng, t = np.random.default_rng(0), np.linspace(0, 1, 100)
    peaks = np.exp(-(((t - np.array([[0.2], [0.45], [0.7], [0.55]])) / 0.25) ** 2))
    rows = 3 + rng.standard_normal((215, 1)) + 0.05 * rng.gamma(3, 1, (215, 4)) @ peaks
    rows += 0.002 * rng.standard_normal((215, 100))
    names = ",".join(f"nm{850 + 2 * k}" for k in range(100))
    np.savetxt("spectra.csv", rows, delimiter=",", header=names, comments="")
    assert main("--problem pca --data spectra.csv --scale --center --rank 3".split()) == 0
    (distance,) = re.findall(r"subspace distance\s+\S+ -> (\S+)", capsys.readouterr().out)
    assert float(distance) < 1e-10


@pytest.mark.usefixtures("folder")
def test_a_checkpoint_names_the_method(capsys: pytest.CaptureFixture[str]) -> None:
    words = "--problem ica --sources 4 --agents 4 --iterations 4 --out a --checkpoint-every 2"
    assert main(words.split()) == 0
    assert main("--resume a --iterations 9".split()) == 0
    assert main(words.replace("4 --out a", "9 --out b").split()) == 0
    assert capsys.readouterr().err == ""
    one, other = (json.loads(Path(f"{name}/summary.json").read_text()) for name in "ab")
    assert one["config"]["algorithm"] == "lbfgs"
    assert one["iterates_sha256"] == other["iterates_sha256"]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("flag", ["--step-size 0.1", "--penalty 3", "--order accelerated"])
def test_a_setting_of_one_method_needs_its_name(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--problem", "pca", *flag.split()]) == 2
    said = "it is a setting of one method: add --algorithm drfgt"
    assert said in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
def test_a_run_at_its_limit_names_the_method_that_would_arrive(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = "--problem pca --data digits --agents 4 --algorithm dgd --iterations 20"
    assert main(words.split()) == 0
    assert "auto would take --algorithm direct here" in capsys.readouterr().out
    assert do.solve(drawn("PCA"), "dgd", "ring", iterations=20).advice
    assert main("--problem ica --agents 4 --iterations 2".split()) == 0
    assert "lbfgs needs more iterations" in capsys.readouterr().out
    assert not do.solve(drawn("PCA"), W="ring").advice
