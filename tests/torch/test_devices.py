"""Runs on a device, which here is PyTorch's CPU: the numbers of NumPy's run, the same bits again,
nothing brought back but rows."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from scipy.sparse import csr_array

import topologies as tp
from decentorth import (
    DESTINY,
    DGD,
    DPRGD,
    DPRGT,
    DRFGT,
    DRGTA,
    DRSGD,
    DRSM,
    LBFGS,
    PCAL,
    PLAM,
    REXTRA,
    RFEXTRA,
    RGD,
    ConjugateGradients,
    DeEPCA,
    GeneralizedLanding,
    GradientTracking,
    Landing,
    LocalTracking,
    PushPull,
    RMTracking,
    iterate,
    registry,
    solve,
)
from decentorth.commands.run.command import main
from decentorth.numerics.devices import is_on_device, numbers, open_device
from decentorth.numerics.states import mapped
from decentorth.problems import (
    GEVP,
    PCA,
    FunctionProblem,
    NonsmoothFunctionProblem,
    Procrustes,
    pencil,
)
from decentorth.protocols import Declared, Direction, Retraction
from decentorth.sets import Euclidean, GeneralizedStiefel, Stiefel
from decentorth.sets.retractions import named
from decentorth.stopping import LocalMaximum
from tests.support.mpi import ROOT

torch = pytest.importorskip("torch")
from torch.overrides import TorchFunctionMode  # noqa: E402

N, D, R = 6, 12, 3
RNG = np.random.default_rng(0)
WIDE, TALL, TARGETS = (
    RNG.standard_normal((N, 4, D)),
    RNG.standard_normal((N, 20, D)),
    RNG.standard_normal((N, R, 20)),
)
RING = tp.metropolis_weights(tp.ring(N))
CPU = "torch:cpu"
PROBLEMS: dict[str, Callable[[], Any]] = {
    "rows": lambda: PCA(WIDE, R),
    "Gram": lambda: PCA(TALL, R),
    "both": lambda: PCA([*WIDE[:3], *TALL[3:]], R),
    "targets": lambda: Procrustes(TALL, TARGETS),
    "column": lambda: PCA(TALL, 1),
}
NETWORKED = [
    *(DRFGT(), DRFGT(order="adapt-then-combine"), DRFGT(batch_size=2, step_size=1e-3, penalty=1.0)),
    *(GradientTracking(penalty=1.0), GradientTracking(penalty=1.0, order="adapt-then-combine")),
    *(
        RFEXTRA(),
        REXTRA(),
        DESTINY(),
        PushPull(),
        LocalTracking(),
        DPRGD(),
        DPRGT(),
        DRSGD(),
        RMTracking(),
    ),
    *(DRGTA(retraction=one) for one in get_args(Retraction)),
    *(DRGTA(rounds=2, chebyshev=True), DGD(step_size="diminishing")),
]
ALONE = [
    RGD(),
    RGD(retraction="qr"),
    Landing(),
    Landing(safe=True),
    PLAM(),
    PCAL(),
    ConjugateGradients(),
    LBFGS(),
]
PENCIL = GEVP(*pencil(D, 10.0, 0), R)
ON_PENCILS = [
    *[GeneralizedLanding(direction=one) for one in get_args(Direction)],
    GeneralizedLanding(safe=False),
    *[RGD(metric="euclidean", retraction=one) for one in get_args(Retraction)],
    RGD(),
    PLAM(),
    PCAL(),
]
CASES: list[tuple[Any, str, Any]] = [*((method, "targets", RING) for method in NETWORKED)]
CASES += [(DRFGT(), kind, RING) for kind in PROBLEMS] + [
    (DRGTA(), kind, RING) for kind in ("Gram", "both", "column")
]
CASES += [(method, "targets", None) for method in ALONE] + [
    (method, "pencil", None) for method in ON_PENCILS
]
CASES += [(method, "Gram", "directed_ring:chords=2") for method in (PushPull(), DRGTA())]
CASES += [(DRFGT(step_size=1e-3, penalty=1.0), "Gram", "link_failures:p=0.2@ring")]


def called(one: Any) -> str:
    return re.sub(r"\W+", "-", repr(one))[:90]


def problem_of(kind: str, W: Any) -> Any:
    made = (PROBLEMS | {"kinks": kinks, "pencil": lambda: PENCIL})[kind]()
    return made.pooled() if W is None else made


@pytest.mark.parametrize(("method", "kind", "W"), CASES, ids=called)
def test_runs_have_the_numbers_of_numpy_and_the_same_bits_again(
    method: Any, kind: str, W: Any
) -> None:
    """The points and counts of NumPy's run after 100 iterations, and the same bits and rows in a
    second run.

    On a device automatic steps are constant.
    """
    problem = problem_of(kind, W)
    stays = method
    if getattr(method, "step_size", None) == "auto":
        stays = replace(stays, step_size="constant")
    host = solve(problem, stays, W, iterations=100)
    first, second = (solve(problem, method, W, iterations=100, device=CPU) for _ in range(2))
    assert isinstance(first.x, np.ndarray)
    assert np.linalg.norm(first.x - host.x) <= 1e-12 * np.linalg.norm(host.x)
    # whose trials at a minimiser are decided by rounding
    searches = isinstance(method, ConjugateGradients | LBFGS)
    assert first.row[: 4 if searches else 5] == host.row[: 4 if searches else 5]
    assert first.iterates_sha256 == second.iterates_sha256
    for name, column in host.history.items():
        if name != "seconds" and not (searches and name == "gradients"):
            assert first.history[name].tobytes() == second.history[name].tobytes()
            np.testing.assert_allclose(
                first.history[name], column, rtol=1e-9, atol=1e-11 * np.abs(column).max() + 1e-12
            )


def test_a_retraction_to_a_generalized_stiefel_manifold_from_anywhere() -> None:
    """Near, far and of another length: NumPy's points to rounding; NaN where the point has not full
    rank."""
    manifold, put = PENCIL.constraint, open_device(CPU).put
    placed: Any = manifold.on(put)
    for length in (1e-3, 0.3, 3.0, 1e40):
        y = manifold.random(RNG)[None] + length * RNG.standard_normal((1, D, R))
        for retraction in get_args(Retraction):
            exact, _ = manifold.retract_with(y, manifold.product(y), retraction)
            found, product = placed.retract_with(put(y), placed.product(put(y)), retraction)
            np.testing.assert_allclose(found.host(), exact, atol=1e-11)
            np.testing.assert_allclose(product.host(), manifold.product(exact), atol=1e-11)
    flat = put(np.zeros((1, D, R)))
    assert np.isnan(placed.retract_with(flat, flat, "cholesky-qr")[0].host()).all()


def test_singular_vectors_that_lapack_does_not_find_in_float32() -> None:
    """Of a nearly orthogonal matrix, for which MKL 2024.2 ends with an error."""
    with np.load(Path(__file__).with_name("nearly_orthogonal.npz")) as stored:
        matrix = stored["matrix"]
    u, _, vt = np.linalg.svd(matrix.astype(np.float64))
    for method in ("polar-svd", "polar"):
        found: Any = Stiefel(64, 64).project(
            open_device(f"{CPU}:float32").put(matrix[None]), method
        )
        assert found.dtype == np.float32
        np.testing.assert_allclose(found.host()[0], u @ vt, rtol=0.0, atol=1e-6)


def test_gradient_tracking_in_euclidean_space_on_functions_of_tensors() -> None:
    """The functions get tensors alone, also for the first state, and NumPy's run is that of the
    same formula."""
    hessians, centres = np.stack([a.T @ a for a in TALL]), RNG.standard_normal((N, D, R))
    H, C = torch.from_numpy(hessians), torch.from_numpy(centres)

    def value(agents: Any, x: Any) -> Any:
        gap = x - C[agents]
        return 0.5 * (gap * (H[agents] @ gap)).sum((-2, -1))

    def gradient(agents: Any, x: Any) -> Any:
        assert isinstance(x, torch.Tensor)
        return H[agents] @ (x - C[agents])

    own = FunctionProblem(value, gradient, Euclidean(D, R), N, stacked=True)
    host = FunctionProblem(
        lambda agents, x: (
            0.5 * ((x - centres[agents]) * (hessians[agents] @ (x - centres[agents]))).sum((-2, -1))
        ),
        lambda agents, x: hessians[agents] @ (x - centres[agents]),
        Euclidean(D, R),
        N,
        stacked=True,
    )
    found, expected = (
        solve(own, GradientTracking(order="combine-then-adapt"), RING, device=CPU, iterations=100),
        solve(host, GradientTracking(order="combine-then-adapt"), RING, iterations=100),
    )
    assert np.linalg.norm(found.x - expected.x) <= 1e-12 * np.linalg.norm(expected.x)
    assert found.row.values["gradient_norm"] == pytest.approx(
        expected.row.values["gradient_norm"], rel=1e-9
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda x: None, "of shape (6, 12, 3), dense and real, got a NoneType"),
        (
            lambda x: x[..., 0],
            "of shape (6, 12, 3), dense and real, got torch.float64, torch.strided, of shape (6, "
            "12)",
        ),
        (lambda x: x.numpy(), "of shape (6, 12, 3), dense and real, got a ndarray"),
        (
            lambda x: x + 1j,
            "of shape (6, 12, 3), dense and real, got torch.complex128, torch.strided, of shape "
            "(6, 12, 3)",
        ),
        (
            lambda x: x.to_sparse(),
            "of shape (6, 12, 3), dense and real, got torch.float64, torch.sparse_coo, of shape "
            "(6, 12, 3)",
        ),
    ],
    ids=["None", "shape", "NumPy", "complex", "sparse"],
)
def test_answers_that_are_no_dense_real_tensors_are_refused_in_one_line(
    change: Any, said: str
) -> None:
    wrong = FunctionProblem(
        lambda agents, x: x.sum((-2, -1)),
        lambda agents, x: change(x),
        Euclidean(D, R),
        N,
        stacked=True,
    )
    with pytest.raises(ValueError, match=re.escape(said)):
        solve(wrong, GradientTracking(step_size=0.1), RING, device=CPU)


class Transfers(TorchFunctionMode):  # type: ignore[misc]  # PyTorch is not among the packages of the type checks
    """Counts what brings numbers from tensors to the host, by the shape of the tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: Counter[tuple[int, ...]] = Counter()

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if getattr(function, "__name__", "") in (
            "cpu",
            "item",
            "tolist",
            "__bool__",
            "__float__",
            "__int__",
            "__index__",
        ):
            self.shapes[tuple(args[0].shape)] += 1
        return function(*args, **(kwargs or {}))


