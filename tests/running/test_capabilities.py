"""Refusals of methods that do not fit a problem: they name methods that do."""

from __future__ import annotations

from typing import Any

import pytest

import decentorth as do
import topologies as tp
from decentorth import registry
from decentorth.api.capabilities import check_capabilities, fitting
from decentorth.network import Network
from decentorth.protocols import Declared, Sampled
from tests.support.building import built
from tests.support.j_orthogonal import hevp

SMALL: dict[str, dict[str, Any]] = {
    "pca": {"data": "synthetic", "rank": 2},
    "gevp": {"dimension": 12, "rank": 2},
    "rsr": {"dimension": 9, "rank": 3, "inliers": 60, "outliers": 40},
}


@pytest.mark.parametrize(
    ("problem", "agents", "algorithm", "first"),
    [
        ("pca", 1, "generalized_landing", ["rgd", "landing", "pcal", "plam"]),
        ("pca", 4, "j_jobcd", ["deepca", "saga_drfgt"]),
        ("gevp", 4, "destiny", ["drfgt", "dprgt", "drgta"]),
        ("gevp", 1, "deepca", ["conjugate_gradients", "generalized_landing", "landing"]),
        ("rsr", 1, "gs_jobcd", ["rsm", "rssm", "drsm"]),
        ("rsr", 4, "cdadt", ["drsm"]),
    ],
)
def test_methods_that_fit_come_in_order_and_pass_the_checks(problem: str, agents: int, algorithm: str, first: list[str]) -> None:
    own = built(registry.problems.get(problem)(**SMALL[problem]).problem(agents, 0))
    known = registry.algorithms.defaults()
    names = fitting(own, Network(tp.weights_from_name(tp.complete(agents))), known[algorithm], known)
    assert names[: len(first)] == first
    for name in names:
        check_capabilities(own, known[name])
    assert not {"dgd", "gradient_tracking"} & {*names}  # they have no constraint


def test_on_a_directed_graph_only_its_methods_fit() -> None:
    own = built(registry.problems.get("pca")(**SMALL["pca"]).problem(6, 0))
    known = registry.algorithms.defaults()
    W = tp.directed_weights(tp.digraph_from_name("directed_ring", 6))
    assert {*fitting(own, Network(W), known["cdadt"], known)} == {"push_pull", "drgta", "asynchronous_drfgt"}


def test_a_refusal_keeps_its_reason_and_names_methods() -> None:
    with pytest.raises(TypeError, match=r"DRFGT needs Landing of its problem; JOrthogonal has none\. .*: hyperbolic_jacobi, "):
        do.solve(hevp(6), "drfgt", iterations=1)
    problem = registry.problems.get("gevp")(**SMALL["gevp"]).problem(4, 0)
    with pytest.raises(ValueError, match=r"or one agent \(.*\)\. Algorithms that fit with their default settings: ddrs, "):
        do.solve(problem, "landing", "ring", iterations=1)
    with pytest.raises(TypeError, match=r"DRFGT needs Sampled .* Algorithms that fit with their default settings: drfgt, "):
        do.solve(problem, "drfgt:batch_size=2", "ring", iterations=1)


def test_a_method_without_the_base_class_has_its_defaults() -> None:
    class Own:
        requires = (Sampled,)
        step_size = 0.5

    own, found = Own(), Declared.of(Own())
    assert (found.requires, found.requires_set, found.directed, found.first_step) == ((Sampled,), (), False, 0.5)
    assert Declared.of(own).resolved(None) is Declared.of(own).running() is own
    method = do.DRFGT()
    assert Declared.of(method) is method
