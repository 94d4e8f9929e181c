"""Optimizers for one's own training loop: the package's iterates, any number of agents, and what a
training script does with an optimizer."""

from __future__ import annotations

import doctest
import functools
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import decentorth
import decentorth as do
import topologies as tp

torch = pytest.importorskip("torch")
from decentorth.training import DRFGT, Agents, GradientTracking, Landing  # noqa: E402
from tests.support import training  # noqa: E402
from tests.support.mpi import ROOT  # noqa: E402
from tests.support.torch_jobs import run_torch, start_torch  # noqa: E402

N = 4
METROPOLIS = tp.metropolis_weights(tp.ring(N))
ORDERS = {"adapt-then-combine": METROPOLIS, "combine-then-adapt": tp.lazy(METROPOLIS)}
orders = pytest.mark.parametrize("order", ORDERS)


def pca(n: int = N) -> Any:
    return do.problems.PCA(np.random.default_rng(1).normal(size=(n, 20, 8)), 3)


def trained(problem: Any, start: Any, make: Callable[..., Any], steps: int) -> Any:
    """The points of all agents after some steps on the problem's gradients."""
    points = [torch.nn.Parameter(torch.from_numpy(start.copy())) for _ in range(problem.n_agents)]
    optimizers = [make([p], agent) for p, agent in zip(points, Agents(len(points)), strict=True)]
    for _ in range(steps):
        gradients = problem.gradient(np.stack([p.detach().numpy() for p in points]))
        for p, g, optimizer in zip(points, gradients, optimizers, strict=True):
            p.grad = torch.from_numpy(g.copy())
            optimizer.step()
    return np.stack([p.detach().numpy() for p in points])


@orders
def test_drfgt_has_the_iterates_of_the_package(order: Any) -> None:
    problem = pca()
    method = do.DRFGT(step_size=0.02, penalty=2.0, order=order)
    result = do.solve(problem, method, ORDERS[order], iterations=60, comm="serial")

    def make(params: Any, agent: Any) -> Any:
        settings: Any = {"penalty": 2.0, "tolerance": math.inf, "orthonormal": True}
        return DRFGT(params, lr=0.02, **settings, graph=ORDERS[order], order=order, group=agent)

    found = trained(problem, problem.start(0), make, 60)
    assert np.abs(problem.start(0) - result.x).max() > 0.1
    np.testing.assert_allclose(found, result.x, rtol=0, atol=1e-12)


@orders
def test_gradient_tracking_has_the_iterates_of_the_package(order: Any) -> None:
    problem = pca()
    method = do.GradientTracking(step_size=0.02, order=order)
    result = do.solve(problem, method, ORDERS[order], iterations=20, comm="serial")

    def make(params: Any, agent: Any) -> Any:
        return GradientTracking(params, lr=0.02, graph=ORDERS[order], order=order, group=agent)

    found = trained(problem, problem.start(0), make, 20)
    np.testing.assert_allclose(found, result.x, rtol=1e-12)


def test_landing_has_the_iterates_of_drfgt_of_one_agent() -> None:
    problem = pca(1)
    method = do.DRFGT(step_size=0.02)
    result = do.solve(problem, method, None, iterations=60, comm="serial")

    def make(params: Any, _: Any) -> Any:
        return Landing(params, lr=0.02, orthonormal=True, tolerance=math.inf)

    found = trained(problem, problem.start(0), make, 60)
    np.testing.assert_allclose(found, result.x, rtol=0, atol=1e-12)


@pytest.mark.ranks
def test_processes_have_the_bits_of_agents_in_one_process() -> None:
    """Both orders, and messages in bfloat16; with autocast, an overflow on one process, clipping,
    dropout, parameter groups and a schedule. A resume has the bits of a run without one, and
    `consolidate` gives one model."""
    job = run_torch(N, "-m", "tests.support.training")
    found: dict[str, list[Any]] = {name: [None] * N for name in training.CASES}
    for line in job.stdout.splitlines():
        name, rank, digests = json.loads(line)
        found[name][rank] = digests
    for name, settings in training.CASES.items():
        expected = training.simulated(settings)
        assert found[name] == expected
        trained, resumed, consolidated = zip(*expected, strict=True)
        assert trained == resumed
        assert len({*trained}) == N
        assert len({*consolidated}) == 1


