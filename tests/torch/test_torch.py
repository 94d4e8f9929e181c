"""Objectives and modules in PyTorch; a group of its own, since PyTorch is large."""

from __future__ import annotations

import importlib
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


@pytest.fixture
def layers(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script of the application."""
    pytest.importorskip("matplotlib").use("agg")
    monkeypatch.syspath_prepend(ROOT / "examples" / "applications")
    return importlib.import_module("orthogonal_layers")


@pytest.mark.slow
def test_agents_with_one_digit_each_train_orthogonal_layers(tmp_path: Path) -> None:
    """The numbers of the page: accuracies, exchanges, MB, distances from orthogonality."""
    words = [sys.executable, "examples/applications/orthogonal_layers.py", "--figure", str(tmp_path / "figure.png")]
    said = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=HUNG, check=True).stdout
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    rows = re.findall(r"^  (\S.*?)  +(\S+) +(\S+) +(\d+) +(\S+) +(\S+)$", said, re.MULTILINE)
    found = {label: tuple(map(float, values)) for label, *values in rows}
    agents, pooled, alone = (found[label] for label in ("agents, DRFGT", "pooled images", "agents alone"))
    assert agents[0] > pooled[0] - 3.0 > 85.0
    assert agents[1] > agents[0] - 2.0
    assert agents[4] < 0.02
    assert alone[1] < 15.0
    for label in ("averaging, 1 local step", "averaging, 1 step, moved back", "averaging, 5 local steps"):
        assert found[label][2:4] == agents[2:4] == (600.0, 231.4)
        assert found[label][0] < agents[0] - 5.0
        assert found[label][1] < agents[1] - 8.0
    assert found["averaging, 1 local step"][4] > 0.005
    assert found["averaging, 1 step, moved back"][4] < 1e-12


def test_the_application_reads_a_file_and_says_what_was_sent(layers: Any, tmp_path: Path) -> None:
    """Strings as labels; an average of orthonormal layers is not orthonormal until it is moved back."""
    rng = np.random.default_rng(0)
    labels = np.repeat(["cat", "dog", "owl"], [40, 30, 50])
    X = rng.standard_normal((len(labels), 30)) + 2.0 * np.repeat(np.eye(3, 30), [40, 30, 50], axis=0)
    np.savez(tmp_path / "own.npz", X=X, y=labels)
    agents, test = layers.loaded(str(tmp_path / "own.npz"))
    assert len(test[0]) == len(X) // 4
    assert [set(y.tolist()) for _, y in agents] == [{0}, {1}, {2}]
    assert len({len(own) for own, _ in agents}) == 1
    found = {label: values for label, (values, _) in layers.compared(agents, test, exchanges=10).items()}
    size = 24 * 30 + 24 + 24 * 24 + 24 + 3 * 24 + 3
    for label in ("agents, DRFGT", "averaging, 1 local step", "averaging, 1 step, moved back", "averaging, 5 local steps"):
        assert found[label][2] == 10
        assert found[label][3] == pytest.approx(10 * 6 * size * 8 / 1e6)  # a triangle has six directed edges
    assert found["averaging, 1 step, moved back"][4] < 1e-12
    assert found["averaging, 1 local step"][4] > 1e-8
    assert found["agents alone"][3] == 0.0


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"X": np.ones((4, 2)), "y": np.zeros(3, dtype=int)}, "X has 4 rows and y has 3 labels"),
        ({"X": np.ones((4, 2)), "y": np.zeros(4, dtype=int)}, "at least two classes"),
        ({"X": np.ones((4, 2))}, "y"),
    ],
)
def test_the_application_refuses_data_that_do_not_fit(
    layers: Any, arrays: dict[str, Any], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "own.npz", **arrays)
    with pytest.raises(SystemExit) as refused:
        layers.main(["--data", str(tmp_path / "own.npz")])
    assert refused.value.code == 2
    assert said in capsys.readouterr().err


def test_an_own_objective_becomes_a_figure(tmp_path: Path) -> None:
    words = [sys.executable, "examples/own_objective.py", "torch", str(tmp_path / "figure.png")]
    said = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=HUNG, check=True).stdout
    assert float(said.split()[-4]) < 0.3
    check_cell("torch")
