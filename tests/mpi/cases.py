"""Runs whose bits must not depend on the number of ranks: one table, run in sequence by every rank
of a job.

``python -m tests.mpi.cases NAMES...`` alone or under mpirun prints one JSON object on rank 0: for
each case what must be the same for any number of ranks, and what crossed the transport.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import networkx as nx
import numpy as np
from scipy.sparse import csr_array

import decentorth as do
import topologies as tp
from decentorth.network import Placement
from decentorth.problems import (
    PCA,
    CCASettings,
    FunctionProblem,
    ICASettings,
    MatrixCompletionSettings,
    ODLSettings,
    PCASettings,
    Procrustes,
    RobustSubspaceRecovery,
    RSRSettings,
    SparsePCASettings,
)
from decentorth.protocols import Array, StoppingRule
from decentorth.sets import Stiefel
from decentorth.stopping import Consensus, GradientNorm, LocalMaximum

EVEN = (10,) * 10
UNEVEN = (40, 4, 25, 26, 1, 31, 10, 10, 50, 7)
"""Rows of the agents: with d = 50 those above 25 keep Gram matrices, the others their rows."""


def draw(agent: int, rows: int, columns: int, purpose: int) -> Array:
    """``(rows, columns)``: an agent's Gaussian data, whichever rank draws it."""
    return np.random.default_rng((2026, agent, purpose)).standard_normal((rows, columns))


def rows_and_targets(agent: int, m: int, d: int, r: int) -> tuple[Array, Array]:
    scale = 1.0 / np.sqrt(d)
    return scale * draw(agent, m, d, 0), scale * draw(agent, r, m, 1)


def procrustes(rows: tuple[int, ...], d: int, r: int) -> Procrustes:
    return Procrustes(
        *zip(*(rows_and_targets(i, m, d, r) for i, m in enumerate(rows)), strict=True)
    )


def loaded_procrustes(rows: tuple[int, ...], d: int, r: int) -> Any:
    return Procrustes.from_loader(lambda i: rows_and_targets(i, rows[i], d, r), len(rows))


def decaying(agent: int, m: int, d: int) -> Array:
    samples: Array = draw(agent, m, d, 2) / np.sqrt(np.arange(1.0, d + 1.0))
    return samples


def pca(rows: tuple[int, ...], d: int, r: int) -> PCA:
    return PCA([decaying(i, m, d) for i, m in enumerate(rows)], r)


def loaded_pca(rows: tuple[int, ...], d: int, r: int) -> Any:
    return PCA.from_loader(lambda i: decaying(i, rows[i], d), len(rows), r)


def sites_pca(rows: tuple[int, ...], d: int, r: int) -> Any:
    sites = {f"site{i}": 3.0 + decaying(i, m, d) for i, m in enumerate(rows)}
    return PCA.from_sites(sites, r, center=True, scale=True)


def sparse(agent: int, m: int, d: int) -> Any:
    """An agent's samples with many zeros, as a sparse matrix, of every third agent as an array."""
    samples = np.where(draw(agent, m, d, 4) > 1.0, decaying(agent, m, d), 0.0)
    return samples if agent % 3 == 2 else csr_array(samples)


def sparse_pca_samples(rows: tuple[int, ...], d: int, r: int) -> Any:
    return PCA.from_loader(lambda i: sparse(i, rows[i], d), len(rows), r, scale=True)


def sparse_subspace(rows: tuple[int, ...], d: int, r: int) -> Any:
    return RobustSubspaceRecovery.from_loader(lambda i: sparse(i, rows[i], d), len(rows), d - r)


def own_functions(rows: tuple[int, ...], d: int, r: int) -> FunctionProblem[Stiefel]:
    """A user's own problem: the Lipschitz constants of its automatic step are estimated from drawn
    directions."""
    data = [draw(i, m, d, 3) / np.sqrt(m) for i, m in enumerate(rows)]
    return FunctionProblem(
        lambda i, x: -0.5 * float(((data[i] @ x) ** 2).sum()),
        lambda i, x: -data[i].T @ (data[i] @ x),
        Stiefel(d, r),
        len(rows),
    )


