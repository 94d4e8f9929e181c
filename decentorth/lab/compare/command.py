"""``python -m decentorth compare``: methods compared from the command line, in this process and
others or, under ``mpirun``, each run over all MPI ranks.

Exit codes: 0 done, even if methods diverged, 1 a fault, 2 bad input, 130 interrupted (the same
command continues).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from topologies import DirectedWeights
from topologies.line.flags import InputError

from ... import registry
from ...commands.line import wiring
from ...commands.line.form import CommandForm, Groups, Saved, config_bytes
from ...commands.line.run_settings import CaseSettings, ConfigFile, PrintConfig
from ...commands.line.shell import REFUSALS, by_root, one_line, read_configuration, serve, together
from ...figures.canvas import check_matplotlib
from ...figures.histories import check_metrics
from ...network.halo import even_bounds
from ...numerics.ordered_sums import Csr
from ...process.printing import FAULT, complain, on_terminal, say
from ...records.progress_bar import SettingUp, trial_progress
from ...records.run_files import COMPARISON, refuse_unmarked, replacing
from ...settings import Count, Quiet, Values, settings, values
from .comparison import Comparison
from .comparison_plan import RUNS, ComparisonPlan, networks_named
from .comparison_rules import Rules
from .methods import methods
from .model import NetworkModel
from .saved_comparison import FILES
from .trials import Store
from .workers import processes

if TYPE_CHECKING:
    from ...network.transport.communicator import Communicator

OUTPUT = ("out", "overwrite", "plot", "panels", "workers", "quiet", "config", "print_config")


@dataclass(frozen=True, kw_only=True)
class CompareSettings(CaseSettings, Rules):
    """The settings of a comparison.

    Parameters
    ----------
    algorithms : tuple of str
        The methods, with parameters if needed: "drfgt,drfgt:order=adapt-then-combine,penalty=10".
    network : tuple of str
        Networks for the modelled wall time: datacenter, lan, wan, wifi, satellite or ideal, with
        other parameters if needed ("wan:latency=0.1"), or "latency=1e-3,bandwidth=1e8".
    out : str
        Folder for comparison.csv, trials.csv, curves.csv, table.md, table.tex, figure.png,
        figure.svg, comparison.json, comparison.yaml and runs. Runs already in it are not repeated.
    overwrite : bool
        Replace tables and figures of another comparison in out.
    plot : bool
        Draw the figure in out.
    panels : tuple of str
        Rows of the figure: columns of the history, as gradient_norm,consensus_rms,feasibility. By
        default the metric.
    workers : int
        Number of processes; by default one per processor. With 1 the seconds are measured best.
    """

    algorithms: tuple[str, ...] = ()
    network: tuple[str, ...] = ("lan",)
    out: str | None = None
    overwrite: bool = False
    plot: bool = True
    panels: tuple[str, ...] = ()
    workers: Count | None = None
    quiet: Quiet = False
    config: ConfigFile = None
    print_config: PrintConfig = False

    def idle(self) -> dict[str, str]:
        """Settings without an effect beside the others, and why."""
        found = super().idle()
        if not self.tune:
            found |= dict.fromkeys(("grid", "tune_seeds"), "no steps are tried without tune")
        if self.metric == "objective" and self.consensus_factor is not None:
            found["consensus_factor"] = "an objective is not a distance"
        if not self.plot:
            found["panels"] = "there is no figure without plot"
        if self.out is None:
            idle = ["overwrite", "panels", *["plot"] * self.plot]
            found |= dict.fromkeys(idle, "nothing is written without out")
        return found


_SETTINGS = settings(CompareSettings)


@dataclass(frozen=True)
class CompareConfiguration(Saved):
    """A comparison with every setting resolved."""

    settings: CompareSettings
    problem: Any
    methods: Values
    networks: Mapping[str, NetworkModel]

    def groups(self, *, outputs: bool) -> Groups:
        parts = {f"Problem: {self.settings.problem}": self.problem}
        return CompareForm.grouped(self.settings, parts, outputs)


class CompareForm(CommandForm[CompareConfiguration]):
    """The command line of a comparison."""

    program = "decentorth compare"
    summary = (
        "Compare methods on the same problems, starts, graphs and seeds. The table has the "
        "iterations, rounds, bytes, gradients, seconds and modelled wall time to each tolerance. "
        "--problem NAME --help shows that problem's settings."
    )
    own: ClassVar = {name: _SETTINGS[name] for name in ("problem", "algorithms", *_SETTINGS)}
    noun = "comparison"
    output = OUTPUT
    entries: ClassVar = {"problem": registry.problems}

    def resolve(self) -> CompareConfiguration:
        given, by_flag = self.given()
        asked = self.build(CompareSettings, given, by_flag)
        problem = self.build(self.types["problem"], given, by_flag)
        networks = networks_named(asked.network)
        return CompareConfiguration(asked, problem, methods(asked.algorithms), networks)

    def _owner(self, key: str) -> str:
        known = (registry.algorithms.get(name) for name in registry.algorithms.names())
        if owner := super()._owner(key):
            return owner
        if any(key in settings(one) for one in known):
            return f"it is a setting of methods: write --algorithms NAME:{key}=..."
        return ""


def main(tokens: Sequence[str] | None = None) -> int:
    """Make the comparison that the arguments describe, by default those of this process, and return
    the exit code."""
    failed = (MemoryError, OSError)  # of a disk that is full
    return serve(tokens, CompareForm, _run, name="decentorth compare", failed=failed)


def _run(words: Sequence[str], communicator: Communicator) -> int:
    configuration = read_configuration(CompareForm, words, communicator)
    asked = configuration.settings
    root = communicator.rank == 0
    if asked.print_config:
        return say(configuration.yaml(outputs=True), root)
    workers = together(communicator, lambda: _check_early(configuration, communicator))
    prints = root and not asked.quiet
    try:
        with SettingUp(prints):
            plan = _plan(configuration, communicator)
    except REFUSALS as error:
        raise InputError(one_line(error)) from error
    together(communicator, lambda: check_metrics(asked.panels, plan.columns))
    store = _store(configuration, communicator)
    where = f"each on {communicator.size} ranks"
    if communicator.size == 1:
        where = f"in up to {workers} processes"
    most = "at most " * asked.tune
    say(f"methods: {len(plan.grids)}; runs: {most}{plan.total}, {where}", prints)
    with trial_progress(plan.total, 0, not prints) as advance:
        try:
            comparison = plan.run(workers=workers, store=store, advance=advance)
        except ValueError as error:
            raise InputError(one_line(error)) from error
        except KeyboardInterrupt:
            raise KeyboardInterrupt("with --out the same command continues") from None
        except BrokenExecutor as error:
            complain(f"decentorth compare: {error}")
            return FAULT
    by_root(communicator, lambda: _conclude(comparison, asked))
    return 0


def _plan(configuration: CompareConfiguration, communicator: Communicator) -> ComparisonPlan:
    """The plan, whose problems are made by every rank, and whose networks are made by rank 0 and
    shared."""
    asked = configuration.settings

    def problem(seed: int) -> Any:
        return together(communicator, lambda: configuration.problem.problem(asked.agents, seed))

    def W(seed: int) -> object:
        own = replace(asked, seed=seed)
        sites = getattr(problem(seed), "sites", ())
        made = by_root(communicator, lambda: wiring.make(own, sites))
        shared = wiring.share(own, made, communicator, sites).W
        match shared:
            case Csr(push=None):
                return shared.array
            case Csr(push=np.ndarray() as push):
                return DirectedWeights(shared.array, shared._replace(data=push).array)
        return shared

    return ComparisonPlan(
        problem,
        configuration.methods,
        W,
        asked,
        networks=configuration.networks,
        comm=communicator,
        placement=asked.placement,
    )


def _store(configuration: CompareConfiguration, communicator: Communicator) -> Store | None:
    """The store of runs in the output folder, which rank 0 makes."""
    asked = configuration.settings
    if asked.out is None:
        return None
    runs = Path(asked.out) / RUNS
    by_root(communicator, lambda: _make_folder(configuration, runs))
    case = {*settings(CaseSettings)} - {"seed", "plugin"}
    about = {name: value for name, value in values(asked).items() if name in case}
    about |= values(configuration.problem)
    about |= {f"plugin {number}": path for number, path in enumerate(asked.plugin)}
    return Store(runs, about, communicator)


def _check_early(configuration: CompareConfiguration, communicator: Communicator) -> int:
    """Raise unless the settings pass all checks that need no run; the number of processes that make
    runs."""
    asked = configuration.settings
    even_bounds(asked.agents, communicator.size)
    workers = 1
    if communicator.size == 1:
        workers = processes(asked.workers)
    if asked.out is not None and communicator.rank == 0:
        path = Path(asked.out) / COMPARISON
        mine = configuration.yaml().encode()
        refuse_unmarked(asked.out, FILES, COMPARISON)
        if path.exists() and not asked.overwrite and config_bytes(str(path)) != mine:
            raise InputError(
                f"{asked.out} holds another comparison ({COMPARISON}): choose another --out, or "
                "give --overwrite"
            )
        if asked.plot:
            check_matplotlib(", or give --no-plot")
    return workers


def _make_folder(configuration: CompareConfiguration, runs: Path) -> None:
    try:
        runs.mkdir(parents=True, exist_ok=True)
        with replacing(runs.parent / COMPARISON) as file:
            file.write(configuration.yaml().encode())
    except OSError as error:
        raise InputError(
            f"cannot write to {runs.parent}: {error.strerror or error}; choose another --out"
        ) from None


def _conclude(comparison: Comparison, asked: CompareSettings) -> None:
    """Print the table, which is then on a full disk too, and write the files."""
    if not asked.quiet:
        say(comparison.table("text" if on_terminal() else "markdown"))
    if asked.out is not None:
        comparison.save(asked.out, plot=asked.plot, metrics=asked.panels)
        say(f"Files in {asked.out}.", not asked.quiet)
