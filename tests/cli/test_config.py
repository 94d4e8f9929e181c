"""Settings: a fixed point through files, flags over file over default, and what is said when
something does not fit."""

from __future__ import annotations

import dataclasses
import math
import os
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from decentorth import registry
from decentorth.algorithms.common.schedules import Constant, Diminishing, Horizon
from decentorth.commands.line import wiring
from decentorth.commands.line.config import Command, Configuration
from decentorth.commands.line.config_files import InputError, load, read_value
from decentorth.commands.line.form import config_bytes
from decentorth.commands.line.help import help_of
from decentorth.commands.line.shell import read_configuration
from decentorth.lab.compare.command import CompareForm
from decentorth.lab.theory.command import TheoryForm
from decentorth.network import Network
from decentorth.network.transport.communicator import SerialCommunicator
from decentorth.problems import PCASettings
from decentorth.running.checkpoint import interval
from decentorth.settings import settings
from tests.support.threads import on_ranks


def resolve(flags: str = "", text: str = "", path: str = "run.yaml") -> Configuration:
    return Command(flags.split(), path if text else None, text.encode()).resolve()


def published() -> dict[str, Any]:
    return load("paper004", config_bytes("paper004"))


def named(flags: str) -> Configuration:
    return Command(flags.split(), "paper004", config_bytes("paper004")).resolve()


def toml(mapping: dict[str, Any]) -> str:
    held = {key: value for key, value in mapping.items() if value is not None}
    return "\n".join(
        f"{key} = {str(value).lower() if isinstance(value, bool) else repr(value)}"
        for key, value in held.items()
    )


COMMANDS = [
    "",
    "--algorithm drfgt --agents 7 --step-size 5e-3 --seed 3 --gradient-tolerance 1e-8 "
    "--placement fewer-cuts",
    "--problem pca --data digits --rank 4 --partition by-label --algorithm landing --agents 1 "
    "--safe --eps 0.3",
    "--topology erdos_renyi:p=0.4 --weights metropolis --out runs/a --plot --quiet "
    "--algorithm drfgt --order adapt-then-combine",
    "--algorithm drfgt --step-size 0.1 --penalty 1e-05 --time-limit 1e300 --iterations 123456789012",
    "--algorithm drfgt --rank-timeout 0 --compute-timeout 600 --step-size diminishing:initial=0.1,power=1 "
    "--penalty 3",
    "--step-size bb:formula=short,cap=1e300,initial=1e-300 --problem pca --algorithm landing "
    "--agents 1",
]


@pytest.mark.parametrize("flags", COMMANDS)
@pytest.mark.parametrize("outputs", [True, False])
def test_printed_configuration_is_a_fixed_point(flags: str, outputs: bool) -> None:
    first = resolve(flags)
    again = resolve(text=first.yaml(outputs=outputs))
    assert again.yaml() == first.yaml()
    assert (again.problem, again.algorithm) == (first.problem, first.algorithm)
    assert (again.yaml(outputs=True) == first.yaml(outputs=True)) == (
        outputs or first.run.out is None
    )
    from_toml = resolve(text=toml(yaml.safe_load(first.yaml(outputs=outputs))), path="run.toml")
    assert from_toml.yaml(outputs=outputs) == again.yaml(outputs=outputs)


@pytest.mark.parametrize(
    "flags",
    [*COMMANDS, "--config paper004 --rank 2", "--channel loss:p=0.1 --local-tolerance 1e-3"],
)
def test_what_rank_0_shares_is_the_same_configuration(flags: str) -> None:
    asked = Command.asked(flags.split())
    assert Command.received(asked.shared()).resolve() == asked.resolve()