def transfers(problem: Any, method: Any, W: Any, iterations: int) -> Counter[tuple[int, ...]]:
    with Transfers() as counted:
        solve(problem, method, W, device=CPU, iterations=iterations, rows=2)
    found: Counter[tuple[int, ...]] = counted.shapes
    return found


@pytest.mark.parametrize(
    "method",
    [DRFGT(), GradientTracking(penalty=1.0), RFEXTRA(), PushPull(), DESTINY(), DGD(step_size=1e-3)],
)
def test_iterations_bring_nothing_to_the_host(method: Any) -> None:
    """A hundred iterations bring what ten do: two rows of a few numbers, and the last state."""
    few, many = (
        transfers(PROBLEMS["targets"](), method, RING, iterations) for iterations in (10, 100)
    )
    assert few == many
    rows = {shape: count for shape, count in many.items() if np.prod(shape) > N}
    assert all(np.prod(shape) <= 20 or count <= 6 for shape, count in rows.items())


def test_a_retraction_brings_one_integer_of_each_agent_and_a_line_search_numbers() -> None:
    few, many = (
        transfers(PROBLEMS["targets"](), DRGTA(), RING, iterations) for iterations in (10, 100)
    )
    assert many - few == {(N,): 90}
    few, many = (
        transfers(PROBLEMS["targets"]().pooled(), ConjugateGradients(), None, iterations)
        for iterations in (2, 20)
    )
    assert {int(np.prod(shape)) for shape in many - few} == {1}


