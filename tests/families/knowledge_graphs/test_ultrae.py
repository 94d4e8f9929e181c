"""UltraE: scores and losses from their formulas, derivatives, corrupted triples, filtered ranks,
graphs; methods on it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decentorth import CSDM, JJOBCD, VRJJOBCD, solve
from decentorth.families.j_orthogonal.problems.ultrahyperbolic import NEAR, Ultrahyperbolic
from decentorth.families.knowledge_graphs.knowledge import Side, corrupted, hold_out, most_frequent
from decentorth.families.knowledge_graphs.planted_graph import planted_triples
from decentorth.families.knowledge_graphs.ranking import filtered_ranks, rank_measures
from decentorth.problems import KnowledgeGraph, UltraE, UltraESettings
from decentorth.protocols import Array, Evaluated, Index, Sampled, Smooth
from decentorth.sets import JOrthogonal
from tests.support import building

SIGNS = np.array([1.0, -1.0, -1.0, 1.0, -1.0])
ALPHA, DELTA = 1.3, 2.0
ENTITIES, RELATIONS = 9, 3
SIDES: tuple[tuple[Side, int], ...] = (("tail", 2), ("head", 0))
"""What is completed or corrupted, and its column."""


def graph(triples: int = 30, seed: int = 0) -> KnowledgeGraph:
    rng = np.random.default_rng(seed)
    every = np.unique(rng.integers(0, [ENTITIES, RELATIONS, ENTITIES], (2 * triples, 3)), axis=0)
    every = every[rng.permutation(len(every))]
    return KnowledgeGraph(
        every[: triples - 9],
        every[triples - 9 : triples - 6],
        every[triples - 6 : triples],
        ENTITIES,
        RELATIONS,
    )


def made(negatives: int = 5, **more: Any) -> UltraE:
    return UltraE(
        graph(), SIGNS, **({"negatives": negatives, "delta": DELTA, "alpha": ALPHA} | more)
    )


def somewhere(problem: UltraE, seed: int = 1) -> Array:
    """Relations, coordinates and biases at random; what fills up the last row too."""
    return problem.constraint.random(np.random.default_rng(seed), 0.4)[None]


def phi(y: Array) -> Array:
    s, t = y[SIGNS > 0], y[SIGNS < 0]
    out = np.empty_like(y)
    out[SIGNS > 0] = s
    out[SIGNS < 0] = np.sqrt(ALPHA**2 + s @ s) * t / np.linalg.norm(t)
    return out


def z(u: float) -> float:
    """The signed score at alpha = 1, from its formula."""
    if u >= 1.0:
        return float(-(np.arccosh(u) ** 2))
    return float(np.arccos(u) ** 2 if u >= 0.0 else np.pi**2 / 4.0 - np.pi * u)


def score(x: Array, h: int, r: int, t: int, *, signed: bool = False) -> float:
    """-d^2(R_r e_h, e_t), or the signed score, + b_h + b_t + delta of one point, from the
    formulas."""
    n = len(SIGNS)
    rows = x[RELATIONS * n :]
    biases = rows[ENTITIES:].reshape(-1)
    u = -sum(SIGNS * (x[r * n : (r + 1) * n] @ phi(rows[h])) * phi(rows[t])) / ALPHA**2
    d = np.arccosh(abs(u)) if abs(u) >= 1.0 else np.arccos(abs(u))
    return float(ALPHA**2 * (z(u) if signed else -(d**2)) + biases[h] + biases[t] + DELTA)


def loss(problem: UltraE, x: Array, tails: int, heads: int) -> float:
    """The logistic loss of all training triples, one after the other."""
    train = problem.graph.train
    other_tails = corrupted(problem.graph, "tail", tails, 0, len(train), 0)
    other_heads = corrupted(problem.graph, "head", heads, 0, len(train), 0)
    total = 0.0
    for i, (h, r, t) in enumerate(train.tolist()):
        total += float(np.log1p(np.exp(-score(x, h, r, t))))
        total += sum(
            float(np.log1p(np.exp(score(x, h, r, int(other))))) for other in other_tails[i]
        )
        total += sum(
            float(np.log1p(np.exp(score(x, int(other), r, t)))) for other in other_heads[i]
        )
    return total


@pytest.mark.parametrize(
    ("corrupt", "tails", "heads"), [("both", 3, 2), ("tail", 5, 0), ("head", 0, 5)]
)
def test_both_losses_are_their_formulas(corrupt: Any, tails: int, heads: int) -> None:
    """Softmax leaves out other training tails and heads of a triple's query, but not those of the
    test triples."""
    problem = made(corrupt=corrupt)
    x, train = somewhere(problem), problem.graph.train.tolist()
    assert problem.value(x)[0] == pytest.approx(
        loss(problem, x[0], tails, heads) / len(train), rel=1e-12
    )
    for kind in ("printed", "signed"):
        scored = partial(score, x[0], signed=kind == "signed")
        total = 0.0
        for triple in train:
            for _, column in (
                side for side, drawn in zip(SIDES, (tails, heads), strict=True) if drawn
            ):
                every = [[*triple[:column], e, *triple[column + 1 :]] for e in range(ENTITIES)]
                terms = [np.exp(scored(*one)) for one in every if one == triple or one not in train]
                total += np.log(sum(terms)) - scored(*triple)
        softmax = made(loss="softmax", score=kind, corrupt=corrupt)
        assert softmax.value(x)[0] == pytest.approx(total / len(train), rel=1e-12)


def test_the_signed_score_is_smooth_and_strictly_decreasing() -> None:
    """It is -d^2 for u >= 1; its slope is continuous where the formulas meet; it is computed alike
    in both precisions."""
    manifold = Ultrahyperbolic(SIGNS, ALPHA)
    u = np.concatenate(
        (
            np.linspace(-3.0, 6.0, 2001),
            1.0 + np.geomspace(1e-12, 1e-2, 200),
            1.0 - np.geomspace(1e-12, 1e-2, 200),
        )
    )
    u.sort()
    scores, slopes = manifold.signed_scores((-(ALPHA**2) * u)[None])
    assert scores.shape == slopes.shape == (1, len(u))
    np.testing.assert_allclose(scores[0], [ALPHA**2 * z(one) for one in u], rtol=1e-10, atol=1e-14)
    far = u > 1.0
    np.testing.assert_allclose(
        scores[0, far], -(manifold.distances(u[far]) ** 2), rtol=1e-10, atol=1e-14
    )
    assert (np.diff(scores[0]) < 0.0).all()
    assert (slopes > 0.0).all()
    for joint, slope in ((1.0, 2.0), (0.0, np.pi), (1.0 + NEAR, None), (1.0 - NEAR, None)):
        values, around = manifold.signed_scores(
            -(ALPHA**2) * (joint + np.array([-1e-9, 0.0, 1e-9]))
        )
        np.testing.assert_allclose(around, slope or around[1], rtol=1e-8)
        np.testing.assert_allclose(np.diff(values), -(ALPHA**2) * around[1] * 1e-9, rtol=1e-5)
    single = manifold.signed_scores((-(ALPHA**2) * u).astype(np.float32))
    assert single[0].dtype == single[1].dtype == np.float32
    np.testing.assert_allclose(single[0], scores[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(single[1], slopes[0], rtol=1e-4)


OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"score": "signed"},
    {"loss": "softmax"},
    {"score": "signed", "loss": "softmax"},
    {"score": "signed", "loss": "softmax", "corrupt": "head"},
)


@pytest.mark.parametrize("options", OPTIONS)
def test_gradients_fit_their_values(options: dict[str, Any]) -> None:
    problem = made(20, **options)
    assert problem.check_gradient(somewhere(problem)[0]).right


def test_entities_at_one_place_have_a_derivative() -> None:
    """Distances of zero count nothing, and infinite slopes do not come in; beside them d^2 is
    smooth."""
    problem = made()
    x = problem.start(0)[None]
    entities = problem.unpack(x)["entities"]
    entities[0, 1:4] = entities[0, 0]
    gradient = problem.gradient(x)
    assert np.isfinite(gradient).all()
    h = 1e-7
    biases = problem.unpack(np.random.default_rng(0).standard_normal(x.shape))["biases"]
    along = np.zeros_like(x)
    problem.unpack(along)["biases"][:] = biases
    slope = (problem.value(x + h * along) - problem.value(x - h * along))[0] / (2.0 * h)
    assert float((gradient * along).sum()) == pytest.approx(slope, rel=1e-6)
    np.testing.assert_array_equal(problem.gradient(x), gradient)


@pytest.mark.parametrize("options", OPTIONS[::3])
def test_pieces_and_shares_add_up(monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]) -> None:
    problem = made(**options)
    x, number = somewhere(problem), len(problem.graph.train)
    value, gradient = problem.value(x), problem.gradient(x)
    monkeypatch.setattr("decentorth.families.knowledge_graphs.ultrae.PASS_BYTES", 8 * 5 * 4 * 4)
    monkeypatch.setattr("decentorth.families.knowledge_graphs.ultrae.SCORE_BYTES", 8 * ENTITIES * 2)
    np.testing.assert_allclose(problem.value(x), value, rtol=1e-13)
    np.testing.assert_allclose(problem.gradient(x), gradient, rtol=1e-11, atol=1e-13)
    blocks, many = made(n_agents=4, **options), np.repeat(x, 4, axis=0)
    assert blocks.n_samples.sum() == number
    np.testing.assert_allclose(blocks.value(many).mean(), value[0], rtol=1e-13)
    np.testing.assert_allclose(blocks.gradient(many).mean(0), gradient[0], rtol=1e-11, atol=1e-13)
    two = blocks.restrict(slice(1, 3))
    np.testing.assert_array_equal(two.gradient(many[:2]), blocks.gradient(many)[1:3])
    np.testing.assert_array_equal(
        made(n_agents=4, agents=slice(1, 3), **options).gradient(many[:2]), two.gradient(many[:2])
    )
    each = [problem.gradient_on(x, np.array([[i]])) for i in range(number)]
    np.testing.assert_allclose(np.mean(each, axis=0), gradient, rtol=1e-11, atol=1e-13)
    batch = np.array([[7, 0, 7, 3]])
    np.testing.assert_allclose(
        problem.gradient_on(x, batch),
        np.mean([each[i] for i in batch[0]], axis=0),
        rtol=1e-11,
        atol=1e-13,
    )


def test_capabilities_and_variables() -> None:
    problem = made()
    assert isinstance(problem, (Sampled, Evaluated))
    assert not isinstance(problem, Smooth)
    start = problem.start(3)[None]
    variables = problem.unpack(start)
    shapes = {"relations": (RELATIONS, 5, 5), "entities": (ENTITIES, 5), "biases": (ENTITIES,)}
    assert {name: part.shape[1:] for name, part in variables.items()} == shapes
    np.testing.assert_array_equal(
        variables["relations"][0], np.broadcast_to(np.eye(5), (RELATIONS, 5, 5))
    )
    assert np.abs(variables["entities"][0] - [0, 1, 0, 0, 0]).max() < 0.5
    variables["biases"][:] = 7.0
    assert (start[0, 3 * 5 + ENTITIES :].reshape(-1)[:ENTITIES] == 7.0).all()


def test_corrupted_triples_are_no_training_triples_and_all_others_are_drawn_alike() -> None:
    """Each allowed entity within five standard deviations of its share of 6000 draws."""
    g = graph()
    known = {tuple(triple) for triple in g.train.tolist()}
    for side, column in SIDES:
        drawn = corrupted(g, side, 6000, 0, len(g.train), 0)
        for triple, others in zip(g.train.tolist(), drawn, strict=True):
            allowed = [
                e
                for e in range(ENTITIES)
                if (*triple[:column], e, *triple[column + 1 :]) not in known
            ]
            counts = np.bincount(others, minlength=ENTITIES)
            assert set(np.flatnonzero(counts)) == set(allowed)
            share = 6000 / len(allowed)
            assert np.abs(counts[allowed] - share).max() < 5.0 * np.sqrt(share)
    np.testing.assert_array_equal(
        corrupted(g, "head", 4, 5, 11, 3), corrupted(g, "head", 4, 0, 15, 3)[5:11]
    )
    assert (corrupted(g, "tail", 4, 0, 15, 3) != corrupted(g, "tail", 4, 0, 15, 4)).any()


def naive_ranks(problem: UltraE, x: Array, triples: Index) -> list[list[float]]:
    g = problem.graph
    known = {tuple(one) for part in (g.train, g.valid, g.test) for one in part.tolist()}
    found: list[list[float]] = [[], []]
    signed = problem.options.score == "signed"
    for h, r, t in triples.tolist():
        for side in (0, 1):
            every = [(h, r, e) if side == 0 else (e, r, t) for e in range(ENTITIES)]
            own = score(x, h, r, t, signed=signed)
            rivals = [score(x, *one, signed=signed) for one in every if one not in known]
            found[side].append(1 + sum(one > own for one in rivals))
    return found


@pytest.mark.parametrize("score", ["printed", "signed"])
def test_ranks_are_those_of_a_search(monkeypatch: pytest.MonkeyPatch, score: Any) -> None:
    problem = made(score=score)
    x = somewhere(problem)[0]
    every = np.concatenate((problem.graph.test, problem.graph.valid, problem.graph.train))
    wanted = naive_ranks(problem, x, every)
    np.testing.assert_array_equal(problem.ranks(x, every), wanted)
    monkeypatch.setattr("decentorth.families.knowledge_graphs.ultrae.SCORE_BYTES", 8 * ENTITIES * 2)
    np.testing.assert_array_equal(problem.ranks(x, every), wanted)
    ranks = np.array(problem.ranks(x, problem.graph.test)).reshape(-1)
    assert problem.evaluations == ("mrr", "hits_at_1", "hits_at_3", "hits_at_10")
    assert problem.evaluate(x) == pytest.approx(
        (np.mean(1.0 / ranks), *(np.mean(ranks <= k) for k in (1, 3, 10))), rel=1e-14
    )
    assert made(ranked=2, score=score).evaluate(x)[0] == pytest.approx(
        np.mean(1.0 / problem.ranks(x, problem.graph.test[[0, 3]])), rel=1e-14
    )
    valid = made(judge="valid", score=score)
    assert valid.evaluate(x)[0] == pytest.approx(
        np.mean(1.0 / valid.ranks(x, valid.graph.valid)), rel=1e-14
    )


def test_equal_scores_share_their_mean_rank() -> None:
    scores = np.array(
        [[1.0, 1.0, 1.0, 1.0, 9.0], [3.0, 2.0, 2.0, 0.0, 2.0], [np.nan, 1.0, 1.0, 1.0, 1.0]]
    )
    known = (np.array([0, 0, 1, 2]), np.array([0, 4, 1, 0]))
    ranks = filtered_ranks(scores, np.array([0, 1, 0]), known)
    np.testing.assert_array_equal(ranks, [2.5, 3.0, np.nan])
    assert rank_measures(np.array([1.0, 2.5, 4.0, 20.0])) == pytest.approx((0.425, 0.25, 0.5, 0.75))


def test_held_out_triples_leave_every_name_to_the_others() -> None:
    g = graph(40)
    train, test = hold_out(g.train, 0.4, ENTITIES, RELATIONS, np.random.default_rng(0))
    assert {tuple(one) for one in np.concatenate((train, test)).tolist()} == {
        tuple(one) for one in g.train.tolist()
    }
    assert len(test) == round(0.4 * len(g.train))
    for column in (0, 1, 2):
        assert set(test[:, column]) <= (
            set(train[:, 1]) if column == 1 else set(train[:, [0, 2]].reshape(-1))
        )
    lonely = np.array([[0, 0, 1], [2, 1, 3]])
    assert len(hold_out(lonely, 0.5, 4, 2, np.random.default_rng(0))[1]) == 0


def test_planted_tails_are_the_nearest() -> None:
    triples = planted_triples(np.random.default_rng(0), JOrthogonal(2, 1), 12, 3, 100)
    assert len(triples) == 12 * 3 * 3
    assert len(np.unique(triples, axis=0)) == len(triples)
    assert (triples[:, 0] != triples[:, 2]).all()
    assert (np.bincount(triples[:, 0] + 12 * triples[:, 1]) == 3).all()


def test_most_frequent_keeps_what_is_between_them() -> None:
    train = np.array([[0, 0, 5], [5, 2, 0], [5, 2, 7], [7, 0, 0], [1, 1, 2]])
    kept = most_frequent(KnowledgeGraph(train, train[4:], train[2:3], 8, 3), 3)
    assert kept[3:] == (3, 2)
    np.testing.assert_array_equal(kept.train, [[0, 0, 1], [1, 1, 0], [1, 1, 2], [2, 0, 0]])
    np.testing.assert_array_equal(kept.test, [[1, 1, 2]])
    assert kept.valid.shape == (0, 3)
    with pytest.raises(
        ValueError, match="no training triple is between the 1 most frequent of 8 entities"
    ):
        most_frequent(KnowledgeGraph(train, train[:0], train[:0], 8, 3), 1)


def built(**settings: Any) -> UltraE:
    problem: UltraE = building.built(UltraESettings(**settings).problem(1, 0))
    return problem


def test_data_by_path(tmp_path: Path) -> None:
    every = graph(40)
    for part, triples in (("train", every.train), ("test", every.test)):
        lines = [f"e{h}\trel{r}\te{t}\n" for h, r, t in triples.tolist()]
        (tmp_path / f"{part}.txt").write_text("".join(lines))
    folder = built(data=str(tmp_path), dimension=4, negatives=3)
    assert (len(folder.graph.train), len(folder.graph.test)) == (len(every.train), len(every.test))
    assert folder.shape == (4 * folder.graph.n_relations + folder.graph.n_entities + 3, 4)
    file = built(data=str(tmp_path / "train.txt"), dimension=4, negatives=3, held_out=0.25)
    assert len(file.graph.test) == round(0.25 * len(every.train))
    assert (
        built(data=str(tmp_path / "train.txt"), dimension=4, negatives=3, held_out=0.0).evaluations
        == ()
    )
    fewer = built(data=str(tmp_path), dimension=4, negatives=1, entities=5)
    assert fewer.graph.n_entities == 5


SMALL: dict[str, Any] = {
    "entities": 20,
    "relations": 3,
    "triples": 120,
    "dimension": 6,
    "negatives": 8,
}
METHODS: dict[str, Any] = {
    "j_jobcd": JJOBCD(),
    "vr_j_jobcd": VRJJOBCD(varsigma="backtracking", batch_size=50, restart=0.3),
    "csdm": CSDM(),
}


@pytest.mark.parametrize("name", METHODS)
def test_the_loss_falls_and_relations_stay_feasible(name: str) -> None:
    problem = built(**SMALL)
    result = solve(problem, METHODS[name], iterations=80, comm="serial")
    objective = result.history["objective"]
    assert objective[-1] < 0.25 * objective[0]
    assert problem.constraint.violation(result.x)[0] < 1e-9
    assert (result.row.values["mrr"], result.row.values["hits_at_10"]) == problem.evaluate(
        result.x[0]
    )[::3]
    assert (result.x[0, problem.constraint.bound + 20 :].reshape(-1)[20:] == 0.0).all()


def test_variance_reduction_lets_neither_relations_nor_entities_run_away() -> None:
    """With the default settings: the loss stays below the start's, and falls.

    Adam along the estimate adds up its errors (to 130), and L of the start is too small later (12).
    """
    sizes: dict[str, Any] = {"entities": 40, "relations": 3, "triples": 300, "dimension": 6}
    problem = built(**sizes, score="signed", loss="softmax")
    objective = solve(problem, VRJJOBCD(), iterations=200, comm="serial").history["objective"]
    assert objective.max() == objective[0]
    assert objective[-1] < 0.5 * objective[0]
