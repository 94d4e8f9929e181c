"""Agents that leave a run for good, and the run that the others go on with.

1. The agents of a lost rank leave the graph. What an agent gave to them, it keeps: W stays symmetric and doubly stochastic
   (`topologies.without_agents`).
2. The objective is the mean over those that are left. Their data and the constraint set stay as they are.
3. All go back to the same iteration (`rewind`), and the method begins anew there, from every agent's own point: so trackers are the
   fields at these points, and their mean is the mean of the fields of those that are left. Whatever is ``auto`` is found anew.
4. Iterations are numbered on; steps that fall with the iteration go on falling, counts and draws go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from topologies.leaving import ranges

from .checkpoint import Resumed, kept
from .history import History
from .protocols import Array, LocalProducts, Problem, Recorder, Rewound, Streams
from .rewind import Held, Rewind
from .runner import Outcome


class Loss(NamedTuple):
    """Ranks that were lost, and what went with them."""

    iteration: int
    """To which the others went back, and from which they went on."""
    ranks: tuple[int, ...]
    """By their numbers at the start."""
    agents: tuple[int, ...]
    """By their numbers at the start."""

    def __str__(self) -> str:
        """In words."""
        return f"ranks {ranges(self.ranks)}, with agents {ranges(self.agents)}, after iteration {self.iteration}"


class LostError(RuntimeError):
    """Ranks were lost, and those that are left cannot go on; the message says why, and what there is instead.

    Parameters
    ----------
    message
        The same on all that are left.
    first
        Whether this is the first of them.
    """

    def __init__(self, message: str, first: bool) -> None:
        super().__init__(message)
        self.first = first


def restarted(algorithm: Any, problem: Problem[Any], network: Any, streams: Streams, x: Array, k: int, gradients: int) -> Any:
    """The method's state as it begins at the agents' own points ``x``, ``(n_local, *shape)``, in iteration ``k``.

    Parameters
    ----------
    gradients
        Evaluations made so far, per agent.
    """
    state = algorithm.init(problem, network, streams, x)
    scale = getattr(getattr(algorithm, "step_size", None), "scale", None)
    if scale is not None and "base" in state._fields:  # the method begins with the step of iteration 0
        state = state._replace(step_size=state.base * scale(k))
    return state._replace(k=k, gradients=state.gradients + gradients)


def check_leaving(problem: object) -> None:
    """Refuse a problem that agents cannot leave.

    Raises
    ------
    TypeError
        With its name.
    """
    name = type(problem).__name__
    if not hasattr(problem, "without"):
        raise TypeError(f"on_rank_loss='shrink' needs a problem that agents can leave, but {name} has no method without(lost)")
    if isinstance(problem, LocalProducts):
        raise TypeError(
            f"on_rank_loss='shrink' is not for {name}: its constraint set is the mean of what all agents know, "
            "and would be another without some of them"
        )


def outlive(
    run: Any,
    iterate: Callable[[Any, Resumed | None, Rewind], Outcome],
    recorders: Sequence[Recorder],
    folder: Path | None,
    resumed: Resumed | None,
) -> tuple[Any, Outcome]:
    """Iterate to the end, without the ranks that are lost on the way: the `decentorth.api.Run` of those that are left, and its end.

    Parameters
    ----------
    run
        Whose communicator is `network.Shrinking`.
    iterate
        Iterates a run to its end, from a start and with a rewind.
    recorders
        Told of the rows that are taken back.
    folder
        Where checkpoints are.
    resumed
        What to go on from.

    Raises
    ------
    LostError
        Those that are left cannot go on.
    """
    first, communicator = run, run.network.communicator
    start, history = Held(0, run.x0.copy(), (0, 0, 0), 0), History()
    if resumed is not None:
        start = Held(resumed.state.k, resumed.state.x.copy(), resumed.counts, resumed.state.gradients)
        history = resumed.history
    rewind = Rewind(communicator.size, start, history)
    while True:
        try:
            if communicator is not run.network.communicator:
                run, resumed = _left(first, communicator, rewind, run.losses, folder)
                start = Held(resumed.state.k, resumed.state.x.copy(), resumed.counts, resumed.state.gradients)
                rewind = Rewind(rewind.every, start, resumed.history)
                if communicator.rank == 0:
                    for recorder in recorders:
                        if isinstance(recorder, Rewound):
                            recorder.rewound(resumed.history.rows, str(run.losses[-1]))
            outcome = iterate(run, resumed, rewind)
            communicator.agree()
            return run, outcome
        except communicator.failures as error:
            before, communicator = communicator, communicator.shrunk()
            if communicator.size == before.size:  # it was not a loss
                raise error


def _left(first: Any, communicator: Any, rewind: Rewind, losses: Sequence[Loss], folder: Path | None) -> tuple[Any, Resumed]:
    """The run of the ranks that are left of the ``first``, and where it goes on: the last iteration of which all have a copy."""
    back = -int(communicator.max(np.array([-float(rewind.latest)]))[0])
    held = rewind.at(back)
    made = communicator.max(np.array([*held.counts, held.gradients], dtype=np.float64))
    rounds, messages, sent, gradients = made.astype(np.int64).tolist()
    bounds = first.network.bounds
    gone = [rank for rank in range(len(bounds) - 1) if rank not in communicator.alive]
    lost = np.concatenate([np.arange(bounds[rank], bounds[rank + 1]) for rank in gone])
    earlier = [loss for loss in losses[len(first.losses) :] if loss.iteration != back]
    ranks = [rank for rank in gone if not any(rank in loss.ranks for loss in earlier)]
    agents = np.concatenate([first.numbers[bounds[rank] : bounds[rank + 1]] for rank in ranks])
    loss = Loss(back, tuple(ranks), tuple(agents.tolist()))
    try:
        run = first.without(lost, communicator, communicator.alive)
    except ValueError as error:
        root = None if folder is None else kept(folder)
        there = f"; the last checkpoint is {root[0]}" if root else ""
        raise LostError(f"lost {loss}, and the others cannot go on: {error}{there}", communicator.rank == 0) from error
    run.losses = (*first.losses, *earlier, loss)
    run.network.restore(rounds, messages, sent, {})
    with threadpool_limits(1), np.errstate(over="ignore", invalid="ignore"):
        state = restarted(run.method, run.problem, run.network, run.streams, held.x, back, gradients)
    return run, Resumed(None, state, (rounds, messages, sent), {}, rewind.history.before(back), rewind.seconds(), {})