def test_ranks_with_other_arguments_are_refused() -> None:
    def read(comm: Any) -> str:
        words = ["--seed", str(comm.rank // 2)]
        with pytest.raises(InputError) as refused:
            read_configuration(Command, words, comm)
        return str(refused.value)

    same = "start every rank with the same arguments; some have others"
    assert on_ranks(3, read) == [same] * 3


@pytest.mark.parametrize(
    ("algorithm", "flag", "policy", "printed"),
    [
        (
            "drfgt",
            "diminishing:power=1,initial=0.5",
            Diminishing(0.5, 1.0),
            "diminishing:initial=0.5,power=1.0",
        ),
        (
            "landing",
            "horizon:initial=auto,iterations=50",
            Horizon(iterations=50),
            "horizon:iterations=50",
        ),
        ("drfgt", "constant:initial=0.5", 0.5, 0.5),
        ("drfgt", "constant", Constant(), "constant"),  # automatic steps of this method may grow
        ("landing", "constant", "auto", "auto"),
    ],
)
def test_step_policies_as_flags_and_in_files(
    algorithm: str, flag: str, policy: Any, printed: Any
) -> None:
    configuration = resolve(f"--algorithm {algorithm} --agents 1 --step-size {flag}")
    assert configuration.algorithm.step_size == policy
    assert configuration.mapping()["step_size"] == printed
    for text in (configuration.yaml(), f"algorithm: {algorithm}\nagents: 1\nstep-size: {flag}"):
        assert resolve(text=text).algorithm == configuration.algorithm


def test_printed_configuration_holds_every_setting() -> None:
    configuration = resolve()
    parts = (configuration.run, configuration.problem, configuration.algorithm)
    every = {name for part in parts for name in settings(type(part))}
    acts = {"config", "print_config", "dry_run", "overwrite", "resume", "check_gradient"}
    assert set(yaml.safe_load(configuration.yaml(outputs=True))) == every - acts
    assert set(configuration.mapping()) == every - acts - {
        "out",
        "plot",
        "quiet",
        "record",
        "checkpoint_every",
        "keep_checkpoints",
    }


def test_flags_override_the_file_and_the_file_the_defaults() -> None:
    configuration = resolve(
        "--algorithm drfgt --agents 4 --step-size=0.5",
        "agents: 6\nstep-size: 0.25\nseed: 9\nproblem: PCA\nshuffle: no",
    )
    assert (configuration.run.agents, configuration.run.seed, configuration.run.iterations) == (
        4,
        9,
        3000,
    )
    assert (configuration.algorithm.step_size, configuration.algorithm.penalty) == (0.5, "auto")
    assert (configuration.run.problem, configuration.problem.shuffle) == ("pca", False)
    assert (
        resolve("--no-require-converged", "require_converged: true").run.require_converged is False
    )
    assert resolve("--problem procrustes", "problem: nonsense").run.problem == "procrustes"
    assert (
        resolve(
            "--algorithm asynchronous_drfgt --end-tolerance 0.1 --require-converged"
        ).algorithm.end_tolerance
        == 0.1
    )


@pytest.mark.parametrize(
    "flags",
    [
        "",
        "--config paper004",
        "--kernel numba --channel loss:p=0.1 --iterations 7 --seed 5 --gradient-tolerance 1e-3",
        "--agents 10 --problem procrustes --algorithm drfgt --order combine-then-adapt",
    ],
)
def test_published_steps_belong_to_the_published_experiment(flags: str) -> None:
    configuration = named(flags) if "paper004" in flags else resolve(flags)
    assert configuration.published
    assert configuration.mapping() | published() == configuration.mapping()
    assert dataclasses.replace(configuration.algorithm, kernel="numpy") == resolve().algorithm
    assert configuration.problem == resolve().problem


@pytest.mark.parametrize(
    ("flags", "step"),
    [
        ("--algorithm drfgt --agents 12", "auto"),
        ("--algorithm drfgt --weights-file w.npy", "auto"),
        ("--algorithm drfgt --problem pca", "auto"),
        ("--algorithm landing --agents 1", "auto"),
        ("--algorithm drfgt --step-size 0.01", 0.01),
        ("--algorithm drfgt --penalty 10", "auto"),
        ("--algorithm drfgt --batch-size 5", "auto"),
        ("--algorithm drfgt --start runs/a", "auto"),
    ],
)
def test_published_steps_stay_out_of_every_other_run(flags: str, step: Any) -> None:
    configuration = resolve(flags)
    assert (configuration.published, configuration.algorithm.step_size) == (False, step)


def test_flags_override_the_published_experiment_one_by_one() -> None:
    found = named("--agents 12 --penalty 3 --rank 2")
    assert not found.published
    assert (
        found.mapping() | published() | {"agents": 12, "penalty": 3.0, "rank": 2} == found.mapping()
    )
    assert found.algorithm.step_size == 0.01
    with pytest.raises(
        InputError, match="there is no configuration paper005; did you mean 'paper004'"
    ):
        config_bytes("paper005")


FLAG_ERRORS = [
    (
        "--data mine.csv",
        "--data: data and targets go together: give both files, or neither; the problem is "
        "procrustes by default: give another, as --problem pca",
    ),
    ("--no-repair=1", "--repair takes no value"),
    ("--quiet=maybe", "--quiet: quiet must be true or false, got 'maybe'"),
    (
        "--algorithm drfgt --penalty -1e-3",
        "--penalty: penalty must be positive and finite, got -0.001",
    ),
    ("--agents 5 --agents 6", "--agents specified multiple times: give it once"),
    ("--problem pac", "--problem: unknown problem 'pac'; did you mean 'pca'?"),
    ("--algorithm drfgt --stepsize 1", "unknown flag --stepsize; did you mean --step-size?"),
    (
        "--algorithm landing --agents 1 --order auto",
        "--order; it is a setting of algorithm 'destiny', 'dprgt', 'drfgt', 'drgta', 'gradient_tracking', and this "
        "run's algorithm is 'landing'",
    ),
    (
        "word",
        "unexpected 'word'; settings are flags, as --problem VALUE, and several values are "
        "joined by commas",
    ),
    ("--agents", "--agents requires an argument"),
    (
        "--iterations 1e30",
        "--iterations: iterations must be at most 9223372036854775807, got '1e30'",
    ),
    ("--time-limit 0m", "--time-limit: time_limit must be positive and finite, got 0.0"),
    ("--agents 0", "--agents: agents must be from 1 to 10000000, got 0"),
    ("--algorithm drfgt --step-size nan", "piecewise, bb, growing, 'auto', a positive number"),
    (
        "--algorithm drfgt --step-size bb:cap=0.5",
        "--step-size: step_size 'bb:cap=0.5': cap must be at least 1, got 0.5",
    ),
    (
        "--rank-timeout 0.5",
        "--rank-timeout: rank_timeout must be at least 1 second, or 0 for no limit, got 0.5",
    ),
    ("--self-weight 1", "--self-weight: self_weight must be from 1e-12 to 0.999999999999, got 1.0"),
    ("--plot", "plot needs a folder for the run: give --out FOLDER"),
    ("--local-rounds 0", "--local-rounds: local_rounds needs local_tolerance"),
    ("--require-converged", "require_converged needs a tolerance"),
    (
        "--algorithm asynchronous_drfgt --require-converged",
        "consensus_tolerance, feasibility_tolerance, end_tolerance",
    ),
    (
        "--problem pca --split features --agents 4 --local-tolerance 0.1",
        "local_tolerance is for agents that hold a whole point",
    ),
    (
        "--agents 4 --spread-samples 2",
        "--spread-samples: spread_samples is for a single agent, not 4: give --agents 1",
    ),
]


@pytest.mark.parametrize(("flags", "phrase"), FLAG_ERRORS)
def test_errors_in_flags(flags: str, phrase: str) -> None:
    with pytest.raises(InputError) as caught:
        resolve(flags)
    assert phrase in str(caught.value)
    assert "\n" not in str(caught.value)


IDLE = [
    ("--weights-file W.npy --topology ring", "--topology"),
    ("--no-repair", "--repair"),
    ("--record-every 3 --history-rows 10", "--history-rows"),
    ("--keep-checkpoints 3", "--keep-checkpoints"),
    ("--problem pca --dimension 4", "--dimension"),
    ("--problem pca --partition by-label --no-shuffle", "--shuffle"),
    ("--problem pca --partition by-label --dirichlet-alpha 1", "--dirichlet-alpha"),
    ("--problem pca --data synthetic --partition even", "--partition"),
    ("--problem cca --correlation 0.5", "--correlation"),
    ("--problem ica --data digits --imbalance 2", "--imbalance"),
    ("--problem odl --no-normalize", "--normalize"),
    ("--problem rsr --data digits --inliers 3", "--inliers"),
    ("--data A.npy --targets B.npy --rows 3", "--rows"),
    ("--no-shuffle", "--shuffle"),
    ("--problem gevp --matrix-a A.npy --matrix-b B.npy --condition 3", "--condition"),
    ("--problem matrix_completion --data A.npy --noise 1", "--noise"),
    ("--problem hevp --data randn10 --samples 300 --algorithm j_jobcd --agents 1", "--samples"),
    ("--problem hspp --data A.npy --points 3 --algorithm j_jobcd --agents 1", "--points"),
    ("--problem ultrae --data A --relations 3 --algorithm j_jobcd --agents 1", "--relations"),
    ("--problem ultrae --loss softmax --negatives 3 --algorithm j_jobcd --agents 1", "--negatives"),
]


@pytest.mark.parametrize(("flags", "idle"), IDLE)
def test_settings_without_an_effect_are_refused(flags: str, idle: str) -> None:
    with pytest.raises(
        InputError,
        match=f"^{idle}: {idle[2:].replace('-', '_')} has no effect here, leave it out: ",
    ):
        resolve(flags)


def test_so_they_are_in_python() -> None:
    with pytest.raises(
        ValueError,
        match=r"^dimension has no effect here, leave it out: it is for .* \(data synthetic\)$",
    ):
        PCASettings(dimension=11)
    assert PCASettings(data="synthetic", dimension=11).dimension == 11


def test_times_and_counts_are_written_alike_in_flags_and_files() -> None:
    flags = resolve(
        "--time-limit 10m --rank-timeout 1.5h --iterations 1e4 --checkpoint-every 2.5e3 --out a"
    )
    yaml = resolve(
        text="time_limit: 10m\nrank_timeout: 90m\niterations: 1e4\ncheckpoint_every: 2.5e3\nout: a"
    )
    assert flags.run == yaml.run
    assert (flags.run.time_limit, flags.run.rank_timeout, flags.run.iterations) == (
        600.0,
        5400.0,
        10_000,
    )
    assert isinstance(flags.run.iterations, int)
    assert interval("every", flags.run.checkpoint_every) == (2500.0, math.inf)
    with_toml = load("run.toml", b"iterations = 1e4\ntime_limit = 600")
    assert read_value("iterations", int, with_toml["iterations"]) == 10_000


def test_a_file_may_hold_the_defaults_of_settings_without_an_effect() -> None:
    """As one that a run has written does; another value there is refused."""
    held = resolve("--weights-file W.npy").yaml(outputs=True)
    assert "topology: ring" in held
    assert resolve(text=held).run.weights_file == "W.npy"
    with pytest.raises(
        InputError,
        match=r"^run.yaml: topology: topology has no effect here, leave it out: weights_file holds",
    ):
        resolve(text="topology: star\nweights-file: W.npy")


BOMB = "agents:\n" + "".join(
    f"- &l{k} [{', '.join([f'*l{k - 1}' if k else 'x'] * 9)}]\n" for k in range(9)
)
FILE_ERRORS = [
    (
        "run.yaml",
        "algorithm: drfgt\nstepsize: 1",
        "run.yaml: unknown key 'stepsize'; did you mean step_size?",
    ),
    ("run.yaml", "agents: true", "run.yaml: agents: agents must be a whole number, got True"),
    (
        "run.yaml",
        "agents: 190:20:30",
        "run.yaml: agents: agents must be a whole number, got '190:20:30'",
    ),
    (
        "run.yaml",
        f"agents: {'9' * 4000}",
        f"agents must be at most 9223372036854775807, got '{'9' * 79}...",
    ),
    (
        "run.yaml",
        f"agents: [{'x, ' * 5000}]",
        "run.yaml: a line of a configuration has at most 4096 characters; divide it",
    ),
    (
        "run.yaml",
        BOMB,
        "run.yaml: anchors and aliases (&name, *name) are not read; write the value in both places",
    ),
    (
        "run.yaml",
        "agents: " + "[" * 2000,
        "run.yaml: lists and mappings are nested too deeply; settings are flat keys",
    ),
    ("run.yaml", "[a]: 1", "run.yaml: keys must be names of settings, got ['a']"),
    ("run.yaml", 'out: "\\U99999999"', "run.yaml: not well-formed YAML"),
    ("run.yaml", "algorithm: {step_size: 1}", "settings are flat keys at the top of the file"),
    (
        "run.yaml",
        "algorithm: drfgt\nstep-size: diminishing:power=2",
        "run.yaml: step_size: step_size 'diminishing:power=2': power must be above 0",
    ),
    ("run.yaml", "step_size: 1\nstep-size: 2", "run.yaml: step-size is given twice"),
    (
        "run.toml",
        "data = 2026-01-01",
        "run.toml: data: data must be text or None, got datetime.date(2026, 1, 1)",
    ),
    ("run.yaml", "config: other.yaml", "run.yaml: a file cannot name another file"),
    ("run.yaml", "- agents", "must be a mapping of settings, as 'agents: 10', got ['agents']"),
    ("run.yaml", "agents: 10\ntopo", "not well-formed YAML"),
    (
        "run.yaml",
        "a: !!python/object/apply:os.getcwd []",
        "tags (!!python/object/apply:os.getcwd) are not read",
    ),
    ("run.toml", "agents = 3\nstep-si", "not well-formed TOML"),
    (
        "run.toml",
        "agents = " + "[" * 4000,
        "run.toml: lists and mappings are nested too deeply; settings are flat keys",
    ),
    (
        "run.toml",
        f"agents = 0x1{'0' * 4000}",
        "must be at most 9223372036854775807, got a whole number of 16001 bits",
    ),
    ("run.json", "{}", "a configuration must end in .yaml, .yml or .toml"),
]


@pytest.mark.parametrize(("path", "text", "phrase"), FILE_ERRORS)
def test_errors_in_files(path: str, text: str, phrase: str) -> None:
    with pytest.raises(InputError) as caught:
        resolve(text=text, path=path)
    assert phrase in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def test_what_stands_in_yaml_is_read_as_flags_are() -> None:
    """Not by YAML 1.1, for which 017 is 15, 12_0 is 120, and 1e-2 is text."""
    for text, seed in (("017", 17), ("'17'", 17), ("+17", 17)):
        assert (
            resolve(text=f"seed: {text}").run.seed
            == resolve(f"--seed {text.strip(chr(39))}").run.seed
            == seed
        )
    with pytest.raises(InputError, match="seed must be a whole number, got '12_0'"):
        resolve(text="seed: 12_0")
    assert (
        resolve(text="algorithm: drfgt\nstep_size: 1e-2\nsafe: Yes\npenalty: ~").algorithm
        == resolve("--algorithm drfgt --step-size 1e-2 --safe").algorithm
    )
    assert resolve(text="out: 2026-01-01").run.out == "2026-01-01"
    assert resolve(text="out: 'yes'").run.out == "yes"
    assert resolve(text="step_size:\nagents: null").yaml() == resolve().yaml()


def gigabytes(path: Path) -> None:
    path.touch()
    os.truncate(path, 10 << 30)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (os.mkfifo, r"run\.yaml cannot be a configuration: run\.yaml is not a regular file"),
        (
            lambda path: path.symlink_to("/dev/zero"),
            r"run\.yaml cannot be a configuration: run\.yaml is not a regular file",
        ),
        (gigabytes, "must have at most 65536 bytes, and has 10737418240"),
        (
            lambda path: path.write_bytes(b"\xff\xfe\x00"),
            r"run.yaml: not a text file \(invalid start byte at byte 0\)",
        ),
    ],
    ids=["without a writer", "without an end", "gigabytes", "not text"],
)
def test_a_configuration_is_a_regular_file(
    make: Callable[[Path], Any], words: str, tmp_path: Path
) -> None:
    path = tmp_path / "run.yaml"
    make(path)
    with pytest.raises(InputError, match=words):
        load(str(path), config_bytes(str(path)))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_survive_the_file(value: float) -> None:
    mapping = yaml.safe_load(yaml.safe_dump({"x": value}))
    assert read_value("x", float, mapping["x"]) == value
    assert read_value("x", float, tomllib.loads(f"x = {value!r}")["x"]) == value
    assert read_value("x", float | Literal["auto"], repr(value)) == value


