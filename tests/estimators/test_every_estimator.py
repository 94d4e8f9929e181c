"""Scikit-learn's own checks, the page on estimators, and fits under mpirun."""

from __future__ import annotations

import json
import re
import warnings
from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from decentorth.estimators import (
    CCA,
    ICA,
    LDA,
    PCA,
    MultiviewCCA,
    OrthogonalDictionary,
    RobustSubspace,
)
from tests.estimators.fitted import fitted
from tests.support.mpi import ROOT, run_ranks

ESTIMATORS = [
    CCA(n_components=1),  # as scikit-learn checks its own: the checks have one target
    *(
        ICA(),
        LDA(ridge=1e-2),
        MultiviewCCA(ridge=1e-2),
        PCA(),
        OrthogonalDictionary(),
        RobustSubspace(),
    ),
]


@pytest.mark.slow
# the samples of the checks are few, and some are Gaussian
@pytest.mark.filterwarnings("ignore:ICA cannot separate")
@parametrize_with_checks(ESTIMATORS)  # type: ignore[untyped-decorator]  # scikit-learn ships no types
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.slow
def test_agents_on_the_page_find_what_is_found_in_one_place(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = (ROOT / "docs" / "estimators.md").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    exec("\n".join(re.findall(r"```python\n(.*?)```", page, re.S)), names)
    *differences, correlation, samples = [float(said) for said in capsys.readouterr().out.split()]
    assert len(differences) == 2
    # the tolerance over the least gap of the explained variance ratios, 1e-8 / 0.0087
    assert max(differences) < 1e-6
    assert correlation > 0.99
    assert samples == 1797
    assert {"stream", "tracked", "unmixed", "x_scores"} <= names.keys()


@pytest.mark.slow
@pytest.mark.ranks
def test_every_rank_finds_what_one_process_does() -> None:
    job = run_ranks(3, ["-m", "tests.estimators.fitted"])
    assert job.returncode == 0, job.report()
    with warnings.catch_warnings():
        assert json.loads(job.stdout) == [fitted()] * 3