@pytest.mark.parametrize("graph", [tp.ring(200), tp.star(9), tp.complete(5)])
def test_mixing_is_multiplication_with_W(graph: Any) -> None:
    W, device = tp.metropolis_weights(graph), open_device(CPU)
    x = RNG.standard_normal((W.shape[0], 4, 2))
    found = device.mixing(W.indptr.astype(np.int64), W.indices.astype(np.int64), W.data)(
        device.put(x)
    ).host()
    np.testing.assert_allclose(
        found, np.einsum("ij,jkl->ikl", W.toarray(), x), rtol=0.0, atol=1e-15
    )


def test_arrays_of_a_device_do_not_leave_it_unasked_and_numbers_come_together() -> None:
    x = open_device(CPU).put(np.arange(6.0).reshape(2, 3))
    with pytest.raises(
        TypeError,
        match=re.escape("an array on cpu is not brought to the host by itself: call its host()"),
    ):
        np.asarray(x)
    assert x.host().tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    with Transfers() as counted:
        assert numbers((1.0, x[1, 1], np.float64(2.0), x.sum())) == (1.0, 4.0, 2.0, 15.0)
    assert sum(counted.shapes.values()) == 1


def test_single_precision_has_its_floor() -> None:
    """The points stay within about 1e-5 of those of float64, where the run's own gradient norm no
    longer falls."""
    given: dict[str, Any] = {"iterations": 3000}
    problem = PROBLEMS["targets"]()
    exact, rough = (
        solve(problem, DRFGT(), RING, **given),
        solve(problem, DRFGT(), RING, device=f"{CPU}:float32", **given),
    )
    start = exact.history["gradient_norm"][0]
    assert exact.row.values["gradient_norm"] < 1e-9 * start
    assert 1e-9 * start < rough.row.values["gradient_norm"] < 1e-5 * start
    assert np.abs(rough.x - exact.x).max() < 1e-5
    state = next(iterate(problem, DRFGT(), RING, device=f"{CPU}:float32"))
    assert state.x.dtype == state.tracker.dtype == state.step_size.dtype == np.float32


