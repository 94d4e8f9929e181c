"""Agents that leave a run for good, and the run with which the others continue.

1. The agents of a lost rank leave the graph. The weights that an agent gave to them are added to
   its own weight: W stays symmetric and doubly stochastic (`topologies.without_agents`).
2. The objective is the mean over the remaining agents. Their data and the constraint set stay as
   they are.
3. All go back to the same iteration (`rank_loss_rewind`), and the method begins again there, from
   every agent's own point: so trackers are the fields at these points, and their mean is that of
   the remaining agents' fields. Automatic settings are chosen again.
4. Iterations are numbered on; steps that fall with the iteration continue to fall, counts and draws
   continue.

Asynchronous agents have no common iteration, and need none: theirs stay, on the remaining ranks,
each from its own checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from ..algorithms.decentralized.wrappers import WrappedState
from ..network import Shrinking, surviving
from ..numerics.threads import one_thread
from ..protocols import Array, Declared, LocalProducts, Rewound
from ..running.checkpoint import Resumed
from ..running.checkpoint.checkpoint_files import kept
from ..running.history import History
from ..running.metrics import splits_features
from ..running.options import Options
from ..running.rank_loss_rewind import Rewind, RunState
from .kinds.plain import Run
from .losses import Loss, LostError
from .result import Result


def restarted(run: Run, x: Array, k: int, gradients: int) -> Any:
    """Return the state of a run's method that restarts at the points ``x`` in iteration ``k``.

    ``x`` is ``(n_local, *shape)``. Each agent has computed ``gradients`` gradients before.
    """
    state = run.method.init(run.problem, run.network, run.streams, x)
    changes = {"k": k, "gradients": state.gradients + gradients}
    scale = Declared.of(run.method).scale
    if scale is not None and hasattr(state, "base"):  # it begins with the step of iteration 0
        changes["step_size"] = state.base * scale(k)
    if isinstance(state, WrappedState):
        return state._replace(inner=state.inner._replace(**changes))
    return state._replace(**changes)


def survivors(comm: object, channel: object, spread: bool) -> Any:
    """Return the communicator of a run that survives the loss of ranks.

    ``comm`` is as for `network.connect`. Raises ValueError if the run has a channel, if
    ``spread`` is set (one agent on all ranks), or if the MPI library does not support it.
    """
    if spread or channel is not None:
        what = "a channel that is simulated"
        if spread:
            what = "one agent whose samples are spread over the ranks"
        raise ValueError(f"on_rank_loss shrink is not for {what}: leave it out")
    return surviving(comm)


def check_graph(network: Any) -> None:
    """Raise ValueError for a network that agents cannot leave."""
    if network.sequence is not None:
        raise ValueError(
            "on_rank_loss shrink is for a W that stays: agents cannot leave a time-varying network"
        )
    if network.directed:
        raise ValueError(
            "on_rank_loss shrink is for undirected graphs: agents cannot leave a directed network"
        )


def check_leaving(problem: object, what: str = "on_rank_loss shrink") -> None:
    """Raise TypeError if ``what`` is requested for a problem that agents cannot leave."""
    name = type(problem).__name__
    if not hasattr(problem, "without"):
        raise TypeError(
            f"{what} needs a problem that agents can leave, but {name} lacks the method "
            "without(lost)"
        )
    if splits_features(problem):
        raise TypeError(
            f"{what} is not for {name}: features that are lost leave another problem behind"
        )
    if isinstance(problem, LocalProducts):
        raise TypeError(
            f"{what} is not for {name}: its constraint set is the mean of what all agents know, "
            "and would be another without some of them"
        )


Rebuilt = tuple[Run, Resumed, Rewind | None, str]
"""The run that continues after a loss, its state and copies, and the loss in words."""


def continued(run: Run, options: Options, resumed: Resumed | None) -> Result:
    """Iterate to the end without the ranks that are lost meanwhile, and return the result.

    The communicator of ``run`` is `network.Shrinking`. Recorders are notified of rows that are
    withdrawn. Raises LostError if the remaining agents cannot continue.
    """
    first = run
    size = run.network.communicator.size
    rewind = Rewind(size, RunState(0, run.x0.copy(), (0, 0, 0), 0), History())
    if resumed is not None:
        rewind = _from(resumed, size)

    def rebuilt(run: Run, communicator: Shrinking, rewind: Any) -> Rebuilt:
        left, back = _left(first, communicator, rewind, run.losses, options.folder)
        return left, back, _from(back, rewind.every), str(left.losses[-1])

    return _outlived(run, options, resumed, rewind, rebuilt)


def divided_anew(run: Run, options: Options, resumed: Resumed | None) -> Result:
    """Iterate a run of asynchronous agents to the end, and return its result.

    Whenever ranks are lost, the remaining ones divide all agents again, and every agent continues
    from its own checkpoint in the folder.
    """

    def rebuilt(run: Run, communicator: Shrinking, rewind: object) -> Rebuilt:
        before = cast(Shrinking, run.network.communicator)
        gone = sorted({*before.alive} - {*communicator.alive})
        run = run.again(comm=communicator)
        words = (
            f"rank {', '.join(map(str, gone))}, whose agents begin again from their checkpoints "
            "on the other ranks"
        )
        return run, run.resume(options.folder), None, words

    return _outlived(run, options, resumed, None, rebuilt)


def _outlived(
    run: Run,
    options: Options,
    resumed: Resumed | None,
    rewind: Rewind | None,
    rebuilt: Callable[[Run, Shrinking, Rewind | None], Rebuilt],
) -> Result:
    """Iterate to the end; ``rebuilt(run, communicator, rewind)`` gives what continues on the ranks
    that are left after a loss."""
    communicator = cast(Shrinking, run.network.communicator)
    if communicator.size == 1:  # a single process cannot be lost alone
        return run.result(run.iterate(options, resumed))
    while True:
        try:
            if communicator is not run.network.communicator:
                run, resumed, rewind, lost = rebuilt(run, communicator, rewind)
                _tell(communicator, options, resumed, lost)
            outcome = run.iterate(options, resumed, rewind)
            communicator.agree()
            return run.result(outcome)
        except communicator.failures as error:
            before = communicator
            communicator = communicator.shrunk()
            if communicator.size == before.size:  # it was not a loss
                raise error


def _tell(communicator: Shrinking, options: Options, resumed: Resumed, lost: str) -> None:
    """Report the remaining rows to the recorders on rank 0."""
    for recorder in options.recorders:
        if communicator.rank == 0 and isinstance(recorder, Rewound):
            recorder.rewound(resumed.history.rows, lost)


def _from(resumed: Resumed, every: int) -> Rewind:
    """The copies of a run that continues."""
    state = resumed.state
    held = RunState(state.k, state.x.copy(), resumed.counts, state.gradients)
    return Rewind(every, held, resumed.history)


def _left(
    first: Run, communicator: Shrinking, rewind: Rewind, losses: Sequence[Loss], folder: Path | None
) -> tuple[Run, Resumed]:
    """The run of the remaining ranks of the ``first``, and its state at the last iteration of which
    all have a copy."""
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
        words = f"lost {loss}, and the others cannot continue: {error}"
        if folder is not None and (saved := kept(folder)):
            words = f"{words}; the last checkpoint is {saved[0]}"
        raise LostError(words, communicator.rank == 0) from error
    run.losses = (*first.losses, *earlier, loss)
    run.network.restore(rounds, messages, sent, {})
    with one_thread(), np.errstate(over="ignore", invalid="ignore"):
        state = restarted(run, held.x, back, gradients)
    history = rewind.history.before(back)
    counts = (rounds, messages, sent)
    return run, Resumed(None, state, counts, {}, history, rewind.seconds(), {})
