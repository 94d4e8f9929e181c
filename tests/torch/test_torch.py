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
from tests.problems.test_autodiff import DATA, POINTS, D, M, N, R, pca
from tests.support.examples import drawn
from tests.support.mpi import ROOT

torch = pytest.importorskip("torch")


def small() -> Any:
    """A network with a tall and a wide orthonormal layer and free biases, in float64."""
    torch.manual_seed(0)
    layers = (
        torch.nn.Linear(D, 5),
        torch.nn.Tanh(),
        torch.nn.Linear(5, 6),
        torch.nn.Tanh(),
        torch.nn.Linear(6, 2),
    )
    return torch.nn.Sequential(*layers).double()


def problem(module: Any = None) -> Any:
    labels = np.random.default_rng(3).integers(0, 2, (N, M))
    loss = torch.nn.functional.cross_entropy
    return from_module(
        module or small(),
        loss,
        [*zip(DATA, labels, strict=True)],
        orthogonal=["0.weight", "2.weight"],
    )


def test_functions_have_the_gradients_of_the_formula_and_the_bits_of_the_whole() -> None:
    own, exact = (
        from_function(pca, Stiefel(D, R), data=torch.from_numpy(DATA), backend="torch"),
        PCA(DATA, R),
    )
    np.testing.assert_allclose(own.gradient(POINTS), exact.gradient(POINTS), atol=1e-13)
    np.testing.assert_allclose(own.value(POINTS), exact.value(POINTS), rtol=1e-13)
    assert np.shares_memory(own._own.items[0][0], DATA)  # type: ignore[attr-defined]
    for part in (slice(0, 1), slice(2, 5)):
        assert (
            own.restrict(part).gradient(POINTS[part]).tobytes()
            == own.gradient(POINTS)[part].tobytes()
        )


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
        DPRGT(step_size=0.1),
        DRSGD(step_size=0.1, batch_size=4),
        DGD(step_size=0.1, penalty=1.0),
    ],
)
def test_every_kind_of_method_trains_a_module_and_resumes_with_the_same_bits(
    method: Any, tmp_path: Path
) -> None:
    W = tp.metropolis_weights(tp.complete(N))
    given: dict[str, Any] = {"channel": "loss:p=0.1"}
    whole = solve(problem(), method, W, iterations=30, **given)
    solve(problem(), method, W, iterations=20, checkpoints=Checkpoints(tmp_path, every=10), **given)
    again = solve(problem(), method, W, iterations=30, resume=tmp_path, **given)
    assert again.iterates_sha256 == whole.iterates_sha256
    assert whole.history["objective"][-1] < whole.history["objective"][0]


class Recurrent(torch.nn.Module):  # type: ignore[misc, name-defined]  # PyTorch is not among the packages of the type checks
    def __init__(self, kind: str, **given: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = getattr(torch.nn, kind)(D, 4, batch_first=True, **given)
        self.last = torch.nn.Linear(4, 2)

    def forward(self, sequences: Any) -> Any:
        return self.last(self.layer(sequences)[0][:, -1])


@pytest.mark.parametrize("kind", ["LSTM"])
def test_recurrent_layers_are_evaluated_one_agent_at_a_time_which_is_said_once(kind: str) -> None:
    """PyTorch cannot batch them; the values are its own, the gradients fit them, and a run
    descends, by mini-batches too."""
    rng = np.random.default_rng(5)
    sequences, labels = rng.standard_normal((N, M, 3, D)), rng.integers(0, 2, (N, M))
    loss = torch.nn.functional.cross_entropy
    with pytest.warns(
        UserWarning, match="loss is evaluated one agent at a time, since torch cannot batch it"
    ) as warned:
        made = from_module(
            Recurrent(kind),
            loss,
            [*zip(sequences, labels, strict=True)],
            orthogonal=["layer.weight_hh_l0"],
        )
    assert len(warned) == 1
    module, x = made.module_at(made.start(0)), np.repeat(made.start(0)[None], N, axis=0)
    own = [
        float(loss(module(torch.from_numpy(a)), torch.from_numpy(y)).detach())
        for a, y in zip(sequences, labels, strict=True)
    ]
    np.testing.assert_allclose(made.value(x), own, rtol=1e-12)
    assert made.check_gradient().right
    assert made.restrict(slice(2, 5)).gradient(x[2:5]).tobytes() == made.gradient(x)[2:5].tobytes()
    for method in (DRGTA(step_size=0.1), DRSGD(step_size=0.1, batch_size=M)):
        objectives = solve(
            made, method, tp.metropolis_weights(tp.complete(N)), iterations=20
        ).history["objective"]
        assert objectives[-1] < objectives[0]


def test_a_batch_has_the_numbers_of_one_agent_after_the_other() -> None:
    """Also where a function can be batched at first, and no longer later; that is said."""
    late: list[bool] = []

    def f(a: Any, x: Any) -> Any:
        return pca(a, x) if late and float(x.detach().sum()) > -1e6 else pca(a, x) + 0.0

    made = from_function(f, Stiefel(D, R), data=DATA, backend="torch")
    batched = made.value(POINTS), made.gradient(POINTS)
    assert made._library.batched  # type: ignore[attr-defined]
    late.append(True)
    with pytest.warns(
        UserWarning, match="f is evaluated one agent at a time, since torch cannot batch it"
    ):
        single = made.value(POINTS), made.gradient(POINTS)
    for one, other in zip(batched, single, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: None, "None: does the function end with `return`?"),
        (
            lambda f: f.item(),
            "float: return a tensor, without item(), float() or NumPy, which cut it off from x",
        ),
        (lambda f: f.reshape(1), "an array of shape (1,): return its sum, its mean or one entry"),
        (lambda f: f + 1j, "dtype torch.complex128: return its real part if that is meant"),
        (lambda f: f.long(), "dtype torch.int64: it cannot be differentiated"),
    ],
    ids=["None", "float", "(1,)", "complex", "int"],
)
def test_an_objective_that_is_not_one_tensor_names_its_agent_at_once_and_later(
    change: Any, words: str
) -> None:
    late: list[bool] = []
    changes = from_function(
        lambda i, x: (
            change(pca(torch.from_numpy(DATA)[i], x)) if late else pca(torch.from_numpy(DATA)[i], x)
        ),
        Stiefel(D, R),
        N,
        backend="torch",
    )
    changes.gradient(POINTS)
    late.append(True)
    said = f"f of agent 0 must be one real number, got {words}"
    for asked in (changes.value, changes.gradient):
        with pytest.raises(TypeError, match=f"^{re.escape(said)}$"):
            asked(POINTS)
    with pytest.raises(
        TypeError, match=f"^{re.escape(f'f cannot be differentiated (torch: {said})')}$"
    ):
        from_function(lambda a, x: change(pca(a, x)), Stiefel(D, R), data=DATA, backend="torch")


