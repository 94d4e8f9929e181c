"""Columns of data frames are joined by their names, in one process and over ranks."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import decentorth as do
from decentorth.estimators import CCA, LDA, PCA
from decentorth.problems.common.checks import same_names
from tests.support.threads import ThreadCommunicator, on_ranks

NAMES = ["age", "pulse", "weight", "height"]
METHOD = do.DRFGT(step_size=0.05, penalty=1.0)
ROWS = np.random.default_rng(0).standard_normal((3, 30, 4)) * np.arange(1.0, 5.0)
LINED_UP = [pd.DataFrame(a, columns=NAMES) for a in ROWS]
TURNED = [frame[NAMES[agent:] + NAMES[:agent]] for agent, frame in enumerate(LINED_UP)]
"""The same frames, with the columns of each agent in an order of its own."""
FRAMES = [LINED_UP, TURNED]


def solved(problem: Any, comm: Any = "serial") -> Any:
    return do.solve(problem, METHOD, "ring", iterations=5, comm=comm).x.tobytes()


def test_a_whole_problem_joins_columns() -> None:
    assert solved(do.problems.PCA(TURNED, 2)) == solved(do.problems.PCA(LINED_UP, 2))


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("scale", [False, True])
def test_ranks_that_load_frames_join_columns(ranks: int, scale: bool) -> None:
    def loaded(frames: list[Any]) -> Any:
        return do.problems.PCA.from_loader(lambda agent: frames[agent], 3, 2, scale=scale)

    expected = solved(loaded(LINED_UP))

    def work(communicator: ThreadCommunicator) -> Any:
        return solved(loaded(TURNED), communicator)

    assert b"".join(on_ranks(ranks, work)) == expected


FITS: list[tuple[Callable[[list[Any]], Any], str]] = [
    (lambda f: PCA(2, random_state=0).fit_agents(f, "ring"), "components_"),
    (
        lambda f: LDA(random_state=0).fit_agents([(a, np.arange(30) % 3) for a in f], "ring"),
        "components_",
    ),
    (
        lambda f: CCA(1, random_state=0).fit_agents([*zip(ROWS, f, strict=True)], "ring"),
        "y_weights_",
    ),
]


@pytest.mark.parametrize(("fit", "attribute"), FITS, ids=["PCA", "LDA", "CCA"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_estimators_join_columns(fit: Callable[[list[Any]], Any], attribute: str) -> None:
    one, other = (getattr(fit(frames), attribute) for frames in FRAMES)
    np.testing.assert_array_equal(one, other)


def test_a_name_without_a_partner_is_refused_with_the_nearest() -> None:
    wrong = [LINED_UP[0], LINED_UP[1].rename(columns={"weight": "wieght"})]
    words = (
        "X of agent 1 lacks the column 'weight', which an earlier agent has; did you mean 'wieght'?"
    )
    with pytest.raises(ValueError, match=re.escape(words)):
        same_names("X", wrong)
