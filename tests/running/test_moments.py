"""Problems that depend on the data through a few sums: added once, then solved at home."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import decentorth as do
import topologies as tp
from decentorth.network.collective import AgentCollective
from decentorth.problems.common.pooled_rows import HERE
from decentorth.problems.deferred import Deferred
from decentorth.protocols import Array

SIZES = (3, 40, 25, 8, 60)
DIRECT = do.algorithms.Direct()


def tables(offset: float = 0.0, d: int = 6) -> list[Array]:
    rng = np.random.default_rng(0)
    turn = rng.standard_normal((d, d))
    return [rng.standard_normal((m, d)) @ turn + offset for m in SIZES]


def drawn(name: str, **settings: Any) -> Any:
    given = getattr(do.problems, f"{name}Settings")(**settings).problem(5, 0)
    return given.build(slice(0, 5), HERE) if isinstance(given, Deferred) else given


def procrustes() -> do.problems.Procrustes:
    rng = np.random.default_rng(1)
    return do.problems.Procrustes(tables(), [rng.standard_normal((2, m)) for m in SIZES])


def pencils() -> do.problems.PooledGEVP:
    A, B = ([a.T @ a / len(a) + np.eye(6) for a in tables(offset)] for offset in (0.0, 0.5))
    return do.problems.PooledGEVP(A, B, 2)


PROBLEMS: list[Callable[[], Any]] = [
    lambda: do.problems.PCA(tables(), 2),
    lambda: do.problems.PCA(tables(), 2, weights="agents"),
    procrustes,
    pencils,
    lambda: do.problems.MAXVAR(tables(), views=(2, 2, 2), rank=1, ridge=0.1),
    lambda: do.problems.CCA([a[:, :4] for a in tables()], [a[:, 4:] for a in tables()], 2),
    lambda: drawn("GEVP", dimension=9, rank=2),
]


@pytest.mark.parametrize("made", PROBLEMS)
def test_sums_of_moments_make_the_mean_objective(made: Callable[[], Any]) -> None:
    problem = made()
    pooled = problem.from_moments(problem.agent_moments().sum(axis=0))
    assert pooled.n_agents == 1
    for seed in range(3):
        x = np.random.default_rng(seed).standard_normal((1, *problem.shape))
        every = np.repeat(x, problem.n_agents, axis=0)
        value, gradient = problem.value(every).mean(), problem.gradient(every).mean(axis=0)
        assert pooled.value(x)[0] == pytest.approx(value, rel=1e-12)
        assert np.abs(pooled.gradient(x)[0] - gradient).max() < 1e-12 * np.abs(gradient).max()
        feasible = (one.constraint.feasibility(x)[0] for one in (pooled, problem))
        assert next(feasible) == pytest.approx(next(feasible), rel=1e-12)


@pytest.mark.parametrize("made", [PROBLEMS[0], PROBLEMS[1], *PROBLEMS[3:]])
def test_direct_is_where_a_line_search_arrives(made: Callable[[], Any]) -> None:
    direct = do.solve(made(), DIRECT, "ring")
    assert (direct.status, direct.converged, direct.row.iteration) == ("converged", True, 1)
    assert (direct.x == direct.x[:1]).all()
    assert direct.row.values["feasibility"] < 1e-12
    assert direct.row.values["gradient_norm"] < 1e-10 * direct.history["gradient_norm"][0]
    rule = do.stopping.GradientNorm(1e-9, relative=True)
    searched = do.solve(made(), "lbfgs", "ring", iterations=1000, stopping=rule)
    values = [one.row.values["objective"] for one in (direct, searched)]
    assert values[0] == pytest.approx(values[1], rel=1e-12)


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e8])
def test_components_are_those_of_the_pooled_table_far_from_zero(offset: float) -> None:
    """Two sums for the means, one for the number of samples, one for the moments."""
    sites = {f"site{i}": a for i, a in enumerate(tables(offset))}
    problem = do.problems.PCA.from_sites(sites, 3, center=True)
    result = do.solve(problem, DIRECT, "ring")
    whole = np.concatenate(tables(offset))
    whole = whole - whole[0]  # exact where it can be
    values = np.linalg.svd(whole - whole.mean(axis=0), full_matrices=False)
    angles = scipy.linalg.subspace_angles(result.x[0], values[2][:3].T)
    assert angles.max() < 1e-12
    assert result.row.rounds == 3 * 4  # to the middle of a ring of five and back


def test_directions_of_32_classes_over_five_sites(tmp_path: Path) -> None:
    """The classes of the leaves: 32 of them in 49 columns, not all of them at every site."""
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 32, 1500)
    centres, turn = rng.standard_normal((32, 49)), rng.standard_normal((49, 49))
    rows = (centres[classes] + rng.standard_normal((1500, 49))) @ turn
    names = []
    for i, own in enumerate(np.array_split(rng.permutation(1500), 5)):
        names.append(str(tmp_path / f"site{i}.csv"))
        table = np.column_stack((rows[own], classes[own]))
        head = ",".join([*(f"c{k}" for k in range(49)), "kind"])
        np.savetxt(names[-1], table, delimiter=",", header=head, comments="", fmt="%.17g")
    settings = do.problems.LDASettings(data=",".join(names), label_column="kind", rank=5, ridge=0.0)
    result = do.solve(settings.problem(5, 0), DIRECT, "ring")
    between, within = scatters(rows, classes.tolist())
    expected = scipy.linalg.eigh(between, within)[1][:, ::-1][:, :5]
    assert scipy.linalg.subspace_angles(result.x[0], expected).max() < 1e-8
    assert result.row.bytes < 1_000_000


def scatters(rows: Array, classes: Sequence[int] | Array) -> tuple[Array, Array]:
    """The scatters between and within classes, sample by sample."""
    mean, d = rows.mean(axis=0), rows.shape[1]
    between, within = np.zeros((d, d)), np.zeros((d, d))
    for label in np.unique(classes):
        own = rows[classes == label]
        away = own.mean(axis=0) - mean
        between += len(own) * np.outer(away, away)
        for row in own - own.mean(axis=0):
            within += np.outer(row, row)
    return between / len(rows), within / len(rows)


def test_few_moments_without_an_answer_are_added_once() -> None:
    """Procrustes has no closed form: any method runs at home, whatever its iterations."""
    short, long = (do.solve(procrustes(), "lbfgs", "ring", iterations=k) for k in (3, 300))
    assert short.row.bytes == long.row.bytes == 8 * 8 * (21 + 12 + 1)
    assert long.row.values["gradient_norm"] < 1e-7
    gossip = do.solve(procrustes(), "drfgt", "ring", iterations=20_000, stopping=1e-8)
    assert np.abs(long.x - gossip.x).max() < 1e-6


def test_direct_needs_a_closed_form() -> None:
    with pytest.raises(TypeError, match="Direct needs Solvable of its problem; Procrustes"):
        do.solve(procrustes(), DIRECT, "ring")
    with pytest.raises(TypeError, match="Direct needs Solvable of its problem"):
        do.solve(drawn("ICA"), DIRECT, "ring")


def test_set_up_of_sites_is_counted() -> None:
    """The number of all rows, which the weights need, goes along the edges, on gossip too."""
    sites = {f"site{i}": a for i, a in enumerate(tables())}
    result = do.solve(do.problems.PCA.from_sites(sites, 2), "deepca", "ring", iterations=0)
    counted = [row for row in result.sent() if row.quantity == "sums of columns"]
    assert sum(row.numbers for row in counted) == 8  # two messages an edge of a tree


def site_problems() -> dict[str, Any]:
    problems = do.problems
    sites = {f"site{i}": a for i, a in enumerate(tables())}
    pairs = {name: (a[:, :3], a[:, 3:]) for name, a in sites.items()}
    grams = {name: (a.T @ a, a.T @ a / len(a) + np.eye(6)) for name, a in sites.items()}
    return {
        "pca": problems.PCA.from_sites(sites, 2, scale=True),
        "cca": problems.CCA.from_sites(pairs, 2, center=True),
        "maxvar": problems.MAXVAR.from_sites(sites, (2, 2, 2), 1, ridge=0.1),
        "gevp": problems.PooledGEVP.from_sites(grams, 2),
        "rsr": problems.RobustSubspaceRecovery.from_sites(sites, 4),
    }


KINDS = [(name, kind) for name in site_problems() for kind in ("gossip", "sums")]
# push_pull is for differentiable problems on one manifold
KINDS.append(("pca", "directed"))


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_no_sum_of_samples_of_sites_passes_beside_the_edges(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sum along the chain of ranks would show a rank the sums of those before it, uncounted."""
    chained: list[int] = []
    fold = AgentCollective.fold

    def folded(self: AgentCollective, size: int, add: Any) -> Array:
        chained.append(size)
        return fold(self, size, add)

    nonsmooth = name == "rsr"
    methods = {"gossip": "drsm" if nonsmooth else "drfgt", "sums": "rsm" if nonsmooth else "lbfgs"}
    W: Any = "ring"
    if kind == "directed":
        W = tp.directed_weights(tp.directed_ring(5, chords=2, seed=0))
    monkeypatch.setattr(AgentCollective, "fold", folded)
    problem = site_problems()[name]
    result = do.solve(problem, methods.get(kind, "push_pull"), W, iterations=5, rows=3)
    assert chained == []
    assert sum(row.bytes for row in result.sent()) == result.row.bytes
    assert "error" not in result.history.columns or name == "cca"


