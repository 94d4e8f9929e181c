"""The plan of a comparison: all checks first, then the runs, in turn, in parallel processes, or
each over MPI ranks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

from topologies.line.flags import InputError
from topologies.line.text import specifications

from ...api.rank_agreement import check_facts
from ...network import even_bounds
from ...network.collective import AgentCollective
from ...network.transport.communicator import connect
from ...protocols import SETUP
from ...records.progress_bar import trial_progress
from ...records.run_files import COMPARISON
from ...running.options import Options
from .comparison import Comparison
from .comparison_rules import Rules
from .methods import methods
from .model import NetworkModel
from .trials import Job, Store, Trace, make
from .tuning import Candidate, Entry, best, beyond, candidates, most_steps, own_step
from .workers import results

_NEEDS = {
    "error": "a problem whose answer is known, unlike this one's",
    "gradient_norm": "a differentiable problem, and this one is not",
    "stationarity": "a smooth objective plus a term with a proximal map, as sparse_pca has",
    "objective": "a problem with an objective",
}
"""The metrics, and what a problem needs to have them."""
RUNS = "runs"
"""The folder of runs in that of a comparison."""
Advance = Callable[[str], None]
Made = Callable[[Sequence[Job]], Iterator[Trace]]
_silent: Advance = lambda words: None  # noqa: E731
Networks = str | Sequence[str] | Mapping[str, NetworkModel]


def networks_named(named: Networks) -> dict[str, NetworkModel]:
    """The models of the named networks, by name."""
    match named:
        case Mapping():
            return dict(named)
        case str():
            named = [named]
    return {name: NetworkModel.named(name) for name in specifications(named)}


class ComparisonPlan:
    """A comparison that is checked before anything runs, and its runs; the parameters and errors
    are those of `compare`.

    Examples
    --------
    >>> import decentorth as do
    >>> from decentorth.lab.compare import ComparisonPlan, Rules
    >>> settings = do.problems.PCASettings(data="synthetic", rank=2)
    >>> rules = Rules(trials=2, iterations=100)
    >>> problem = lambda seed: settings.problem(4, seed)
    >>> plan = ComparisonPlan(problem, "drfgt,deepca", "ring", rules)
    >>> plan.total
    4
    """

    def __init__(
        self,
        problem: Callable[[int], Any],
        algorithms: Any,
        W: Any,
        rules: Rules,
        *,
        networks: Networks = "lan",
        extending: Comparison | None = None,
        comm: Any = None,
        placement: Any = "even",
    ) -> None:
        if isinstance(problem, type) or not callable(problem):
            raise TypeError(
                "problem must be a function of the seed, such as lambda seed: "
                f"settings.problem(10, seed), got {' '.join(repr(problem).split()):.80}; lambda "
                "seed: problem takes the same data in every trial"
            )
        self.rules = rules
        self.networks = networks_named(networks)
        self.communicator = connect(comm)
        named = methods(algorithms)
        about = {"algorithms": named, "rules": rules, "placement": placement, "W": W}
        about["extending"] = extending and [entry.label for entry in extending.entries]
        check_facts(self.communicator, {f"the argument {name}": one for name, one in about.items()})
        self._problem = problem
        self._placement = placement
        self._digests: dict[int, tuple[str, str]] = {}
        self._earlier = extending.entries if extending is not None else ()
        for entry in self._earlier:
            for seed, trace in zip(rules.seeds, entry.traces, strict=True):
                self._digests[seed] = entry.label, trace.digest
        seeds = (*rules.tuning_seeds, *rules.seeds)
        self.W = dict.fromkeys(seeds, W)
        if callable(W):
            self.W = {seed: W(seed) for seed in seeds}
        self.grids: dict[str, tuple[Candidate, ...]] = {}
        self.columns: set[str] = set()
        for number, (label, algorithm) in enumerate(named.items(), 1):
            SETUP.info("the method %s, %d of %d", label, number, len(named))
            if any(entry.label == label for entry in self._earlier):
                raise ValueError(f"{label} is in the comparison already: give it another label")
            run = self._job(label, Candidate(1.0, algorithm, ""), seeds[0]).run(self.communicator)
            start = run.solve(Options(iterations=0))
            self.columns.update(start.history)
            self.grids[label] = candidates(label, algorithm, run.algorithm, start, rules)
            self.agents = run.network.n_agents
        if rules.metric not in self.columns:
            known = " or ".join(name for name in _NEEDS if name in self.columns)
            raise ValueError(f"metric: {rules.metric} needs {_NEEDS[rules.metric]}; take {known}")

    def _job(self, label: str, step: Candidate, seed: int) -> Job:
        return Job(
            label, step.algorithm, seed, self.rules, self._problem, self.W[seed], self._placement
        )

    @property
    def total(self) -> int:
        """The most runs to make: a tuned method makes the trials with its own step too, and tries
        at most as many steps beyond its grid as in it."""
        tuned = sum(len(grid) > 1 for grid in self.grids.values())
        tried = tuned * most_steps(self.rules) * len(self.rules.tuning_seeds)
        return tried + self.rules.trials * (len(self.grids) + tuned)

    def run(
        self, *, workers: int = 1, store: Store | None = None, advance: Advance = _silent
    ) -> Comparison:
        """Make the runs that are not in ``store``; raises as `compare`, and calls ``advance`` after
        each run, on every rank."""
        made = partial(self._made, workers, store, advance)
        jobs = []
        steps = []
        entries = [*self._earlier]
        for label, tried in self._tuned(made, advance).items():
            chosen = best(tried, self.rules)
            own = own_step(tried)
            both = list({one.factor: one for one in (chosen, own)}.values())
            steps.append((label, tuple(tried), both))
            jobs += [self._job(label, one, seed) for one in both for seed in self.rules.seeds]
            for _ in range(self.rules.trials * (min(len(tried), 2) - len(both))):
                advance(label)  # the trials with the best step are those with its own one
        traces = made(jobs)
        for label, tried, both in steps:
            runs = [tuple(islice(traces, self.rules.trials)) for _ in both]
            entries.append(Entry(label, both[0].started(runs[0]), tried, both[0], *runs))
        return Comparison(self.rules, tuple(entries), self.networks, self.agents)

    def _tuned(self, made: Made, advance: Advance) -> dict[str, Sequence[Candidate]]:
        """The steps that each method tries, with their runs: its grid, and steps beyond it while
        the best one is an edge. A method without a step has none to try."""
        seeds = self.rules.tuning_seeds
        fresh = {label: grid for label, grid in self.grids.items() if len(grid) > 1}
        tried: dict[str, list[Candidate]] = {label: [] for label in fresh}
        while fresh:
            steps = [(label, one) for label, grid in fresh.items() for one in grid]
            traces = made([self._job(label, one, seed) for label, one in steps for seed in seeds])
            for label, one in steps:
                runs = tuple(islice(traces, len(seeds)))
                tried[label].append(replace(one, traces=runs))
            further = {label: beyond(tried[label], self.rules) for label in fresh}
            fresh = {label: grid for label, grid in further.items() if grid}
        for label, found in tried.items():
            for _ in range((most_steps(self.rules) - len(found)) * len(seeds)):
                advance(label)  # steps that need not be tried
        return {**self.grids, **tried}

    def _made(
        self, workers: int, store: Store | None, advance: Advance, jobs: Sequence[Job]
    ) -> Iterator[Trace]:
        """The runs of the jobs in order, from the store where it has them."""
        kept: list[Trace | None] = [None] * len(jobs)
        if store is not None:
            kept = [store.load(job) for job in jobs]
        missing = [job for job, trace in zip(jobs, kept, strict=True) if trace is None]
        work: Callable[[Job], Trace] = make
        if self.communicator.size > 1:
            work = partial(make, comm=self.communicator)
            workers = 1
        made = []
        with contextlib.closing(results(work, missing, workers, Job.words)) as fresh:
            for job, trace in zip(jobs, kept, strict=True):
                if trace is None:
                    trace = next(fresh)
                    if store is not None:
                        store.save(job, trace)
                self._compare(job, trace)
                advance(job.words())
                made.append(trace)
        return iter(made)

    def _compare(self, job: Job, trace: Trace) -> None:
        """Raise unless every method gets the same problem, start and network for a seed."""
        label, digest = self._digests.setdefault(job.seed, (job.label, trace.digest))
        if digest != trace.digest:
            raise ValueError(
                f"{label} and {job.label} did not get the same data, start and network for seed "
                f"{job.seed}: the problem and W must depend on the seed alone, and data files must "
                "not change"
            )


def compare(
    problem: Callable[[int], Any],
    algorithms: object,
    W: object,
    rules: Rules | None = None,
    *,
    networks: Networks | None = None,
    workers: int = 1,
    extending: Comparison | None = None,
    comm: object = None,
    placement: object = "even",
    progress: bool = False,
    out: str | Path | None = None,
) -> Comparison:
    """Run methods on the same problems, starts and networks, and count each method's costs to each
    tolerance.

    Called with the same arguments on every rank when started under ``mpirun``: then each run goes
    over all ranks.

    Parameters
    ----------
    problem
        ``problem(seed)`` gives the problem of a trial: the same whenever it is asked, with another
        start for another seed.
    algorithms
        Names with parameters (``"drfgt,drfgt:order=adapt-then-combine"``), an algorithm or its
        class, several of these, or a mapping from labels to them.
    W
        Mixing matrix or `topologies.WeightSequence`, or a function of the seed that gives it.
    rules
        The rules of the comparison; by default `Rules()`.
    networks
        Names or models of networks whose wall time is modelled; by default "lan".
    workers
        The number of parallel processes; more than one need joblib. On MPI ranks the runs
        follow each other, each over all ranks.
    extending
        A comparison on the same problems, to which the methods are added; it has the rules and the
        networks.
    comm
        As for `decentorth.solve`.
    placement
        The division of agents over ranks.
    progress
        Show how many runs are made, on rank 0.
    out
        Folder for the runs and, at the end, the files of `Comparison.save`. Runs already in it are
        not repeated, if method, rules, start, network and gradients at the start are the same.

    Raises
    ------
    ValueError, TypeError
        The input cannot work, or several workers are asked for without joblib: before any run, on
        every rank. The problem of a seed differs each time it is made: after the runs.
    RuntimeError
        A run failed, or its process died (`concurrent.futures.BrokenExecutor`); the message names
        it.
    """
    if extending is not None:
        if rules is not None or networks is not None:
            raise ValueError("a comparison that is extended has rules and networks: leave them out")
        rules = extending.rules
        networks = extending.networks
    setting: dict[str, Any] = {"extending": extending, "comm": comm, "placement": placement}
    setting["networks"] = networks or "lan"
    plan = ComparisonPlan(problem, algorithms, W, rules or Rules(), **setting)
    store = None
    communicator = plan.communicator
    ranks = AgentCollective(communicator, even_bounds(communicator.size, communicator.size))
    if out is not None:
        with ranks.together():
            if communicator.rank == 0:
                _make_runs(Path(out))
        store = Store(Path(out) / RUNS, None, communicator)
    with trial_progress(plan.total, 0, not progress or communicator.rank > 0) as advance:
        found = plan.run(workers=workers, store=store, advance=advance)
    if out is not None:
        with ranks.together():
            if communicator.rank == 0:
                found.save(out, plot=find_spec("matplotlib") is not None)
    return found


def _make_runs(folder: Path) -> None:
    """Make the folder of runs; InputError if it holds a comparison of the command line."""
    if (folder / COMPARISON).exists():
        raise InputError(
            f"{folder} holds a comparison of the command line ({COMPARISON}): choose another out"
        )
    try:
        (folder / RUNS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot write to {folder}: {error.strerror or error}; choose another out"
        ) from None
