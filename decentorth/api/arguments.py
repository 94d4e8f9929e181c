"""The arguments of a run, each spelled once: `Setup` what runs and where, `options.Options` how it
ends, `Arguments` both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, cast

from ..problems import Deferred, Spread
from ..problems.deferred import Outline
from ..protocols import Algorithm, Array, P, Row
from ..running.options import Options, PlacementSettings
from ..running.parts import Method
from ..settings import Form
from . import conversions

if TYPE_CHECKING:
    from ..network import Channel
else:
    Channel = Any  # its module is loaded where there is a channel

AnyProblem = Annotated[P | Deferred | Spread, Form(conversions.problem)]
AnyMethod = Annotated[Algorithm[P, Any] | type[Algorithm[P, Any]] | str, Form(conversions.method)]
Faults = Annotated[Channel | str, Form(conversions.channel)]
Callback = Annotated[Callable[[Row], object], Form(conversions.callback)]


@dataclass(frozen=True)
class Setup(PlacementSettings, Generic[P]):
    """A problem, a method and a network, and where and with which faults they run; each argument in
    its one form.

    Parameters
    ----------
    problem
        Given whole (each rank keeps its own agents), or a `Deferred` that each rank builds for its
        agents (``Procrustes.from_loader``). `problems.Spread` of either is one agent whose samples
        are spread over the ranks.
    algorithm
        E.g. ``DRFGT(step_size=1e-2, penalty=10.0)``, a class, or a name as on the command line:
        ``"drfgt:penalty=10"``. By default the run takes the method that fits the problem, the
        network and its faults.
    W
        ``(n, n)`` mixing matrix, symmetric and doubly stochastic, or a `topologies.WeightSequence`
        that gives one for every round. Or a networkx graph, with Metropolis weights;
        `topologies.conductance_weights` also reads an attribute of its edges. Nodes with names are joined to the sites of their names; without
        sites, or with numbers, they are the agents in the order of `topologies.numbered`. Or the
        name of a graph or a sequence, with the weights of the command line: ``"ring"``,
        ``"torus:2x5"``. For `PushPull` also a ``networkx.DiGraph``, `topologies.DirectedWeights`,
        or the name of a directed graph: ``"directed_ring:chords=3"``. May be left out for a single
        agent.
    x0
        Common start of all agents, one point, feasible for methods that move along the set; by
        default random from the seed.
    comm
        None: this process alone, or all ranks when started under ``mpirun`` with more than one;
        ``"serial"``; or a communicator, as of `connect`.
    channel
        What goes wrong with messages, simulated: ``"loss:p=0.1"``, or ``Channel("loss:p=0.1",
        "topk:share=0.1", repair=False)``.
    """

    problem: AnyProblem[P]
    algorithm: AnyMethod[P] = "auto"  # the form makes a method of it
    W: Any = None
    _: KW_ONLY
    x0: Array | None = None
    comm: Any = None
    channel: Faults | None = None

    @cached_property
    def mixing(self) -> tuple[Any, conversions.Labels]:
        """The mixing matrix, or the sequence, and the names of its agents."""
        sites = getattr(self.problem, "sites", ())
        return conversions.network(self.W, self.problem.n_agents, self.seed, sites)

    @property
    def method(self) -> Method:
        """The method as an object."""
        return cast("Method", self.algorithm)

    @property
    def faults(self) -> Channel | None:
        """The channel as an object, or None."""
        return cast("Channel | None", self.channel)

    @property
    def blocks(self) -> int | None:
        """The number of blocks of a single agent's samples if these are spread over ranks, else
        None."""
        return self.problem.n_blocks if isinstance(self.problem, Spread) else None

    @property
    def sizes(self) -> Outline | None:
        """The sizes of the true data if a few random samples stand in for them, else None."""
        return self.problem.sizes if isinstance(self.problem, Deferred | Spread) else None


AnySetup = Setup[Any]
"""The arguments for a problem of any kind."""


@dataclass(frozen=True, kw_only=True)
class Arguments(Options, Setup[P]):
    """All arguments of `decentorth.solve`.

    Parameters
    ----------
    callback
        A function that rank 0 calls with each recorded row: ``row.iteration``,
        ``row["gradient_norm"]``. The run ends where it returns True or raises StopIteration.
    progress
        Rank 0 shows how far the run is: by a bar on a terminal, otherwise in about ten lines.
    check
        Test the gradients before the first iteration (`Run.check_gradient`); a ValueError names the
        agent whose gradient is wrong.
    """

    interruptible: ClassVar[bool] = True

    callback: Callback | None = None
    progress: bool = False
    check: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.callback is not None:
            recorder = SimpleNamespace(record=self.callback)
            object.__setattr__(self, "recorders", (*self.recorders, recorder))
            object.__setattr__(self, "callback", None)
