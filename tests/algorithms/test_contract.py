"""What every method promises. To enrol one: a line in METHODS."""

from __future__ import annotations

import hashlib
import importlib.util
import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import decentorth as do
import topologies as tp
from decentorth.algorithms.centralized.line_search import MOST
from decentorth.api import Options, set_up
from decentorth.api.capabilities import check_network
from decentorth.api.steps import for_network, wrapped
from decentorth.commands.new.algorithm import Template
from decentorth.network import Network
from decentorth.numerics.random_streams import CounterStreams
from decentorth.numerics.states import copied
from decentorth.problems import PCA, FunctionProblem, Procrustes, RSRSettings, SparsePCA
from decentorth.protocols import Array, LocalProducts, Signature, Signatures
from decentorth.running.checkpoint.state_arrays import put_together, taken_apart
from decentorth.sets import GeneralizedStiefel, JOrthogonal, Stiefel
from decentorth.stopping import Consensus, Feasibility, GradientNorm
from tests.reference import naive
from tests.support.building import built, prepared
from tests.support.distributed import own_pencils, own_views, sharing_the_identity
from tests.support.generalized import gevp, sampled_gevp
from tests.support.j_orthogonal import hevp, log_cosh
from tests.support.networks import Recording, Replaying
from tests.support.problems import CASES, GRAPHS, UNEVEN, pca, point, procrustes, samples, stack

# samples of agents with d = 90: rows of two lengths and Gram matrices
WIDE = (150, 3, 40, 200, 3, 40, 3)
TrackedField = Callable[[naive.Gradient, Array, Any], Array]
"""An agent's field at its point, from its gradient and its slice of the state."""


def landing_field(gradient: naive.Gradient, x: Array, state: Any) -> Array:
    return naive.landing_field(x, gradient(x), float(state.penalty[0]))


def riemannian_gradient(gradient: naive.Gradient, x: Array, state: Any) -> Array:
    return naive.tangent_projection(x, gradient(x))


def euclidean_gradient(gradient: naive.Gradient, x: Array, state: Any) -> Array:
    return gradient(x)


def soft_gradient(gradient: naive.Gradient, x: Array, state: Any, penalty: float) -> Array:
    """Of f_i + penalty/4 ||x^T x - I||^2."""
    return gradient(x) + penalty * x @ (x.T @ x - np.eye(x.shape[1]))


def augmented_gradient(gradient: naive.Gradient, x: Array, state: Any, dissolved: bool) -> Array:
    """DESTINY's H_i, gradients taken at x or at x (3I - x^T x)/2."""
    excess = x.T @ x - np.eye(x.shape[1])
    half = np.eye(x.shape[1]) - excess / 2
    g = gradient(x @ half) if dissolved else gradient(x)
    return g @ half - x @ naive.sym(x.T @ g) + float(state.penalty[0]) * x @ excess


def rsr() -> Any:
    settings = RSRSettings(dimension=9, rank=3, inliers=60, outliers=40, partition="dirichlet")
    return prepared(built(settings.problem(5, 0)))


def sparse_pca(rows: Any = UNEVEN[:5], d: int = 12, r: int = 3, term: Any = "l1") -> SparsePCA:
    return SparsePCA(samples(rows, d, 0), r, 0.1, term=term)


def smooth_gradient(gradient: naive.Gradient, x: Array, state: Any) -> Array:
    """Of sparse PCA without its l1 norm."""
    return gradient(x) - 0.1 * np.sign(x)


def tracked_gradient(
    gradient: naive.Gradient, x: Array, state: Any, parts: tuple[slice, ...] = ()
) -> Array:
    """G_i at x (I - e/2), e = x^T d - I made symmetric in each of the ``parts``; at x where there
    are none."""
    at = x.copy()
    for rows in parts:
        excess = naive.sym(x[rows].T @ state.product_tracker[0][rows]) - np.eye(x.shape[1])
        at[rows] = x[rows] - x[rows] @ excess / 2
    return gradient(at)


@dataclass(frozen=True)
class Method:
    name: str
    algorithm: Callable[[], Any]
    problem: Callable[[], Any]  # a small problem
    W: Callable[[int], Any]  # the mixing matrix of that many agents
    exchanges: int = 1  # dependent exchanges with the neighbours in an iteration
    star: bool = False  # whether an exchange is with a hub and back, in two rounds
    sent: int = 2  # points sent over each directed edge in an iteration
    beside: int = 0  # numbers sent beside them
    # the most ||x^T x - I||_F of any agent after convergence, as its paper has it
    feasibility: float = 1e-8
    exact: bool = True  # whether it converges to a minimiser, not only near one
    tracks: bool = True  # whether its state has trackers (a decentralized method's)
    field: TrackedField = landing_field  # what they track
    solves: tuple[str, ...] = ("eigenspace", "planted", "own_functions")
    """The problems with known answers that it is for."""
    # a larger problem of seven agents
    wide: Callable[[], Any] = lambda: pca(rows=WIDE, d=90, r=12).problem
    spends: tuple[int, ...] = (1,)  # how many gradients an iteration may take
    counters: tuple[str, ...] = ()  # what its state counts beside iterations and gradients
    iterations: int = 6000  # after which it has converged


