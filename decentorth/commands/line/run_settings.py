"""Settings common to all problems and algorithms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from topologies.line.text import specifications

from ... import network
from ...protocols import Quantity
from ...running.checkpoint import interval
from ...running.options import NetworkSettings, PlacementSettings, RunLimits
from ...settings import Count, Finite, Natural, Positive, Quiet, Range, Seconds, settings
from ...stopping import LocalMaximum

TOLERANCES = (
    *("gradient_tolerance", "relative_gradient_tolerance", "stationarity_tolerance"),
    *("consensus_tolerance", "feasibility_tolerance", "local_tolerance"),
)
LOCAL = ("local_quantity", "local_every", "local_rounds")
"""Settings of the agents' decision by the local tolerance."""
LIMITS = ("time_limit", "objective_below", "require_converged", "safety_region")
STOPPING = ("iterations", *TOLERANCES, *LOCAL, *LIMITS)
NETWORK = (
    "agents",
    "topology",
    "weights",
    "self_weight",
    "edge_weight",
    "weights_file",
    "placement",
)
ROWS = ("history_rows", "record_every")
PATIENCE = ("rank_timeout", "compute_timeout")
CHECKPOINTS = ("checkpoint_every", "keep_checkpoints")
ACTS = ("overwrite", "resume", "config", "print_config", "dry_run", "check_gradient")
"""Settings of a single call, never part of a configuration that is printed or saved."""
OUTPUT = ("out", "overwrite", "plot", "quiet", "record", *CHECKPOINTS, *ACTS[1:])
MOST_AGENTS = 10_000_000
"""The largest number of agents: besides its points, each takes about a kilobyte in the graph."""
LEAST_WEIGHT = 1e-12
"""The least distance of a self weight from 0 and 1: nearer, `topologies.check_weights` sees an
eigenvalue -1 or 1 of W."""
SECTIONS = {
    "Stopping": STOPPING,
    "Start": ("start", "resume"),
    "Channel": ("channel", "repair", "tracker_correction"),
    "Device": ("device",),
    "Ranks": ("placement", "spread_samples", "on_rank_loss", *PATIENCE),
    "Output": ("out", "overwrite", "plot", "quiet", *ROWS, *CHECKPOINTS, "dry_run"),
    "Configuration": ("config", "print_config"),
}
"""The headings of the help, and their settings; other settings stand in the groups of their
command."""
RESUMABLE = (*STOPPING, *ROWS, "placement", "plugin", "on_rank_loss", *PATIENCE)
"""Settings that may change when a run is resumed, besides the outputs."""
NO_DEVICE = (
    *("spread_samples", "local_tolerance", "checkpoint_every", "resume"),
    *("channel", "placement", "split", "on_rank_loss"),
)
"""Settings that a run on a device must leave at their defaults."""
POINTS = ("spread_samples", "start", "local_tolerance", "record_agents")
"""Settings for agents that each hold a point."""
SELF_WEIGHT = 0.8
ConfigFile = Annotated[
    str | None,
    "A file of these settings as flat keys (.yaml, .yml or .toml), or paper004. Flags take "
    "precedence.",
]
PrintConfig = Annotated[bool, "Print the configuration as YAML and stop; --config reads it."]


@dataclass(frozen=True, kw_only=True)
class CaseSettings(NetworkSettings):
    """The problem and the network of a run.

    Parameters
    ----------
    problem : str
        The problem to minimise.
    agents : int
        Number of agents n. By default the number of nodes of the graph, rows of the weights
        file or files of the sites, otherwise 10.
    topology : str
        The graph with its parameters, as "erdos_renyi:p=0.4" or "torus:5x4". push_pull takes
        directed graphs, as "directed_ring:chords=3" or "digraph:edges.txt".
    weights : str
        The rule for the mixing matrix W (decentorth list weights). auto takes Metropolis weights.
    self_weight : float
        W_ii of uniform weights; by default 0.8.
    edge_weight : str
        The attribute of a file's edges to use as conductances in Metropolis weights: large values
        give large weights. 1/NAME uses reciprocals, as 1/km of lengths.
    weights_file : str
        Your own W (.npy, .npz or .mtx), instead of topology and weights.
    plugin : tuple of str
        Load your own methods or problems from this Python file. May be given several times.
    """

    problem: str = "procrustes"
    agents: Annotated[int, Range(least=1, most=MOST_AGENTS)] = 10
    topology: str = "ring"
    weights: str = "auto"
    self_weight: Annotated[float, Range(least=LEAST_WEIGHT, most=1 - LEAST_WEIGHT)] | None = None
    edge_weight: str | None = None
    weights_file: str | None = None
    plugin: tuple[str, ...] = ()

    def idle(self) -> dict[str, str]:
        """Settings without an effect beside the others, and why."""
        if self.weights_file is not None:
            idle = ("topology", "weights", "self_weight", "edge_weight")
            return dict.fromkeys(idle, "weights_file holds the whole W")
        if self.edge_weight is not None:
            return dict.fromkeys(("weights", "self_weight"), "edge_weight gives Metropolis weights")
        return {}