def test_data_sets_and_loaders_are_the_samples_of_their_agents() -> None:
    """Joined batches, also of agents with unequal numbers of samples; a data set of one tensor is
    the agent's array."""
    data, loss = torch.utils.data, torch.nn.functional.cross_entropy
    labels = torch.from_numpy(np.random.default_rng(3).integers(0, 2, (N, M)))
    pairs = [*zip(torch.from_numpy(DATA), labels, strict=True)]
    expected, x = problem(), problem().start(0)[None] + np.zeros((N, 1, 1))
    sets = [data.TensorDataset(a, y) for a, y in pairs]
    for items in (
        sets,
        [data.DataLoader(one, batch_size=5) for one in sets],
        [data.Subset(one, range(M)) for one in sets],
    ):
        made = from_module(small(), loss, items, orthogonal=["0.weight", "2.weight"])
        assert made.gradient(x).tobytes() == expected.gradient(x).tobytes()
        assert made.n_samples.tolist() == [M] * N
    fewer = from_module(small(), loss, [sets[0], data.Subset(sets[1], range(3))])
    assert fewer.n_samples.tolist() == [M, 3]
    own = from_function(
        pca, Stiefel(D, R), data=[data.TensorDataset(a) for a, _ in pairs], backend="torch"
    )
    np.testing.assert_allclose(own.gradient(POINTS), PCA(DATA, R).gradient(POINTS), atol=1e-13)
    for items, said in (
        (
            sets[0],
            "data must be a list with a data set or loader for each agent, got one TensorDataset",
        ),
        (
            [sets[0], data.DataLoader(data.Subset(sets[1], []))],
            "the data of agent 1, a DataLoader, cannot be read (ValueError: ",
        ),
        (
            [sets[0], data.TensorDataset(pairs[1][0])],
            "the data of agent 1 must be a tuple (inputs, targets), got a tuple of 1",
        ),
        (
            [pairs[0], {"x": pairs[1]}],
            "the data of agent 1 must be an array of real numbers whose rows are samples, or a "
            "tuple",
        ),
    ):
        with pytest.raises(ValueError, match=re.escape(said)):
            from_module(small(), loss, items)


def test_a_parameter_may_be_a_number() -> None:
    module = torch.nn.Linear(D, 2)
    module.scale = torch.nn.Parameter(torch.tensor(3.0))
    module.register_forward_hook(lambda layer, _, output: layer.scale * output)
    made = from_module(
        module,
        torch.nn.functional.cross_entropy,
        [(DATA[0], np.zeros(M, dtype=int))],
        orthogonal=["weight"],
    )
    assert made.module_at(made.start(0)).scale == 3.0
    assert made.check_gradient().right


