"""The configuration of a run: the settings of the run, of its problem and of its method."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from decentorth.settings import Values, values
from topologies.line.flags import InputError, spelled
from topologies.line.words import shortened

from ... import registry
from ...protocols import Declared
from ...running.checkpoint import newest_notes
from ...running.checkpoint.checkpoint_files import FOLDER
from ...settings import Setting, settings
from .config_files import load
from .form import CommandForm, Groups, Saved, Texts, config_bytes, early_flag
from .run_settings import CHECKPOINTS, NETWORK, OUTPUT, RESUMABLE, TOLERANCES, Joining, RunSettings

if TYPE_CHECKING:
    from ...api.automatic import Choice

EXPERIMENT = ("problem", "algorithm", "start", *(name for name in NETWORK if name != "placement"))
"""The own settings of a run that make another experiment of it, as all of its problem and its
method do."""
PUBLISHED = "paper004"
"""The name of the published experiment, which ``--config`` reads."""


@dataclass(frozen=True)
class Configuration(Saved):
    """A run with every setting resolved."""

    run: RunSettings
    problem: Any
    """The settings of the problem."""
    algorithm: Any
    published: bool
    """True for the published experiment (see `Command.given`)."""

    def with_choice(self, choice: Choice | None, method: Any) -> Configuration:
        """The configuration with the method that ``auto`` has chosen, if it has."""
        if choice is None:
            return self
        run = dataclasses.replace(self.run, algorithm=choice.name)
        return dataclasses.replace(self, run=run, algorithm=method)

    def groups(self, *, outputs: bool) -> Groups:
        run = self.run
        problem = f"Problem: {self.run.problem}"
        parts = {problem: self.problem, f"Algorithm: {run.algorithm}": self.algorithm}
        return Command.grouped(run, parts, outputs)


_SETTINGS = settings(RunSettings)
_FIRST = ("problem", "seed", "plugin", "algorithm", "iterations")
"""The settings that a help and a configuration begin with."""
_ENTRIES = {"problem": registry.problems, "algorithm": registry.algorithms}
_JUDGES = (*TOLERANCES, "end_tolerance")
"""Settings of a run or a method by which it can converge."""


class Command(CommandForm[Configuration]):
    """The command line of a run: one problem and one algorithm."""

    program = "decentorth run"
    summary = (
        "Solve a problem whose data lie at several agents, in this process or, under mpirun, on "
        "MPI ranks. Without flags this is the published experiment, --config paper004. Examples:\n"
        "    decentorth run --problem pca --data digits --rank 2\n"
        "    decentorth run --problem pca --data north.csv,south.csv --rank 2\n"
        "    decentorth run --problem pca --help"
    )
    first: ClassVar = {
        "What to solve": ("problem", "algorithm", "seed"),
        "Who takes part": ("agents", "topology", "weights", "channel"),
        "When to stop": ("iterations", "relative_gradient_tolerance", "time_limit"),
        "What to keep": ("out", "overwrite", "plot", "quiet"),
        "Before and after": ("dry_run", "check_gradient", "config", "print_config", "resume"),
    }
    own: ClassVar = {name: _SETTINGS[name] for name in (*_FIRST, *_SETTINGS)}
    noun = "run"
    output: ClassVar[tuple[str, ...]] = OUTPUT
    entries = _ENTRIES
    method: ClassVar[str] = "auto"
    """The method of a run that names none and is not the published experiment."""
    _named = True

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        if not self._named and not self._is_published():
            self.names["algorithm"] = self.method
            self.types["algorithm"] = registry.algorithms.get(self.method)
            self.groups = self._groups()
        self.__dict__.pop("_read", None)

    def _is_published(self) -> bool:
        """True if this is the published experiment; False where its settings are no settings of
        this run."""
        try:
            self.given()
        except InputError:
            return False
        return self.published

    def _name(self, kind: str, early: Texts) -> str:
        if kind == "algorithm" and (early.get(kind) or self.file.get(kind)) is None:
            split = early_flag(self.tokens, "split") or self.file.get("split")
            if split == "features":
                return "lobpcg"
            self._named = False
            name: str = published_experiment()["algorithm"]
            return name
        return super()._name(kind, early)

    def _owner(self, key: str) -> str:
        """The remedy for a setting of a method, where the run chooses its own."""
        if self.names["algorithm"] != "auto":
            return super()._owner(key)
        names = ["drfgt", *registry.algorithms.names()]
        owners = [one for one in names if key in settings(registry.algorithms.get(one))]
        if not owners:
            return super()._owner(key)
        return f"it is a setting of one method: add --algorithm {owners[0]}"

    def given(self) -> tuple[Values, Values]:
        """As `Form.given`, with the settings of the published experiment where none of another one
        is given.

        A run is ``paper004`` unless it has another problem, network, start or method than that
        file, or any further setting of these but the kernel, which changes no mathematics.
        """
        given, by_flag = super().given()
        published = published_experiment()
        apart = {"kernel", *Command.own} - {*EXPERIMENT}
        own = {name: value for name, value in given.items() if name not in apart}
        case = published.keys() - {"step_size", "penalty"}
        self.published = own in (published, {name: published[name] for name in own if name in case})
        if self.published:
            given = {**published, **given}
        return given, by_flag

    def help_groups(self) -> dict[str, dict[str, Setting]]:
        groups = super().help_groups()
        sites = dict(settings(Joining))
        for group in groups.values():
            if "clear_sums" in group:
                sites["clear_sums"] = group.pop("clear_sums")
        return {**groups, "Sites": sites}

    def resolve(self) -> Configuration:
        given, by_flag = self.given()
        run = self.build(RunSettings, given, by_flag)
        problem, algorithm = (self.build(entry, given, by_flag) for entry in self.types.values())
        self._check_apply(algorithm, given, by_flag)
        if Declared.of(algorithm).counts == "activations":
            run = dataclasses.replace(run, iterations=algorithm.activations)
        if run.require_converged:
            tolerances = values(run) | values(algorithm)
            without = Declared.of(algorithm).without
            judges = [name for name in _JUDGES if name in tolerances and name not in without]
            if not any(tolerances[name] for name in judges):
                known = ", ".join(judges)
                raise InputError(
                    "--require-converged: require_converged needs a tolerance to judge by: give "
                    f"one of {known}"
                )
        configuration = Configuration(run, problem, algorithm, self.published)
        self._refuse_other(configuration.mapping(), (*RESUMABLE, *Declared.of(algorithm).resumable))
        return configuration

    def _check_apply(self, algorithm: object, given: Texts, by_flag: Texts) -> None:
        """Raise an InputError for settings of the run that do not apply to the method."""
        activations = values(algorithm).get("activations")
        for name, instead in Declared.of(algorithm).without.items():
            may = (self.own[name].default, activations, self.saved.get(name))
            if name in given and given[name] not in may:
                cure = re.sub(r"\bgive (\w+)", lambda found: f"give --{spelled(found[1])}", instead)
                where = self._where(name, by_flag)
                raise InputError(f"{where} is not for {self.names['algorithm']}: {cure}")

    @staticmethod
    def earlier(tokens: Sequence[str]) -> Values:
        """The settings of the run that --resume names, and its folder as ``out`` if --resume names
        the folder of a run.

        Raises
        ------
        ValueError
            Its checkpoint is missing or cannot be read, or another command made it.
        """
        folder = early_flag(tokens, "resume")
        if folder is None:
            return {}
        notes, agents = newest_notes(folder)
        saved = notes.get("settings")
        if type(saved) is not dict:
            raise InputError(
                f"the checkpoints in {folder} were not written by this command: resume them in "
                "Python"
            )
        if saved.get("agents") != agents:
            raise InputError(
                f"the settings in {folder} are for {shortened(saved.get('agents'))} agents, its "
                f"files for {agents}"
            )
        left = {*OUTPUT} - {*CHECKPOINTS}
        kept = {name: value for name, value in saved.items() if name not in left}
        if (Path(folder) / FOLDER).is_dir():
            kept["out"] = folder
        return kept


@cache
def published_experiment() -> Values:
    """The settings in the file of the published experiment."""
    return load(PUBLISHED, config_bytes(PUBLISHED))
