"""``python -m decentorth theory``: its table against the functions, and what it refuses."""

from __future__ import annotations

import math

import pytest

from decentorth import registry
from decentorth.lab.theory.command import main
from decentorth.lab.theory.constants import check_problem
from decentorth.theory import contraction_limit, stable_step
from tests.support.building import built

SMALL = ["--dimension", "6", "--rank", "2", "--rows", "4", "--agents", "4"]


def numbers(printed: str) -> dict[str, float]:
    rows = [line for line in printed.splitlines() if line[:1].strip() and len(line) > 26]
    found = {}
    for row in rows[1:]:
        name, number = row[:15].strip(), row[15:26].strip()
        try:
            found[name] = float(number)
        except ValueError:
            continue
    return found


def test_table_for_a_given_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(
            [*SMALL, "--topology", "ring", "--step-size", "1e-3", "--penalty", "5", "--eps", "0.25"]
        )
        == 0
    )
    printed = capsys.readouterr().out
    found = numbers(printed)
    assert (found["lambda"], found["eps"], found["sigma_W"], found["practical"]) == (
        5.0,
        0.25,
        0.3333,
        1e-3,
    )
    sigma = 1 / 3
    assert found["alpha_stable"] == pytest.approx(stable_step(sigma, found["L'"]), rel=1e-3)
    assert found["alpha_limit"] == pytest.approx(contraction_limit(sigma, found["L'"]), rel=1e-3)
    assert found["guaranteed"] == min(
        found[name] for name in ("alpha_safe", "alpha_stable", "alpha_IV.7", "alpha_VI.8")
    )
    assert found["nu"] == pytest.approx(5.0 * found["gamma"], rel=1e-3)
    assert f"{1e-3 / found['guaranteed']:.2g} times the guaranteed, " in printed


def test_no_arguments_mean_the_published_setting(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    printed = capsys.readouterr().out
    assert "the published step" in printed
    assert numbers(printed)["sigma_W"] == pytest.approx(0.8 + 0.2 * math.cos(math.pi / 5), rel=1e-3)


def test_bounds_beside_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main([*SMALL, "--topology", "complete", "--weights", "metropolis", "--measure", "30"]) == 0
    )
    practical, guaranteed = capsys.readouterr().out.split("a run of 30 iterations")[1:]
    assert "no bound holds" in practical
    assert "bound" in guaranteed
    assert "no bound" not in guaranteed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--eps", "0.75"], "eps must be above 0 and below 0.75, got 0.75"),
        (["--algorithm", "landing", "--agents", "1"], "paper 004 is about drfgt, not landing"),
        (
            ["--topology", "one_peer_exponential", "--agents", "8"],
            "a time-varying network: take a graph, such as --topology ring",
        ),
        (
            [
                "--problem",
                "rsr",
                "--dimension",
                "9",
                "--rank",
                "3",
                "--inliers",
                "60",
                "--outliers",
                "40",
            ],
            "is not smooth: take the",
        ),
        (
            ["--problem", "gevp", "--dimension", "12", "--rank", "2"],
            "GEVP is on St_B(2, 12): take the problem procrustes, pca,",
        ),
        (
            ["--problem", "hevp", "--agents", "1"],
            "smooth objectives on the Stiefel manifold, and HEVP is on J(",
        ),
    ],
)
def test_bad_input_is_refused_with_the_reason(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err


@pytest.mark.parametrize("name", registry.problems.names())
def test_a_problem_is_taken_if_it_is_smooth_and_on_the_stiefel_manifold(name: str) -> None:
    """Those that are taken are those that the message names."""
    single = name in ("lda", "hevp", "hspp", "ultrae")
    problem = built(registry.problems.get(name)().problem(1 if single else 2, 0))
    if name in ("procrustes", "pca", "ica", "matrix_completion"):
        check_problem(problem)
    else:
        with pytest.raises(
            ValueError,
            match="take the problem procrustes, pca, ica, matrix_completion, or one of your own",
        ):
            check_problem(problem)
