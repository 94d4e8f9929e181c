"""Asynchronous agents: exact invariants, the reference activation, replays, damaged logs, and
agents that come back."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import decentorth as do
import topologies as tp
from benchmarks.asynchronous import pca, trial
from decentorth.__main__ import main
from decentorth.commands.line.config import Command
from decentorth.families.asynchronous.agent import AsynchronousAgent
from decentorth.families.asynchronous.log import decoded, read, read_agent, write_agent
from decentorth.families.asynchronous.schedule import Activation, Clocks, Graph, drawn, repeated
from decentorth.families.asynchronous.simulation import Simulation
from decentorth.problems import PCA
from decentorth.protocols import Array, Index
from decentorth.sets.stiefel import Stiefel
from tests.reference import naive
from tests.support.mpi import Running, run_ranks, until
from tests.support.problems import samples

N, D, R = 5, 6, 2
UNIT, STEP, PENALTY = 2.0**-52, 0.3, 0.5
GRAPH = Graph(
    tuple(tuple(sorted({(i - 1) % N, (i + 2) % N})) for i in range(N)),
    tuple(tuple(sorted({(i + 1) % N, (i - 2) % N})) for i in range(N)),
)
"""Directed: every agent hears the one before it and the one two after it."""
CLOCKS = Clocks((3.0, 1.0, 1.0, 1.0, 1.0), 3.0, 0.3)
WORDS = (
    "--problem pca --data synthetic --dimension 6 --rank 2 --algorithm asynchronous_drfgt "
    "--quiet --channel loss:p=0.3"
)
DATA = [a * [2.0, 1.8, 0.3, 0.3, 0.2, 0.2] for a in samples((20, 9, 30, 15, 12), D, 0, 1.0)]
PROBLEM = PCA(DATA, R, weights="agents")


def agents() -> list[AsynchronousAgent]:
    start = Stiefel(D, R).random(np.random.default_rng(0))
    x = np.repeat(start[None], N, axis=0)
    parts = [PROBLEM.restrict(slice(i, i + 1)) for i in range(N)]
    return [
        AsynchronousAgent(
            i, parts[i], x[i : i + 1], UNIT, STEP, PENALTY, GRAPH.ins[i], GRAPH.outs[i], N
        )
        for i in range(N)
    ]


def simulation(seed: int = 0) -> Simulation:
    return Simulation(agents(), lambda: drawn(GRAPH, CLOCKS, seed))


def run(simulated: Simulation, activations: int) -> Simulation:
    for _ in range(activations):
        simulated.activate()
    return simulated


def points(simulated: Simulation) -> bytes:
    return b"".join(agent.x.tobytes() + agent.mass.tobytes() for agent in simulated.agents)


def exact(simulated: Simulation) -> bool:
    return not simulated.deviation().any() and not any(
        agent.balance().any() for agent in simulated.agents
    )


def gradient(x: Array) -> float:
    """The Riemannian gradient of the mean objective at the point nearest to ``x``."""
    hat = Stiefel(D, R).project(x[None])[0]
    mean: Array = np.mean([naive.pca_gradient(one, hat) for one in DATA], axis=0)
    return float(np.linalg.norm(naive.tangent_projection(hat, mean)))


def test_an_activation_is_its_equations() -> None:
    """Against a plain float version, to the quantum."""
    simulated = simulation()
    x = [agent.x[0].copy() for agent in simulated.agents]
    field = [
        naive.landing_field(x[i], naive.pca_gradient(DATA[i], x[i]), PENALTY) for i in range(N)
    ]
    z, rho = [one.copy() for one in field], [np.zeros((D, R)) for _ in range(N)]
    used = {(j, i): np.zeros((D, R)) for i in range(N) for j in GRAPH.ins[i]}
    known = [np.zeros(N) for _ in range(N)]
    sent = {(j, 0): (x[j].copy(), np.zeros((D, R)), np.zeros(N)) for j in range(N)}
    for _, (i, chosen) in zip(range(200), drawn(GRAPH, CLOCKS, 0), strict=False):
        simulated.activate()
        faster = (known[i].max() + 10) / (known[i][i] + 10)
        v = x[i] - STEP * min(faster, 10.0) ** 0.5 * z[i]
        heard = {j: sent[j, version] for j, version in zip(GRAPH.ins[i], chosen, strict=True)}
        x[i] = (v + sum(point for point, _, _ in heard.values())) / 3
        new = naive.landing_field(x[i], naive.pca_gradient(DATA[i], x[i]), PENALTY)
        z[i] = z[i] + sum(mass - used[j, i] for j, (_, mass, _) in heard.items()) + new - field[i]
        used |= {(j, i): mass for j, (_, mass, _) in heard.items()}
        known[i] = np.max([known[i], *(table for _, _, table in heard.values())], axis=0)
        field[i], rho[i], z[i] = new, rho[i] + z[i] / 3, z[i] / 3
        known[i][i] += 1
        sent[i, int(known[i][i])] = (v, rho[i].copy(), known[i].copy())
    np.testing.assert_allclose(
        np.stack([agent.x[0] for agent in simulated.agents]), np.stack(x), atol=1e-12
    )
    np.testing.assert_allclose(
        np.stack([agent.mass[0] * UNIT for agent in simulated.agents]), np.stack(z), atol=1e-12
    )


@pytest.mark.slow
def test_both_invariants_are_exactly_zero_and_the_limit_is_right() -> None:
    simulated = simulation()
    for _ in range(10):
        assert exact(run(simulated, 300))
    x = np.stack([agent.x[0] for agent in simulated.agents])
    assert gradient(x.mean(axis=0)) < 1e-9
    assert np.abs(x - x.mean(axis=0)).max() < 1e-9


def test_counters_that_wrap_give_the_same_bits() -> None:
    """Started 2^40 quanta below the largest int64, all counters wrap."""
    plain, wrapping = simulation(), simulation()
    for agent in wrapping.agents:
        agent.sent = np.full_like(agent.sent, 2**63 - 2**40)
    for agent in wrapping.agents:
        agent.used = [wrapping.agents[j].sent for j in agent.ins]
        agent.heard = [wrapping.agents[j].first() for j in agent.ins]
    assert points(run(plain, 1000)) == points(run(wrapping, 1000))
    assert all((agent.sent < 0).any() for agent in wrapping.agents)
    assert exact(wrapping)


def shuffled(used: list[Index], seed: int) -> Iterator[Activation]:
    """The activations of logs in a random order in which every message that is used has been
    sent."""
    rng, done = np.random.default_rng(seed), [0] * N
    while left := [i for i in range(N) if done[i] < len(used[i])]:
        i = int(
            rng.choice([i for i in left if all(used[i][done[i]] <= np.take(done, GRAPH.ins[i]))])
        )
        yield i, used[i][done[i]].tolist()
        done[i] += 1


@pytest.mark.slow
def test_a_log_repeats_the_run_in_any_order_that_it_allows() -> None:
    live = run(simulation(), 1500)
    counts = [agent.version for agent in live.agents]
    used = [
        decoded(bytes(log), counts[i], 2, [counts[j] for j in GRAPH.ins[i]])
        for i, log in enumerate(live.logs)
    ]
    orders = (partial(repeated, GRAPH, used), *(partial(shuffled, used, seed) for seed in (0, 1)))
    for order in orders:
        again = run(Simulation(agents(), order, counts), 1500)
        assert points(again) == points(live)
    used[0][5] = counts[4]  # waits for messages that others send only after it
    with pytest.raises(ValueError, match="never sent"):
        list(repeated(GRAPH, used))


def test_a_log_has_versions_that_were_sent_and_never_fall() -> None:
    rows = [[0, 1], [254, 2], [254, 260], [261, 2**39]]
    log = np.array(rows).astype("<i8").tobytes()
    np.testing.assert_array_equal(decoded(log, 4, 2, [261, 2**40]), rows)
    for wrong, activations, last in (
        (log, 4, [260, 2**40]),
        (log, 5, [261, 2**40]),
        (log[16:] + log[:16], 4, [261, 2**40]),
    ):
        with pytest.raises(ValueError, match=r"cannot be|never sent"):
            decoded(wrong, activations, 2, last)


def test_an_agent_that_falls_back_to_a_checkpoint_disturbs_no_invariant() -> None:
    simulated = run(simulation(), 1000)
    agent = simulated.agents[1]
    saved = agent.checkpoint()
    before = run(simulated, 600).agents[1].version
    agent.take(saved)
    agent.come_back(before)
    assert exact(simulated)
    assert exact(run(simulated, 3500))
    assert gradient(np.mean([agent.x[0] for agent in simulated.agents], axis=0)) < 1e-8
    assert agent.version >> 40 == 1


@pytest.mark.slow
def test_agents_go_on_from_checkpoints_of_different_times() -> None:
    """As after the loss of every process: exact invariants, and the same limit."""
    simulated, saved = simulation(), []
    for agent in simulated.agents:
        saved.append(run(simulated, 150 * (1 + agent.number % 3)).agents[agent.number].checkpoint())
    again = simulation(1)
    again.recover([*saved[:-1], None])
    assert exact(again)
    assert exact(run(again, 5000))
    assert gradient(np.mean([agent.x[0] for agent in again.agents], axis=0)) < 1e-8
    assert [agent.version >> 40 for agent in again.agents] == [1] * N


def test_versions_rise_beyond_those_in_anybodys_checkpoint() -> None:
    """Agent 1 falls back beyond messages that its neighbours have used: its next one is newer than
    these."""
    simulated = run(simulation(), 100)
    early = simulated.agents[1].checkpoint()
    saved = [agent.checkpoint() for agent in run(simulated, 1000).agents]
    known = max(int(agent.known[0, 1]) for agent in simulated.agents if agent.number != 1)
    again = simulation(1)
    again.recover([saved[0], early, *saved[2:]])
    assert known > early[0] + 100
    assert again.agents[1].version == 1 << 40 | known
    assert exact(run(again, 100))


@pytest.mark.ranks
def test_ranks_go_on_from_an_agents_checkpoint_that_is_much_older_than_the_others(
    tmp_path: Path,
) -> None:
    words = (
        f"{WORDS} --samples 40 --gap 0.5 --agents 4 --activations 100 --end-tolerance 1e-9 "
        "--checkpoint-every 100"
    )
    assert main(["run", *words.split(), "--out", str(tmp_path / "run")]) == 0
    settings = Command([*words.split(), "--out", str(tmp_path / "run")]).resolve()
    problem = settings.problem.problem(settings.run.agents, settings.run.seed)
    start = tmp_path / "run/checkpoints/000000100"
    for state in do.iterate(
        problem, settings.algorithm, "ring", seed=settings.run.seed, channel="loss:p=0.3"
    ):
        if state.k == 100:
            write_agent(start / "agents", state.agents.agents[0])
        if state.k == 2000:
            for agent in state.agents.agents[1:]:
                write_agent(start / "agents", agent)
            break
    further = ["--resume", str(start), "--out", str(tmp_path / "on"), "--activations", "100000"]
    job = run_ranks(2, ["-m", "decentorth", "run", *further])
    assert job.returncode == 0, job.report()
    measured = json.loads((tmp_path / "on/summary.json").read_text())
    assert measured["status"] == "converged", measured
    assert measured["metrics"]["gradient_norm"] < 1e-8


def test_damaged_checkpoints_of_agents_are_refused(tmp_path: Path) -> None:
    agent = run(simulation(), 500).agents[1]
    write_agent(tmp_path, agent)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    np.testing.assert_array_equal(read_agent(tmp_path, agents()[1]), agent.checkpoint())
    head, _, body = whole.partition(b"\n")
    facts = json.loads(head)

    def signed(words: Any) -> bytes:
        changed: bytes = words.tobytes()
        return (
            json.dumps({**facts, "sha256": hashlib.sha256(changed).hexdigest()}).encode()
            + b"\n"
            + changed
        )

    for content, words in {
        b"": "no checkpoint",
        b"\x80\x04": "no checkpoint",
        whole[:-8]: "damaged",
        whole + b"0" * 8: "damaged",
        whole[:-1] + bytes([whole[-1] ^ 1]): "SHA-256",
        json.dumps({**facts, "agent": 2}).encode() + b"\n" + body: "another agent",
        json.dumps({**facts, "quantum": 1.0}).encode() + b"\n" + body: "another agent or run",
    }.items():
        path.write_bytes(content)
        with pytest.raises(ValueError, match=words):
            read_agent(tmp_path, agents()[1])
    # the version, a point, a mass
    for place, value in ((0, -1), (2, np.float64(np.nan).view(np.int64)), (2 + D * R, 7)):
        damaged = np.frombuffer(body, np.int64).copy()
        damaged[place] = value
        path.write_bytes(signed(damaged))
        fresh = agents()[1]
        saved = read_agent(tmp_path, fresh)
        assert saved is not None
        with pytest.raises(ValueError, match="balance"):
            fresh.take(saved)


def test_a_run_in_one_process_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    method = do.AsynchronousDRFGT(
        activations=2000, delay=2.0, slow_agents=1, log=str(tmp_path / "log")
    )
    solve = partial(do.solve, PROBLEM, W="ring", channel="loss:p=0.2", record_every=500)
    whole = solve(method)
    log = (tmp_path / "log").read_bytes()
    solve(method, checkpoints=do.Checkpoints(str(tmp_path / "run"), every=700, keep=9))
    for name in ("000001400", "000000700"):
        again = solve(replace(method, activations=2000), resume=str(tmp_path / "run" / name))
        assert again.iterates_sha256 == whole.iterates_sha256
        assert (tmp_path / "log").read_bytes() == log
        assert again.row.messages == whole.row.messages


@pytest.mark.slow
@pytest.mark.ranks
def test_a_job_whose_rank_is_killed_goes_on_from_its_agents_own_checkpoints(tmp_path: Path) -> None:
    words = (
        f"{WORDS} --samples 40 --gap 0.5 --agents 6 --activations 400000 --end-tolerance 1e-9 "
        "--checkpoint-every 300"
    )
    own = tmp_path / "run/checkpoints/000000000/agents"
    last = own / "agent-00004"

    def counts() -> list[int]:
        files = [own / f"agent-{agent:05d}" for agent in range(6)]
        whole = [path.read_bytes().partition(b"\n")[2] for path in files if path.exists()]
        return [int.from_bytes(body[:5], "little") for body in whole]

    def kill(job: Running) -> None:
        until(lambda: len(counts()) == 6 and min(counts()) > 50, process=job.process)
        os.kill(job.ranks()[1], signal.SIGKILL)

    job = run_ranks(
        3,
        ["-m", "decentorth", "run", *words.split(), "--out", str(tmp_path / "run")],
        meanwhile=kill,
    )
    assert job.returncode != 0, job.report()
    before = counts()
    assert before[4] > 50
    assert last.exists()
    for ranks in (0, 3):  # in one process, then on ranks, from the same files
        words = (
            f"--resume {tmp_path / 'run'} --out {tmp_path / str(ranks)} --activations 40000 "
            "--record-every 1000"
        )
        words += " --relative-gradient-tolerance 1e-9" if ranks == 0 else ""
        job = run_ranks(ranks, ["-m", "decentorth", "run", *words.split()])
        assert job.returncode == 0, job.report()
        measured = json.loads((tmp_path / str(ranks) / "summary.json").read_text())
        assert measured["status"] == "converged", measured
        assert max(measured["metrics"]["gradient_norm"], measured["metrics"]["error"]) < 1e-8


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "run.log"
    assert (
        main(
            [
                "run",
                *f"{WORDS} --samples 20 --agents 4 --activations 400 --delay 2 --log".split(),
                str(path),
            ]
        )
        == 0
    )
    return path


@pytest.mark.slow
def test_the_command_replays_a_log(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(log)]) == 0
    assert (
        f"iterates_sha256 {read(log).header['iterates_sha256']}, as in the log"
        in capsys.readouterr().out
    )
    header, _, body = log.read_bytes().partition(b"\n")
    facts = json.loads(header)
    log.write_bytes(
        json.dumps({**facts, "settings": {**facts["settings"], "seed": 1}}).encode() + b"\n" + body
    )
    assert main(["replay", str(log)]) == 1
    assert "the iterates differ" in capsys.readouterr().err


def test_damaged_logs_are_refused_in_one_line(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    header, _, body = log.read_bytes().partition(b"\n")
    facts = json.loads(header)

    def with_(**changed: Any) -> bytes:
        return json.dumps({**facts, **changed}).encode() + b"\n" + body

    def set_to(**changed: Any) -> bytes:
        return with_(settings={**facts["settings"], **changed})

    whole, later = header + b"\n" + body, bytes([40]) + body[1:]
    for name, content in {
        "empty": b"",
        "no log": b'{"decentorth log": 1}\n' + body,
        "no JSON": b"\x80\x04\n" + body,
        "deep": b"[" * 100_000 + b"\n" + body,
        "cut": whole[:-3],
        "longer": whole + b"0",
        "flipped": whole[:-1] + bytes([whole[-1] ^ 1]),
        "more activations than bytes": with_(activations=[10**30, *facts["activations"][1:]]),
        "huge sizes": with_(bytes=[2**62] * 4),
        "negative": with_(bytes=[-1, *facts["bytes"][1:]]),
        "waits for ever": header.replace(
            facts["sha256"].encode(), hashlib.sha256(later).hexdigest().encode()
        )
        + b"\n"
        + later,
        "no settings": with_(settings={}),
        "wrong settings": set_to(rank={"a": 1}),
        "a plugin": set_to(plugin=["/tmp/evil.py"]),
        "other graph": set_to(topology="complete"),
        "other method": set_to(algorithm="drfgt"),
    }.items():
        log.write_bytes(content)
        assert main(["replay", str(log)]) == 2, name
        said = capsys.readouterr()
        assert said.out == "", name
        assert said.err.startswith("decentorth: "), name
        assert said.err.count("\n") == 1, name


def test_settings_that_do_not_apply_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", "--problem", "pca", "--data", "synthetic", "--algorithm", "asynchronous_drfgt"]
    (tmp_path / "mine.txt").write_text("not a log\n")
    for wrong, part in {
        "--iterations 5": "give --activations",
        "--channel delay:rounds=3": "delays are its setting delay",
        "--slowness 3": "give slow_agents",
        f"--log {tmp_path}": "is a folder",
        f"--log {tmp_path / 'mine.txt'}": "exists and is no log",
        "--log /dev/null": "exists and is no log",
        f"--log {tmp_path}/no/log": "No such file",
        "--slow-agents 11": "at most the number of agents, 10",
        "--agents 1": "at least two agents",
        "--topology random_matching --step-size 0.1": "a graph that stays",
        "--local-tolerance 1e-3": "give --end-tolerance",
        "--on-rank-loss shrink": "give restart",
        "--on-rank-loss restart": "needs the agents' checkpoints",
        f"--on-rank-loss restart --checkpoint-every 5 --out {tmp_path / 'x'} --log "
        f"{tmp_path / 'y'}": "drop one of them",
    }.items():
        assert main([*words, *wrong.split(), "--activations", "10"]) == 2, wrong
        assert part in capsys.readouterr().err, wrong


@pytest.mark.slow
def test_python_runs_replays_and_agrees_on_the_end(tmp_path: Path) -> None:
    method = do.AsynchronousDRFGT(
        step_size=0.3, activations=30_000, end_tolerance=1e-3, log=str(tmp_path / "log"), delay=1.0
    )
    W = tp.metropolis_weights(tp.ring(N))
    first = do.solve(PROBLEM, method, W, channel="loss:p=0.2", rows=5)
    assert first.status == "converged"
    assert first.row.iteration < 30_000
    assert first.row.values["gradient_norm"] < 1e-2
    assert first.row.values["consensus_rms"] < 1e-3
    again = do.solve(PROBLEM, replace(method, log=None, schedule=method.log), W, rows=5)
    assert again.iterates_sha256 == first.iterates_sha256
    with pytest.raises(ValueError, match="for asynchronous agents"):
        do.solve(PROBLEM, do.DRFGT(), W, on_rank_loss="restart")
    with pytest.raises(ValueError, match="end_tolerance"):
        do.solve(PROBLEM, method, W, stopping=do.stopping.LocalMaximum(1e-3))


@pytest.mark.slow
def test_automatic_steps_bear_the_rotation_of_a_directed_ring() -> None:
    """Its eigenvalues are complex: with the step and the penalty of undirected graphs this run
    diverges."""
    method = do.AsynchronousDRFGT(activations=5000, slow_agents=1)
    found = do.solve(pca(0), method, "directed_ring", channel="loss:p=0.3", rows=2)
    gradient_norm = found.history["gradient_norm"]
    assert gradient_norm[-1] < 0.5 * gradient_norm[0]


@pytest.mark.slow
@pytest.mark.parametrize("problem", ["pca", "procrustes"])
def test_losses_delays_and_a_straggler_leave_a_straight_line_to_the_limit(problem: str) -> None:
    """30 % one-way loss, delays of up to three periods, an agent ten times slower: one seed of the
    benchmark's table."""
    found = trial(problem, 3.0, 0)
    assert found.converged
    assert found.straight > 0.98
