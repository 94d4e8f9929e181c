"""The end of a run, as `load` reads it from the folder of the run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..display import Shown, curve, shape, size, table
from ..figures.histories import plot_histories
from ..protocols import Array, Row
from ..records.run_files import SUMMARY
from ..records.saved_runs import mean_rows, read_finished
from ..running.history import COUNTS, History
from .directions import SampleColumns
from .ledger_table import Sent, sent_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..problems.common.coordinates import Coordinates, PairedCoordinates

_METRICS = (
    *("objective", "gradient_norm", "subgradient_norm"),
    *("consensus_rms", "feasibility", "error"),
)
"""The metrics that a result prints, where it has them."""


@dataclass(frozen=True, repr=False, kw_only=True)
class FinishedRun(Shown):
    """The end of a run.

    Attributes
    ----------
    x
        ``(n_local, *shape)``: the final points of this process's agents (all agents, in one process
        or from a folder).
    status, converged, message
        One word (converged, iterations, time_limit, objective_floor, unbounded, terminated,
        interrupted, stopped, no_step, diverged, left_safe_region), whether it means convergence, and a
        sentence.
    history
        The recorded rows as columns.
    row
        The last row: counts and metrics.
    seconds
        Wall seconds of this rank: compute, wait, metrics, checkpoints, total.
    n_agents
        The number of agents over all ranks.
    labels
        The names of all agents, where the sites or the network have them; else None.
    columns
        The samples' columns, along which the columns of x are directions; else None.

    Examples
    --------
    >>> import decentorth as do
    >>> import tempfile
    >>> settings = do.problems.PCASettings(data="synthetic", rank=2)
    >>> problem = settings.problem(4, seed=0)
    >>> folder = tempfile.mkdtemp() + "/run"
    >>> do.solve(problem, "drfgt", "ring", iterations=100).save(folder)
    >>> run = do.load(folder)
    >>> run.status, run.x.shape, run.row.iteration
    ('iterations', (4, 10, 2), 100)
    """

    x: Array
    status: str
    converged: bool
    message: str
    history: History
    row: Row
    seconds: Mapping[str, float]
    n_agents: int
    labels: tuple[str, ...] | None = None
    columns: SampleColumns | None = None
    directions: Array | None = None
    """``(d, r)``: the mean of the agents' directions of the columns, of a run that was loaded."""
    sent_rows: tuple[Sent, ...] = ()
    """The rows of `sent`, of a run that was loaded."""
    agent: int | None = None
    """The number of the site whose point x is, of a site's folder that was loaded; else None."""

    @property
    def iterations(self) -> int:
        """The number of iterations made: ``row.iteration``."""
        return self.row.iteration

    @property
    def sites(self) -> tuple[str, ...] | None:
        """The names of the sites, in the order of the agents: `labels`."""
        return self.labels

    @property
    def _own(self) -> slice:
        """The agents whose points this process holds."""
        if self.agent is not None:
            return slice(self.agent, self.agent + 1)
        return slice(0, self.n_agents)

    def _facts(self) -> Mapping[str, object]:
        row = self.row
        values = self.row.values
        labels = self.labels or ()
        names = ", ".join([*labels[:6], *["..."] * (len(labels) > 6)])
        agents = f"{self.n_agents}, x of {shape(self.x.shape[1:])}"
        known = [name for name in _METRICS if name in values]
        return {
            "status": f"{self.status} after {row.iteration} iterations",
            "message": self.message,
            "agents": "; ".join(filter(None, (agents, names))),
            **{name.replace("_", " "): f"{values[name]:.3g}" for name in known},
            "counts": f"{row.rounds} rounds, {row.messages} messages, {size(row.bytes)}, {row.gradients} "
            "gradients of each agent",
            "seconds": f"{row.seconds:.3g} iterating, {self.seconds['total']:.3g} in all",
        }

    def __repr__(self) -> str:
        facts = [f"  {name:<14} {value}" for name, value in self._facts().items()]
        return "\n".join([type(self).__name__, *facts])

    def _repr_html_(self) -> str:
        names = ("gradient_norm", "subgradient_norm", "objective", "seconds")
        drawn = next(name for name in names if name in self.history)
        picture = curve(self.history["iteration"], self.history[drawn], drawn)
        return table(type(self).__name__, self._facts(), picture)

    def plot(self, **options: Any) -> Figure:
        """A figure of the history; needs matplotlib.

        Parameters
        ----------
        options
            As for `decentorth.figures.plot_histories`: ``metrics=["objective"]``,
            ``against="rounds"``.
        """
        return plot_histories({self.status: self.history}, **options)

    def estimator(self) -> Coordinates | PairedCoordinates:
        """The estimator that transforms new rows to their coordinates along the directions found,
        in the units of the run; needs scikit-learn.

        The directions are the mean of the agents' points, from a site's folder its own. They span the leading subspace, in no
        order. The estimator of a run of CCA transforms the rows of both views. Called by all ranks.

        Raises
        ------
        ValueError
            The run has found no directions of its samples' columns.
        """
        directions = self._directions()
        if self.columns is None or directions is None:
            raise ValueError(
                "a run of this problem is not a map of new rows: runs of PCA, sparse, robust and "
                "l1 PCA, CCA, MAXVAR and LDA are; fit an estimator of decentorth.estimators instead"
            )
        return self.columns.estimator(directions)

    def sent(self) -> list[Sent]:
        """Rows of what has left each site in the whole run: receiver, quantity, numbers and bytes.

        Raises
        ------
        ValueError
            The folder of the run lacks them: they are saved for 100 agents at most.
        """
        if self.row.bytes and not self.sent_rows:
            raise ValueError(
                "the folder of this run does not list what was sent, as folders of runs of more "
                "than 100 agents: ask the result of solve"
            )
        return list(self.sent_rows)

    def _directions(self) -> Array | None:
        """``(d, r)``: the mean of the agents' directions of the columns, if there are any."""
        return self.directions

    def to_pandas(self) -> Any:
        """The history as a ``pandas.DataFrame``, a row for each recorded iteration; needs
        pandas."""
        return self.history.to_pandas()

    def to_xarray(self) -> Any:
        """An ``xarray.Dataset`` with the history along ``iteration``, and along ``agent`` x,
        ``(agent, row, column)``, and the distance of each agent of this process from their mean;
        needs xarray."""
        try:
            import xarray
        except ImportError:
            raise ImportError("to_xarray needs xarray: pip install xarray") from None
        agents = np.array(self.labels or range(self.n_agents))
        sides = tuple([f"axis_{i}" for i in range(self.x.ndim - 1)])
        if self.x.ndim == 3:
            sides = ("row", "column")
        gaps = (self.x - self.x.mean(axis=0)).reshape(len(self.x), -1)
        distances = np.linalg.norm(gaps, axis=1)
        entries: dict[str, Any] = {name: ("iteration", one) for name, one in self.history.items()}
        entries |= {"x": (("agent", *sides), self.x), "distance_from_mean": ("agent", distances)}
        places = {"iteration": entries.pop("iteration")[1], "agent": agents[self._own]}
        about = {"status": self.status, "message": self.message}
        return xarray.Dataset(entries, places, about)