def layer(rows: int = 3, columns: int = 8, dtype: Any = None) -> Any:
    torch.manual_seed(0)
    return torch.nn.Linear(columns, rows, dtype=dtype)


def agents(n: int = N, **settings: Any) -> tuple[list[Any], list[Any]]:
    """The models of some agents, and their optimizers."""
    models = [layer() for _ in range(n)]
    settings = {"lr": 0.1, "orthonormal": [], **settings}
    groups = Agents(n)
    made = [
        DRFGT(
            model.parameters(),
            **{**settings, "orthonormal": [model.weight]},
            group=group,
        )
        for model, group in zip(models, groups, strict=True)
    ]
    return models, made


def pulled(models: list[Any], optimizers: list[Any], steps: int) -> None:
    """Take steps on the losses of agents that want different outputs."""
    for k in range(steps):
        for number, (model, optimizer) in enumerate(zip(models, optimizers, strict=True)):
            x = torch.randn(6, 8, generator=torch.Generator().manual_seed(k))
            optimizer.zero_grad()
            (model(x) - number).square().mean().backward()
            optimizer.step()


@orders
def test_orthonormal_weights_stay_within_the_tolerance(order: Any) -> None:
    """Long steps leave the set, and are projected when they are too far away."""
    settings = {"lr": 0.3, "penalty": 0.05, "graph": ORDERS[order], "order": order}
    for tolerance in (math.inf, 0.1, 1e-4):
        models, optimizers = agents(**settings, tolerance=tolerance)
        worst = 0.0
        for _ in range(30):
            pulled(models, optimizers, 1)
            worst = max(worst, *(one.feasibility() for one in optimizers))
        assert worst <= tolerance
        assert tolerance < math.inf or worst > 0.1


def test_messages_in_bfloat16_keep_the_mean_of_the_trackers() -> None:
    """They have half the bytes; the mean of the trackers is that of the fields, as in (10)."""
    sent = {}
    for messages in (None, torch.bfloat16):
        models, optimizers = agents(messages=messages)
        pulled(models, optimizers, 50)
        sent[messages] = optimizers[0].bytes_sent
        for part in range(2):
            states = [[*one.state.values()][part] for one in optimizers]
            trackers, fields = (
                torch.stack([state[name].double() for state in states]).mean(0)
                for name in ("tracker", "field")
            )
            torch.testing.assert_close(trackers, fields, rtol=0, atol=2e-6)
    assert sent[None] == 2 * sent[torch.bfloat16] == 2 * (2 * 50 - 1) * (3 * 8 + 3) * 4


def test_convolutions_are_out_by_rest_and_named_weights_are_found() -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 5, 3), torch.nn.Conv2d(5, 40, 2))
    Landing(model.named_parameters(), lr=0.1, orthonormal=["0.weight", "1.weight"])
    wide = model[0].weight.detach().reshape(5, -1)
    torch.testing.assert_close(wide @ wide.T, torch.eye(5))
    tall = model[1].weight.detach().reshape(40, -1)
    torch.testing.assert_close(tall.T @ tall, torch.eye(20))


def test_true_takes_every_matrix() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4), torch.nn.Linear(4, 2))
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(3.0)
    free = [p.clone() for p in model.parameters() if p.ndim == 1]
    optimizer = Landing(model.parameters(), lr=0.1, orthonormal=True)
    assert optimizer.feasibility() < 1e-5
    assert all(map(torch.equal, free, [p for p in model.parameters() if p.ndim == 1]))


def test_steps_of_parameter_groups_and_of_a_schedule_are_their_own() -> None:
    """A gradient of 1 and the steps of each group; an orthonormal weight keeps its penalty."""
    first, second = (torch.nn.Parameter(torch.zeros(2)) for _ in range(2))
    params = [{"params": [first], "lr": 1.0}, {"params": [second]}]
    optimizer = GradientTracking(params, lr=0.5, group=Agents(1)[0])
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    for _ in range(3):
        first.grad = second.grad = torch.ones(2)
        optimizer.step()
        schedule.step()
    assert first.tolist() == [-1.75] * 2
    assert second.tolist() == [-0.875] * 2


