"""The division of the samples of a file or bundled set over the agents, by a problem's settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from ...protocols import Array
from ...settings import Count, Positive, Settings

SampleFile = Annotated[
    str,
    "A file with one sample per row (.npy, .npz, .csv, .parquet, .mat, svmlight, Matrix Market or idx), or the name of bundled "
    "data (digits).",
]
AgentSamples = Annotated[Count, "Samples of each agent (generated data)."]
Shuffling = Annotated[bool, "Shuffle the file's rows over the agents by the seed; otherwise consecutive rows."]
Centering = Annotated[bool, "Subtract the mean of all samples first."]


@dataclass(frozen=True, kw_only=True)
class Tabular(Settings):
    """Settings of samples that may be columns of a table.

    Parameters
    ----------
    columns
        The names of the columns of the samples in a table (.csv, .parquet); by default all but that of the labels.
    label_column
        The name of the column of labels in a table.
    drop_missing
        Leave out the rows of a table in which a cell of these columns is missing.
    """

    columns: tuple[str, ...] = ()
    label_column: str | None = None
    drop_missing: bool = False

    def selected(self) -> tuple[tuple[str, ...], str | None, bool]:
        """The columns that are read, as `data.Columns` has them."""
        return self.columns, self.label_column, self.drop_missing


@dataclass(frozen=True, kw_only=True)
class Divided(Tabular):
    """Settings of samples that are divided over the agents.

    Parameters
    ----------
    partition
        How samples are divided: even, by-label (each agent sees few labels), dirichlet (shares of each label drawn at random) or
        by-column (an agent for each label, as a station).
    labels
        File with one label per sample, for all but even; bundled data, svmlight files and tables with label_column bring their own.
    dirichlet_alpha
        Concentration of dirichlet: small is heterogeneous, large is even.
    shuffle
        Shuffle the samples by the seed before an even division; otherwise consecutive rows.
    """

    partition: Literal["even", "by-label", "dirichlet", "by-column"] = "even"
    labels: str | None = None
    dirichlet_alpha: Positive = 0.5
    shuffle: bool = True

    def idle(self) -> dict[str, str]:
        """The settings that have no effect, and why."""
        found = {} if self.partition == "dirichlet" else {"dirichlet_alpha": "it is for partition dirichlet"}
        if self.partition == "even":
            return {**found, "labels": "they are for partition by-label, dirichlet and by-column"}
        if self.labels is not None:
            found["label_column"] = "labels has them"
        return {**found, "shuffle": "it is for an even partition"}


TABULAR = ("columns", "label_column", "drop_missing")
DIVIDED = ("partition", "labels", "dirichlet_alpha", "shuffle", *TABULAR)


def idle_data(from_file: bool, generated: Sequence[str], read: Sequence[str] = (), source: str = "no data") -> dict[str, str]:
    """The settings that have no effect, and why: of generated data where a file is read, of files where none is.

    ``source`` is what a user gives, or leaves out, for generated data.
    """
    if from_file:
        return dict.fromkeys(generated, f"it is for generated data ({source})")
    return dict.fromkeys(read, "it is for data of a file")


def divided(data: str, settings: Divided, n_agents: int, agents: slice, seed: int) -> list[Array]:
    """The samples ``(m_i, d)`` of each agent in ``agents``, from the file or bundled set ``data``."""
    return divided_alike((data,), settings, n_agents, agents, seed)[0]


def divided_alike(data: Sequence[str], settings: Divided, n_agents: int, agents: slice, seed: int) -> list[list[Array]]:
    """The samples of each agent for several views, whose rows are divided alike, with the labels of the first view."""
    from ...data import Columns, load_labels, partition, resolve

    columns = Columns(*settings.selected())
    if len(data) > 1 and columns != Columns():
        raise ValueError("columns, label_column and drop_missing are for one table, and here each view has a file: leave them out")
    views = [resolve(name, columns) for name in data]
    first = views[0]
    for view in views[1:]:
        if view.shape[0] != first.shape[0]:
            raise ValueError(
                f"views must have a row for each sample, but {first.name} has {first.shape[0]} rows and {view.name} {view.shape[0]}"
            )
    labels: Any = None
    if settings.partition != "even":
        labels = load_labels(settings.labels) if settings.labels is not None else first.labels
    parts = partition(
        settings.partition,
        first.shape[0],
        n_agents,
        labels=labels,
        seed=seed,
        alpha=settings.dirichlet_alpha,
        shuffle=settings.shuffle,
    )
    return [[view.rows(index) for index in parts[agents]] for view in views]
