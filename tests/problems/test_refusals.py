"""What no problem can be: refused in one line that says what is wrong and where, and by the
setting's name."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

import decentorth.problems as of
from decentorth import registry
from decentorth.protocols import Array
from tests.support.building import built
from tests.support.problems import samples

ROWS = [np.ones((3, 4)), np.ones((3, 4))]
FEW = samples((7, 7), 6, 0)
VIEWS = samples((40, 40), 6, 1), samples((40, 40), 5, 2)
rng = np.random.default_rng(0)
A, B = (one + one.T for one in rng.standard_normal((2, 12, 12)))
B += 20.0 * np.eye(12)
D, T = np.ones((3, 2)), 1.0 - np.eye(3)


def spoiled(value: float, rows: int = 3) -> Array:
    a = np.ones((rows, 4))
    a[1, 2] = a[2, 0] = value
    return a


def named(letters: str) -> Any:
    return pd.DataFrame(np.ones((3, len(letters))), columns=list(letters))


def observed() -> list[Array]:
    """Of agent 1, columns 4 and 6 have too few entries for three coefficients."""
    data = [np.random.default_rng(0).standard_normal((12, 7)) for _ in range(3)]
    data[1][2:, 4] = data[1][:, 6] = np.nan
    return data


def graph(train: Any = ((0, 0, 1), (1, 1, 2), (0, 0, 3)), test: Any = ((0, 0, 1),)) -> Any:
    return of.KnowledgeGraph(
        np.array(train), np.empty((0, 3), dtype=np.int64), np.array(test), 4, 2
    )


def ultrae(given: Any = None, signs: Any = (1, -1, -1, 1), **more: Any) -> Any:
    return of.UltraE(given or graph(), np.array(signs), negatives=1, **more)


Entry = tuple[Callable[[], Any], str]
SAMPLES: tuple[Entry, ...] = (
    (
        lambda: of.PCA([ROWS[0], spoiled(np.nan)], 2),
        "A of agent 1 must be finite; entry [1, 2] is nan (2 such entries)",
    ),
    (
        lambda: of.PCA.from_sites(ROWS, 2, n_agents=9),
        "after sites: got multiple values for keyword argument 'n_agents'",
    ),
    (
        lambda: of.PCA([ROWS[0], 1e61 * ROWS[0]], 2),
        "A of agent 1 must be at most 1e+60 in size, as fourth powers",
    ),
    (
        lambda: of.PCA([ROWS[0], ROWS[0] * np.longdouble("1e4000")], 2),
        "A of agent 1 must be finite; entry [0, 0] is inf",  # and no RuntimeWarning
    ),
    (
        lambda: of.PCA([ROWS[0], 1e-62 * ROWS[0]], 2),
        "A of agent 1 must have an entry of at least 1e-60 in size, as fourth powers",
    ),
    (
        lambda: of.Procrustes(
            ROWS,
            [np.ones((2, 3)), np.array([[1, 1, 1], [1, -np.inf, 1]])],
            n_agents=9,
            first_agent=6,
        ),
        "B of agent 7 must be finite; entry [1, 1] is -inf (1 such entries)",
    ),
    (
        lambda: of.PCA([cast(Any, ROWS[0] * 1j)], 2),
        "A of agent 0 must hold real numbers, got dtype complex128",
    ),
    (
        lambda: of.PCA([ROWS[0], np.ma.masked_equal(ROWS[0], 1.0)], 2),
        "A of agent 1 has masked entries",
    ),
    (
        lambda: of.PCA([named("ab"), named("ac")], 1),
        "A of agent 1 lacks the column 'b', which an earlier agent has: give all agents the same",
    ),
    (
        lambda: of.PCA([named("ab"), named("ab").assign(c=1.0)], 1),
        "A of agent 1 has a column 'c', which an earlier agent lacks: leave it out",
    ),
    (
        lambda: of.PCA([named("ab"), named("aab")], 1),
        "A of agent 1 or an earlier agent has 'a' twice: leave one",
    ),
    (
        lambda: of.PCA([named("ab").assign(name="x", kind="y")] * 2, 1),
        "text or other values in name, kind",
    ),
    (
        lambda: of.PCA([named("ab"), named("ab").where(np.eye(3, 2) == 0)], 1),
        "A of agent 1 must be finite; column a",
    ),
    (
        lambda: of.PCA(cast(Any, {"north": named("ab"), "south": named("ab")}), 1),
        "got a mapping of north, south:",
    ),
    (lambda: of.PCA(cast(Any, (part for part in ROWS)), 1), "got generator: give list(...) of it"),
    (
        lambda: of.PCA(ROWS[0], 2),
        "(3, 4): np.array_split(np.asarray(A), n) gives each of n agents its rows",
    ),
    (
        lambda: of.PCA(cast(Any, "a.npy"), 2),
        "A must be a list with one matrix for each agent, or a stack of them,",
    ),
    (lambda: of.PCA(ROWS, cast(Any, 2.0)), "rank r must be a whole number, got 2.0"),
    (lambda: of.PCA([], 2), "A must hold at least one agent's matrix, got none"),
    (
        lambda: of.PCA([*ROWS, np.ones((3, 5))], 2),
        "all agents must share the dimension d: A of agent 0 has 4",
    ),
    (
        lambda: of.PCA(FEW * 4, 2).restrict(slice(2, 6)).restrict(slice(1, 4)),
        "agents 1 to 3 were asked for, ",
    ),
    (
        lambda: of.PCA(FEW * 4, 2).restrict(slice(2, 6)).restrict(slice(3, 3)),
        "agents 3 to 2 were asked for, ",
    ),
    (lambda: of.PCA(ROWS, 5), "1 <= r <= d orthonormal columns, got d = 4 and r = 5"),
    (
        lambda: of.PCA(ROWS[:1], 2, n_agents=5),
        "weights='samples' needs n_samples, the number of samples of all 5",
    ),
    (
        lambda: of.PCA(ROWS, 2, weights=cast(Any, "rows")),
        "weights must be 'agents' or 'samples', got 'rows'",
    ),
    (
        lambda: of.PCA.from_loader(lambda agent: ROWS[0], 3),
        "PCA after n_agents: missing a required argument: 'rank'",
    ),
    (
        lambda: of.PCA(ROWS, 2).error(np.eye(4)[:, :2]),
        "the optimum is not known yet: find_answer() computes it",
    ),
    (lambda: of.PCASettings(data="synthetic", dimension=4).problem(10, 0), "got d = 4 and r = 5"),
    (
        lambda: of.PCASettings(data="synthetic", samples=2, dimension=30).problem(10, 0),
        "10 agents with 2 samples",
    ),
    (
        lambda: of.Procrustes(ROWS, [np.ones((2, 3))]),
        "A and B must have one matrix per agent each, got 2 and 1",
    ),
    (
        lambda: of.Procrustes(ROWS, [np.ones((2, 3)), np.ones((3, 2))]),
        "B of agent 1 must have shape (r, m_i) = (2,",
    ),
    (
        lambda: of.ProcrustesSettings(rows=3, dimension=40).problem(10, 0),
        "10 agents with 3 rows each have 30 in",
    ),
    (lambda: of.ProcrustesSettings(data="a.npy"), "data and targets go together"),
    (lambda: of.ICA(ROWS, mixing=np.ones((2, 3))), "mixing must have shape (4, 4), got (2, 3)"),
    (
        lambda: of.ICA(ROWS, weights=np.ones(3)),
        "weights must have shape (2,), one for each agent, got (3,)",
    ),
    (
        lambda: of.ICASettings(whiten=False).problem(3, 0),
        "without whitening the covariance of all samples makes the",
    ),
    (
        lambda: of.GeneralizedICA(FEW[0] * (1.0, 1.0, 1.0, 1.0, 1.0, 0.0)),
        "B must be positive definite",
    ),
    (
        lambda: of.ICA([D], signs=[1, 0]),
        "signs must be 'super', 'data' or 2 numbers, 1 or -1, got [1, 0]",
    ),
    (lambda: of.ICA([D], signs="sub"), "signs must be 'super', 'data' or 2 numbers"),
    (lambda: of.ICA([D], signs="data").value(np.eye(2)[None]), "prepare() chooses them"),
    (
        lambda: of.ICA(FEW).error(np.eye(6)),
        "the mixing is known for generated data only, or given as mixing",
    ),
    (
        lambda: built(of.ICASettings(samples=2, sources=8).problem(3, 0)),
        "whitening to 8 components needs samples",
    ),
    (
        lambda: of.MatrixCompletion(observed(), 3, first_agent=4, n_agents=9),
        "each column must have at least rank = 3 observed entries: column 4 of agent 5 has 2 (2 "
        "such columns of that agent)",
    ),
    (
        lambda: of.MatrixCompletion(FEW, 3, ridge=-1.0),
        "ridge must be finite and not negative, got -1.0",
    ),
    (
        lambda: of.MatrixCompletionSettings(dimension=20, columns=10, oversampling=9).problem(2, 0),
        "oversampling 9 asks for 1575 observed entries, but the 20 x 20 matrix has only 400: it "
        "can be at most 2.29 here",
    ),
    (
        lambda: of.MatrixCompletionSettings(dimension=20, columns=10, oversampling=0.5).problem(
            2, 0
        ),
        "oversampling 0.5 asks for 88 observed entries, fewer than rank = 5 in each",
    ),
    (
        lambda: of.RobustSubspaceRecovery(ROWS, 4),
        "rank, the dimension of the subspace, must be from 1 to 3 for",
    ),
    (
        lambda: of.RobustSubspaceRecovery(ROWS, 1, subspace=np.ones((3, 1))),
        "subspace must have 4 rows, got",
    ),
    (
        lambda: of.RobustSubspaceRecovery(ROWS, 1).error(np.eye(4)),
        "the subspace is known for generated data, or given as",
    ),
    (lambda: of.RobustSubspaceRecovery(ROWS, 1).start(0), "prepare()"),
    (
        lambda: of.OrthogonalDictionaryLearning([D], dictionary=np.ones((2, 3))),
        "dictionary must have shape (2, 2),",
    ),
    (
        lambda: of.OrthogonalDictionaryLearning([D]).error(np.eye(2)),
        "the dictionary is known for generated data, or given as",
    ),
    (lambda: of.RSRSettings(rank=100), "rank must be below dimension, got 100 and 100"),
    (
        lambda: of.RSRSettings(outliers=50, points="orthonormal"),
        "orthonormal outliers must be at least dimension =",
    ),
    (
        lambda: of.ODLSettings(samples=3).problem(4, 0),
        "4 agents need at least as many samples, got 3: use fewer agents",
    ),
    (lambda: of.SparsePCA(FEW, 2, -1.0), "mu must be finite and not negative, got -1.0"),
    (lambda: of.WithTerm(of.PCA(FEW, 2), 0.1, term=cast(Any, "l2")), "term must be"),
    (
        lambda: of.WithTerm(of.SparsePCA(FEW, 2, 0.5), 0.1),
        "smooth must be a differentiable problem, such as PCA, got SparsePCA: give its part "
        "without a term, and all terms as one",
    ),
    (lambda: of.WithTerm(of.L1PCA(FEW, 2), 0.1), "such as PCA, got L1PCA"),
    (lambda: of.RobustPCA(FEW, 2, 0.0), "delta must be"),
    (lambda: of.SparseCCA(FEW, FEW[:-1], 2, 0.1), "equally many samples"),
)
PENCILS: tuple[Entry, ...] = (
    (
        lambda: of.CCA(VIEWS[0], VIEWS[1][:1], 2),
        "A and B must hold a matrix for each agent, got 2 and 1",
    ),
    (lambda: of.CCA(VIEWS[0], [b[:1] for b in VIEWS[1]], 2), "those of agent 0 have 40 and 1 rows"),
    (lambda: of.CCA(*VIEWS, 2, ridge=-0.1), "ridge must be finite and not negative, got -0.1"),
    (
        lambda: of.CCA(*VIEWS, 2, n_agents=9),
        "2 of 9 agents are given, and the covariances of all are needed",
    ),
    (lambda: of.CCA(*VIEWS, 6), "n = 5 and p = 6"),
    (
        lambda: of.CCA([np.pad(a, ((0, 0), (0, 1))) for a in VIEWS[0]], VIEWS[1], 6),
        "no 6 canonical correlations: ask for 5",
    ),
    (
        lambda: of.CCA([0.0 * a for a in VIEWS[0]], VIEWS[1], 2),
        "all columns of A are 0: give samples that differ",
    ),
    (lambda: of.CCASettings(width=8, data_y="y.npy"), "data_y goes with a file in data"),
    (
        lambda: of.CCASettings(data="synthetic", dimension=4),
        "rank must be at most 4, the smaller dimension, got",
    ),
    (
        lambda: of.MAXVAR(np.ones((2, 5, 7)), (3, 3), 1),
        "views must be the columns of each view, 7 in all, got 3, 3",
    ),
    (
        lambda: of.MAXVAR(np.ones((2, 5, 7)), (), 1),
        "views must be the columns of each view, 7 in all, got none",
    ),
    (
        lambda: of.MAXVAR(np.ones((2, 5, 7)), (8, -1), 1),
        "views must be the columns of each view, 7 in all, got 8, -1",
    ),
    (lambda: built(of.LDASettings(rank=10).problem(1, 0)), "got rank 10"),
    (lambda: built(of.LDASettings(ridge=0.0).problem(1, 0)), "directions: give ridge=1e-2"),
    (lambda: of.GEVP(A + np.triu(np.ones_like(A)), B, 3), "give (A + A.T) / 2"),
    (lambda: of.GEVP(A, A, 3), "B must be positive definite; its smallest eigenvalue is -"),
    (lambda: of.GEVP(A, B, 13), "p = 13"),
    (lambda: of.GEVP([A, A[:5, :5]], B, 3), "got 5 for A of agent 1 and 12 for B"),
    (
        lambda: of.GEVP(A, [B, B], 2),
        "B must be one matrix for all agents: PooledGEVP takes a matrix for each",
    ),
    (
        lambda: of.PooledGEVP(np.stack([B] * 5), np.stack([B] * 3), 2),
        "A and B must hold a matrix for each agent, got 5 and 3",
    ),
    (
        lambda: of.PooledGEVP([A, A], [B, np.eye(5)], 2),
        "B of agent 1 has order 5, that of agent 0 has 12",
    ),
    (lambda: of.GEVP(A, B, 3).error(np.eye(12)[:, :3]), "the optimum is not known: find_answer()"),
    (lambda: of.GEVPSettings(matrix_a="A.npy"), "matrix_a and matrix_b go together"),
    (
        lambda: of.GEVPSettings(rank=11, dimension=10),
        "rank must be at most dimension, got rank 11 and dimension 10",
    ),
    (
        lambda: of.GEVPSettings(matrix_a="A", matrix_b="B").problem(2, 0),
        "the matrix in A is one agent's, so n_agents",
    ),
    (
        lambda: built(of.GEVPSettings(dimension=5, rank=1).problem(6, 0)),
        "6 agents cannot share 5 columns of A: ask for fewer agents",
    ),
)
SIGNATURES: tuple[Entry, ...] = (
    (
        lambda: built(of.HEVPSettings(samples=5).problem(1, 0)),
        "samples must be at least the dimension 100, got 5",
    ),
    (
        lambda: built(of.HEVPSettings(positive=101).problem(1, 0)),
        "positive must lie between 0 and 100, got 101",
    ),
    (lambda: of.HEVPSettings().problem(2, 0), "for one agent"),
    (
        lambda: of.HEVP(np.ones((9, 5)), [1, 1, -1, -1]),
        "D has 5 columns, so J needs 5 signs, not 4",
    ),
    (
        lambda: of.HEVP(np.eye(2), [1, -1], cast(Any, "printed")),
        "form must be one of well-posed or as-printed, got 'printed'",
    ),
    (
        lambda: of.HEVP([np.eye(2)] * 2, [1, -1], n_agents=5),
        "2 of 5 blocks are given: give all, or the collective that pools them",
    ),
    (
        lambda: of.HEVP([np.array([[1.0, 1.0, 0.0]]), np.eye(3)[:2], np.eye(3)[:1]], [1, -1, 1]),
        "but the 3 columns of D are dependent",
    ),
    (
        lambda: of.HEVP(np.ones((9, 3)), [1, -1, 1], "as-printed").error(np.eye(3)),
        "is unbounded below: choose the form well-posed",
    ),
    (
        lambda: built(of.HEVPSettings(dimension=10, ridge=0.1).in_blocks(31, 0)),
        "D has 30 rows: at most 30 blocks",
    ),
    (
        lambda: built(of.HSPPSettings(points=9, dimension=4).in_blocks(5, 0)),
        "pairs of 9 points make from 1 to 4",
    ),
    (
        lambda: built(of.HSPPSettings(data="gaussian", distances="tree").problem(1, 0)),
        "distances of a tree need data tree",
    ),
    (
        lambda: built(of.HSPPSettings(positive=20).problem(1, 0)),
        "positive must lie between 0 and 19, got 20",
    ),
    (lambda: of.HSPPSettings().problem(2, 0), "for one agent"),
    (lambda: of.HSPP(D, T, [1, 1]), "needs a sign -1"),
    (lambda: of.HSPP(D, T, [1, -1, -1]), "D has 2 columns, so J needs 2 signs, got 3"),
    (lambda: of.HSPP(D, T[:2], [1, -1]), "D has 3 rows, so T must be 3 x 3, got 2 x 3"),
    (lambda: of.HSPP(D, np.ones((3, 3)), [1, -1]), "zero on its diagonal, but entry [0, 0] is 1"),
    (
        lambda: of.HSPP(D, np.where(np.arange(9).reshape(3, 3) == 1, 2.0, T), [1, -1]),
        "symmetric, not negative, and",
    ),
    (lambda: of.HSPP(D * [[1], [0], [1]], T, [1, -1]), "row 1 is"),
    (lambda: of.HSPP(D[:1], np.zeros((1, 1)), [1, -1]), "at least two points"),
    (
        lambda: ultrae(graph(((0, 0, 1), (1, 1, 2), (0, 0, 9)))),
        "train triple 2 has tail 9, but there are 4",
    ),
    (
        lambda: ultrae(graph(test=((0.0, 0.0, 1.5),))),
        "test triples must be whole numbers, got dtype float64",
    ),
    (lambda: ultrae(graph(((0, 0), (1, 1)))), "got shape (2, 2)"),
    (
        lambda: ultrae(graph([(0, 0, e) for e in range(4)])),
        "the triple (head 0, relation 0, tail 0) cannot be",
    ),
    (lambda: ultrae(signs=np.ones(3)), "needs a sign -1"),
    (lambda: ultrae(n_agents=100), "each agent needs a training triple"),
    (lambda: ultrae(corrupt="relation"), "corrupt must be one of both, tail or head"),
    (lambda: ultrae(score="plain"), "printed or signed, got 'plain'"),
    (lambda: ultrae(delta=np.inf), "delta must be finite"),
    (
        lambda: of.UltraESettings().problem(4, 0),
        "UltraE is for one agent: n_agents must be 1, got 4",
    ),
    (
        lambda: built(of.UltraESettings(dimension=4, positive=4).problem(1, 0)),
        "positive must lie between 0 and 3, got 4",
    ),
)


@pytest.mark.parametrize(
    ("make", "words"),
    [pytest.param(*one, id=one[1][:60]) for one in (*SAMPLES, *PENCILS, *SIGNATURES)],
)
def test_what_no_problem_can_be_is_refused_in_one_line(make: Callable[[], Any], words: str) -> None:
    with pytest.raises((ValueError, TypeError)) as refused:
        make()
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", registry.problems.names())
def test_a_setting_that_cannot_be_is_refused_by_its_name(name: str) -> None:
    kind = registry.problems.get(name)
    for setting in fields(kind()):
        wrong = [] if isinstance(setting.default, tuple) else [object()]
        if isinstance(setting.default, float):
            wrong += [math.nan] if setting.name == "delta" else [-1.0, math.nan]
        for value in wrong:
            with pytest.raises((TypeError, ValueError), match=setting.name):
                built(kind(**{setting.name: value}).problem(1, 0))
