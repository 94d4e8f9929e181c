"""Calls of which rank 1 gives another argument, one after the other on the same ranks: the errors
of every rank by call, as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
from mpi4py import MPI

import decentorth as do
from decentorth.api import set_up
from decentorth.data import Columns
from decentorth.estimators import LDA, PCA
from decentorth.lab.compare import Rules, compare
from decentorth.running.options import Options
from decentorth.stopping import GradientNorm

RANK = MPI.COMM_WORLD.rank
SITES = ("north", "south", "west")


class Feasible:
    """A metric beside the standard ones."""

    columns = ("apart",)

    def __call__(self, problem: Any, state: Any, collective: Any) -> tuple[float]:
        return (collective.max(float(np.abs(state.x).max())),)


def sites() -> dict[str, Any]:
    rng = np.random.default_rng(RANK)
    return {name: rng.standard_normal((20, 5)) * np.arange(1.0, 6.0) for name in SITES}


def pca(n: int = 3) -> Any:
    return do.problems.PCASettings(data="synthetic", rank=2).problem(n, seed=0)


ARGUMENTS: dict[str, tuple[Any, Any]] = {
    "problem": (pca(), do.problems.PCASettings(data="synthetic", rank=3).problem(3, seed=0)),
    "algorithm": ("drfgt", do.DRFGT(penalty=2.0)),
    "W": ("ring", "path"),
    "x0": (None, np.eye(10, 2)),
    "channel": (None, "loss:p=0.1"),
    "seed": (0, 1),
    "placement": ("even", "fewer-cuts"),
    "rank_timeout": (300.0, 301.0),
    "on_rank_loss": ("abort", "shrink"),
    "device": (None, "torch:cpu"),
    "iterations": (5, 6),
    "record_every": (None, 2),
    "safety_region": (None, 1.0),
    "compute_timeout": (0.0, 100.0),
    "stopping": (None, GradientNorm(1e-3)),
    "rows": (None, 7),
    "metrics": ([], [Feasible()]),
    "checkpoints": (None, do.Checkpoints("nowhere", every=2)),
    "resume": (None, "nowhere"),
    "check": (False, True),
    "answer": (False, True),
    "secure": (False, True),
    "clear_sums": (False, True),
}
"""The arguments of `solve`: rank 1 has the second value."""
OPTIONS = ("iterations", "record_every", "stopping", "rows", "metrics", "checkpoints", "resume")
"""Those that `set_up` leaves to ``Run.solve``."""
OF_SITES: dict[str, tuple[Any, Any]] = {
    "scale": (False, True),
    "center": (False, True),
    "missing": ("refuse", "mean"),
    "columns": (None, Columns(exclude=("a",))),
    "rank": (2, 3),
    "weights": ("samples", "agents"),
}
"""The settings of `PCA.from_sites` and `PCA.from_loader`."""
OF_SETTINGS: dict[str, tuple[Any, Any]] = {
    "data": ("digits", "synthetic"),
    "rank": (2, 3),
    "scale": (False, True),
    "center": (True, False),
    "missing": ("refuse", "mean"),
    "partition": ("even", "by-label"),
    "shuffle": (True, False),
    "divide_by": (1.0, 2.0),
    "weighting": ("samples", "agents"),
}
OF_ESTIMATOR: dict[str, tuple[Any, Any]] = {
    "n_components": (2, 3),
    "scale": (False, True),
    "missing": ("refuse", "mean"),
    "algorithm": ("auto", "drfgt"),
    "tol": (1e-8, 1e-7),
    "max_iter": (10_000, 9_999),
}


def here(pair: tuple[Any, Any]) -> Any:
    return pair[RANK == 1]


def solved(problem: Any, **given: Any) -> do.Result:
    return do.solve(problem, **{"algorithm": "drfgt", "W": "ring", "iterations": 5, **given})


def fitted(**given: Any) -> Any:
    settings = {"n_components": 2, "random_state": 0, **given}
    return PCA(**settings).fit_agents(sites()["north"], "ring")


def loaded(name: str, pair: tuple[Any, Any]) -> Any:
    settings = {"rank": 2, name: here(pair)}
    return do.problems.PCA.from_loader(lambda agent: sites()[SITES[agent]], 3, **settings)


def classes() -> tuple[Any, Any]:
    return sites()["north"], np.arange(20) % 3


def compared(**given: Any) -> Any:
    arguments = {"algorithms": "drfgt", "W": "ring", "rules": Rules(trials=1, iterations=5)}
    return compare(lambda seed: pca(), **{**arguments, **given})


def calls() -> dict[str, Callable[[], object]]:
    """The calls by their name, which ends with that of the argument."""
    whole = do.problems.PCA([*sites().values()], 2)
    found: dict[str, Callable[[], object]] = {}
    for name, pair in ARGUMENTS.items():
        found[f"solve {name}"] = lambda name=name, pair=pair: solved(  # type: ignore[misc]
            **{"problem": pca(), name: here(pair)}
        )
    for name in OPTIONS:
        found[f"set_up {name}"] = lambda name=name: set_up(pca(), "drfgt", "ring").solve(  # type: ignore[misc]
            Options(**{"iterations": 5, name: here(ARGUMENTS[name])})
        )
    for name, pair in OF_SITES.items():
        found[f"from_sites {name}"] = lambda name=name, pair=pair: solved(  # type: ignore[misc]
            do.problems.PCA.from_sites(sites(), **{"rank": 2, name: here(pair)})
        )
        if name != "columns":
            found[f"from_loader {name}"] = lambda name=name, pair=pair: solved(loaded(name, pair))  # type: ignore[misc]
    for name, pair in OF_SETTINGS.items():
        found[f"settings {name}"] = lambda name=name, pair=pair: solved(  # type: ignore[misc]
            do.problems.PCASettings(**{"rank": 2, name: here(pair)}).problem(3, seed=0)
        )
    for name, pair in OF_ESTIMATOR.items():
        found[f"estimator {name}"] = lambda name=name, pair=pair: fitted(**{name: here(pair)})  # type: ignore[misc]
    renamed = dict(zip(("north", "west", "south"), sites().values(), strict=True))
    more = {**sites(), "east": sites()["north"]}
    found |= {
        "from_sites names of the sites": lambda: solved(
            do.problems.PCA.from_sites(here((sites(), renamed)), 2)
        ),
        "from_sites number of agents": lambda: solved(
            do.problems.PCA.from_sites(here((sites(), more)), 2)
        ),
        "settings seed": lambda: solved(
            do.problems.PCASettings(rank=2).problem(3, seed=here((0, 1)))
        ),
        "whole shape of a point": lambda: solved(
            here((whole, do.problems.PCA([*sites().values()], 3)))
        ),
        "blocks number of blocks": lambda: do.solve(
            do.problems.Spread(pca(here((3, 4)))), "rgd", iterations=5
        ),
        "fit_agents W": lambda: PCA(2, random_state=0).fit_agents(
            sites()["north"], here(("ring", "path"))
        ),
        "fit_agents split": lambda: PCA(2, random_state=0).fit_agents(
            sites()["north"], "ring", split=here(("samples", "features"))
        ),
        "estimator ridge": lambda: LDA(ridge=here((0.1, 0.2)), random_state=0).fit_agents(
            classes(), "ring"
        ),
        "compare algorithms": lambda: compared(algorithms=here(("drfgt", "drfgt,deepca"))),
        "compare rules": lambda: compared(rules=Rules(trials=1, iterations=here((5, 6)))),
    }
    return found


def message(call: Callable[[], object]) -> str:
    try:
        call()
    except ValueError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    found = {name: MPI.COMM_WORLD.gather(message(call)) for name, call in calls().items()}
    called: list[int] = []
    callback = here((None, lambda row: called.append(row.iteration)))
    result = solved(pca(), callback=callback, progress=False)
    facts = MPI.COMM_WORLD.gather((result.iterates_sha256, called))
    if RANK == 0:
        print(json.dumps([found, facts]))