@dataclass(frozen=True, kw_only=True)
class RunSettings(CaseSettings, PlacementSettings, RunLimits):
    """The settings that every run has.

    Parameters
    ----------
    algorithm : str
        The method.
    channel : list
        Simulated faults of messages, as "loss:p=0.1" or "topk:share=0.1". May be given several
        times.
    repair : bool
        Keep averages exact on a faulty channel.
    tracker_correction : float
        Faulty channels: pull trackers towards the fields that they track, in iteration k by the
        share tracker_correction / k. 0: never.
    spread_samples : int
        One agent (--agents 1): divide its samples into N blocks, spread over the MPI ranks and
        summed in order. The bits are the same on any number of ranks.
    split : str
        Division of the data over the agents: different samples, or different features (columns)
        of the same samples. features is for pca, lda and cca, by lobpcg (then the default) or
        tracked_landing.
    start : str
        The start of all agents: a run's folder (its first agent's final point) or a .npy file with
        a point. By default the problem's own start from the seed.
    gradient_tolerance : float
        Stop when gradient_norm is at most this. All given tolerances must hold.
    relative_gradient_tolerance : float
        Stop when gradient_norm is at most this share of its value at the start.
    stationarity_tolerance : float
        Stop when stationarity is at most this. For problems with a proximal term.
    consensus_tolerance : float
        Stop when consensus_rms is at most this.
    feasibility_tolerance : float
        Stop when feasibility is at most this.
    local_tolerance : float
        Stop when the agents find by max-consensus that the local quantities of every agent are
        at most this. The messages are counted.
    local_quantity : list
        A local quantity: gradient (of methods with a tracker), movement (divided by the step),
        disagreement (with the neighbours) or feasibility. May be given several times. By default
        gradient (movement without a tracker), disagreement and feasibility.
    local_every : int
        Iterations between two attempts of the agents. By default ten for each round of an attempt.
    local_rounds : int
        Rounds of max-consensus in an attempt: an upper bound on the graph's diameter. By default
        the diameter.
    time_limit : float
        Stop after this time (90, 30s, 10m, 2h) of this job's iterations. Time before a resume does
        not count. A run that reaches the limit has not converged.
    objective_below : float
        Stop when the objective is at most this. The run then counts as not
        converged.
    require_converged : bool
        Exit with code 4 if the run ends without convergence.
    history_rows : int
        Approximate number of history rows, spaced logarithmically. By default 200, at most one in
        five iterations, and for samples of sites at most a ninth of all rounds.
    record_agents : bool
        Also record each agent's distance from the mean, and its point or angle. Reports can then
        play the run.
    out : str
        Folder for config.yaml, history.csv, summary.json and final.npz. Created if missing.
    overwrite : bool
        Replace an earlier run in out.
    plot : bool
        Also draw history.png in out.
    record : tuple of str
        Also send rows of the history to "tensorboard:FOLDER", "mlflow:FOLDER" (or a server's
        address) or "parquet:FILE". May be given several times.
    checkpoint_every : int or str
        Write a checkpoint into out every N iterations (100) or after this time (30s, 10m, 2h); also
        on SIGUSR1 and at the end. SIGTERM, SIGHUP, SIGUSR2 and Ctrl-C then end the run with a
        checkpoint.
    keep_checkpoints : int
        Number of checkpoints to keep.
    resume : str
        Continue the run in this folder from its newest checkpoint, into the same folder unless out
        is given. Only iterations, tolerances, limits, history rows, placement and outputs may
        change.
    dry_run : bool
        Print agents per rank, messages, bytes and memory. Nothing is run or written.
    check_gradient : bool
        Check each agent's gradient against its objective before the first iteration, and print the
        Taylor slope (2 if they agree).
    """

    algorithm: str = "auto"
    iterations: Natural = 3000
    channel: tuple[str, ...] = ()
    repair: bool = True
    tracker_correction: float = 0.0
    spread_samples: Count | None = None
    split: Literal["samples", "features"] = "samples"
    start: str | None = None
    gradient_tolerance: Positive | None = None
    relative_gradient_tolerance: Positive | None = None
    stationarity_tolerance: Positive | None = None
    consensus_tolerance: Positive | None = None
    feasibility_tolerance: Positive | None = None
    local_tolerance: Positive | None = None
    local_quantity: tuple[Quantity, ...] = ()
    local_every: Count | None = None
    local_rounds: Natural | None = None
    time_limit: Annotated[Seconds, Range(above=0)] | None = None
    objective_below: Finite | None = None
    require_converged: bool = False
    history_rows: Annotated[int, Range(least=2)] | None = None
    record_agents: bool = False
    out: str | None = None
    overwrite: bool = False
    plot: bool = False
    quiet: Quiet = False
    record: tuple[str, ...] = ()
    checkpoint_every: int | str | None = None
    keep_checkpoints: Count = 3
    resume: str | None = None
    config: ConfigFile = None
    print_config: PrintConfig = False
    dry_run: bool = False
    check_gradient: bool = False

    def __post_init__(self) -> None:
        """Raise a ValueError for a value out of range, and for two that do not fit together."""
        super().__post_init__()
        if self.channel:
            object.__setattr__(self, "channel", tuple(specifications(self.channel)))
        _ = self.bad_channel, self.local_rule
        if self.checkpoint_every is not None:
            interval("checkpoint_every", self.checkpoint_every)
        known = settings(type(self))
        given = vars(self)
        for names, why in self._refusals():
            for name in names:
                if given[name] != known[name].default:
                    raise ValueError(f"{name} {why}")

    def _refusals(self) -> Iterator[tuple[Sequence[str], str]]:
        """Settings that the others do not admit, and why."""
        if not self.channel:
            yield ["tracker_correction"], "is for a faulty channel: give channel, or leave it out"
        if self.on_rank_loss == "shrink":
            yield (
                ["record_agents"],
                "needs all agents until the end: leave it or on_rank_loss=shrink out",
            )
        if self.on_rank_loss == "restart" and self.checkpoint_every is None:
            yield (
                ["on_rank_loss"],
                "restart needs the agents' checkpoints: give checkpoint_every and out, or leave "
                "it out",
            )
        if self.agents != 1:
            yield ["spread_samples"], f"is for a single agent, not {self.agents}: give --agents 1"
        if self.device is not None:
            yield NO_DEVICE, "is not for a run on a device: leave it or device out"
        if self.split == "features":
            yield POINTS, "is for agents that hold a whole point: leave it out with split features"
        if self.local_tolerance is None:
            yield LOCAL, "needs local_tolerance: give one"
        if self.out is None:
            yield ["plot", "checkpoint_every"], "needs a folder for the run: give --out FOLDER"

    def idle(self) -> dict[str, str]:
        """Settings without an effect beside the others, and why."""
        found = super().idle()
        if not self.channel:
            found["repair"] = "it is for a faulty channel, and there is none"
        if self.record_every is not None:
            found["history_rows"] = "record_every determines the rows"
        if self.checkpoint_every is None:
            found["keep_checkpoints"] = "there are none without checkpoint_every"
        if self.out is None:
            found["overwrite"] = "nothing is written without out"
        return found

    @property
    def continues(self) -> bool:
        """True if the run continues in its own folder."""
        if self.resume is None or self.out is None:
            return False
        return Path(self.out).resolve() == Path(self.resume).resolve()

    @property
    def local_rule(self) -> LocalMaximum | None:
        """The rule by which the agents themselves decide to stop; None without a local
        tolerance."""
        if self.local_tolerance is None:
            return None
        return LocalMaximum(
            self.local_tolerance, self.local_quantity, self.local_every, self.local_rounds
        )

    @property
    def bad_channel(self) -> network.Channel | None:
        """The simulated channel; None for a faultless one."""
        if not self.channel:
            return None
        correction = self.tracker_correction
        return network.Channel(*self.channel, repair=self.repair, correction=correction)


@dataclass(frozen=True, kw_only=True)
class Joining:
    """The flags of a site that takes part in a run (docs/sites.md).

    Parameters
    ----------
    join
        The folder of the site, of decentorth sites make.
    check
        Meet the other sites, compare, and stop.
    agree
        The code of the plan that is agreed to, instead of typing it.
    retries
        After the loss of a neighbour or the server, meet again this many times, and continue from
        the newest checkpoint that all sites have.
    wait
        The seconds in which the other sites must come (90, 30s, 10m, 4h).
    """

    join: str
    check: bool = False
    agree: str | None = None
    retries: Natural = 0
    wait: Seconds = 3600.0