def test_values_of_every_kind() -> None:
    assert read_value("x", int | None, "none") is None
    assert read_value("x", tuple[int, ...], [1, "2"]) == (1, 2)
    assert read_value("x", list[float], (1, 2.5)) == [1.0, 2.5]
    assert (
        read_value("x", tuple[float, ...], ["1,2", "3"])
        == read_value("x", tuple[float, ...], "1,2,3")
        == (1.0, 2.0, 3.0)
    )
    assert read_value("x", tuple[float, ...], 0.5) == (0.5,)
    assert read_value("x", tuple[float, ...] | None, "none") is None
    assert read_value("x", tuple[float, ...] | str, "1,2") == "1,2"
    assert read_value("x", bool, "true") is True
    assert read_value("x", Literal[1, 2], "2") == 2
    with pytest.raises(TypeError, match=r"x must be a number, got 'b'"):
        read_value("x", tuple[float, ...], "1,b")


def test_the_help_of_a_field_is_its_entry_in_the_docstring_of_its_class_or_a_base() -> None:
    @dataclass(frozen=True)
    class Base:
        """Parameters
        ----------
        a, b : int
            The first
            lines of ``a``.

            And more.
        """

        a: int = 0
        b: int = 0

    @dataclass(frozen=True)
    class Derived(Base):
        """Parameters
        ----------
        b
            Its own.
        """

    found = {name: setting.help for name, setting in settings(Derived).items()}
    assert found == {"a": "The first lines of a. And more.", "b": "Its own."}


