"""Objectives and modules in PyTorch; a group of its own, since PyTorch is large."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import topologies as tp
from decentorth import DGD, DPRGT, DRFGT, DRGTA, DRSGD, Checkpoints, solve
from decentorth.problems import PCA, from_function, from_module
from decentorth.sets import Stiefel
from tests.problems.test_autodiff import DATA, POINTS, D, M, N, R, check_cell, pca
from tests.support.mpi import HUNG, ROOT

torch = pytest.importorskip("torch")


def small() -> Any:
    """A network with a tall and a wide orthonormal layer and free biases, in float64."""
    torch.manual_seed(0)
    layers = torch.nn.Linear(D, 5), torch.nn.Tanh(), torch.nn.Linear(5, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2)
    return torch.nn.Sequential(*layers).double()


def problem(module: Any = None) -> Any:
    labels = np.random.default_rng(3).integers(0, 2, (N, M))
    loss = torch.nn.functional.cross_entropy
    return from_module(module or small(), loss, [*zip(DATA, labels, strict=True)], orthogonal=["0.weight", "2.weight"])


def test_functions_have_the_gradients_of_the_formula_and_the_bits_of_the_whole() -> None:
    own, exact = from_function(pca, Stiefel(D, R), data=torch.from_numpy(DATA), backend="torch"), PCA(DATA, R)
    np.testing.assert_allclose(own.gradient(POINTS), exact.gradient(POINTS), atol=1e-13)
    np.testing.assert_allclose(own.value(POINTS), exact.value(POINTS), rtol=1e-13)
    assert np.shares_memory(own._own, DATA)  # type: ignore[attr-defined]
    for part in (slice(0, 1), slice(2, 5)):
        assert own.restrict(part).gradient(POINTS[part]).tobytes() == own.gradient(POINTS)[part].tobytes()


def test_the_losses_and_gradients_of_a_module_are_pytorchs_own() -> None:
    """At the module's parameters, projected; the names give the parameters back."""
    made = problem()
    assert repr(made.constraint) == "St(9, 5) x St(6, 5) x R(25, 1)"
    point = made.start(0)
    assert made.constraint.feasibility(point[None]).max() < 1e-12
    module, x = made.module_at(point), np.repeat(point[None], N, axis=0)
    labels = np.random.default_rng(3).integers(0, 2, (N, M))
    losses = [
        torch.nn.functional.cross_entropy(module(torch.from_numpy(a)), torch.from_numpy(y))
        for a, y in zip(DATA, labels, strict=True)
    ]
    np.testing.assert_allclose(made.value(x), [float(one.detach()) for one in losses], rtol=1e-12)
    losses[3].backward()
    found = made.unpack(made.gradient(x))
    for name, parameter in module.named_parameters():
        np.testing.assert_allclose(found[name][3], parameter.grad.numpy(), atol=1e-13)
        np.testing.assert_array_equal(made.unpack(x)[name][3], parameter.detach().numpy())
    assert made.check_gradient().right


@pytest.mark.parametrize(
    "method",
    [
        DRFGT(step_size=0.1),
        DRGTA(step_size=0.1),
        DPRGT(step_size=0.1),
        DRSGD(step_size=0.1, batch_size=4),
        DGD(step_size=0.1, penalty=1.0),
    ],
)
def test_every_kind_of_method_trains_a_module_and_resumes_with_the_same_bits(method: Any, tmp_path: Path) -> None:
    """Over a channel that loses messages."""
    W = tp.metropolis_weights(tp.complete(N))
    given: dict[str, Any] = {"channel": "loss:p=0.1"}
    whole = solve(problem(), method, W, iterations=30, **given)
    solve(problem(), method, W, iterations=20, checkpoints=Checkpoints(tmp_path, every=10), **given)
    again = solve(problem(), method, W, iterations=30, resume=tmp_path, **given)
    assert again.iterates_sha256 == whole.iterates_sha256
    assert whole.history["objective"][-1] < whole.history["objective"][0]


def test_parts_of_the_agents_have_the_bits_of_all() -> None:
    made = problem()
    x = made.start(0) + 0.1 * np.random.default_rng(0).standard_normal((N, *made.shape))
    for part in (slice(0, 1), slice(3, 6)):
        assert made.restrict(part).gradient(x[part]).tobytes() == made.gradient(x)[part].tobytes()


def test_modules_that_cannot_be_are_refused() -> None:
    data, loss = [(DATA[0], np.zeros(M))], torch.nn.functional.mse_loss
    with pytest.raises(ValueError, match=re.escape("the module has no parameter '3.weight'; it has 0.weight, 0.bias")):
        from_module(small(), loss, data, orthogonal=["3.weight"])
    with pytest.raises(ValueError, match=r"'0.bias' of shape \(5,\) is no matrix"):
        from_module(small(), loss, data, orthogonal=["0.bias"])
    with pytest.raises(ValueError, match=r"Dropout .* depends on more than parameters and inputs"):
        from_module(torch.nn.Sequential(torch.nn.Dropout()), loss, data)


def test_agents_with_one_digit_each_train_as_well_as_with_pooled_images() -> None:
    words = [sys.executable, "examples/digits_by_class.py"]
    said = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=HUNG, check=True).stdout
    together, pooled, alone = (float(found) for found in re.findall(r"(\S+) %", said))
    assert together > pooled - 1.0 > 90.0
    assert alone < 20.0


def test_an_own_objective_becomes_a_figure(tmp_path: Path) -> None:
    words = [sys.executable, "examples/own_objective.py", "torch", str(tmp_path / "figure.png")]
    said = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=HUNG, check=True).stdout
    assert float(said.split()[-4]) < 0.3
    check_cell("torch")
