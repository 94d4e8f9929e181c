"""The programming interface: `solve` and `iterate`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from .network import connect
from .problems import Deferred, Spread
from .process.abort import RANK_TIMEOUT
from .protocols import Algorithm, Array, Metric, P, Recorder, Row, StoppingRule
from .result import Result
from .running.checkpoint import Checkpoints
from .running.prepared import OnRankLoss, Run
from .settings import named

if TYPE_CHECKING:
    from .network import Channel, Placement

__all__ = ["Result", "Run", "connect", "iterate", "solve"]


@named
def solve(
    problem: P | Deferred | Spread,
    algorithm: Algorithm[P, Any] | type[Algorithm[P, Any]] | str,
    W: Any = None,
    *,
    x0: Array | None = None,
    iterations: int = 1000,
    stopping: StoppingRule | float | None = None,
    seed: int = 0,
    comm: Any = None,
    placement: Placement = "even",
    channel: Channel | str | None = None,
    rows: int | None = None,
    record_every: int | None = None,
    recorders: Sequence[Recorder] = (),
    callback: Callable[[Row], object] | None = None,
    progress: bool = False,
    metrics: Sequence[Metric] = (),
    safety_region: float | None = None,
    checkpoints: Checkpoints | None = None,
    resume: str | os.PathLike[str] | None = None,
    rank_timeout: float = RANK_TIMEOUT,
    compute_timeout: float = 0.0,
    on_rank_loss: OnRankLoss = "abort",
    device: str | None = None,
    check: bool = False,
) -> Result:
    """Minimise the mean of the agents' objectives under their constraint.

    Called with the same arguments on every rank when started under ``mpirun``; the same bits for any number of ranks. Ctrl-C
    (SIGINT) ends the run between two iterations and returns its result, with the status ``interrupted``; a second one raises
    KeyboardInterrupt at once.

    Parameters
    ----------
    problem
        Given whole (each rank keeps its own agents), or a `Deferred` that each rank builds for its agents
        (``Procrustes.from_loader``). `problems.Spread` of either is one agent whose samples are spread over the ranks.
    algorithm
        E.g. ``DRFGT(step_size=1e-2, penalty=10.0)``, a class, or a name as on the command line: ``"drfgt:penalty=10"``.
    W
        ``(n, n)`` mixing matrix, symmetric and doubly stochastic, or a `topologies.WeightSequence` that gives one for every round.
        Or a networkx graph, with Metropolis weights, whose nodes are the agents in the order of `topologies.numbered`; edge
        attributes are ignored. Or the name of a graph or a sequence, with the weights of the command line: ``"ring"``,
        ``"torus:2x5"``. For `PushPull` also a ``networkx.DiGraph``, `topologies.DirectedWeights`, or the name of a directed graph:
        ``"directed_ring:chords=3"``. May be left out for a single agent.
    x0
        Common start of all agents, one point, feasible for methods that move along the set; by default random from the seed.
    iterations
        The most iterations.
    stopping
        A rule such as ``GradientNorm(1e-6, relative=True) & Consensus(1e-6) | Time(60)``, looked at in each recorded row (there
        is one when a time is over); or ``LocalMaximum(1e-6)``, by which the agents decide themselves. A number is the tolerance of
        ``GradientNorm``. A function of the row ends the run where it returns True: ``lambda row: row["error"] < 1e-3``; on
        ranks the answer of rank 0 counts.
    seed
        Of everything random.
    comm
        None: this process alone, or all ranks when started under ``mpirun`` with more than one; ``"serial"``; or an mpi4py
        communicator.
    placement
        How agents are divided over ranks: ``"even"`` or ``"fewer-cuts"``.
    channel
        What goes wrong with messages, simulated: ``"loss:p=0.1"``, or ``Channel("loss:p=0.1", "topk:share=0.1", repair=False)``.
    rows
        About how many log-spaced rows of metrics to record; by default 200, but no more than one in five iterations.
    record_every
        Record every so many iterations instead.
    recorders
        Objects whose ``record(row)`` rank 0 calls.
    callback
        A function that rank 0 calls with each recorded row: ``row.iteration``, ``row["gradient_norm"]``. The run ends where it
        returns True or raises StopIteration.
    progress
        Rank 0 shows how far the run is: in a notebook, on a terminal, or in about ten lines elsewhere.
    metrics
        Further metrics, beside the standard ones.
    safety_region
        Stop when ``feasibility`` exceeds this.
    checkpoints
        Where and when to write checkpoints: ``Checkpoints("folder", every=1000)`` or ``every="10m"``.
    resume
        Where a run like this one left checkpoints: goes on from the newest that is whole, with the bits of a run that never
        stopped, on any number of ranks.
    on_rank_loss
        What becomes of a run when one of its ranks is lost (killed, or its host): ``"abort"`` ends it; ``"shrink"`` goes on without
        the agents of that rank, and ``"restart"``, for asynchronous agents, with them, from their own checkpoints on the ranks that
        are left; both with Open MPI and its ``--with-ft ulfm`` (``docs/running.md``). On one process nothing can be lost.
    rank_timeout
        On MPI ranks: the job ends when a rank has given no sign of life for so many seconds (stopped, its host frozen or gone); 0:
        never. A gradient may take longer; a single call that holds Python's lock may not.
    compute_timeout
        On MPI ranks: the job ends when a rank has computed for so many seconds without meeting the others; 0: never.
    device
        Where the iterations are made: ``"cuda"`` or ``"cuda:1"``, a GPU by PyTorch; ``"torch:cpu"``; with ``":float32"`` behind it
        in single precision; by default NumPy's arrays (``docs/devices.md``).
    check
        Test the gradients before the first iteration (`Run.check_gradient`); a ValueError names the agent whose gradient is wrong.

    Raises
    ------
    ValueError, TypeError
        Before work starts, the same on every rank, for input that cannot work.
    CheckpointError
        On every rank: a checkpoint cannot be written, or not be resumed from.
    LostError
        On every rank that is left: the others fall apart.
    """
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be a function of a row, such as print, got {callback!r}")
    run = Run(
        problem,
        algorithm,
        W,
        x0=x0,
        seed=seed,
        comm=comm,
        placement=placement,
        channel=channel,
        rank_timeout=rank_timeout,
        on_rank_loss=on_rank_loss,
        device=device,
    )
    if check:
        run.check_gradient()
    recorders = [*recorders, *([] if callback is None else [SimpleNamespace(record=callback)])]
    with contextlib.ExitStack() as stack:
        if progress and run.collective.rank == 0:
            from .cli.progress import row_progress

            recorders.append(stack.enter_context(row_progress(iterations)))
        return run.solve(
            iterations=iterations,
            stopping=stopping,
            rows=rows,
            record_every=record_every,
            recorders=recorders,
            metrics=metrics,
            safety_region=safety_region,
            checkpoints=checkpoints,
            resume=resume,
            compute_timeout=compute_timeout,
            interruptible=True,
        )


@named
def iterate(
    problem: P | Deferred | Spread,
    algorithm: Algorithm[P, Any] | type[Algorithm[P, Any]] | str,
    W: Any = None,
    *,
    x0: Array | None = None,
    seed: int = 0,
    comm: Any = None,
    placement: Placement = "even",
    channel: Channel | str | None = None,
    rank_timeout: float = RANK_TIMEOUT,
    device: str | None = None,
) -> Iterator[Any]:
    """The generator under `solve`: the states, from the initial one on, for ever.

    A state is valid until the next one is asked for; copy what you keep.
    """
    run = Run(
        problem,
        algorithm,
        W,
        x0=x0,
        seed=seed,
        comm=comm,
        placement=placement,
        channel=channel,
        rank_timeout=rank_timeout,
        device=device,
    )
    return run.states()
