"""Gradients by JAX and autograd: those of formulas, with the same bits for any part of the
agents."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import topologies as tp
from decentorth import DRSGD, solve
from decentorth.problems import PCA, from_function
from decentorth.protocols import Array
from decentorth.sets import Euclidean, Flat, Stiefel

N, M, D, R = 7, 12, 9, 3
DATA = np.random.default_rng(0).standard_normal((N, M, D))
POINTS = np.random.default_rng(1).standard_normal((N, D, R))


def pca(a: Any, x: Any) -> Any:
    return -((a @ x) ** 2).sum() / (2.0 * a.shape[0])


def made(library: Any, f: Any = pca, **more: Any) -> Any:
    return from_function(f, Stiefel(D, R), backend=library, **{"data": DATA, **more})


@pytest.mark.slow_cases("jax-numbers", "jax-unequal")
@pytest.mark.parametrize(
    ("library", "given"),
    [
        *(("autograd", given) for given in ("stacked", "unequal", "numbers")),
        ("jax", "unequal"),
        ("jax", "numbers"),
    ],
)
def test_gradients_are_those_of_the_formula(library: str, given: str) -> None:
    ends = [M - 2 * (i % 3) if given == "unequal" else M for i in range(N)]
    parts = [a[:end] for a, end in zip(DATA, ends, strict=True)]
    if given == "numbers":
        problem = made(library, lambda i, x: pca(parts[i], x), data=None, n_agents=N)
    else:
        problem = made(library, data=DATA if given == "stacked" else parts)
    exact = PCA(parts, R, weights="agents")
    np.testing.assert_allclose(problem.value(POINTS), exact.value(POINTS), rtol=1e-13)
    np.testing.assert_allclose(problem.gradient(POINTS), exact.gradient(POINTS), atol=1e-13)
    assert problem.gradient(POINTS).flags.writeable
    assert problem.check_gradient().right
    if given != "numbers":
        batch = np.random.default_rng(2).integers(0, np.array(ends)[:, None], (N, 4))
        np.testing.assert_allclose(
            problem.gradient_on(POINTS, batch), exact.gradient_on(POINTS, batch), atol=1e-13
        )


def network(a: Any, x: Any) -> Any:
    import jax.numpy as jnp

    return jnp.mean(jnp.tanh(a @ x) ** 2) + jnp.linalg.norm(x) + jnp.exp(jnp.sum(a) / 100.0)


@pytest.mark.slow_cases("jax")
@pytest.mark.parametrize("library", ["jax", "autograd"])
def test_every_part_has_the_bits_of_the_whole(library: str) -> None:
    problem = made(library, network if library == "jax" else pca)
    batch = np.random.default_rng(2).integers(0, M, (N, 3))
    whole = problem.value(POINTS), problem.gradient(POINTS), problem.gradient_on(POINTS, batch)
    for own in (slice(0, 1), slice(2, 4), slice(1, 7), slice(6, 7)):
        part = problem.restrict(own)
        found = (
            part.value(POINTS[own]),
            part.gradient(POINTS[own]),
            part.gradient_on(POINTS[own], batch[own]),
        )
        assert [a.tobytes() for a in found] == [a[own].tobytes() for a in whole]


@pytest.mark.slow
def test_stacked_data_are_not_copied_and_float32_gets_a_warning() -> None:
    problem = made("autograd")
    assert np.shares_memory(problem._own.items[0][0], DATA)
    import jax.numpy as jnp

    with pytest.warns(UserWarning, match="f is computed in float32, not float64"):
        made("jax", lambda a, x: pca(jnp.float32(a), jnp.float32(x)))


@pytest.mark.slow
def test_auto_is_the_library_that_can_differentiate_the_function() -> None:
    import autograd.numpy as np_
    import jax.numpy as jnp

    assert (
        made("jax", lambda a, x: jnp.sum(jnp.tanh(a @ x))).__class__.__name__
        == "DifferentiatedProblem"
    )
    for f, name in (
        (lambda a, x: np_.sum(np_.tanh(np_.dot(a, x))), "autograd"),
        (lambda a, x: jnp.sum(jnp.tanh(a @ x)), "jax"),
    ):
        problem: Any = from_function(f, Stiefel(D, R), data=DATA)
        assert problem._library.name == name


def test_own_gradients_need_no_library_and_mini_batches_run() -> None:
    problem = from_function(pca, Stiefel(D, R), data=DATA, gradient=lambda a, x: -a.T @ (a @ x) / M)
    np.testing.assert_allclose(problem.gradient(POINTS), PCA(DATA, R).gradient(POINTS), atol=1e-13)
    given: Any = {"iterations": 5, "seed": 3}
    W, method = tp.metropolis_weights(tp.ring(N)), DRSGD(step_size=0.1, batch_size=2)
    mine, theirs = (
        solve(p, method, W, x0=problem.start(0), **given).x
        for p in (made("autograd"), PCA(DATA, R))
    )
    np.testing.assert_allclose(mine, theirs, atol=1e-12)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (
            {"backend": "tensorflow"},
            ValueError,
            "backend must be 'auto', 'jax', 'torch', 'autograd', got 'tensorflow'",
        ),
        (
            {"data": None, "n_agents": [1, 2]},
            TypeError,
            "n_agents must be a whole number, got [1, 2]",
        ),
        ({"f": 3.0}, TypeError, "f must be a function f(agent, x), got float"),
        (
            {"f": lambda a, x: a @ x, "backend": "autograd"},
            TypeError,
            "f cannot be differentiated (autograd: ",
        ),
        (
            {"data": [DATA[0], DATA[1, :0]], "backend": "autograd"},
            ValueError,
            "agent 1 must have equally many rows, at least one",
        ),
        (
            {"data": [DATA[0], {"a": DATA[1]}]},
            ValueError,
            "the data of agent 1 must be an array of real numbers whose rows are",
        ),
        (
            {"data": [DATA[0], (DATA[1], DATA[2])]},
            ValueError,
            "agents 1 and 0 must have equally many arrays, got 2 and 1",
        ),
        (
            {"data": [np.ma.masked_less(DATA[0], 0.0)]},
            ValueError,
            "or a tuple of them, got masked entries",
        ),
    ],
)
def test_what_cannot_be_is_refused(
    given: dict[str, Any], error: type[Exception], message: str
) -> None:
    words: dict[str, Any] = {"f": pca, "set": Stiefel(D, R), "data": DATA, **given}
    with pytest.raises(error, match=re.escape(message)):
        from_function(**words)


def test_flat_products_have_the_fields_of_their_parts() -> None:
    parts: Any = (Stiefel(5, 2), Stiefel(4, 3), Euclidean(6, 1))
    flat: Any = Flat(*parts)
    rng = np.random.default_rng(0)
    xs, gs = ([rng.standard_normal((N, *part.shape)) for part in parts] for _ in range(2))

    def joined(found: list[Array]) -> Array:
        return np.concatenate([one.reshape(N, -1, 1) for one in found], axis=1)

    x, g, penalty = joined(xs), joined(gs), rng.random(N) + 0.1
    assert all(a.tobytes() == b.tobytes() for a, b in zip(flat.split(x), xs, strict=True))
    for name, more in (
        ("landing", (penalty,)),
        ("tangent", ()),
        ("retract", ()),
        ("dissolved", (penalty,)),
    ):
        expected = [
            getattr(part, name)(a, b, *more) for part, a, b in zip(parts, xs, gs, strict=True)
        ]
        np.testing.assert_allclose(getattr(flat, name)(x, g, *more), joined(expected), atol=1e-13)
    squares = [part.feasibility(a) ** 2 for part, a in zip(parts, xs, strict=True)]
    np.testing.assert_allclose(flat.feasibility(x), np.sqrt(sum(squares)), rtol=1e-13)
    assert flat.feasibility(flat.project(x)).max() < 1e-12


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: None, "None: does the function end with `return`?"),
        (lambda f: {"loss": f}, "dict: return the number itself"),
        (lambda f: f.reshape(1), "an array of shape (1,): return its sum, its mean or one entry"),
        (lambda f: f + 1j, "dtype complex128: return its real part if that is meant"),
        (lambda f: 3, "3, which does not depend on x: return 3.0 if that is meant"),
    ],
    ids=["None", "dict", "(1,)", "complex", "int"],
)
@pytest.mark.parametrize("library", [pytest.param("jax", marks=pytest.mark.slow), "autograd"])
def test_an_objective_that_is_not_one_number_is_refused_in_one_line(
    library: str, change: Any, words: str
) -> None:
    """When the problem is made, with another library's advice only where it would help; or later,
    with the agent's number."""
    said = f"must be one real number, got {words}"
    with pytest.raises(TypeError, match=re.escape(f"({library}: f of agent 0 {said})")) as refused:
        made(library, lambda a, x: change(pca(a, x)))
    assert "\n" not in str(refused.value)
    assert "write it with one library" not in str(refused.value)
    if library == "jax":
        return
    late: list[bool] = []
    problem = made(
        "autograd",
        lambda i, x: change(pca(DATA[i], x)) if late and i == 4 else pca(DATA[i], x),
        data=None,
        n_agents=N,
    )
    problem.gradient(POINTS)
    late.append(True)
    for asked in (
        problem.value,
        problem.gradient,
        lambda x: problem.restrict(slice(3, 6)).value(x[3:6]),
    ):
        with pytest.raises(TypeError, match=f"^{re.escape(f'f of agent 4 {said}')}$"):
            asked(POINTS)