def kinks() -> Any:
    """f_i = ||A_i x||_1 / 20, in functions of tensors."""
    A = torch.from_numpy(TALL)

    def value(agents: Any, x: Any) -> Any:
        return (A[agents].to(x) @ x).abs().sum((-2, -1)) / 20

    def subgradient(agents: Any, x: Any) -> Any:
        own = A[agents].to(x)
        return own.swapaxes(-1, -2) @ torch.sign(own @ x) / 20

    return NonsmoothFunctionProblem(value, subgradient, Stiefel(D, R), N, stacked=True)


SHORT: list[tuple[Any, str, Any]] = [case for case in CASES if case[1] in ("targets", "pencil")]
SHORT += [(DRSM(step_size=0.01), "kinks", RING)]
LONG: list[tuple[Any, str, Any]] = [
    (method(step_size=0.1, retraction=one), kind, W)
    for method, kind, W in ((DRGTA, "rows", RING), (DRGTA, "column", RING), (RGD, "Gram", None))
    for one in get_args(Retraction)
]


def test_every_method_for_devices_is_here() -> None:
    known = [registry.algorithms.get(name) for name in registry.algorithms.names()]
    assert {type(one) for one, *_ in SHORT} == {one for one in known if Declared.of(one).on_devices}


@pytest.mark.parametrize(("method", "kind", "W"), SHORT + LONG, ids=called)
def test_single_precision_has_the_numbers_of_double(method: Any, kind: str, W: Any) -> None:
    """Points and objectives to a few of its digits after 100 iterations, short steps or long; every
    array stays single.

    Line searches end at a minimiser, which is as good as any other with its objective.
    """
    problem = problem_of(kind, W)
    exact, rough = (
        solve(problem, method, W, iterations=100, device=name) for name in (CPU, f"{CPU}:float32")
    )
    assert rough.status == exact.status
    if not isinstance(method, ConjugateGradients | LBFGS):
        assert np.linalg.norm(rough.x - exact.x) <= 1e-4 * np.linalg.norm(exact.x)
    assert rough.row.values["objective"] == pytest.approx(exact.row.values["objective"], rel=1e-5)
    *_, state = islice(iterate(problem, method, W, device=f"{CPU}:float32"), 3)
    types: list[np.dtype[Any]] = []
    mapped(state, "", lambda _, entry: types.append(entry.dtype) if is_on_device(entry) else None)
    assert {one for one in types if one.kind == "f"} == {np.dtype(np.float32)}


@pytest.mark.parametrize("name", get_args(Retraction))
@pytest.mark.parametrize("columns", [1, R])
def test_retractions_have_the_precision_of_their_points(name: str, columns: int) -> None:
    """Agents from near to far, each by another path, and one that is not finite; a condition number
    of 1e3 costs three digits."""
    start = Stiefel(D, columns).random(RNG)
    lengths = np.array([1e-5, 1e-2, 0.1, 0.3, 0.6, 1.0, 3.0, 100.0])
    y = start + lengths[:, None, None] * RNG.standard_normal((len(lengths), D, columns))
    y[-1, 0, 0] = np.nan
    function: Callable[[Any], Any] = named("retraction", name, (name,))
    exact, put = function(y), open_device(f"{CPU}:float32").put(y)
    found = function(put)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.host(), exact, atol=1e-4)
    np.testing.assert_allclose(function(open_device(CPU).put(y)).host(), exact, atol=1e-12)


def test_a_choice_between_arrays_has_the_precision_of_the_device() -> None:
    single = open_device(f"{CPU}:float32").put(np.eye(2))
    for chosen in (
        np.where(single > 0.0, single, np.eye(2)),
        np.where(single > 0.0, np.eye(2), single),
    ):
        assert chosen.dtype == np.float32