def test_modules_that_cannot_be_are_refused() -> None:
    data, loss = [(DATA[0], np.zeros(M))], torch.nn.functional.mse_loss
    with pytest.raises(
        ValueError,
        match=re.escape("the module has no parameter '3.weight'; it has 0.weight, 0.bias"),
    ):
        from_module(small(), loss, data, orthogonal=["3.weight"])
    with pytest.raises(ValueError, match=r"'0.bias' of shape \(5,\) is no matrix"):
        from_module(small(), loss, data, orthogonal=["0.bias"])
    with pytest.raises(TypeError, match=r"orthogonal must be a list of names .* got True"):
        from_module(small(), loss, data, orthogonal=True)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"Dropout .* depends on more than parameters and inputs"):
        from_module(torch.nn.Sequential(torch.nn.Dropout()), loss, data)
    with pytest.raises(
        ValueError, match=re.escape("LSTM (layer) has random dropout=0.5: set it to 0")
    ):
        from_module(Recurrent("LSTM", num_layers=2, dropout=0.5), loss, data)
    wrong: list[tuple[Any, str]] = [
        (
            lambda m, d: loss(m(d[0]), d[1]),
            "loss is called as loss(output, targets), with output = module(inputs)",
        ),
        (
            lambda o, y: loss(o[:, 0], y, reduction="none"),
            f"loss of agent 0 must be one real number, got an array of shape ({M},)",
        ),
    ]
    for function, said in wrong:
        with pytest.raises(TypeError, match=re.escape(said)) as refused:
            from_module(small(), function, data)
        assert "gradient=" not in str(refused.value)


@pytest.fixture
def layers(monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("matplotlib").use("agg")
    monkeypatch.syspath_prepend(ROOT / "examples" / "applications")
    return importlib.import_module("orthogonal_layers")


@pytest.mark.slow
def test_agents_with_one_digit_each_train_orthogonal_layers(tmp_path: Path) -> None:
    """The numbers of the page: accuracies, exchanges, MB, distances from orthogonality."""
    said = drawn("examples/applications/orthogonal_layers.py", tmp_path, "--figure", "FIGURE")
    rows = re.findall(r"^  (\S.*?)  +(\S+) +(\S+) +(\d+) +(\S+) +(\S+)$", said, re.MULTILINE)
    found = {label: tuple(map(float, values)) for label, *values in rows}
    agents, pooled, alone = (
        found[label] for label in ("agents, DRFGT", "pooled images", "agents alone")
    )
    assert agents[0] > pooled[0] - 3.0 > 85.0
    assert agents[1] > agents[0] - 2.0
    assert agents[4] < 0.02
    assert alone[1] < 15.0
    for label in (
        "averaging, 1 local step",
        "averaging, 1 step, moved back",
        "averaging, 5 local steps",
    ):
        assert found[label][2:4] == agents[2:4] == (600.0, 231.4)
        assert found[label][0] < agents[0] - 5.0
        assert found[label][1] < agents[1] - 8.0
    assert found["averaging, 1 local step"][4] > 0.005
    assert found["averaging, 1 step, moved back"][4] < 1e-12


def test_the_application_reads_a_file_and_says_what_was_sent(layers: Any, tmp_path: Path) -> None:
    """Strings as labels; an average of orthonormal layers is not orthonormal until it is moved
    back."""
    rng = np.random.default_rng(0)
    labels = np.repeat(["cat", "dog", "owl"], [40, 30, 50])
    X = rng.standard_normal((len(labels), 30)) + 2.0 * np.repeat(
        np.eye(3, 30), [40, 30, 50], axis=0
    )
    np.savez(tmp_path / "own.npz", X=X, y=labels)
    agents, test = layers.loaded(str(tmp_path / "own.npz"))
    assert len(test[0]) == len(X) // 4
    assert [set(y.tolist()) for _, y in agents] == [{0}, {1}, {2}]
    assert len({len(own) for own, _ in agents}) == 1
    found = {
        label: values for label, (values, _) in layers.compared(agents, test, exchanges=10).items()
    }
    size = 24 * 30 + 24 + 24 * 24 + 24 + 3 * 24 + 3
    for label in (
        "agents, DRFGT",
        "averaging, 1 local step",
        "averaging, 1 step, moved back",
        "averaging, 5 local steps",
    ):
        assert found[label][2] == 10
        # a triangle has six directed edges
        assert found[label][3] == pytest.approx(10 * 6 * size * 8 / 1e6)
    assert found["averaging, 1 step, moved back"][4] < 1e-12
    assert found["averaging, 1 local step"][4] > 1e-8
    assert found["agents alone"][3] == 0.0


def test_an_own_objective_becomes_a_figure(tmp_path: Path) -> None:
    said = drawn("examples/own_objective.py", tmp_path, "torch", "FIGURE")
    assert float(said.split()[-4]) < 0.3


def test_the_notebook_learns_the_rotation(tmp_path: Path) -> None:
    words = [sys.executable, str(ROOT / "examples/notebooks/objective_in_torch.py")]
    said = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    (learnt,) = re.findall(r"distance from the rotation: (\S+)", said)
    assert float(learnt) < 0.01
