"""The example that trains UltraE, ComplEx and DistMult by mini-batches: its derivatives,
feasibility and shared candidates."""

from __future__ import annotations

import argparse
import runpy
from typing import Any

import numpy as np
import pytest

from decentorth.problems import KnowledgeGraph
from decentorth.protocols import Array
from tests.support.mpi import ROOT

EXAMPLE = runpy.run_path(str(ROOT / "examples" / "j_orthogonal" / "knowledge.py"))
N, RELATIONS = 8, 3
OPTIONS: dict[str, Any] = {
    **{
        "score": "signed",
        "loss": "softmax",
        "by": "angles",
        "start": "pole",
        "spread": 0.5,
        "turned": "any",
        "turn": 1.0,
    },
    **{
        "delta": 0.5,
        "inverse": True,
        "falling": True,
        "batch": 16,
        "shared": 0,
        "rate": 0.02,
        "step": 0.3,
    },
    **{"epochs": 20, "seconds": 1.0},
}


def training(name: str, **changed: Any) -> Any:
    given = argparse.Namespace(**(OPTIONS | changed))
    rng = np.random.default_rng(3)
    triples = np.unique(rng.integers(0, [12, RELATIONS, 12], (60, 3)), axis=0)
    triples = triples[rng.permutation(len(triples))]
    graph = KnowledgeGraph(triples[8:], triples[:0], triples[:8], 12, RELATIONS)
    sizes = (rng, 12, RELATIONS * (1 + given.inverse), N)
    model = EXAMPLE["UltraE"](*sizes, given) if name == "UltraE" else EXAMPLE[name](*sizes)
    return EXAMPLE["Training"](graph, model, given, rng)


class Recorder:
    """In place of Adam and Adagrad: it keeps the slopes and does not move."""

    def __init__(self) -> None:
        self.k, self.slopes = 0, dict[str, Array]()

    def step(self, name: str, x: Array, slope: Array, rows: Any = slice(None)) -> Array:
        self.slopes[name] = np.zeros_like(x)
        self.slopes[name][rows] = slope
        return np.zeros_like(slope)


MODELS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("ComplEx", {}),
    ("ComplEx", {"inverse": False, "shared": 5}),
    ("DistMult", {"loss": "cross-entropy"}),
    ("UltraE", {}),
    ("UltraE", {"shared": 4, "inverse": False}),
    ("UltraE", {"score": "printed", "loss": "cross-entropy", "inverse": False}),
)


@pytest.mark.parametrize(("name", "changed"), MODELS)
def test_the_slopes_of_a_batch_are_its_derivatives(name: str, changed: dict[str, Any]) -> None:
    """Central differences of the loss in double precision, in entities, biases, relations or their
    angles."""
    made, rng = training(name, **changed), np.random.default_rng(5)
    model, recorder = made.model, Recorder()
    made.adam = made.adagrad = recorder
    model.entities = model.entities.astype(np.float64) + 0.1 * rng.standard_normal(
        model.entities.shape
    )
    model.biases = 0.3 * rng.standard_normal(len(model.biases))
    arrays = {"entities": model.entities, "biases": model.biases}
    if name == "UltraE":
        arrays |= model.relations.angles
        arrays["mu"] += 0.3 * rng.standard_normal(arrays["mu"].shape)
    else:
        model.relations = model.relations.astype(np.float64)
        model.slopes = np.zeros_like(model.relations)
        arrays["relations"] = model.relations

    def loss() -> float:
        made.rng = np.random.default_rng(7)
        return float(made.step(batch, 0.0))

    batch = made.graph.train[np.argsort(made.graph.train[:, 1], kind="stable")][5:40]
    loss()
    slopes, step = dict(recorder.slopes), 1e-6
    assert set(slopes) == set(arrays)
    for part, x in arrays.items():
        direction = rng.standard_normal(x.shape)
        x += step * direction
        above = loss()
        x -= 2.0 * step * direction
        below = loss()
        x += step * direction
        assert float((slopes[part] * direction).sum()) == pytest.approx(
            (above - below) / (2.0 * step), rel=1e-5, abs=1e-8
        ), part


def test_as_many_shared_entities_as_reach_all_give_the_loss_over_all() -> None:
    one, other = training("ComplEx"), training("ComplEx", shared=1000)
    batch = one.graph.train[np.argsort(one.graph.train[:, 1])]
    assert other.step(batch, 0.0) == pytest.approx(one.step(batch, 0.0), rel=1e-6)


def test_ranks_are_those_of_the_scores() -> None:
    made = training("DistMult", inverse=False)
    model, graph = made.model, made.graph
    known = {tuple(one) for part in graph[:3] for one in part.tolist()}
    wanted = []
    for h, r, t in graph.test.tolist():
        for column, answer in ((2, t), (0, h)):
            own = model.entities[h if column == 2 else t] * model.relations[r]
            every = [(h, r, e) if column == 2 else (e, r, t) for e in range(12)]
            scores = model.entities @ own
            wanted.append(
                1 + sum(scores[e] > scores[answer] for e in range(12) if every[e] not in known)
            )
    assert sorted(made.ranks(graph.test)) == sorted(wanted)