def made(
    settings: Callable[[tuple[int, ...], int, int], Any],
) -> Callable[[tuple[int, ...], int, int], Any]:
    """The problem of settings, of which each rank draws or loads what its own agents have."""
    return lambda rows, d, r: settings(rows, d, r).problem(len(rows), 5)


completion = made(lambda rows, d, r: MatrixCompletionSettings(dimension=d, rank=r, columns=rows[0]))
# whitened over all
ica = made(
    lambda rows, d, r: ICASettings(sources=r, samples=rows[0], imbalance=5.0, mixing="general")
)
cca = made(
    lambda rows, d, r: CCASettings(
        data="synthetic", dimension=d, dimension_y=d - 7, rank=r, samples=rows[0], heterogeneity=0.3
    )
)
# halves of few digits for each agent
digits_cca = made(lambda rows, d, r: CCASettings(rank=r, partition="by-label"))
synthetic_pca = made(
    lambda rows, d, r: PCASettings(
        data="synthetic", dimension=d, rank=r, samples=rows[0], heterogeneity=0.5
    )
)
rsr = made(
    lambda rows, d, r: RSRSettings(
        dimension=d, rank=r, inliers=sum(rows), outliers=sum(rows), partition="dirichlet"
    )
)
odl = made(lambda rows, d, r: ODLSettings(dimension=d, samples=sum(rows)))
robust_pca = made(lambda rows, d, r: do.problems.RobustPCASettings(rank=r, mu=0.2))
sparse_cca = made(lambda rows, d, r: do.problems.SparseCCASettings(rank=r))
# the steps need the steepest agent of all
sparse_pca = made(lambda rows, d, r: SparsePCASettings(rank=r))


def times(name: str) -> Callable[[], Any]:
    return lambda: tp.sequence_from_name(name, 10, seed=3)


def ring() -> nx.Graph[int]:
    return tp.ring(10)


def random_graph() -> nx.Graph[int]:
    return tp.erdos_renyi(10, 0.4, seed=3)


def one_way_ring() -> nx.Graph[int]:
    return tp.directed_ring(10, chords=3, seed=1)


def two_clusters() -> nx.Graph[int]:
    """Two dense clusters of 18 and 22 agents joined by one edge: the border between two ranks is
    worth moving."""
    graph: nx.Graph[int] = nx.disjoint_union(nx.complete_graph(18), nx.complete_graph(22))
    graph.add_edge(17, 18)
    return graph


COMBINE = do.DRFGT(order="combine-then-adapt")
STAYS = replace(COMBINE, step_size="constant")
ADAPT = do.DRFGT(order="adapt-then-combine")


def fixed(step_size: float, safe: bool = False) -> do.DRFGT:
    return replace(COMBINE, step_size=step_size, safe=safe)


@dataclass(frozen=True)
class Case:
    problem: Callable[[tuple[int, ...], int, int], Any]
    rows: tuple[int, ...]
    shape: tuple[int, int]
    graph: Callable[[], Any]
    algorithm: Any = COMBINE
    iterations: int = 20
    placement: Placement = "even"
    stopping: StoppingRule | None = None
    safety_region: float | None = None
    recorded: int = 12
    channel: do.Channel | None = None
    secure: bool = False

    def weights(self) -> Any:
        """W by Metropolis' rule, or 0.8 and 0.1 on the ring; both matrices of a directed graph; or
        a sequence."""
        graph = self.graph()
        if isinstance(graph, tp.WeightSequence):
            return graph
        if isinstance(graph, nx.DiGraph):
            return tp.directed_weights(graph)
        return (
            tp.uniform_weights(graph, 0.8) if self.graph is ring else tp.metropolis_weights(graph)
        )

    def solve(self) -> do.Result:
        names = ("iterations", "placement", "stopping", "safety_region", "channel", "secure")
        more: dict[str, Any] = {name: getattr(self, name) for name in names}
        problem = self.problem(self.rows, *self.shape)
        more |= {"rows": self.recorded, "seed": 7}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "secure")  # agents of one rank have no secrets
            return do.solve(problem, self.algorithm, self.weights(), **more)


