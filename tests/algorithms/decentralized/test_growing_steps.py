"""Growing steps: the same decisions on all agents and ranks and after a checkpoint, a step that is
found, and none that is lost."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import pytest

import topologies as tp
from decentorth import (
    DESTINY,
    DGD,
    DPRGT,
    DRFGT,
    DRGTA,
    REXTRA,
    RFEXTRA,
    Checkpoints,
    GradientTracking,
    solve,
)
from decentorth.api import Run, set_up
from decentorth.authoring import Limits, Spectrum
from decentorth.network import Network
from decentorth.numerics.random_streams import CounterStreams
from decentorth.numerics.states import copied
from decentorth.problems import PCA, PCASettings, Procrustes
from decentorth.running.checkpoint.state_arrays import taken_apart
from decentorth.stopping import Consensus, GradientNorm
from tests.support.marks import first_row_is_quick
from tests.support.networks import Recording, Replaying
from tests.support.problems import GRAPHS, pca, samples

METHODS: list[Any] = [
    DRFGT(step_size="growing", order="combine-then-adapt"),
    DRFGT(step_size="growing", order="adapt-then-combine"),
    DRFGT(step_size="growing", order="accelerated"),
    DESTINY(step_size="growing", order="adapt-then-combine"),
    DRGTA(step_size="growing", rounds=2),
    DPRGT(step_size="growing"),
    RFEXTRA(step_size="growing"),
    REXTRA(step_size="growing"),
]
each = pytest.mark.parametrize(
    "method", METHODS, ids=lambda method: f"{type(method).__name__}-{getattr(method, 'order', '')}"
)
BLOCK = 32  # w + D on a ring of five agents and on a star


@cache
def small(scale: float = 1.0, agents: int = 10) -> Procrustes:
    """Agents with unlike data, ``scale`` times as large."""
    rng = np.random.default_rng((0, 1))
    data = [rng.standard_normal((10, 20)) for _ in range(agents)]
    return Procrustes(
        [scale * a for a in data], [scale * rng.standard_normal((5, 10)) for _ in data]
    )


def bits(state: Any) -> dict[str, Any]:
    arrays, numbers = taken_apart(state, "state")
    return {name: array.tobytes() for name, array in arrays.items()} | numbers


def exponents(run: Run, iterations: int) -> list[int]:
    return [state.progress.exponent for state in islice(run.states(), iterations + 1)]


@each
def test_an_agent_decides_by_its_own_moves_and_what_it_hears(method: Any) -> None:
    """Each agent alone, given its rows of every exchange, makes the same bits, over blocks in which
    the step changes."""
    run = set_up(small(agents=5), method, GRAPHS["ring"](5), seed=1, comm="serial")
    recording: Any = Recording(run.network)
    states = [copied(run.method.init(run.problem, recording, run.streams, run.x0))]
    for _ in range(3 * BLOCK):
        states.append(
            copied(run.method.step(run.problem, recording, run.streams, copied(states[-1])))
        )
    for agent in (0, 2, 4):
        own = slice(agent, agent + 1)
        network: Any = Replaying(recording, agent)
        problem, streams = run.problem.restrict(own), CounterStreams(1, own)
        state = run.method.init(problem, network, streams, run.x0[own].copy())
        for expected in states[1:]:
            state = run.method.step(problem, network, streams, state)
            assert state.progress.exponent == expected.progress.exponent
            assert state.x.tobytes() == expected.x[own].tobytes()
        assert network.exhausted()
    assert states[-1].progress.exponent > 0


@pytest.mark.parametrize(
    ("method", "seed"), [(METHODS[3], 0), (METHODS[3], 100), (METHODS[1], 156)]
)
def test_a_converged_run_stays_at_its_answer_and_keeps_its_step(method: Any, seed: int) -> None:
    """Ratios of moves at the level of rounding say nothing: they once cut steps, and returned runs
    to states long before."""
    problem = PCA(np.random.default_rng(seed).standard_normal((4, 20, 3)) * [3, 1, 1], 1)
    result = solve(
        problem, method, GRAPHS["ring"](4), iterations=700, record_every=10, comm="serial"
    )
    norms = np.array(result.history["gradient_norm"])
    assert norms[40] < 1e-12
    assert norms[norms.argmin() :].max() < 1e-12
    assert result.state.progress.exponent == 0


@pytest.mark.parametrize("method", [METHODS[2], METHODS[6]], ids=["DRFGT", "RFEXTRA"])
def test_saved_and_resumed_is_as_if_never_stopped(method: Any, tmp_path: Path) -> None:
    """With checkpoints in a window, and while the verdicts spread."""

    def run(**given: Any) -> dict[str, Any]:
        return bits(
            solve(
                small(agents=5),
                method,
                GRAPHS["ring"](5),
                iterations=4 * BLOCK,
                record_every=50,
                comm="serial",
                **given,
            ).state
        )

    whole = run()
    assert run(checkpoints=Checkpoints(tmp_path, every=63, keep=9)) == whole
    for k in (63, 126):
        assert run(resume=tmp_path / f"{k:09d}") == whole


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "graph"), [(DRFGT, "erdos-renyi"), (RFEXTRA, "erdos-renyi"), (DRGTA, "star")]
)
def test_the_same_answer_in_fewer_iterations(method: Any, graph: str) -> None:
    stopping, W = GradientNorm(1e-6) & Consensus(1e-6), GRAPHS[graph](10)
    grown, constant = (
        solve(
            small(),
            method(step_size=step),
            W,
            iterations=6000,
            stopping=stopping,
            rows=400,
            comm="serial",
        )
        for step in ("auto", "constant")
    )
    assert grown.converged
    assert grown.row.iteration < 0.7 * constant.row.iteration


@pytest.mark.slow
def test_agents_that_drift_off_together_are_brought_back() -> None:
    """Centred digits, a few on each agent: at five times the first step the moves grow by a tenth a
    block, without turning."""
    problem, W = PCASettings(center=True, partition="by-label", rank=5), GRAPHS["ring"](10)
    stopping = GradientNorm(1e-5, relative=True) & Consensus(1e-3)
    grown, constant = (
        solve(
            problem.problem(10, 0),
            DRFGT(step_size=step),
            W,
            iterations=4000,
            stopping=stopping,
            record_every=20,
            comm="serial",
        )
        for step in ("growing", "constant")
    )
    assert grown.converged
    assert grown.state.progress.first[0, 0] == constant.state.step_size[0]
    assert grown.row.iteration < 1.5 * constant.row.iteration


@pytest.mark.parametrize("method", [DRFGT, RFEXTRA])
@pytest.mark.parametrize("scale", [2.0**-20, 2.0**20])
def test_the_units_of_the_data_do_not_matter(method: Any, scale: float) -> None:
    runs = [
        set_up(small(one), method(step_size="growing"), GRAPHS["star"](10), comm="serial")
        for one in (1.0, scale)
    ]
    one, other = (exponents(run, 8 * BLOCK) for run in runs)
    assert one == other
    assert max(one) > 0


@pytest.mark.parametrize(
    ("method", "step"),
    first_row_is_quick(
        [(RFEXTRA, 1e6), (DRFGT, 1e6), (DESTINY, 1e6), (DRGTA, 1), (DPRGT, 1), (REXTRA, 1)]
    ),
)
def test_a_given_first_step_is_halved_until_the_run_converges(method: Any, step: float) -> None:
    """On a compact set moves are bounded, so that a run along it wanders instead of running
    away."""
    data = np.random.default_rng(0).standard_normal((8, 20, 5)) * [3, 2, 1, 1, 1]
    problem, W = PCA(data, 2), tp.lazy(tp.metropolis_weights(tp.ring(8)))
    stopping = GradientNorm(1e-9) & Consensus(1e-9)
    found, automatic = (
        solve(problem, one, W, iterations=3000, stopping=stopping, comm="serial")
        for one in (method(step_size=f"growing:initial={step}"), method())
    )
    assert found.converged
    assert automatic.converged
    assert found.row.values["objective"] == pytest.approx(
        automatic.row.values["objective"], rel=1e-12
    )


@pytest.mark.parametrize("seed", range(3))
def test_agents_at_rest_apart_from_each_other_start_over(seed: int) -> None:
    """With a first step that is too long they stand still at points of their own: no moves, and no
    answer for 5,000 iterations."""
    rng, scales = np.random.default_rng(seed), np.linspace(2.0, 0.5, 6)
    problem = PCA([rng.standard_normal((m, 6)) * scales for m in (3, 12, 1, 30, 8)], 2)
    W = tp.metropolis_weights(tp.ring(5))
    automatic = solve(problem, DPRGT(step_size="constant"), W, iterations=0).state.step_size.max()
    method = DPRGT(step_size=f"growing:initial={30.0 * automatic}")
    result = solve(problem, method, W, iterations=1500)
    assert result.row.values["gradient_norm"] < 1e-8
    assert result.row.values["consensus_rms"] < 1e-9


def test_the_mean_tracker_stays_the_mean_field_when_the_penalty_follows_the_step() -> None:
    run = set_up(
        small(),
        DRFGT(step_size="growing", order="combine-then-adapt"),
        GRAPHS["star"](10),
        comm="serial",
    )
    seen = set()
    for state in islice(run.states(), 301):
        seen.add(state.progress.exponent)
        product = state.step_size * state.penalty
        np.testing.assert_allclose(product, product[0])
        assert (
            np.abs((state.tracker - state.field).mean(0)).max() <= 1e-12 * np.abs(state.field).max()
        )
    assert len(seen) > 3


def test_extra_stays_at_rest_when_the_step_changes() -> None:
    """At rest u_i = alpha F_i(x): with u times 2^(m/6) the points do not move with the new step
    either."""
    case = pca(rows=(30, 20, 40), d=6, r=2)
    run: Any = set_up(
        case.problem, RFEXTRA(step_size="growing"), GRAPHS["complete"](3), comm="serial"
    )
    (state,) = islice(run.states(), 2000, 2001)
    now = state.progress.exponent
    later = state.progress._replace(exponent=now + 4)
    changed = run.method._restepped(run.problem, copied(state.inner), now, later)
    x = changed.x.copy()
    moved = run.method.method.step(run.problem, run.network, run.streams, changed)
    assert np.abs(moved.x - x).max() < 1e-10
    assert changed.step_size[0] == pytest.approx(2.0 ** (4 / 6) * state.step_size[0])


@pytest.mark.parametrize("method", [partial(DRFGT, order="combine-then-adapt"), RFEXTRA])
def test_verdicts_ride_in_messages_that_are_sent_anyway(method: Any) -> None:
    """Five numbers in the first message of the last D of w + D iterations: less than 2 % of the
    bytes."""
    constant, grown = (
        solve(
            small(), method(step_size=step), GRAPHS["star"](10), iterations=3 * BLOCK, comm="serial"
        ).row
        for step in ("constant", "auto")
    )
    assert grown.messages == constant.messages
    # five numbers, 18 directed edges, D = 2, three blocks
    assert grown.bytes - constant.bytes == 8 * 5 * 18 * 2 * 3
    assert grown.bytes <= 1.02 * constant.bytes


def test_the_largest_number_spreads_one_edge_a_round_beside_what_is_mixed() -> None:
    network = Network(tp.metropolis_weights(tp.path(5)), "serial")
    x, verdict = (
        np.random.default_rng(0).standard_normal((5, 3, 2)),
        np.array([0.0, 0.0, 0.0, 0.0, 3.0]),
    )
    for reached in range(1, 5):
        verdict, mixed = network.mix_and_max(verdict, x)
        np.testing.assert_array_equal(mixed, network.mix(x)[0])
        assert (verdict == 3.0).sum() == 1 + reached


def test_tracking_has_a_cap_by_consensus() -> None:
    spectrum = Network(GRAPHS["ring"](10), "serial").spectrum
    method = DRFGT(order="combine-then-adapt")
    most = method.limits(spectrum).most
    product = method.aim(spectrum, "combine-then-adapt") * 2.0 ** (most / 6.0)
    assert product == pytest.approx(2.0**1.5 * np.sqrt(1.0 - spectrum.lambda_2))


@pytest.mark.parametrize("method", [DRFGT, DESTINY, DRGTA, DPRGT, RFEXTRA, REXTRA])
def test_automatic_steps_grow_unless_they_are_constant_by_name(method: Any) -> None:
    problem, W = small(agents=5), GRAPHS["ring"](5)
    automatic, growing, constant = (
        solve(problem, method(step_size=step), W, iterations=3 * BLOCK, comm="serial")
        for step in ("auto", "growing", "constant")
    )
    assert automatic.iterates_sha256 == growing.iterates_sha256 != constant.iterates_sha256
    assert constant.state.step_size.tolist() == growing.state.progress.first[:, 0].tolist()


@pytest.mark.parametrize(
    ("method", "W", "given"),
    [
        (DRFGT(batch_size=3), "ring", {}),
        (DESTINY(safe=True), "ring", {}),
        (DRFGT(), "ring", {"channel": "loss:p=0.1"}),
        (RFEXTRA(), "ring", {"channel": "loss:p=0.1"}),
        (DRGTA(), "directed_ring:chords=3", {}),
        (DRFGT(), None, {}),
    ],
    ids=["batches", "safe", "channel", "channel, EXTRA", "directed", "one agent"],
)
def test_automatic_steps_are_constant_where_they_cannot_be_judged(
    method: Any, W: Any, given: Any
) -> None:
    problem = PCA(samples((20,) * (8 if W else 1), 6, 0), 2)
    states = set_up(problem, method, W, comm="serial", **given).states()
    first = next(states).step_size.copy()
    (state,) = islice(states, 3 * BLOCK - 1, 3 * BLOCK)
    scale = 2.0**-state.progress.label if method == DESTINY(safe=True) else 1.0
    assert (state.step_size == scale * first).all()


def test_refusals() -> None:
    for method, settings in ((DRFGT, {"batch_size": 3}), (DESTINY, {"safe": True})):
        with pytest.raises(ValueError, match="leave out batch_size and safe"):
            method(step_size="growing", **settings)
    for inexact in (GradientTracking, DGD):
        with pytest.raises(ValueError, match="growing ones for exact methods on networks"):
            inexact(step_size="growing")
    with pytest.raises(TypeError, match="growing steps need every message"):
        solve(
            small(),
            DRFGT(step_size="growing"),
            GRAPHS["star"](10),
            channel="loss:p=0.1",
            comm="serial",
        )


def test_a_result_can_be_sent_to_another_process() -> None:
    result = solve(small(), "drfgt", "ring", iterations=3)
    again = pickle.loads(pickle.dumps(result.state))
    assert bits(again) == bits(result.state)


class OwnState(NamedTuple):
    x: Any
    tracker: Any
    field: Any
    step_size: Any
    base: Any
    k: int
    gradients: int


@dataclass(frozen=True, kw_only=True)
class Own:
    """Tracking of Riemannian gradients whose points are projected, written from the equations; it
    inherits nothing."""

    network: ClassVar[Literal["decentralized", "single-agent"]] = "decentralized"
    step_size: Any = "auto"

    def limits(self, spectrum: Spectrum) -> Limits:
        return Limits(1.0 - spectrum.lambda_2)

    def init(self, problem: Any, network: Any, streams: Any, x0: Any) -> OwnState:
        field = problem.constraint.tangent(x0, problem.gradient(x0))
        step = np.full(len(x0), 0.03 / problem.lipschitz.max())
        return OwnState(x0.copy(), field.copy(), field, step, step.copy(), 0, 1)

    def step(self, problem: Any, network: Any, streams: Any, state: OwnState) -> OwnState:
        x, y = network.mix(state.x, state.tracker)
        x = problem.constraint.project(x - state.step_size[:, None, None] * state.tracker)
        field = problem.constraint.tangent(x, problem.gradient(x))
        k, gradients = state.k + 1, state.gradients + 1
        y += field - state.field
        return state._replace(x=x, tracker=y, field=field, k=k, gradients=gradients)


def test_the_steps_of_a_method_of_ones_own_grow_too() -> None:
    problem = PCA(np.random.default_rng(0).standard_normal((5, 20, 6)) * [3, 2, 1, 1, 1, 1], 2)
    stopping = GradientNorm(1e-6) & Consensus(1e-6)
    grown, constant = (
        solve(
            problem, Own(step_size=step), "ring", iterations=5000, stopping=stopping, comm="serial"
        )
        for step in ("auto", "constant")
    )
    assert grown.converged
    assert grown.state.progress.exponent > 0
    assert grown.row.iteration < 0.5 * constant.row.iteration
