"""A user's script, with a method, a rule, a recorder and a callback of its own, as an editor's type
checker sees it.

Nothing here is run. mypy and pyright must accept every line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_type

import networkx as nx
import numpy as np

import decentorth as do
import topologies as tp
from decentorth.commands.new.algorithm import Template
from decentorth.estimators import CCA, ICA, PCA
from decentorth.problems import Procrustes
from decentorth.protocols import Array, Collective, Row, Stop


@dataclass
class Budget:
    """A stopping rule: at most so much payload."""

    bytes: int

    def __call__(self, row: Row, collective: Collective) -> Stop | None:
        return Stop("converged", True, "the budget is spent") if row.bytes > self.bytes else None


class Collected:
    """A recorder."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def record(self, row: Row) -> None:
        self.rows.append(row)


def script(A: Array, B: Array) -> None:
    """Runs with instances, classes and names, on a graph, a matrix and a name."""
    problem = Procrustes(A, B)
    W = tp.metropolis_weights(tp.ring(10))
    rules = do.stopping.GradientNorm(1e-6, relative=True) & do.stopping.Consensus(
        1e-6
    ) | do.stopping.Time(60)
    result = do.solve(
        problem, do.DRFGT(step_size=1e-2, penalty=10.0), W, iterations=3000, stopping=rules
    )
    assert_type(result, do.Result)
    do.solve(problem, do.DRGTA(rounds=3), nx.cycle_graph(10), stopping=1e-6, callback=print)
    do.solve(problem, do.DESTINY(), nx.cycle_graph(10), progress=True)
    do.solve(problem, do.PushPull(), tp.directed_ring(10))
    do.solve(
        problem,
        do.DRFGT,
        "ring",
        recorders=[Collected()],
        seed=3,
        channel="loss:p=0.1",
        stopping=Budget(10**6),
    )
    do.solve(
        problem,
        "drfgt:penalty=10",
        "ring",
        x0=np.eye(20, 5),
        checkpoints=do.Checkpoints("folder", every="10m"),
    )
    do.solve(problem, Template(step_size=1e-3), W)
    for state in do.iterate(problem, do.DRGTA(), W):
        print(state.k, state.x.shape)
    print(result.x.mean(), result.history["gradient_norm"], result.row.values["feasibility"])


def fits(samples: Array) -> None:
    """Estimators, for data in one place and for agents."""
    assert_type(PCA(3).fit(samples), PCA)
    PCA(3, algorithm=do.DRFGT(), tol=1e-6).fit_agents([samples, samples], "ring")
    CCA(2).fit(samples, samples)
    ICA(2).fit_agents([samples, samples], nx.path_graph(2))