LARGE = (400, 20, 200, 393, 30, 90, 12, 500, 392, 60)
"""With d = 784 those above 392 keep Gram matrices."""


def bad(*faults: str, repair: bool = True) -> dict[str, Any]:
    return {"channel": do.Channel(*faults, repair=repair)}


CASES: dict[str, Case] = {
    "lossy": Case(
        procrustes,
        UNEVEN,
        (50, 20),
        random_graph,
        fixed(0.01),
        **bad("loss:p=0.1", "bursts:p=0.1,bad=0.9,good=0.05"),
    ),
    "lossy-drift": Case(
        pca,
        UNEVEN,
        (50, 20),
        ring,
        ADAPT,
        **bad("loss:p=0.2", "sleep:p=0.1,length=3", repair=False),
    ),
    "asleep": Case(
        procrustes,
        UNEVEN,
        (50, 20),
        ring,
        fixed(0.01),
        **bad("sleep:p=0.2", "topk:share=0.2", "loss:p=0.05"),
    ),
    "coded": Case(
        procrustes,
        UNEVEN,
        (50, 20),
        ring,
        fixed(1e-3),
        **bad("randomk:share=0.3", "quantize:bits=8", "failures:p=0.1"),
    ),
    "noisy": Case(
        procrustes,
        UNEVEN,
        (50, 20),
        ring,
        fixed(0.01),
        **bad("quantize:bits=4", "loss:p=0.05", repair=False),
    ),
    "late": Case(
        procrustes,
        UNEVEN,
        (50, 20),
        ring,
        fixed(0.01),
        **bad("delay:rounds=2,random=true", "quantize:feedback=true"),
    ),
    "late-clusters": Case(
        pca,
        (6,) * 40,
        (20, 3),
        two_clusters,
        fixed(1e-4),
        placement="fewer-cuts",
        **bad("delay:rounds=1", repair=False),
    ),
    "safe-lossy": Case(
        procrustes,
        UNEVEN,
        (50, 20),
        ring,
        fixed(1e3, safe=True),
        **bad("loss:p=0.1", "topk:share=0.2"),
    ),
    "one-peer": Case(
        procrustes,
        (6,) * 16,
        (20, 4),
        lambda: tp.OnePeerExponential(16),
        do.DRFGT(step_size=1e-3, penalty=10.0),
    ),
    "link-failures": Case(
        pca,
        EVEN,
        (20, 4),
        times("link_failures:p=0.3@grid:2x5"),
        do.DRFGT(step_size=1e-3, penalty=10.0),
    ),
    "procrustes-ring": Case(procrustes, EVEN, (50, 20), ring, fixed(0.05)),
    "procrustes-random": Case(procrustes, UNEVEN, (50, 20), random_graph),
    "procrustes-loader": Case(
        loaded_procrustes, UNEVEN, (50, 20), random_graph, placement="fewer-cuts"
    ),
    "pca-ring": Case(pca, UNEVEN, (50, 20), ring),
    "pca-random": Case(pca, EVEN, (50, 20), random_graph, ADAPT),
    "pca-loader": Case(loaded_pca, UNEVEN, (50, 20), ring),
    "procrustes-vector": Case(procrustes, (1, 2, 3, 4, 5, 1, 2, 3, 4, 5), (5, 1), ring, ADAPT),
    "own-functions": Case(own_functions, UNEVEN, (50, 20), random_graph),
    "completion": Case(completion, (60,) * 10, (50, 4), ring),
    "ica": Case(ica, (300,) * 10, (12, 12), random_graph),
    "pca-synthetic": Case(synthetic_pca, (100,) * 10, (20, 4), ring),
    "growing": Case(
        procrustes, UNEVEN, (50, 20), random_graph, do.DRFGT(step_size="growing"), iterations=75
    ),
    "accelerated": Case(procrustes, UNEVEN, (50, 20), ring, do.DRFGT(order="accelerated")),
    "accelerated-safe": Case(
        pca, UNEVEN, (50, 20), ring, do.DRFGT(order="accelerated", step_size=1e3, safe=True)
    ),
    "fewer-cuts": Case(pca, (6,) * 40, (20, 3), two_clusters, placement="fewer-cuts"),
    "stops": Case(
        pca,
        EVEN,
        (50, 5),
        random_graph,
        stopping=GradientNorm(2e-2) & Consensus(2e-2),
        iterations=500,
        recorded=40,
    ),
    "agents-stop": Case(
        pca,
        UNEVEN,
        (50, 5),
        random_graph,
        stopping=LocalMaximum(2e-2, every=25),
        iterations=500,
        recorded=20,
    ),
    "agents-stop-lossy": Case(
        procrustes,
        UNEVEN,
        (50, 20),
        ring,
        do.DPRGT(step_size=1e-3),
        **bad("loss:p=0.1"),
        stopping=LocalMaximum(6.0, ("movement", "disagreement"), 20),
    ),
    "diverges": Case(procrustes, UNEVEN, (50, 20), ring, fixed(0.5), recorded=60),
    "leaves-region": Case(procrustes, UNEVEN, (50, 20), ring, fixed(0.4), safety_region=2.5),
    "safe-ring": Case(procrustes, UNEVEN, (50, 20), ring, fixed(1e7, safe=True)),
    "safe-adapt": Case(
        procrustes, UNEVEN, (50, 20), random_graph, replace(ADAPT, step_size=1e3, safe=True)
    ),
    "drsgd": Case(
        procrustes,
        UNEVEN,
        (50, 20),
        random_graph,
        do.DRSGD(rounds=2, chebyshev=True, retraction="qr"),
    ),
    "drsgd-batches": Case(
        procrustes,
        UNEVEN,
        (50, 20),
        ring,
        do.DRSGD(step_size="horizon:iterations=500", batch_size=3),
    ),
    "dprgd-batches": Case(
        loaded_pca, UNEVEN, (50, 20), random_graph, do.DPRGD(rounds=2, batch_size=1)
    ),
    "dgd-batches": Case(
        pca, LARGE, (784, 10), ring, do.DGD(penalty=1.0, batch_size=7), iterations=15, recorded=6
    ),
    "tracked-batches": Case(
        loaded_procrustes, UNEVEN, (50, 20), ring, do.DRFGT(step_size=5e-3, batch_size=4)
    ),
    "drsm": Case(rsr, UNEVEN, (20, 4), ring, do.DRSM()),
    "drsm-dictionary": Case(odl, EVEN, (12, 12), random_graph, do.DRSM(rounds=2, chebyshev=True)),
    "drproxgt": Case(sparse_pca, EVEN, (64, 3), ring, do.DRProxGT()),
    "prextra": Case(sparse_pca, EVEN, (64, 3), random_graph, do.PREXTRA()),
    "robust": Case(robust_pca, EVEN, (64, 3), ring, do.DRProxGT()),
    "sparse-cca": Case(sparse_cca, EVEN, (56, 3), random_graph, do.PREXTRA()),
    "drsm-mean": Case(own_functions, UNEVEN, (50, 20), random_graph, do.DRSM(), 50),
    "tall-rsr": Case(rsr, LARGE, (500, 490), random_graph, do.DRSM(), iterations=4, recorded=4),
    "rextra": Case(procrustes, UNEVEN, (50, 20), ring, do.REXTRA()),
    "rfextra": Case(pca, UNEVEN, (50, 20), random_graph, do.RFEXTRA()),
    "deepca": Case(pca, UNEVEN, (50, 20), ring, do.DeEPCA()),
    "drgta": Case(procrustes, UNEVEN, (50, 20), ring, do.DRGTA(rounds=2)),
    "drgta-accelerated": Case(procrustes, UNEVEN, (50, 20), ring, do.DRGTA(order="accelerated")),
    "drgta-vector": Case(
        pca, (1, 2, 3, 4, 5) * 2, (5, 1), random_graph, do.DRGTA(rounds=2, chebyshev=True)
    ),
    "rmtracking": Case(procrustes, UNEVEN, (50, 20), ring, do.RMTracking()),
    "local-tracking": Case(
        pca, UNEVEN, (50, 20), random_graph, do.LocalTracking(local_steps=3, batch_size=2)
    ),
    "local-sleep": Case(
        procrustes, UNEVEN, (50, 20), ring, do.LocalTracking(), **bad("sleep:p=0.3,length=2")
    ),
    "ef-landing": Case(
        procrustes,
        UNEVEN,
        (50, 20),
        ring,
        do.EFLanding(consensus_step=0.2),
        **bad("topk:share=0.1"),
    ),
    "ef-server": Case(
        pca,
        UNEVEN,
        (50, 20),
        random_graph,
        do.EFLanding(server=True),
        **bad("topk:share=0.1", "quantize:bits=8"),
    ),
    "ddrs": Case(procrustes, UNEVEN, (50, 20), ring, do.DDRS()),
    "saga": Case(procrustes, UNEVEN, (50, 20), ring, do.SagaDRFGT(batch_size=3)),
    "dprsrm": Case(pca, UNEVEN, (50, 20), random_graph, do.DPRSRM(batch_size=3)),
    "vr-drfgt": Case(procrustes, UNEVEN, (50, 20), ring, do.VRDRFGT(batch_size=3, period=7)),
    "drcgd": Case(pca, UNEVEN, (50, 20), ring, do.DRCGD(tracked=True)),
    "demuon": Case(pca, UNEVEN, (50, 20), ring, do.DeMuon()),
    "dprgt": Case(pca, UNEVEN, (50, 20), random_graph, do.DPRGT(step_size="diminishing")),
    "push-pull": Case(
        pca, UNEVEN, (50, 20), one_way_ring, do.PushPull(), stopping=LocalMaximum(1e-9, every=10)
    ),
    "push-pull-cuts": Case(
        procrustes, UNEVEN, (50, 20), one_way_ring, do.PushPull(), placement="fewer-cuts"
    ),
    "destiny": Case(
        procrustes,
        UNEVEN,
        (50, 20),
        random_graph,
        do.DESTINY(order="adapt-then-combine"),
        placement="fewer-cuts",
    ),
    "destiny-safe": Case(
        pca, UNEVEN, (50, 20), ring, do.DESTINY(step_size=1e4, variant="dissolved", safe=True)
    ),
    "tracking": Case(
        pca, UNEVEN, (50, 20), ring, do.GradientTracking(penalty=20.0, order="combine-then-adapt")
    ),
    "cdadt": Case(digits_cca, EVEN, (56, 5), ring, do.CDADT(), placement="fewer-cuts"),
    "cdadt-diagonal": Case(
        cca, (40,) * 10, (30, 4), random_graph, do.CDADT(preconditioner="diagonal", momentum=0.5)
    ),
    "generalized-drfgt": Case(cca, (60,) * 10, (50, 20), random_graph, do.GeneralizedDRFGT()),
    "generalized-drfgt-covariance": Case(
        digits_cca, EVEN, (56, 1), ring, do.GeneralizedDRFGT(preconditioner="covariance")
    ),
    "sums-lbfgs": Case(pca, UNEVEN, (50, 20), ring, do.LBFGS()),
    "sums-cg": Case(loaded_procrustes, UNEVEN, (50, 20), random_graph, do.ConjugateGradients()),
    "sums-cca": Case(digits_cca, EVEN, (56, 5), ring, do.LBFGS(), placement="fewer-cuts"),
    "sums-landing": Case(ica, (300,) * 10, (12, 12), random_graph, do.Landing()),
    "sums-completion": Case(completion, (60,) * 10, (50, 4), ring, do.RGD()),
    "sums-batches": Case(pca, UNEVEN, (50, 20), ring, do.RGD(step_size=0.1, batch_size=7)),
    "sums-products": Case(
        cca,
        (40,) * 10,
        (30, 4),
        random_graph,
        do.algorithms.GeneralizedLanding(),
        stopping=LocalMaximum(1e-9, every=6),
    ),
    "sums-krylov": Case(
        sparse_pca_samples,
        UNEVEN,
        (50, 3),
        random_graph,
        do.BlockKrylov(guard=1, blocks=4),
        iterations=12,
    ),
    "sums-rsm": Case(rsr, UNEVEN, (20, 4), ring, do.algorithms.RSM()),
    "sums-rssm": Case(odl, EVEN, (12, 12), random_graph, do.algorithms.RSSM()),
    "sums-direct": Case(sites_pca, UNEVEN, (50, 5), random_graph, do.algorithms.Direct()),
    "secure-direct": Case(
        sites_pca, UNEVEN, (50, 5), random_graph, do.algorithms.Direct(), secure=True
    ),
    "secure-lbfgs": Case(ica, (300,) * 10, (12, 12), ring, do.LBFGS(), secure=True),
    "sums-moments": Case(procrustes, UNEVEN, (50, 20), ring, do.ConjugateGradients()),
    "tall-cdadt": Case(cca, (100,) * 10, (300, 10), ring, do.CDADT(), iterations=12, recorded=6),
    "tall-drgta": Case(
        pca,
        LARGE,
        (784, 10),
        random_graph,
        do.DRGTA(retraction="cholesky-qr"),
        iterations=12,
        recorded=6,
    ),
    "wide": Case(procrustes, (30,) * 10, (500, 100), ring, iterations=12, recorded=6),
    "tall-loader": Case(
        loaded_procrustes, LARGE, (784, 10), random_graph, STAYS, iterations=15, recorded=6
    ),
    "tall-procrustes": Case(
        procrustes, LARGE, (784, 10), random_graph, STAYS, iterations=15, recorded=6
    ),
    "sparse-samples": Case(sparse_pca_samples, UNEVEN, (50, 3), random_graph, do.DeEPCA()),
    "sparse-subspace": Case(sparse_subspace, UNEVEN, (50, 3), random_graph, do.DRSM()),
    "tall-pca": Case(pca, LARGE, (784, 10), ring, ADAPT, iterations=15, recorded=6),
}


def outcome(case: Case) -> dict[str, Any]:
    """What must not depend on the number of ranks, then what does."""
    result = case.solve()
    columns = [name for name in result.history.columns if name != "seconds"]
    return {
        "iterates_sha256": result.iterates_sha256,
        "history": {
            name: [repr(value) for value in result.history[name].tolist()] for name in columns
        },
        "status": result.status,
        "message": result.message,
        "step_size": repr(getattr(result.state, "step_size", [None])[0])
        if result.collective.rank == 0
        else "",
        "transport": {
            "bounds": result.network.bounds.tolist(),
            "messages": result.transport["messages"],
            "bytes": result.transport["bytes"],
            "ranks": result.collective.size,
        },
    }


if __name__ == "__main__":
    outcomes = {name: outcome(CASES[name]) for name in sys.argv[1:]}
    if do.connect().rank == 0:
        sys.stdout.write(json.dumps(outcomes) + "\n")
