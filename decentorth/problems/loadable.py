"""Problems of arrays that each rank loads for its own agents: by a function, or from sites."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

from ..protocols import Array, Collective
from .base import View
from .common.checks import matrices, same_columns, same_names
from .common.pooled_rows import AS_GIVEN, Missing, Units, Wanted, in_units
from .deferred import Deferred, Outline


class Loadable:
    """A problem of one array, or a few, of each agent; its arguments are lists of them, settings,
    ``n_agents``, ``first_agent``."""

    _arrays: ClassVar[int] = 1
    """The number of arrays of each agent."""
    _keeps_sparse: ClassVar[bool] = False
    """True if sparse arrays stay sparse."""
    _centers: ClassVar[bool] = False
    """True if the columns of loaded samples are centred by default, as on the command line."""

    @classmethod
    def from_loader(
        cls,
        loader: Callable[[int], object],
        n_agents: int,
        *settings: object,
        center: bool | None = None,
        scale: bool = False,
        missing: Missing = "refuse",
        **more: object,
    ) -> Deferred:
        """A problem whose ranks each load their own agents.

        Parameters
        ----------
        loader
            From an agent's number to its array, or to a tuple of its arrays.
        center
            Subtract from each column its mean over all agents' samples; by default for CCA and
            MAXVAR.
        scale
            Also divide each column by its standard deviation over all agents' samples.
        missing
            ``"refuse"``, or ``"mean"`` for the mean of the column over all agents' samples in place
            of each NaN.
        settings, more
            The settings of the class.
        """

        cls._check_settings("from_loader(loader, n_agents, ...)", "n_agents", settings, more)

        def read(agents: slice, collective: Collective) -> list[View]:
            with collective.together():
                data = [loader(agent) for agent in range(agents.start, agents.stop)]
                views = zip(*data, strict=True) if cls._arrays > 1 else [data]
                views = [list(view) for view in views]
            named = zip("AB", views, strict=False)
            return [(same_names(name, view, agents.start, collective), ()) for name, view in named]

        wanted = Wanted(cls._centers if center is None else center, scale, missing)
        build = cls._builder(read, wanted, settings, {"n_agents": n_agents, **more})
        compared = cls._given(settings, more, wanted)
        return Deferred(n_agents, build, private=True, given=compared)

    @classmethod
    def from_sites(
        cls,
        sites: Any,
        *settings: object,
        columns: Any = None,
        center: bool | None = None,
        scale: bool = False,
        missing: Missing = "refuse",
        **more: object,
    ) -> Deferred:
        """A problem of sites that each hold their own samples; a rank opens only those of its own
        agents.

        Parameters
        ----------
        sites
            A dictionary from the names of the sites to their samples, a list or generator of
            samples, or their files as one text: ``"north.csv,south.csv"``, a folder or a pattern.
            Samples are an array, a sparse matrix of SciPy, a frame of pandas or polars, a file, or
            a function without arguments that returns one of these. A problem of several arrays
            takes a tuple of them for each site. None stands for the samples of other ranks.
        columns
            A `data.Columns` of the tables, whose columns are matched by name; by default all
            columns.
        center
            Subtract from each column its mean over the samples of all sites; by default for CCA and
            MAXVAR.
        scale
            Also divide each column by its standard deviation over the samples of all sites.
        missing
            ``"refuse"``, or ``"mean"`` for the mean of the column over the samples of all sites in
            place of each NaN.
        settings, more
            The other parameters of the class, such as its rank.

        Raises
        ------
        ValueError, TypeError
            On every rank, when the run begins: the samples of a site cannot be used; names site,
            row and column.
        """
        from ..data.sites import Sites, naming, sites_of
        from ..data.tables import Columns

        if misplaced := sorted({"exclude", "drop_missing", "label"} & more.keys()):
            listed = ", ".join(f"{name}={more[name]!r}" for name in misplaced)
            raise TypeError(
                f"{', '.join(misplaced)}: give columns=Columns({listed}), of decentorth.data"
            )
        cls._check_settings("from_sites(sites, ...)", "sites", settings, more)
        given, names = sites_of(sites)
        every = [name for name, _ in given]

        def entries(agents: slice) -> list[list[tuple[str, object]]]:
            own: list[Any] = [None] * len(given)
            for agent, (_, samples) in enumerate(given[agents], agents.start):
                own[agent] = samples() if callable(samples) else samples
            views = [own]
            if cls._arrays > 1:
                numbers = range(cls._arrays)
                views = [[None if one is None else one[k] for one in own] for k in numbers]
            return [list(zip(every, view, strict=True)) for view in views]

        wanted = Wanted(cls._centers if center is None else center, scale, missing)
        read = columns or Columns()
        read = read._replace(keep_missing=wanted.fill, keep_sparse=cls._keeps_sparse)
        found = Sites(entries, read)

        def outline() -> Outline:
            return Outline(found.counts, found.width, beside=found.beside, stored=found.stored)

        arguments = {"n_agents": len(given), **more}
        build = cls._builder(found.read, wanted, settings, arguments, lambda: naming(every))
        compared = cls._given(settings, more, wanted, columns=columns)
        return Deferred(
            len(given), build, outline, found.open, sites=names, private=True, given=compared
        )

    @classmethod
    def _builder(
        cls,
        read: Callable[[slice, Collective], Sequence[View]],
        wanted: Wanted,
        settings: Sequence[Any],
        more: Mapping[str, Any],
        named: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> Callable[[slice, Collective], object]:
        """The function that makes a rank's problem of the views that ``read`` gives; errors are
        ``named``."""
        make: Callable[..., Any] = cls

        def build(agents: slice, collective: Collective) -> object:
            views = read(agents, collective)
            with named():
                lists, units = _in_units(views, agents.start, collective, wanted)
            place = {
                "first_agent": agents.start,
                **cls._of_all(lists[0], collective, units),
                **more,
            }
            with collective.together(), named():
                problem = make(*lists, *settings, **place)
                problem = problem.with_units(units, [names for _, names in views])
                if problem.columns is not None and not (wanted.center or wanted.scale):
                    problem.about_columns = dict(AS_GIVEN)
                return problem

        return build

    @classmethod
    def _given(
        cls, settings: Sequence[Any], more: Mapping[str, Any], wanted: Wanted, **data: object
    ) -> dict[str, object]:
        """The settings of a problem by name, with the type of the problem and what is done to the
        data."""
        names = [*inspect.signature(cls).parameters][cls._arrays :]
        by_name = dict(zip(names, settings, strict=False))
        return {"type": cls, **by_name, **more, **wanted._asdict(), **data}

    @classmethod
    def _check_settings(
        cls, call: str, last: str, settings: Sequence[object], more: Mapping[str, object]
    ) -> None:
        """Raise a TypeError unless the class takes these settings, which follow the argument
        ``last`` of ``call``."""
        arrays = [None] * cls._arrays
        try:
            inspect.signature(cls).bind(*arrays, *settings, n_agents=1, first_agent=0, **more)
        except TypeError as error:
            call = f"{cls.__name__}.{call} takes the settings of {cls.__name__}"
            _, _, wrong = str(error).rpartition("bind() ")
            raise TypeError(f"{call} after {last}: {wrong}") from None

    @classmethod
    def _of_all(
        cls, data: list[Array], collective: Collective, units: Sequence[Units]
    ) -> dict[str, object]:
        """The arguments that need the data of all agents, of which ``data`` are those here, in
        these ``units``."""
        return {}


def _in_units(
    views: Sequence[View], first: int, collective: Collective, wanted: Wanted
) -> tuple[list[list[Any]], tuple[Units, ...]]:
    """The samples of each view in the units that are wanted, and these; ``first`` is the first
    agent's number."""
    if not wanted.any:
        return [list(view) for view, _ in views], ()
    found = []
    for view, names in views:
        with collective.together():
            checked = matrices("A", view, first, missing=wanted.fill, sparse=True)
            width = same_columns("A", checked, first)
        collective.same("the number of columns", str(width).encode())
        found.append(in_units(checked, collective, wanted, names))
    return [scaled for scaled, _ in found], tuple(one for _, units in found for one in units)