def load(folder: str | os.PathLike[str]) -> FinishedRun:
    """The end of the run in a folder that `Result.save` or ``--out`` has filled; nothing in it is
    executed.

    The folder of a site that joined others has the point of this site.

    Raises
    ------
    ValueError
        The folder holds no run that has ended, or its files are damaged; names the file.
    """
    summary, x, columns = read_finished(folder)
    place = str(Path(folder) / SUMMARY)
    samples = SampleColumns.of_summary(summary, place)
    directions = None
    if samples is not None:
        directions = mean_rows(folder, samples.arrays)
        samples.check(directions, place)
    history = History()
    metrics = [name for name in columns if name not in (*COUNTS, "seconds")]
    for k in range(len(columns["iteration"])):
        counts = [int(columns[name][k]) for name in COUNTS]
        values = {name: float(columns[name][k]) for name in metrics}
        history.record(Row._make((*counts, float(columns["seconds"][k]), values, None)))
    labels = summary.get("labels")
    agent = summary.get("agent")
    return FinishedRun(
        x=x,
        status=str(summary["status"]),
        converged=bool(summary["converged"]),
        message=str(summary["message"]),
        history=history,
        row=history.rows[-1],
        seconds=summary["seconds"],
        n_agents=len(x) if agent is None else int(summary["agents"]),
        labels=None if labels is None else tuple(map(str, labels)),
        columns=samples,
        directions=directions,
        sent_rows=sent_of(summary, place),
        agent=agent,
    )