def test_every_setting_of_every_entry_has_a_line_of_help() -> None:
    for entries in (registry.problems, registry.algorithms):
        for name in entries.names():
            assert all(setting.help for setting in settings(entries.get(name)).values()), name
    assert all(setting.help for group in Command([]).groups.values() for setting in group.values())


@dataclass(frozen=True)
class Clashing:
    seed: int = 0


@dataclass(frozen=True)
class Demanding:
    width: int


def test_an_entry_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = registry.Registry("algorithm")
    entries.add("clashing", Clashing)
    entries.add("demanding", Demanding)
    monkeypatch.setitem(
        __import__("decentorth.commands.line.config", fromlist=["_ENTRIES"])._ENTRIES,
        "algorithm",
        entries,
    )
    with pytest.raises(
        InputError, match="algorithm 'clashing' has a setting 'seed', and so has another part"
    ):
        resolve("--algorithm clashing")
    with pytest.raises(InputError, match=r"Demanding needs --width \(or the key width in a file\)"):
        resolve("--algorithm demanding")
    assert resolve("--algorithm demanding --width 3").algorithm == Demanding(3)
    assert "Required." in help_of(Command(["--algorithm", "demanding"]))


GML = "graph [\n" + "".join(f"  node [\n    id {i}\n  ]\n" for i in range(4))
GML += (
    "".join(f"  edge [\n    source {i}\n    target {(i + 1) % 4}\n  ]\n" for i in range(4)) + "]\n"
)