def on(name: str, algorithm: Callable[[], Any], problem: str, graph: str, **more: Any) -> Method:
    """A method on one of `CASES` or `OTHERS`, its agents connected by one of `GRAPHS` or by a
    one-way ring with chords."""

    def weights(n: int) -> Any:
        one_way = graph == "one-way"
        return (
            tp.directed_weights(tp.directed_ring(n, chords=n // 2, seed=1))
            if one_way
            else GRAPHS[graph](n)
        )

    made = (lambda: CASES[problem]().problem) if problem in CASES else OTHERS[problem]
    return Method(name, algorithm, made, weights, **more)


def centralized(
    name: str, algorithm: Callable[[], Any], problem: str | Callable[[], Any], **more: Any
) -> Method:
    """A single-agent method on one of `CASES` with 20 samples or on another problem."""
    made = (lambda: CASES[problem](rows=(20,)).problem) if isinstance(problem, str) else problem
    return Method(name, algorithm, made, lambda n: np.ones((n, n)), **more)


def on_signature(
    name: str, algorithm: Callable[[], Any], problem: Callable[[], Any], *also: str, **more: Any
) -> Method:
    """A single-agent method on x^T J x = J."""
    settings = {
        "feasibility": 1e-12,
        "tracks": False,
        "solves": ("hyperbolic", *also),
        "iterations": 3000,
        **more,
    }
    return centralized(name, algorithm, problem, **settings)


OTHERS: dict[str, Callable[[], Any]] = {
    "rsr": rsr,
    "sparse": sparse_pca,
    "sparse rows": partial(sparse_pca, term="rows"),
    "pencils": own_pencils,
    "views": own_views,
}
PENCILS: dict[str, Any] = {"wide": partial(own_pencils, 7, 90, 12), "sent": 3}
SPARSE: dict[str, Any] = {
    "wide": partial(sparse_pca, WIDE, 90, 12),
    "feasibility": 1e-12,
    "solves": (),
}
TANGENT: dict[str, Any] = {"feasibility": 1e-12, "field": riemannian_gradient}
NEAR: dict[str, Any] = {"exact": False, "tracks": False}
EIGENSPACE: dict[str, Any] = {"tracks": False, "solves": ("eigenspace",)}
PAIRWISE: dict[str, Any] = {"counters": ("corrections", "samples")}
SEARCHING: dict[str, Any] = {"spends": tuple(range(1, MOST + 1)), "iterations": 300}
PENALISED, DISSOLVED = (
    partial(augmented_gradient, dissolved=dissolved) for dissolved in (False, True)
)
ONCE: dict[str, Any] = {"sent": 1, "tracks": False}
TWICE: dict[str, Any] = {"exchanges": 2, "sent": 4}
COMBINED: dict[str, Any] = {"order": "combine-then-adapt"}
ADAPTED: dict[str, Any] = {"order": "adapt-then-combine"}
MIXED_TWICE: dict[str, Any] = {"rounds": 2, "chebyshev": True}
SOFT = partial(soft_gradient, penalty=20.0)
TRACKING_ADAPTED = partial(do.GradientTracking, penalty=20.0, **ADAPTED)
DESTINY_DISSOLVED = partial(do.DESTINY, variant="dissolved", **ADAPTED)
DRSM_ROUNDS = partial(do.DRSM, step_size="diminishing:initial=0.1", rounds=3, consensus_step=0.5)
LOCAL_BATCHES = partial(
    do.LocalTracking, local_steps=3, rounds=2, step_size="diminishing", batch_size=2
)
DRGTA_ROUNDS = partial(do.DRGTA, rounds=2, consensus_step=0.7, retraction="qr")
ROLLING: dict[str, Any] = {"batch_size": 4, "covariance": "rolling"}


def small_gevp() -> Any:
    return gevp(9, 3)


NUMBA = importlib.util.find_spec("numba") is not None
FAST: dict[str, Any] = {"order": "accelerated"}
COMPILED = on("drfgt-numba", partial(do.DRFGT, kernel="numba"), "procrustes", "ring")
"""In slow tests alone, for its kernel takes long to compile."""
SLOW = pytest.mark.slow
METHODS = [
    on("drfgt", do.DRFGT, "pca", "ring"),
    on("drfgt-combine", partial(do.DRFGT, order="combine-then-adapt"), "pca", "ring"),
    on("drfgt-fixed", partial(do.DRFGT, step_size=5e-3, penalty=20.0), "procrustes", "star"),
    on("drfgt-atc", partial(do.DRFGT, **ADAPTED), "procrustes", "erdos-renyi", exchanges=2),
    *([COMPILED] if NUMBA else []),
    on("drfgt-safe", partial(do.DRFGT, safe=True, step_size=30.0), "pca", "path", beside=1),
    on(
        "drfgt-safe-atc",
        partial(do.DRFGT, safe=True, step_size=0.2, **ADAPTED),
        "procrustes",
        "path",
        exchanges=2,
        beside=2,
    ),
    on("push_pull", do.PushPull, "pca", "one-way"),
    on("drgta-directed", do.DRGTA, "procrustes", "one-way", **TANGENT),
    on("drsgd", do.DRSGD, "pca", "ring", sent=1, **NEAR),
    on(
        "drsgd-batches",
        partial(do.DRSGD, batch_size=2, retraction="qr", **MIXED_TWICE),
        "procrustes",
        "star",
        exchanges=2,
        **NEAR,
    ),
    on("drsm", do.DRSM, "rsr", "ring", sent=1, feasibility=1e-12, **NEAR),
    on("drsm-rounds", DRSM_ROUNDS, "pca", "path", exchanges=3, sent=3, **NEAR),
    on("drproxgt", do.DRProxGT, "sparse", "ring", field=smooth_gradient, **SPARSE),
    on("prextra", do.PREXTRA, "sparse", "star", **ONCE, **SPARSE),
    on(
        "prextra-loopless",
        partial(do.PREXTRA, proximal="loopless"),
        "sparse rows",
        "path",
        sent=1,
        **NEAR,
        wide=SPARSE["wide"],
    ),
    on("dprgd", partial(do.DPRGD, batch_size=1), "pca", "path", sent=1, **NEAR),
    on("destiny", partial(do.DESTINY, **COMBINED), "pca", "ring", field=PENALISED),
    on(
        "destiny-dissolved",
        DESTINY_DISSOLVED,
        "procrustes",
        "erdos-renyi",
        exchanges=2,
        field=DISSOLVED,
    ),
    on(
        "destiny-safe",
        partial(do.DESTINY, safe=True, step_size=30.0),
        "pca",
        "path",
        beside=1,
        field=PENALISED,
    ),
    on(
        "cdadt",
        do.CDADT,
        "views",
        "ring",
        **PENCILS,
        field=partial(tracked_gradient, parts=(slice(6), slice(6, 11))),
    ),
    on(
        "generalized-drfgt",
        do.GeneralizedDRFGT,
        "pencils",
        "erdos-renyi",
        **PENCILS,
        field=tracked_gradient,
    ),
    on("dprgt", do.DPRGT, "procrustes", "star", **TANGENT),
    on("dprgt-fast", partial(do.DPRGT, **FAST), "procrustes", "star", **TANGENT),
    on("drgta-fast", partial(do.DRGTA, **FAST), "pca", "ring", **TANGENT),
    on(
        "dprgt-chebyshev",
        partial(do.DPRGT, rounds=3, chebyshev=True),
        "pca",
        "path",
        exchanges=3,
        sent=6,
        **TANGENT,
    ),
    on("demuon", do.DeMuon, "pca", "path", exchanges=2, exact=False, **TANGENT),
    on(
        "demuon-nuclear",
        partial(do.DeMuon, step_size="auto", length="nuclear"),
        "procrustes",
        "ring",
        exchanges=2,
        **TANGENT,
    ),
    on("dprsrm", do.DPRSRM, "pca", "star", exact=False, spends=(1, 2), **TANGENT),
    on(
        "dprsrm-batches",
        partial(do.DPRSRM, batch_size=2, **MIXED_TWICE),
        "procrustes",
        "path",
        spends=(1, 2),
        **NEAR,
        **TWICE,
    ),
    on("drcgd", do.DRCGD, "pca", "path", **NEAR, **TANGENT),
    on(
        "drcgd-tracked",
        partial(do.DRCGD, tracked=True, **MIXED_TWICE),
        "procrustes",
        "ring",
        exchanges=2,
        sent=6,
        **TANGENT,
    ),
    on("ef_landing", do.EFLanding, "pca", "ring", field=euclidean_gradient),
    on(
        "ef_landing-short",
        partial(do.EFLanding, consensus_step=0.5, weight=0.5),
        "procrustes",
        "erdos-renyi",
        tracks=False,
    ),
    on(
        "ef_landing-server",
        partial(do.EFLanding, server=True),
        "procrustes",
        "star",
        star=True,
        **ONCE,
    ),
    on("vr_drfgt", do.VRDRFGT, "pca", "erdos-renyi"),
    on(
        "vr_drfgt-batches",
        partial(do.VRDRFGT, batch_size=4, period=3),
        "procrustes",
        "ring",
        spends=(1, 2),
        **EIGENSPACE,
    ),
    on(
        "local_tracking",
        do.LocalTracking,
        "procrustes",
        "ring",
        feasibility=1e-12,
        tracks=False,
        spends=(4,),
    ),
    on("local_tracking-batches", LOCAL_BATCHES, "pca", "star", spends=(3,), **NEAR, **TWICE),
    on("saga_drfgt", partial(do.SagaDRFGT, batch_size=3), "procrustes", "ring", **EIGENSPACE),
    on("rmtracking", do.RMTracking, "procrustes", "ring", **TANGENT),
    on("drgta", do.DRGTA, "pca", "ring", **TANGENT),
    on("drgta-rounds", DRGTA_ROUNDS, "procrustes", "erdos-renyi", **TANGENT, **TWICE),
    on(
        "gradient_tracking",
        partial(do.GradientTracking, **COMBINED),
        "procrustes",
        "star",
        exact=False,
        field=euclidean_gradient,
    ),
    on(
        "gradient_tracking-penalty",
        TRACKING_ADAPTED,
        "pca",
        "erdos-renyi",
        exchanges=2,
        exact=False,
        field=SOFT,
    ),
    on("dgd", partial(do.DGD, penalty=3.0), "pca", "ring", sent=1, **NEAR),
    on("ddrs", do.DDRS, "procrustes", "ring", sent=1, feasibility=1e-12, tracks=False, spends=(3,)),
    on("rextra", do.REXTRA, "procrustes", "erdos-renyi", **ONCE),
    on("rfextra", do.RFEXTRA, "pca", "star", **ONCE),
    on(
        "rfextra-mapping",
        partial(do.RFEXTRA, direction="mapping"),
        "procrustes",
        "erdos-renyi",
        **ONCE,
        iterations=12000,
    ),
    on("deepca", do.DeEPCA, "pca", "complete", sent=1, **EIGENSPACE),
    on(
        "deepca-rounds",
        partial(do.DeEPCA, rounds=5, chebyshev=False),
        "pca",
        "ring",
        exchanges=5,
        sent=5,
        **EIGENSPACE,
    ),
    on(
        "deepca-momentum", partial(do.DeEPCA, momentum=0.6), "pca", "complete", sent=1, **EIGENSPACE
    ),
    on("template", Template, "pca", "erdos-renyi", sent=1, **NEAR),
    centralized("landing", do.Landing, "pca"),
    centralized(
        "landing-safe", partial(do.Landing, safe=True), lambda: procrustes(rows=(4,)).problem
    ),
    centralized("generalized-landing", do.GeneralizedLanding, small_gevp),
    centralized(
        "generalized-landing-br", partial(do.GeneralizedLanding, direction="psi-br"), small_gevp
    ),
    centralized(
        "generalized-landing-riemannian",
        partial(do.GeneralizedLanding, direction="riemannian"),
        small_gevp,
    ),
    centralized(
        "generalized-landing-sampled",
        partial(
            do.GeneralizedLanding,
            step_size="diminishing:initial=0.02",
            penalty=1.0,
            batch_size=4,
            covariance="sampled",
        ),
        lambda: sampled_gevp(6, 2, 30),
        exact=False,
    ),
    centralized(
        "generalized-landing-rolling",
        partial(do.GeneralizedLanding, step_size="diminishing", **ROLLING),
        lambda: sampled_gevp(6, 2, 30, ridge=0.1),
        exact=False,
    ),
    centralized("rgd", do.RGD, small_gevp),
    centralized("rgd-bb", partial(do.RGD, step_size="bb:cap=inf", retraction="cholesky-qr"), "pca"),
    centralized("rgd-euclidean", partial(do.RGD, metric="euclidean"), small_gevp),
    centralized(
        "rgd-rolling",
        partial(do.RGD, step_size=1e-3, **ROLLING),
        lambda: sampled_gevp(6, 2, 30, ridge=0.1),
        exact=False,
    ),
    centralized("rsm", partial(do.RSM, retraction="qr"), "pca", exact=False),
    centralized("rssm", partial(do.RSSM, blocks=3), "procrustes", exact=False),
    centralized(
        "rssm-redraw",
        partial(
            do.RSSM,
            blocks=3,
            block_partition="redraw",
            step_size="annealed:initial=1e-3,pairs=3",
            reorthogonalize=4,
        ),
        "pca",
        exact=False,
    ),
    centralized("spel", do.SPEL, "pca", exact=False),
    centralized(
        "spel-nuclear",
        partial(do.SPEL, step_size="auto", length="nuclear"),
        "procrustes",
        feasibility=1e-12,
    ),
    centralized("pogo", do.POGO, "pca", feasibility=1e-12),
    centralized(
        "block_krylov",
        partial(do.BlockKrylov, guard=1, blocks=4),
        lambda: pca(rows=(30,), d=40).problem,
        solves=("eigenspace",),
        feasibility=1e-12,
        counters=("filled",),
        iterations=60,
    ),
    centralized(
        "block_krylov-whole",
        do.BlockKrylov,
        "pca",
        solves=("eigenspace",),
        feasibility=1e-12,
        spends=(0,),
        counters=("filled",),
        iterations=60,
    ),
    centralized("plam", do.PLAM, small_gevp),
    centralized("pcal", partial(do.PCAL, step_size="bb"), "procrustes"),
    centralized("conjugate_gradients", do.ConjugateGradients, small_gevp, **SEARCHING),
    centralized(
        "conjugate_gradients-qr",
        partial(do.ConjugateGradients, retraction="qr"),
        "procrustes",
        **SEARCHING,
    ),
    centralized("lbfgs", do.LBFGS, small_gevp, **SEARCHING),
    centralized(
        "lbfgs-cholesky-qr",
        partial(do.LBFGS, retraction="cholesky-qr", memory=3),
        "pca",
        **SEARCHING,
    ),
    on_signature("gs_jobcd", partial(do.GSJOBCD, pairs=3), lambda: hevp(6), **PAIRWISE),
    on_signature(
        "gs_jobcd-gradients",
        partial(do.GSJOBCD, varsigma="pair"),
        lambda: log_cosh(5),
        "own_functions",
        **PAIRWISE,
    ),
    on_signature("j_jobcd", do.JJOBCD, lambda: hevp(7), "own_functions", **PAIRWISE),
    on_signature(
        "j_jobcd-backtracking",
        partial(do.JJOBCD, varsigma="backtracking", correction=3),
        lambda: log_cosh(6, known=False),
        **PAIRWISE,
    ),
    on_signature(
        "vr_j_jobcd",
        partial(do.VRJJOBCD, batch_size=5),
        lambda: log_cosh(6),
        spends=(1, 2),
        **PAIRWISE,
    ),
    on_signature("hyperbolic_jacobi", do.HyperbolicJacobi, lambda: hevp(12)),
    on_signature("csdm", do.CSDM, lambda: log_cosh(7), "own_functions"),
    on_signature("jadmm", do.JADMM, lambda: log_cosh(6)),
    on_signature(
        "jadmm-published", partial(do.JADMM, schedule="published"), lambda: hevp(6), exact=False
    ),
    on_signature("umcm", do.UMCM, lambda: log_cosh(6)),
    on_signature(
        "umcm-adagrad", partial(do.UMCM, optimizer="adagrad"), lambda: hevp(6), exact=False
    ),
    on_signature(
        "rgd-cayley", partial(do.RGD, step_size="bb"), lambda: log_cosh(6), "own_functions"
    ),
]


def methods(chosen: Callable[[Method], bool]) -> pytest.MarkDecorator:
    cases = [
        pytest.param(m, id=m.name, marks=[SLOW] if m is COMPILED else [])
        for m in METHODS
        if chosen(m)
    ]
    return pytest.mark.parametrize("method", cases)


every = methods(lambda m: True)
decentralized = methods(lambda m: m.algorithm().network == "decentralized")
single = methods(lambda m: m.algorithm().network == "single-agent")


class Setup:
    def __init__(self, method: Method, problem: Any = None, seed: int = 7) -> None:
        self.problem = method.problem() if problem is None else problem
        self.n = self.problem.n_agents
        self.network: Any = Network(method.W(self.n))
        self.algorithm: Any = wrapped(for_network(method.algorithm(), self.network))
        self.streams = CounterStreams(seed, slice(0, self.n))
        self.x0 = stack(point(self.problem, seed), self.n)

    def init(self) -> Any:
        return self.algorithm.init(self.problem, self.network, self.streams, self.x0)

    def step(self, state: Any) -> Any:
        return self.algorithm.step(self.problem, self.network, self.streams, state)

    def run(self, iterations: int) -> Any:
        state = self.init()
        for _ in range(iterations):
            state = self.step(state)
        return state


def apart(state: Any) -> tuple[dict[str, Array], dict[str, Any]]:
    """The arrays by dotted name, those of states within the state too, and what is no array."""
    return taken_apart(state, "state")


def of_agents(state: Any, own: slice) -> Any:
    arrays, counts = apart(state)
    return put_together(
        state, "state", {name: value[own] for name, value in arrays.items()}, counts
    )


def bits(state: Any) -> dict[str, Any]:
    """The state's arrays as bytes, its counters as they are."""
    arrays, counts = apart(state)
    return {name: value.tobytes() for name, value in arrays.items()} | counts


def fingerprint(thing: Any, seen: set[int] | None = None) -> bytes:
    """A hash of all arrays that can be reached from an object through attributes, tuples, lists and
    dictionaries."""
    seen = set() if seen is None else seen
    hashed = hashlib.sha256()
    if isinstance(thing, np.ndarray):
        hashed.update(
            str((thing.dtype, thing.shape)).encode() + np.ascontiguousarray(thing).tobytes()
        )
    elif id(thing) not in seen:
        seen.add(id(thing))
        inside = (
            [*thing]
            if isinstance(thing, tuple | list)
            else [*thing.values()]
            if isinstance(thing, dict)
            else []
        )
        for part in (*inside, *vars(thing).values()) if hasattr(thing, "__dict__") else inside:
            hashed.update(fingerprint(part, seen))
    return hashed.digest()


@every
def test_states_keep_shapes_kinds_and_layout(method: Method) -> None:
    setup = Setup(method)
    state = setup.init()
    kinds = {name: (value.shape, value.dtype) for name, value in apart(state)[0].items()}
    assert state.x.shape == (setup.n, *setup.problem.shape)
    assert all(dtype == np.float64 and shape[0] == setup.n for shape, dtype in kinds.values())
    np.testing.assert_array_equal(state.x, setup.x0)
    expected = {f"state.{name}": int for name in ("k", "gradients", *method.counters)}
    gradients = state.gradients
    for k in range(6):
        arrays, counts = apart(state)
        assert {name: (value.shape, value.dtype) for name, value in arrays.items()} == kinds
        assert all(value.flags.c_contiguous for value in arrays.values())
        assert {
            name.replace(".inner.", "."): type(value)
            for name, value in counts.items()
            if ".progress." not in name
        } == expected
        assert state.k == k
        assert k == 0 or state.gradients - gradients in method.spends
        gradients, state = state.gradients, setup.step(state)


@every
def test_problem_data_and_start_are_left_alone(method: Method) -> None:
    setup = Setup(method)
    setup.problem.blocks()
    _ = getattr(setup.problem, "lipschitz", None)
    setup.run(1)  # what problem and set find out once and keep
    data, start = fingerprint(setup.problem), setup.x0.tobytes()
    assert not any(np.shares_memory(value, setup.x0) for value in apart(setup.init())[0].values())
    setup.run(5)
    assert fingerprint(setup.problem) == data
    assert setup.x0.tobytes() == start


@pytest.mark.parametrize("size", ["small", "wide"])
@decentralized
def test_an_agent_knows_only_what_mix_tells_it(method: Method, size: str) -> None:
    """Each agent alone, given its rows of every recorded mix, makes the same bits, which a sum over
    agents would change."""
    setup = Setup(method) if size == "small" else Setup(method, method.wide())
    recording = setup.network = Recording(setup.network)
    with threadpool_limits(1):
        states = [copied(setup.init())]
        for _ in range(8):
            states.append(copied(setup.step(copied(states[-1]))))
        for agent in range(setup.n):
            own = slice(agent, agent + 1)
            network = Replaying(recording, agent)
            problem, streams = setup.problem.restrict(own), CounterStreams(setup.streams.seed, own)
            state = setup.algorithm.init(problem, network, streams, setup.x0[own].copy())
            for expected in states:
                assert bits(state) == bits(of_agents(expected, own))
                if expected is not states[-1]:
                    state = setup.algorithm.step(problem, network, streams, state)
            assert network.exhausted()


def test_the_replay_catches_a_mean_over_the_agents() -> None:
    class Leaky(do.DRFGT):
        def step(self, problem: Any, network: Any, streams: Any, state: Any) -> Any:
            state = super().step(problem, network, streams, state)
            return state._replace(x=state.x - 1e-9 * state.x.mean(0))

    with pytest.raises(AssertionError):
        test_an_agent_knows_only_what_mix_tells_it(
            Method("leaky", Leaky, lambda: pca().problem, GRAPHS["ring"]), "small"
        )


@every
def test_blocks_of_agents_do_not_change_bits(
    method: Method, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = bits(Setup(method).run(10))
    monkeypatch.setattr("decentorth.problems.base.BLOCK_BYTES", 1)
    setup = Setup(method)
    assert len(setup.problem.blocks()) == setup.n
    assert bits(setup.run(10)) == whole


@every
def test_saved_and_resumed_is_as_if_never_stopped(method: Method, tmp_path: Path) -> None:
    """Through the files of a checkpoint, which does not disturb the run that it is made of."""

    def run(**given: Any) -> Any:
        problem = method.problem()
        W, x0 = method.W(problem.n_agents), point(problem, 7)
        result = do.solve(
            problem, method.algorithm(), W, x0=x0, iterations=25, record_every=6, seed=7, **given
        )
        columns = {
            name: column.tobytes() for name, column in result.history.items() if name != "seconds"
        }
        return bits(result.state) | columns | {"k": result.state.k}

    uninterrupted = run()
    every = max(1, min(11, uninterrupted["k"] // 2))  # a method may end by itself
    assert run(checkpoints=do.Checkpoints(tmp_path, every=every)) == uninterrupted
    assert run(resume=tmp_path / f"{every:09d}") == uninterrupted


def alone(problem: Any) -> naive.Gradient:
    def gradient(x: Array) -> Array:
        return problem.gradient(np.ascontiguousarray(x[None]))[0]

    return gradient


@methods(lambda m: m.tracks and m.algorithm().network == "decentralized")
def test_the_mean_tracker_is_the_mean_field(method: Method) -> None:
    """Compared with the mean norm of the fields, over 500 iterations; W's columns sum to 1 and
    every change is added once."""
    setup = Setup(method)
    state = setup.run(500)
    gap = np.linalg.norm(np.mean(state.tracker - state.field, axis=0))
    assert gap < 1e-12 * np.mean(np.linalg.norm(state.field, axis=(1, 2)))
    field = []
    for agent, x in enumerate(state.x):
        own = slice(agent, agent + 1)
        gradient = alone(setup.problem.restrict(own))
        field.append(method.field(gradient, x, of_agents(state, own)))
    np.testing.assert_allclose(state.field, field, atol=1e-13 * np.abs(field).max())
    assert np.abs(state.tracker - state.field).max() > 1e-3 * np.abs(field).max()


@decentralized
def test_an_exchange_is_one_message_over_every_edge(method: Method) -> None:
    setup = Setup(method)
    state = setup.init()
    network = setup.network
    before = (network.rounds, network.messages, network.bytes)
    for _ in range(4):
        state = setup.step(state)
    after = (network.rounds, network.messages, network.bytes)
    edges = int(np.count_nonzero(setup.network.W.toarray())) - setup.n
    assert np.subtract(after, before).tolist() == [
        4 * method.exchanges * (1 + method.star),
        4 * method.exchanges * edges,
        4 * edges * 8 * (method.sent * state.x[0].size + method.beside),
    ]


@dataclass(frozen=True)
class Known:
    """A problem with one answer up to rotation, or altogether; the objective cannot be lower
    anywhere."""

    problem: Any
    x0: Array
    optimum: Array
    objective: float
    rotated: bool

    def distance(self, x: Array) -> float:
        """From the answer: between projections onto the columns' span where any basis of it will
        do."""
        return naive.norm(
            x @ x.T - self.optimum @ self.optimum.T if self.rotated else x - self.optimum
        )


def eigenspace(n: int) -> Known:
    """PCA with a gap of 0.6 between eigenvalues r and r + 1 of the pooled matrix."""
    data = samples(UNEVEN[1 : 2 * n : 2] if n > 1 else (40,), 8, 5, ratio=0.75)
    values, vectors = np.linalg.eigh(np.mean([a.T @ a / len(a) for a in data], axis=0))
    problem = PCA(data, 2, weights="agents")
    return Known(problem, point(problem, 3), vectors[:, -2:], -float(values[-2:].sum()) / 2, True)


def planted(n: int) -> Known:
    """Procrustes with B_i^T = A_i x*: the objective is zero at x* alone. From a start near x*."""
    rng = np.random.default_rng(6)
    data = samples([12, 3, 9, 12, 4][:n], 6, 7, ratio=0.95)
    optimum = naive.polar(rng.standard_normal((6, 3)))
    problem = Procrustes(data, [(a @ optimum).T for a in data])
    return Known(
        problem, naive.polar(optimum + 0.3 * rng.standard_normal((6, 3))), optimum, 0.0, False
    )


def own_functions(n: int) -> Known:
    """The linear objectives f_i(x) = -<C_i, x>, least at the polar factor of mean_i C_i; start and
    answer in SO(5)."""
    C = 0.5 * np.random.default_rng(8).standard_normal((n, 5, 5)) + 2 * np.eye(5)
    problem = FunctionProblem(
        lambda agent, x: -float(np.sum(C[agent] * x)), lambda agent, x: -C[agent], Stiefel(5, 5), n
    )
    optimum = naive.polar(C.mean(axis=0))
    assert np.linalg.det(optimum) > 0
    return Known(problem, np.eye(5), optimum, -float(np.sum(C.mean(axis=0) * optimum)), False)


def hyperbolic(n: int) -> Known:
    """tr(x^T C x) over {x : x^T J x = J}: columns from the eigenvectors of J C, least value the sum
    of its |eigenvalues|."""
    problem = hevp(6, 4.0, seed=1)
    J, C = np.diag(problem.constraint.signs), 0.5 * problem.trace_form()[0]
    values, vectors = np.linalg.eig(J @ C)
    columns = vectors / np.sqrt(np.abs(np.diag(vectors.T @ J @ vectors)))
    order = np.empty(6, dtype=int)
    for sign in (-1.0, 1.0):
        order[np.diag(J) == sign] = np.flatnonzero(np.sign(values) == sign)
    return Known(problem, np.eye(6), columns[:, order], float(np.abs(values).sum()), True)


@pytest.mark.parametrize(
    ("method", "known"),
    [
        pytest.param(
            method,
            known,
            id=f"{method.name}-{known.__name__}",
            marks=[SLOW] if number or method is COMPILED else [],
        )
        for method in METHODS
        if method.exact
        for number, known in enumerate(
            known
            for known in (eigenspace, planted, own_functions, hyperbolic)
            if known.__name__ in method.solves
        )
    ],
)
def test_every_method_finds_known_answers(method: Method, known: Callable[[int], Known]) -> None:
    """With automatic steps, in which nothing is tuned to the problem."""
    n = 1 if method.algorithm().network == "single-agent" else 5
    answer = known(n)
    kind, settings = type(method.algorithm()), vars(method.algorithm())
    numbers = {
        name: "auto" for name in ("step_size", "penalty") if getattr(kind, name, None) == "auto"
    }
    algorithm = kind(**{**settings, **numbers})
    # St(d, r) as the set of all x with x^T I x = I
    if isinstance(algorithm, do.GeneralizedLanding):
        answer.problem.constraint = GeneralizedStiefel(
            np.eye(answer.problem.shape[0]), answer.problem.shape[1]
        )
    signed = {Signature, Signatures} & set(algorithm.requires_set)
    if signed and known is own_functions:  # O(n) as the set of all x with x^T J x = J, J = I
        answer.problem.constraint = JOrthogonal(5, 0)
    if LocalProducts in algorithm.requires:  # the same set, of whose B = I each agent knows a share
        answer = replace(answer, problem=sharing_the_identity(answer.problem))
    there = GradientNorm(1e-11) & Feasibility(0.1 * method.feasibility) & Consensus(1e-10)
    given: Any = {
        "x0": answer.x0,
        "iterations": method.iterations,
        "stopping": there,
        "record_every": 100,
    }
    result = do.solve(answer.problem, algorithm, method.W(n), **given)
    assert max(answer.distance(x) for x in result.x) < 1e-8
    assert result.row.values["feasibility"] < method.feasibility
    assert result.row.values["objective"] == pytest.approx(answer.objective, rel=1e-12, abs=1e-12)
    assert answer.distance(answer.x0) > 0.1


@single
def test_a_single_agent_method_refuses_a_network_that_cannot_sum(method: Method) -> None:
    network = Network(tp.directed_weights(tp.directed_ring(5)))
    message = f"{type(method.algorithm()).__name__} on several agents adds exactly along a tree"
    with pytest.raises(ValueError, match=message):
        check_network(method.algorithm(), network)


@every
def test_methods_are_immutable_values(method: Method) -> None:
    algorithm = method.algorithm()
    assert algorithm == method.algorithm()
    assert hash(algorithm) == hash(method.algorithm())
    with pytest.raises(AttributeError):
        algorithm.step_size = 1.0
    run = set_up(method.problem(), algorithm, method.W(method.problem().n_agents))
    run.solve(Options(iterations=3))
    assert algorithm == method.algorithm()


@every
def test_a_setting_that_cannot_be_is_refused_by_its_name(method: Method) -> None:
    algorithm = method.algorithm()
    for setting in fields(algorithm):
        numbers = {float: (-1.0, math.nan), int: (-1,)}.get(type(setting.default), ())
        for value in (object(), "no such word", *numbers):
            with pytest.raises((TypeError, ValueError), match=setting.name):
                replace(algorithm, **{setting.name: value})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (partial(do.UMCM, optimizer="adagrad", step_size="bb"), "Adagrad has a rate"),
        (
            partial(do.CDADT, preconditioner="diagonal", sketch_columns=3),
            "sketch_columns needs preconditioner",
        ),
        (
            partial(do.JJOBCD, rounds=2, varsigma=3.0),
            "more than one round needs a varsigma that is no constant",
        ),
        (
            partial(do.Landing, step_size="fast"),
            "unknown step_size 'fast'; known step_sizes: constant, .*, bb, growing, 'auto'",
        ),
    ],
)
def test_settings_that_do_not_go_together_are_refused(
    make: Callable[[], Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        make()
