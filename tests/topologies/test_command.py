"""The command prints the numbers of the library and explains mistakes on the error stream; its page
runs as written."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import topologies
from topologies.command import command, main
from topologies.line import progress

ROOT = Path(topologies.__file__).parent.parent
Capsys = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def rows(text: str) -> dict[str, list[str]]:
    """The cells of each row of a printed table, by the first of them."""
    cells = [re.split(r"  +", line.strip()) for line in text.partition("\n\n")[0].splitlines()[2:]]
    return {row[0]: row[1:] for row in cells}


def printed_numbers(text: str) -> dict[str, float]:
    return {
        name: float(cells[0])
        for name, cells in rows(text).items()
        if re.fullmatch(r"[-+.e\d]+", cells[0])
    }


def test_measures(capsys: Capsys) -> None:
    assert main("ring:10", weights="metropolis") == 0
    printed = printed_numbers(capsys.readouterr().out)
    W = topologies.metropolis_weights(topologies.ring(10))
    score = topologies.tracking_score(W, 1.0)
    expected = {
        "sigma": topologies.spectrum(W).sigma,
        "lambda_min": -1 / 3,
        "rounds per 1e-6": 102,
        "diameter": 5,
        "tracking rate": score.rate,
        "largest step": score.largest_step,
        "Kemeny constant": 24.75,
    }
    assert {name: printed[name] for name in expected} == pytest.approx(expected, rel=1e-8)


@pytest.mark.slow
def test_comparison_has_every_rule_and_the_optimised_one_is_best(capsys: Capsys) -> None:
    assert main("ring:8", compare=True, order="adapt-then-combine") == 0
    out = capsys.readouterr().out
    printed = rows(out)
    assert set(printed) == {
        name for name in topologies.available_weights() if "auto" not in name
    } | {"tracking"}
    iterations = {name: float(cells[-1]) for name, cells in printed.items() if cells[-1] != "-"}
    assert min(iterations, key=lambda name: iterations[name]) == "tracking"
    assert "local-degree: W has the eigenvalue -1" in out


@pytest.mark.slow
def test_tables_fit_80_columns_and_cut_no_number(
    capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {}
    for columns in ("200", "80", "40"):
        monkeypatch.setenv("COLUMNS", columns)
        for words in (["ring:4", "--compare"], ["ring:10"], ["one_peer_exponential:16"]):
            assert command(words) == 0
            texts[columns, words[0]] = capsys.readouterr().out
    for graph in ("ring:4", "ring:10", "one_peer_exponential:16"):
        assert max(map(len, texts["80", graph].splitlines())) <= 80
        numbers = [
            re.findall(r"[-+]?\d[\d.e+-]*", texts[columns, graph])
            for columns in ("200", "80", "40")
        ]
        assert numbers[0] == numbers[1] == numbers[2]


@pytest.mark.parametrize(
    "rule", ["metropolis", "best-constant", pytest.param("fdla", marks=pytest.mark.slow)]
)
def test_measures_do_not_depend_on_the_numbers_of_the_agents(
    rule: str, tmp_path: Path, capsys: Capsys
) -> None:
    """Of a graph without symmetries; curvatures that go by the numbers say so."""
    matrix = topologies.adjacency(topologies.florentine_families()).toarray()
    found = []
    for seed in (None, 0, 1):
        order = np.arange(15) if seed is None else np.random.default_rng(seed).permutation(15)
        np.save(tmp_path / "graph.npy", matrix[order][:, order])
        assert main(f"file:{tmp_path / 'graph.npy'}", weights=rule) == 0
        found.append(printed_numbers(capsys.readouterr().out))
    assert len(found[0]) >= 11
    assert found[1] == pytest.approx(found[0], rel=1e-7)
    assert found[2] == pytest.approx(found[0], rel=1e-7)
    assert main("ring:5", curvatures=(0.2, 1.8)) == 0
    assert "curvatures 0.2 to 1.8 by the agents' numbers" in capsys.readouterr().out


def test_attributes_that_are_not_read_are_named(tmp_path: Path, capsys: Capsys) -> None:
    (tmp_path / "a.csv").write_text(
        "from,to,km\nBerlin,Hamburg,289\nHamburg,Bremen,126\nBremen,Berlin,400\n"
    )
    (tmp_path / "b.txt").write_text("a b 3\nb c 2\nc a 1\n")
    np.save(tmp_path / "c.npy", 2.0 * topologies.adjacency(topologies.ring(4)).toarray())
    np.save(tmp_path / "d.npy", topologies.adjacency(topologies.ring(4)).toarray())
    for graph, name in (
        ("file:a.csv", "km"),
        ("digraph:a.csv", "km"),
        ("file:b.txt", "column 3"),
        ("file:c.npy", "weight"),
    ):
        kind, _, path = graph.partition(":")
        assert main(f"{kind}:{tmp_path / path}") == 0
        assert (
            f"edge attribute {name} is not read: all edges count the same\n"
            in capsys.readouterr().out
        )
    assert main(f"file:{tmp_path / 'd.npy'}") == 0
    assert "is not read" not in capsys.readouterr().out


def test_edge_weights_are_conductances(tmp_path: Path, capsys: Capsys) -> None:
    lines = tmp_path / "lines.csv"
    lines.write_text("from,to,km,lanes\nBern,Thun,30,2\nThun,Brig,60,2\nBrig,Bern,80,2\n")
    assert main(f"file:{lines}", edge_weight="1/km") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("3 agents, metropolis (conductance 1/km) weights\n")
    assert "edge attribute lanes is not read" in printed
    assert "attribute km" not in printed
    words = " ".join(printed.split())
    assert (
        "algebraic connectivity 3 second smallest eigenvalue of the Laplacian, all edges" in words
    )
    W = topologies.conductance_weights(topologies.graph_from_file(lines), "1/km")
    assert f"{topologies.spectrum(W).lambda_2:.9g}" in printed
    # equal conductances, in a file
    graph = topologies.graph_from_file(lines)
    equal = topologies.conductance_weights(graph, "lanes").toarray()
    np.testing.assert_array_equal(equal, topologies.metropolis_weights(graph).toarray())


@pytest.mark.parametrize(
    ("graph", "more", "message"),
    [
        ("directed_ring:5", {}, "--edge-weight has no effect with a directed graph"),
        ("random_matching:6", {}, "--edge-weight has no effect with a sequence of graphs"),
        ("ring:5", {"compare": True}, "--edge-weight has no effect with compare"),
        ("ring:5", {"weights": "fmmc"}, "--weights has no effect with edge-weight"),
        (
            "ring:5",
            {},
            "every edge needs the attribute 'km', and 0 - 1 lacks it; the edges have none",
        ),
    ],
)
def test_edge_weights_without_an_effect(
    graph: str, more: dict[str, Any], message: str, capsys: Capsys
) -> None:
    assert main(graph, edge_weight="km", **more) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_long_computations_are_named(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    for name in ("PATIENCE", "EVERY", "TICK"):
        monkeypatch.setattr(progress, name, 0.0)
    assert command(["karate_club", "--weights", "fmmc"]) == 0
    printed = capsys.readouterr()
    assert re.search(
        r"^computing: fastest weights of 34 agents and 78 edges \(\d+ s\)$",
        printed.err,
        re.MULTILINE,
    )
    assert "computing" not in printed.out
    assert progress.LOG.handlers == []


def test_sequence(capsys: Capsys) -> None:
    assert main("link_failures:p=0.0@ring:6") == 0
    printed = rows(capsys.readouterr().out)
    sigma = topologies.spectrum(topologies.metropolis_weights(topologies.ring(6))).sigma
    assert float(printed["contraction over 6"][0]) == pytest.approx(sigma**6, rel=1e-5)
    assert printed["distinct matrices"][0] == "1"


@pytest.mark.slow
def test_figures_are_written_with_fonts_that_publishers_take(tmp_path: Path) -> None:
    assert main("florentine_families", plot=tmp_path / "graph.svg") == 0
    assert (tmp_path / "graph.svg").read_text().startswith("<?xml")
    assert main("ring:5", plot=tmp_path / "graph.pdf") == 0
    drawn: Any = topologies.draw_spectrum([1.0, 0.5]).figure
    drawn.savefig(tmp_path / "drawn.pdf")
    for name in ("graph.pdf", "drawn.pdf"):
        content = (tmp_path / name).read_bytes()
        assert b"/CIDFontType2" in content
        assert b"/Type3" not in content


@pytest.mark.parametrize(
    ("graph", "options", "said"),
    [
        (
            "one_peer_exponential:16",
            {"plot": Path("x.png")},
            "--plot has no effect with a sequence of graphs",
        ),
        (
            "one_peer_exponential:16",
            {"weights": "metropolis"},
            "has its own weights, and not 'metropolis'",
        ),
        ("ring:6", {"compare": True, "plot": Path("x.png")}, "--plot has no effect with compare"),
        (
            "ring:6",
            {"weights": "metropolis", "self_weight": 0.5},
            "--self-weight has no effect with metropolis weights",
        ),
        (
            "ring:200",
            {"curvatures": (0.1, 1.0)},
            "--curvatures has no effect with more than 100 agents",
        ),
        ("ring:6", {"plot": Path("missing/x.png")}, "x.png: No such file or directory"),
        ("ring:6", {"plot": Path("x.nothing")}, "must end in .png, .svg or .pdf"),
        (
            "my/lesmis.graphml",
            {},
            "for a file write file:my/lesmis.graphml, or digraph:my/lesmis.graphml",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_in_a_line_without_a_table(
    graph: str,
    options: dict[str, Any],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capsys,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(graph, **options) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert said in printed.err
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_missing_is_named(capsys: Capsys, tmp_path: Path) -> None:
    (tmp_path / "roads.txt").touch()
    for file, rest in (
        ("no/such.txt", ", there is no folder no seen from .*"),
        (f"{tmp_path}/raods.txt", ".*; did you mean 'roads.txt'\\?"),
    ):
        assert command([f"file:{file}"]) == 2
        assert re.fullmatch(
            f"decentorth graph: no such file: {file}{rest}\n", capsys.readouterr().err
        )


def test_missing_matplotlib_is_named_before_anything_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main("no_graph:6", plot=tmp_path / "x.png") == 2
    said = (
        "decentorth graph: figures need matplotlib: pip install matplotlib, or leave --plot out\n"
    )
    assert capsys.readouterr() == ("", said)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("flag", ["--agents", "--seed"])
def test_counts_are_whole_numbers(flag: str, capsys: Capsys) -> None:
    agents = [] if flag == "--agents" else ["--agents", "10"]
    assert command(["ring", *agents, flag, "1e1"]) == 0
    assert capsys.readouterr().out.startswith("10 agents")
    assert command(["ring", *agents, flag, "10.5"]) == 2
    assert f"{flag}: {flag[2:]} must be a whole number" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["--weights", "uniform"]])
def test_no_graph_is_answered_with_what_to_type(words: list[str], capsys: Capsys) -> None:
    assert command(words) == 2
    assert capsys.readouterr() == (
        "",
        "decentorth graph: give a graph, as in: decentorth graph ring:10\n",
    )


def test_a_closed_output_is_one_line_and_a_graph_of_one_agent_none() -> None:
    line = f"{sys.executable} -m topologies ring:1"
    closed, whole = (
        subprocess.run(
            ["sh", "-c", words],
            capture_output=True,
            text=True,
            check=False,
            env={"PYTHONPATH": str(ROOT)},
        )
        for words in (f"{line} >&-", line)
    )
    assert closed.returncode == 1
    assert (
        closed.stderr == "decentorth graph: cannot write to standard output (Bad file descriptor)\n"
    )
    assert (whole.returncode, whole.stderr) == (0, "")


TEXT = (ROOT / "docs" / "topologies.md").read_text(encoding="utf-8")


@pytest.mark.slow_cases(
    "python -m topologies ring:10 --compare",
    "python -m topologies ring:10 --weights metropolis --plot ring.png",
)
@pytest.mark.parametrize(
    "line",
    [line for block in re.findall(r"```\n(.*?)```", TEXT, re.S) for line in block.splitlines()],
)
def test_commands_of_the_page_run(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = shlex.split(line)
    assert words[:3] == ["python", "-m", "topologies"]
    assert command(words[3:]) == 0
    for name in re.findall(r"--plot (\S+)", line):
        assert (tmp_path / name).stat().st_size > 0


def test_names_on_the_page_exist() -> None:
    assert [name for name in re.findall(r"`(\w+)\(", TEXT) if not hasattr(topologies, name)] == []
    for name in re.findall(
        r"`((?:random_matching|random_gossip|link_failures|periodic|one_peer_exponential)[:@][^`]+)`",
        TEXT,
    ):
        assert topologies.sequence_from_name(name).n == (
            20 if "4x5" in name else 16 if "16" in name else 10
        )
    rules = re.findall(r"names another rule: (.*?), each also", TEXT, re.S)[0]
    assert {*re.findall(r"`([a-z-]+)`", rules)} <= {*topologies.available_weights()}