@pytest.mark.parametrize(
    ("words", "agents"),
    [
        ("--topology karate_club", 34),
        ("--topology torus:3x4", 12),
        ("--topology file:graph.gml", 4),
        ("--topology one_peer_exponential:8", 8),
        ("--topology periodic@ring|star:5", 5),
        ("--weights-file W.npy", 3),
        ("--topology link_failures@ring", 10),
        ("--topology star --agents 6", 6),
    ],
)
def test_the_graph_tells_how_many_agents_there_are(words: str, agents: int, folder: Path) -> None:
    (folder / "graph.gml").write_text(GML)
    np.save("W.npy", np.full((3, 3), 1.0 / 3.0))
    serial = SerialCommunicator()
    found = read_configuration(Command, words.split(), serial)
    assert (found.run.agents, Network(wiring.make(found.run).W, "serial").n_agents) == (
        agents,
        agents,
    )
    pairs = zip(*[iter(words.split())] * 2, strict=True)
    (folder / "run.yaml").write_text("".join(f"{flag[2:]}: {value}\n" for flag, value in pairs))
    assert read_configuration(Command, ["--config", "run.yaml"], serial).yaml(
        outputs=True
    ) == found.yaml(outputs=True)
    compared = read_configuration(CompareForm, [*words.split(), "--algorithms", "drfgt"], serial)
    assert (
        compared.settings.agents
        == read_configuration(TheoryForm, words.split(), serial).run.agents
        == agents
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "--weights metropolis --self-weight 0.5",
            "is for uniform weights, and those of ring are metropolis: add --weights uniform, or",
        ),
        (
            "--topology one_peer_exponential:8 --self-weight 0.5",
            "one_peer_exponential:8 changes over time",
        ),
        (
            "--topology one_peer_exponential:8 --weights metropolis",
            "has its own weights, and not 'metropolis'",
        ),
        (
            "--topology link_failures:weights=uniform@ring:6 --weights metropolis",
            "has its own weights, and not 'metropolis'",
        ),
    ],
)
def test_weights_that_the_network_does_not_use_are_refused(words: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        wiring.make(read_configuration(Command, words.split(), SerialCommunicator()).run)


@pytest.mark.parametrize("words", ["", "--problem pca"])
def test_the_self_weight_of_uniform_weights_is_0_8_unless_given(words: str) -> None:
    for more, own in (("", 0.8), (" --self-weight 0.5", 0.5)):
        made = wiring.make(resolve(f"{words} --weights uniform{more}").run)
        assert isinstance(made.W, csr_array)
        assert set(made.W.diagonal()) == {own}
        assert made.origin == f"ring, uniform weights (self weight {own:g})"


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ("", "uniform weights (self weight 0.8)"),
        ("--weights auto", "metropolis weights"),
        ("--problem pca", "metropolis weights"),
        ("--agents 6", "metropolis weights"),
    ],
)
def test_every_network_but_the_published_one_has_metropolis_weights(words: str, rule: str) -> None:
    assert wiring.make(resolve(words).run).origin == f"ring, {rule}"