def test_a_closure_computes_the_gradients_of_a_step() -> None:
    found = []
    for called in (False, True):
        model = layer()
        optimizer = Landing(model.parameters(), lr=0.1, orthonormal=[model.weight])

        def closure(model: Any = model, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = model(torch.ones(4, 8)).square().mean()
            loss.backward()
            return loss

        for _ in range(5):
            loss = optimizer.step(closure) if called else closure()
            if not called:
                optimizer.step()
        found.append((loss.item(), model.weight.detach().numpy().tobytes()))
    assert found[0] == found[1]


def test_scaled_gradients_are_unscaled_and_an_overflow_changes_no_field() -> None:
    """With GradScaler, without its ``unscale_``: the same bits as without it."""
    found = []
    for scale in (None, 2.0**10):
        model = layer(dtype=torch.float64)
        optimizer = DRFGT(
            model.parameters(), lr=0.1, orthonormal=[model.weight], group=Agents(1)[0]
        )
        scaler = torch.amp.GradScaler("cpu", init_scale=scale or 1.0, enabled=scale is not None)
        for k in range(6):
            optimizer.zero_grad()
            loss = model(torch.ones(4, 8, dtype=torch.float64)).square().mean()
            if k == 3:
                loss = loss * (torch.inf if scale else 0.0)
            scaler.scale(loss).backward()
            if k == 3 and not scale:
                model.weight.grad = model.bias.grad = None
            scaler.step(optimizer)
            scaler.update()
        found.append([p.detach().numpy().tobytes() for p in model.parameters()])
    assert found[0] == found[1]


def test_consolidate_gives_the_mean_projected() -> None:
    models, optimizers = agents()
    pulled(models, optimizers, 5)
    means = [torch.stack([p.detach() for p in ps]).mean(0) for ps in parameters(models)]
    statistics = [torch.full((2,), float(number)) for number in range(N)]
    counts = [torch.tensor(number) for number in range(N)]
    for optimizer, *buffers in zip(optimizers, statistics, counts, strict=True):
        optimizer.consolidate(buffers)
    for mean, ps in zip(means, parameters(models), strict=True):
        expected = mean
        if mean.ndim == 2:
            u, _, v = torch.linalg.svd(mean, full_matrices=False)
            expected = u @ v
        for p in ps:
            torch.testing.assert_close(p.detach(), expected)
    assert [one.tolist() for one in statistics] == [[1.5] * 2] * N
    assert [int(one) for one in counts] == [*range(N)]


def test_statistics_of_batch_norm_stay_local_until_consolidate() -> None:
    """As long as the agents train; then all have the mean, and each its own count of batches."""
    groups = Agents(2)
    models = [torch.nn.Sequential(layer(), torch.nn.BatchNorm1d(3)) for _ in groups]
    optimizers = [
        DRFGT(model.parameters(), lr=0.1, orthonormal=[model[0].weight], group=group)
        for model, group in zip(models, groups, strict=True)
    ]
    draws = torch.Generator().manual_seed(0)
    for _ in range(3):
        for number, (model, optimizer) in enumerate(zip(models, optimizers, strict=True)):
            optimizer.zero_grad()
            model(torch.randn(6, 8, generator=draws) + number).square().mean().backward()
            optimizer.step()
    means = [model[1].running_mean.clone() for model in models]
    assert (means[0] - means[1]).norm() > 0.1
    for model, optimizer in zip(models, optimizers, strict=True):
        optimizer.consolidate(model.buffers())
    for model in models:
        torch.testing.assert_close(model[1].running_mean, (means[0] + means[1]) / 2)
        assert int(model[1].num_batches_tracked) == 3


def parameters(models: list[Any]) -> list[tuple[Any, ...]]:
    """The same parameter of every model, one after the other."""
    return [*zip(*(model.parameters() for model in models), strict=True)]


def test_the_overlapping_order_is_refused_with_unstable_weights() -> None:
    """W of the ring has the eigenvalue -1/3, where (1 + w)^2 / 2 = 2/9: quadratic losses of this
    curvature diverge a little beyond it, which the other order bears."""
    with pytest.raises(
        ValueError, match=r"above 0\.22 = .* lambda_min = -0\.33 .*topologies\.lazy"
    ):
        agents(order="combine-then-adapt")
    lazy = topologies_limit(ORDERS["combine-then-adapt"])
    assert lazy == pytest.approx((1 + 1 / 3) ** 2 / 2)
    for share, stable in ((0.98, True), (1.02, False)):
        values = [torch.nn.Parameter(torch.zeros(1, dtype=torch.float64)) for _ in range(N)]
        settings: Any = {"graph": ORDERS["combine-then-adapt"], "order": "combine-then-adapt"}
        made = [
            GradientTracking([p], lr=share * lazy, group=agent, **settings)
            for p, agent in zip(values, Agents(N), strict=True)
        ]
        for _ in range(3000):
            for number, (p, optimizer) in enumerate(zip(values, made, strict=True)):
                p.grad = p.detach() - number  # of (x - number)^2 / 2
                optimizer.step()
        distance = max(abs(p.item() - 1.5) for p in values)
        assert (distance < 1e-6) is stable


def topologies_limit(W: Any) -> float:
    return float((1 + tp.spectrum(W).lambda_min) ** 2 / 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: DRFGT([p], lr=0.1, orthonormal=True), "there is no process group.*torchrun"),
        (lambda p: Landing([p], lr=-1, orthonormal=True), "lr must be positive, got -1"),
        (lambda p: Landing([p], lr=1, orthonormal=["w"]), "no parameter named 'w'"),
        (lambda p: Landing([p], lr=1, orthonormal="w"), r"got 'w': write \['w'\]"),
        (lambda p: Landing([p], lr=1, orthonormal=[p.clone()]), "parameters of this optimizer"),
        (lambda p: Landing([p], lr=1, orthonormal=True).add_param_group({}), "when the optimizer"),
        (lambda p: Landing([p, half()], lr=1, orthonormal=True), "float16 on cpu, torch.float32"),
        (lambda p: agents(graph="rign"), "rign.*ring"),
        (lambda p: agents(graph=tp.metropolis_weights(tp.ring(5))), "5 agents, but there are 4"),
        (lambda p: agents(order="adapt"), "order must be 'adapt-then-combine' or"),
        (lambda p: agents(messages=torch.float16), "messages must be torch.bfloat16 or"),
        (lambda p: agents()[1][0].batches([1]), r"zip\(\*loaders, strict=True\)"),
        (lambda p: agents()[1][0].batches(iter([])), "islice"),
    ],
)
def test_refusals(make: Callable[[Any], Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        make(torch.nn.Parameter(torch.ones(3, 2)))


@pytest.mark.parametrize("made", [DRFGT, GradientTracking, Landing])
def test_unknown_and_missing_settings_name_the_class_that_was_typed(made: Any) -> None:
    p = torch.nn.Parameter(torch.ones(3, 2))
    for settings, name in (({}, "lr"), ({"lr": 1.0, "weight_decay": 0.1}, "weight_decay")):
        with pytest.raises(TypeError, match=rf"^{made.__name__}\.__init__\(\) .*'{name}'"):
            made([p], **settings)


def half() -> Any:
    return torch.nn.Parameter(torch.ones(2, dtype=torch.float16))


def test_vectors_are_not_orthonormal() -> None:
    p = torch.nn.Parameter(torch.ones(3))
    with pytest.raises(ValueError, match=r"shape \(3,\) is no matrix"):
        Landing([p], lr=1, orthonormal=[p])


def test_an_agent_that_was_forgotten_is_named() -> None:
    """Whichever optimizer is used next, in a call, a saved state or a feasibility; once the named
    agent has been called, all go on."""
    models, optimizers = agents(2)
    optimizers[0].step()
    with pytest.raises(RuntimeError, match=r"agent 0 waits in step\(\) for agent 1: call step\(\)"):
        optimizers[0].step()
    optimizers[1].step()
    optimizers[0].consolidate()
    waits = r"agent 0 waits in consolidate\(\) for agent 1: call consolidate\(\) for each of the 2"
    for use in (
        optimizers[0].feasibility,
        optimizers[0].state_dict,
        optimizers[0].consolidate,
        optimizers[0].step,
        optimizers[1].step,
    ):
        with pytest.raises(RuntimeError, match=waits):
            use()
    optimizers[1].consolidate()
    pulled(models, optimizers, 1)
    assert optimizers[0].feasibility() <= 0.1


def test_an_agent_without_an_optimizer_is_named() -> None:
    groups = Agents(3)
    _, *late = [
        GradientTracking([torch.nn.Parameter(torch.ones(2))], lr=0.1, group=group)
        for group in groups[:2]
    ]
    with pytest.raises(RuntimeError, match=r"waits in GradientTracking\(\.\.\.\) for agent 2"):
        late[0].step()


def test_agents_do_not_share_a_model() -> None:
    """An agent may have a new optimizer for its own model."""
    model, groups = layer(), Agents(2)
    DRFGT(model.parameters(), lr=0.1, orthonormal=True, group=groups[0])
    shared = r"agents 0 and 1 have the same parameters: .* models = \[Net\(\) for _ in range\(2\)\]"
    with pytest.raises(ValueError, match=shared):
        DRFGT(model.parameters(), lr=0.1, orthonormal=True, group=groups[1])
    alone = Agents(1)[0]
    for _ in range(2):
        DRFGT(model.parameters(), lr=0.1, orthonormal=True, group=alone)


def test_the_state_of_another_agent_is_refused() -> None:
    models, optimizers = agents(2)
    pulled(models, optimizers, 1)
    with pytest.raises(ValueError, match="the state of agent 0, not of agent 1"):
        optimizers[1].load_state_dict(optimizers[0].state_dict())


def test_agents_with_different_models_are_named() -> None:
    groups = Agents(2)
    DRFGT(layer(3, 4).parameters(), lr=0.1, orthonormal=True, group=groups[0])
    with pytest.raises(ValueError, match="differ from process 0's on process 1"):
        DRFGT(layer(4, 3).parameters(), lr=0.1, orthonormal=True, group=groups[1])


LOOP = """
import datetime, os, signal, sys
import torch
import topologies
from decentorth.training import DRFGT

torch.set_num_threads(1)
torch.distributed.init_process_group("gloo", timeout=datetime.timedelta(seconds=20))
rank = torch.distributed.get_rank()
model = torch.nn.Linear(4, 2)
lazy = topologies.lazy(topologies.metropolis_weights(topologies.path(3)))
optimizer = DRFGT(model.parameters(), lr=0.1, orthonormal=True, graph=lazy, order=sys.argv[2])
loader = [torch.full((3, 4), float(k)) for k in range((5, 3, 4)[rank])]
signals = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
taken = 0
for epoch in range(2):
    for x in optimizer.batches(loader) if sys.argv[1] == "batches" else loader:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        taken += 1
        if rank == 1 and taken == 2 and sys.argv[1] in signals:
            os.kill(os.getpid(), signals[sys.argv[1]])
optimizer.consolidate()
print(f"process {rank} took {taken} steps", flush=True)
torch.distributed.destroy_process_group()
"""


def test_batches_of_equal_loaders_draw_what_a_plain_loop_draws() -> None:
    """To the end of each epoch, where a sampler draws once more."""
    dist = torch.distributed
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    optimizer = GradientTracking([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    drawn = []
    for epoch in (lambda loader: loader, optimizer.batches):
        loader = torch.utils.data.DataLoader(
            range(8), batch_size=2, shuffle=True, generator=torch.Generator().manual_seed(0)
        )
        drawn.append([[batch.tolist() for batch in epoch(loader)] for _ in range(3)])
    dist.destroy_process_group()
    plain, found = drawn
    assert found == plain


@pytest.mark.ranks
@orders
def test_loaders_of_unequal_length_end_together_with_batches(order: str, tmp_path: Any) -> None:
    (tmp_path / "loop.py").write_text(LOOP)
    job = run_torch(3, str(tmp_path / "loop.py"), "batches", order)
    taken = sorted(re.findall(r"process \d+ took \d+ steps", job.stdout))  # lines may run together
    assert taken == [f"process {rank} took 6 steps" for rank in range(3)]


@pytest.mark.ranks
@pytest.mark.parametrize(
    ("how", "order", "reason"),
    [
        ("plain", "adapt-then-combine", "all must take as many steps; loop over optimizer.batches"),
        ("plain", "combine-then-adapt", "all must take as many steps; loop over optimizer.batches"),
        ("kill", "adapt-then-combine", "of which one has ended or does not answer"),
        ("stop", "combine-then-adapt", "of which one has ended or does not answer"),
    ],
)
def test_a_process_that_ends_early_or_stops_ends_the_job(
    how: str, order: str, reason: str, tmp_path: Any
) -> None:
    (tmp_path / "loop.py").write_text(LOOP)
    job = start_torch(3, str(tmp_path / "loop.py"), how, order)
    assert job.returncode == 1, job.report()
    assert reason in job.stderr
    assert job.left == 0


PAGE = (ROOT / "docs/training.md").read_text()
SCRIPT, SETTINGS, GRAPHS, SIMULATION = re.findall(r"```python\n(.*?)```", PAGE, re.S)


@pytest.mark.ranks
def test_the_script_of_the_page_trains_one_model(tmp_path: Any) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    (said,) = run_torch(4, str(tmp_path / "train.py")).stdout.split("\n", 1)[:1]
    found, written = (
        re.search(r"accuracy (\d\S+), infeasibility (\S+)\n", text) for text in (said + "\n", PAGE)
    )
    assert found
    assert written
    assert abs(float(found[1]) - float(written[1])) < 0.02
    assert float(found[2]) < 1e-5


def test_the_settings_of_the_page_are_the_defaults() -> None:
    found = []
    for code in (SETTINGS, re.sub("    (graph|order|penalty|tolerance)=.*\n", "", SETTINGS)):
        make = functools.partial(DRFGT, group=Agents(1)[0])
        names = {"model": torch.nn.Sequential(layer()), "DRFGT": make}
        exec(code, names)
        found.append(names["optimizer"].state_dict())
    assert found[0] == found[1]


def test_the_page_has_the_eigenvalues_of_its_graphs(capsys: pytest.CaptureFixture[str]) -> None:
    exec(GRAPHS, {})
    assert f"```\n{capsys.readouterr().out}```" in PAGE


def test_the_simulation_of_the_page_runs_and_agents_agree() -> None:
    names: dict[str, Any] = {}
    torch.manual_seed(0)
    exec(SIMULATION, names)
    biases = torch.stack([model.bias for model in names["models"]]).detach()
    assert torch.equal(biases, biases[:1].expand_as(biases))
    assert abs(float(biases.mean()) - 1.5) < 0.2


@pytest.mark.ranks
def test_the_notebook_trains_four_sites_with_the_bits_of_four_processes(tmp_path: Path) -> None:
    """Its sites have two to four digits each, and their models find all ten."""
    script = str(ROOT / "examples/notebooks/training_loop.py")
    alone = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    *_, joined, distance, digest = alone
    assert f"{joined}\n{distance}\n{digest}" in run_torch(4, script).stdout
    assert float(joined.removeprefix("joined model: accuracy ")) > 0.8


@pytest.mark.parametrize("made", [Landing, Agents])
def test_the_example_of_a_docstring_runs(made: Any) -> None:
    example = doctest.DocTestParser().get_doctest(made.__doc__, {}, made.__name__, None, None)
    assert example.examples
    doctest.DebugRunner().run(example)


def test_the_public_names_are_these() -> None:
    assert decentorth.training.__all__ == ["DRFGT", "Agents", "GradientTracking", "Landing"]