def test_a_gradient_of_another_shape_names_its_agent_and_so_does_any_error() -> None:
    from autograd.extend import defvjp, primitive

    late: list[bool] = []
    square = primitive(lambda x: float((x**2).sum()))
    defvjp(square, lambda value, x: lambda g: 2.0 * g * (x.T if late else x))
    problem = made("autograd", lambda i, x: square(x), data=None, n_agents=N)
    fails = made(
        "autograd", lambda i, x: square(x) / (1 - (bool(late) and i == 5)), data=None, n_agents=N
    )
    np.testing.assert_allclose(problem.gradient(POINTS), 2.0 * POINTS)
    late.append(True)
    words = (
        f"the gradient of f of agent 0 must be real and have shape {(D, R)}, got float64 of "
        f"shape {(R, D)}"
    )
    with pytest.raises(TypeError, match=re.escape(words)):
        problem.gradient(POINTS)
    with pytest.raises(ZeroDivisionError) as raised:
        fails.value(POINTS)
    assert raised.value.__notes__ == ["raised by f of agent 5"]


@pytest.mark.parametrize("gradient", [None, lambda a, x: 2.0 * a.T @ (a @ x)])
def test_data_of_another_width_name_their_agent(gradient: Any) -> None:
    data = [np.ones((4, D)), np.ones((4, D)), np.ones((4, D + 1))]

    def f(a: Any, x: Any) -> Any:
        return ((a @ x) ** 2).sum()

    def value() -> Array:
        problem = from_function(f, Stiefel(D, R), gradient=gradient, backend="autograd", data=data)
        return problem.value(np.ones((3, D, R)))

    with pytest.raises(ValueError, match="mismatch in its core dimension") as raised:
        value()
    assert raised.value.__notes__[0] in ("raised by f of agent 2", "raised by value of agent 2")


def test_what_is_no_set_is_named() -> None:
    with pytest.raises(TypeError, match=r"constraint must be a set such as .*, got \(5, 2\)"):
        from_function(lambda i, x: (x**2).sum(), (5, 2), 3, backend="autograd")  # type: ignore[type-var]


@pytest.mark.parametrize("library", [pytest.param("jax", marks=pytest.mark.slow), "autograd"])
def test_a_single_agent_with_more_samples_than_all_before(library: str) -> None:
    parts = [*[DATA[0]] * 9, np.concatenate(DATA[:2])]
    problem, points = made(library, data=parts), np.repeat(POINTS[:1], 10, axis=0)
    np.testing.assert_allclose(
        problem.gradient(points), PCA(parts, R, weights="agents").gradient(points), atol=1e-13
    )