def test_a_run_that_diverges_says_so() -> None:
    found = solve(
        PROBLEMS["Gram"](), DRFGT(step_size=10.0, penalty=1.0), RING, device=CPU, iterations=200
    )
    assert found.status == "diverged"
    assert "try" in found.message


def identity(constraint: Any, **more: Any) -> Any:
    return FunctionProblem(lambda i, x: 0.0, lambda i, x: x, constraint, N, **more)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"device": "gpu"},
            "device must be 'cuda', 'cuda:1' or 'torch:cpu', with ':float32' behind it for "
            "single precision, got",
        ),
        ({"device": "cpu"}, "leave it out to compute with NumPy"),
        ({"device": "cuda:99"}, "device 'cuda:99' is not there"),
        (
            {"algorithm": DeEPCA()},
            "DeEPCA does not run on a device: ConjugateGradients, DESTINY, DGD",
        ),
        ({"algorithm": DRFGT(safe=True)}, "safe and growing steps do not run on a device"),
        (
            {"problem": PENCIL, "W": None, "algorithm": RGD(), "channel": "loss:p=0.1"},
            "channel is not for",
        ),
        (
            {
                "problem": GEVP(np.eye(D), csr_array(np.eye(D)), R),
                "algorithm": RGD(metric="euclidean"),
                "W": None,
            },
            "SparseMatrix does not run on a device: give a dense matrix, or leave device out",
        ),
        ({"resume": "nowhere"}, "resume is not for a run on a device"),
        (
            {"stopping": LocalMaximum(1e-3)},
            "LocalMaximum (local_tolerance) is not for a run on a device",
        ),
        (
            {"problem": identity(Stiefel(D, R))},
            "functions of one agent do not run on a device: give functions of all agents, and",
        ),
        (
            {"problem": identity(GeneralizedStiefel(np.eye(D), R), stacked=True)},
            "does not run on a device: Stiefel and Euclidean",
        ),
    ],
)
def test_what_cannot_be_on_a_device_is_refused_in_one_line(
    given: dict[str, Any], said: str
) -> None:
    whole: dict[str, Any] = {
        "problem": PROBLEMS["Gram"](),
        "algorithm": DRFGT(),
        "W": RING,
        "device": CPU,
        "iterations": 5,
    }
    with pytest.raises(ValueError, match=re.escape(said)) as refused:
        solve(**whole | given)
    assert "\n" not in str(refused.value)


def test_the_command_has_the_numbers_of_numpy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (
        "--problem procrustes --dimension 8 --rank 2 --agents 4 --algorithm drfgt "
        "--order combine-then-adapt --step-size constant --iterations 100 --quiet --out"
    )
    assert main([*words.split(), str(tmp_path / "host")]) == 0
    (tmp_path / "run.yaml").write_text("device: torch:cpu\n")
    assert (
        main([*words.split(), str(tmp_path / "device"), "--config", str(tmp_path / "run.yaml")])
        == 0
    )
    host, device = (np.load(tmp_path / name / "final.npz")["x"] for name in ("host", "device"))
    assert np.linalg.norm(device - host) <= 1e-12 * np.linalg.norm(host)
    assert (
        json.loads((tmp_path / "device" / "summary.json").read_text())["versions"]["torch"]
        == torch.__version__
    )
    assert "device: torch:cpu" in (tmp_path / "device" / "config.yaml").read_text()
    assert (
        main([*words.split(), str(tmp_path / "other"), "--device", CPU, "--checkpoint-every", "5"])
        == 2
    )
    assert main([*words.split(), str(tmp_path / "other"), "--device", "torch:tpu"]) == 2
    assert not (tmp_path / "other").exists()
    assert "checkpoint_every is not for a run on a device" in capsys.readouterr().err


def test_the_page_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    """Its numbers to two digits, but the last one of each in single precision, which is a rounding
    error."""
    code, said = re.search(
        r"^```python\n(.*?)^```\n\n^```\n(.*?)^```$",
        (ROOT / "docs" / "devices.md").read_text(),
        re.S | re.M,
    ).groups()  # type: ignore[union-attr]
    exec(code, {})
    found, expected = (
        re.findall(r"(\S+): gradient norm (\S+), feasibility (\S+)", text)
        for text in (capsys.readouterr().out, said)
    )
    assert found[:2] == expected[:2]
    assert [name for name, *_ in found] == [name for name, *_ in expected]
    assert np.array(found[2][1:], dtype=float) == pytest.approx(
        np.array(expected[2][1:], dtype=float), rel=1.0
    )
