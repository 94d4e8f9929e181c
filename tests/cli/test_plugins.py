"""Methods and problems of one's own: by plugins, by entry points, and as the scaffold writes
them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import decentorth as do
import topologies as tp
from decentorth import registry
from decentorth.commands.new.command import main as scaffold
from decentorth.commands.run.command import main
from decentorth.lab.compare.command import main as compare
from decentorth.lab.theory.command import main as theory
from tests.support.mpi import ROOT, run_ranks

SMALL = (
    "--problem pca --data synthetic --dimension 6 --rank 2 --samples 20 --agents 4 --iterations 12"
).split()

pytestmark = pytest.mark.usefixtures("folder", "registries")


@pytest.fixture
def registries(monkeypatch: pytest.MonkeyPatch) -> None:
    for entries in (registry.algorithms, registry.problems):
        monkeypatch.setattr(entries, "_entries", {**entries._entries})


def written(name: str, kind: str = "algorithm") -> str:
    assert scaffold([kind, name]) == 0
    return f"{name}.py"


def digest(folder: str) -> str:
    found = re.search(
        '"iterates_sha256": "([0-9a-f]{64})"', Path(folder, "summary.json").read_text()
    )
    assert found is not None
    return found[1]


def in_a_shell(lines: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    return subprocess.run(
        ["bash", "-ec", lines], capture_output=True, text=True, env=environment, check=False
    )


@pytest.mark.slow
def test_the_recipe_of_contributing_works_as_it_is_written() -> None:
    block = re.search("```sh\n(decentorth new.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.S)
    assert block is not None
    done = in_a_shell(block[1])
    assert done.returncode == 0, done.stderr
    assert "2 passed" in done.stdout
    assert "Stopped at the limit of 100 iterations" in done.stdout
    assert re.search(r"heavy_ball.*\n(.*\n)*.*drfgt", done.stdout.partition("Stopped at")[2])


@pytest.mark.slow
def test_the_problem_of_the_scaffold_passes_its_own_tests() -> None:
    written("trace_sum", "problem")
    done = in_a_shell("python -m pytest -q test_trace_sum.py")
    assert (done.returncode, "4 passed" in done.stdout) == (0, True), done.stdout
    assert (
        main(["--plugin", "trace_sum.py", "--problem", "trace_sum", "--iterations", "3", "--quiet"])
        == 0
    )


def test_a_plugin_has_the_bits_of_its_class_and_goes_on_only_when_it_is_named_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = written("own_bits")
    words = [*SMALL, "--algorithm", "own_bits", "--step-size", "0.01", "--quiet"]
    assert main([*words, "--plugin", path, "--out", "a", "--checkpoint-every", "6"]) == 0
    problem = do.problems.PCASettings(data="synthetic", dimension=6, rank=2, samples=20).problem(
        4, 0
    )
    W = tp.metropolis_weights(tp.ring(4))
    result = do.solve(problem, registry.load_plugin(path).OwnBits(step_size=0.01), W, iterations=12)
    assert digest("a") == result.iterates_sha256
    capsys.readouterr()
    for named, words in (
        ("a/config.yaml", ["--config", "a/config.yaml"]),
        ("the resumed run", ["--resume", "a"]),
    ):
        assert main([*words, "--quiet"]) == 2
        asked = (
            f"{named} names a plugin, but files are never executed without a flag: if you trust "
            "it, give --plugin own_bits.py"
        )
        assert asked in capsys.readouterr().err
    assert main(["--resume", "a", "--plugin", path, "--iterations", "20", "--quiet"]) == 0
    assert (
        main(
            [
                "--config",
                "a/config.yaml",
                "--plugin",
                path,
                "--iterations",
                "20",
                "--out",
                "b",
                "--quiet",
            ]
        )
        == 0
    )
    assert digest("a") == digest("b")


def test_a_file_that_is_read_executes_nothing() -> None:
    Path("evil.py").write_text(f"open({str(Path('executed').resolve())!r}, 'w').close()\n")
    Path("c.yaml").write_text("plugin: [evil.py]\n")
    for command in (main, compare, theory):
        assert command(["--config", "c.yaml"]) == 2
        assert command(["--config", "c.yaml", "--help"]) == 2
    assert not Path("executed").exists()
    assert main(["--plugin", "evil.py", "--help"]) == 0
    assert Path("executed").exists()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("x = 1\ny = x +\n", r"bad\.py, line 2: SyntaxError"),
        (
            "\n\nimport nothing_like_it\n",
            r"bad\.py, line 3: ModuleNotFoundError: No module named 'nothing_like_it'",
        ),
        ("def f():\n    raise ValueError('no')\nf()\n", r"bad\.py, line 2: ValueError: no"),
        ("", r"there is no file .*bad\.py: name a plugin's file, or make one with decentorth new"),
    ],
)
def test_a_plugin_that_fails_is_refused_with_its_line(
    code: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if code:
        Path("bad.py").write_text(code)
    assert main(["--plugin", "bad.py", *SMALL]) == 2
    out, err = capsys.readouterr()
    assert (out, bool(re.fullmatch(rf"decentorth: {message}.*\n", err))) == ("", True), err


@pytest.mark.slow
def test_worker_processes_have_the_plugin_and_a_changed_one_is_run_anew() -> None:
    pytest.importorskip("joblib")
    path = written("own_workers")
    words = [
        *SMALL,
        "--plugin",
        path,
        "--algorithms",
        "own_workers,drfgt",
        "--trials",
        "2",
        "--no-plot",
        "--out",
        "c",
        "--quiet",
    ]

    def kept(workers: str) -> list[str]:
        assert compare([*words, "--workers", workers]) == 0
        return sorted(place.name for place in Path("c/runs").iterdir())

    first = kept("2")
    assert [name.partition("-")[0] for name in first] == [
        "drfgt",
        "drfgt",
        "ownworkers",
        "ownworkers",
    ]
    assert kept("1") == first
    os.utime(path, (0, 0))
    assert len(kept("1")) > len(first)


@pytest.mark.ranks
def test_ranks_have_the_plugin_with_the_same_bits() -> None:
    path = written("own_ranks")
    words = ["--plugin", path, *SMALL, "--algorithm", "own_ranks", "--quiet", "--out"]
    assert main([*words, "alone"]) == 0
    words[1] = str(Path(path).resolve())
    done = run_ranks(2, ["-m", "decentorth.run", *words, str(Path("ranks").resolve())])
    assert done.returncode == 0, done.stderr
    assert digest("alone") == digest("ranks")


def test_entry_points_of_installed_packages_are_found_by_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("installed_method.py").write_text(
        Path(written("own_installed")).read_text().replace("@register", "# @register")
    )
    Path("m-1.0.dist-info").mkdir()
    Path("m-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: m\nVersion: 1.0\n")
    Path("m-1.0.dist-info/entry_points.txt").write_text(
        "[decentorth.algorithms]\nown-installed = installed_method:OwnInstalled\ngone = "
        "nowhere:Gone\n"
    )
    monkeypatch.syspath_prepend(folder)
    methods = registry.Registry("algorithm", lambda: {"drfgt": lambda: do.DRFGT})
    assert methods.get("drfgt") is do.DRFGT
    assert "_installed" not in vars(methods), (
        "installed packages are not searched for a built-in name"
    )
    assert methods.names() == ("drfgt", "gone", "own_installed")
    assert "installed_method" not in sys.modules, "nothing is imported for a list of names"
    assert methods.get("own-installed").__name__ == "OwnInstalled"
    with pytest.raises(
        ValueError,
        match="'gone' of the installed package m cannot be imported: No module named 'nowhere'",
    ):
        methods.get("gone")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("algorithm 3x", "NAME must be a Python name in lower case, as heavy_ball, got '3x'"),
        ("algorithm test_x", "pytest takes test_x.py for tests"),
        ("algorithm drfgt", "the algorithm 'drfgt' exists already"),
        ("algorithm numpy", "numpy.py would hide it"),
        ("algorithm taken", "test_taken.py is there already, and nothing is overwritten"),
        ("", "give a kind and a name"),
    ],
)
def test_the_scaffold_refuses_and_writes_nothing(
    words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("test_taken.py").write_text("")
    assert scaffold(words.split()) == 2
    assert message in capsys.readouterr().err
    assert [place.name for place in Path().iterdir()] == ["test_taken.py"]