def test_rows_of_sites_are_counted_and_the_same_as_those_of_the_samples_in_memory() -> None:
    """Two sums a row: the mean point, and everything at it."""
    sites = {f"site{i}": a for i, a in enumerate(tables())}
    given: dict[str, Any] = {"iterations": 20, "record_every": 10}
    method = do.DRFGT(step_size=1e-3, penalty=1.0)
    own = do.solve(do.problems.PCA.from_sites(sites, 2), method, "ring", **given)
    whole = do.solve(do.problems.PCA(tables(), 2), method, "ring", **given)
    assert (own.x == whole.x).all()
    for column in ("objective", "gradient_norm", "consensus_rms", "feasibility"):
        assert own.history[column] == pytest.approx(whole.history[column], rel=1e-9), column
    rows = [row for row in own.sent() if row.quantity == "rows of the history"]
    # x, trackers less fields; gradients, five scalars, fields, feasibilities
    numbers = (12 + 12) + (12 + 5 + 12 + 5)
    extra = own.row.bytes - whole.row.bytes
    assert sum(row.bytes for row in rows) == 3 * 8 * 8 * numbers == extra - 8 * 8
    assert own.error == pytest.approx(whole.row.values["error"], rel=1e-9)


@pytest.mark.parametrize("graph", ["ring", "path", "complete"])
def test_rows_of_sites_take_a_ninth_of_the_rounds(graph: str) -> None:
    """But for the first row and the last one; a run ends at the first row that meets its rule."""
    sites = {f"site{i}": a for i, a in enumerate(tables())}
    problem = do.problems.PCA.from_sites(sites, 2)
    rule = do.stopping.GradientNorm(1e-8, relative=True)
    result = do.solve(problem, "drfgt", graph, iterations=4000, stopping=rule)
    assert result.converged
    messages = {row.quantity: 0 for row in result.sent()}
    width = (12 + 12) + (12 + 5 + 12 + 5)
    for row in result.sent():
        messages[row.quantity] += row.numbers
    assert messages["rows of the history"] == 8 * width * len(result.history["iteration"])
    a_row = 2 * 2 * {"ring": 2, "path": 2, "complete": 1}[graph]
    inner = len(result.history["iteration"]) - 2
    assert 1 <= inner <= result.row.iteration / (8 * a_row)


def test_the_answer_of_sites_is_a_column_where_it_is_asked_for() -> None:
    sites = {f"site{i}": a for i, a in enumerate(tables())}
    problem = do.problems.PCA.from_sites(sites, 2)
    result = do.solve(problem, "deepca", "ring", iterations=200, answer=True)
    assert result.row.values["error"] < 1e-6
    counted = [row for row in result.sent() if row.quantity == "sums of columns"]
    assert sum(row.numbers for row in counted) == 8 * (1 + 21)
