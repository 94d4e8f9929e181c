"""Communication between processes: the contract of a communicator, and the communicator of a single
process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, Self, TypeAlias, runtime_checkable

from ...process.abort import RANK_TIMEOUT
from ...process.environment import check_alone, expected_ranks
from ...protocols import Array

Links: TypeAlias = Sequence[tuple[int, Array]]
"""Ranks, and the buffers that go to them or come from them."""
PostLinks: TypeAlias = Sequence[tuple[int, int]]
"""Ranks, and the tags of links to them or from them."""
Exchange = Callable[[], None]
"""A repeated exchange of the same buffers: it receives and sends, and returns when both are
complete."""
_chosen: dict[None, Communicator] = {}
"""The communicator of all processes of torchrun, once it was asked for."""


class SiteError(RuntimeError):
    """A run of sites cannot start or continue; its message is one line without data, which other
    sites may read."""


@runtime_checkable
class Communicator(Protocol):
    """A group of processes. All calls but ``send`` and ``receive`` are collective.

    A transport of your own derives from it, and inherits what has a value here.
    """

    rank: int
    size: int
    failures: tuple[type[Exception], ...] = ()
    """The errors of calls after the loss of a rank that is survived."""
    posts: bool = False
    """True if the ranks can `post`."""
    sites: tuple[str, ...] = ()
    """The names of the ranks if they are sites: each speaks to its neighbours only, and prints and
    writes for itself, and can `AlongEdges.confirm`. Empty for the ranks of one job."""

    @property
    def root(self) -> bool:
        """True if this process prints and writes files: on rank 0, and at every site."""
        return self.rank == 0 or bool(self.sites)

    def exchange(self, sends: Links, receives: Links) -> Exchange:
        """Plan an exchange of (rank, buffer) pairs that will be repeated."""

    def send(self, array: Array, target: int) -> None: ...
    def receive(self, array: Array, source: int) -> None:
        """Receive into ``array``."""

    def bcast(self, array: Array) -> None:
        """Copy rank 0's ``array`` into that of every rank."""

    def bcast_bytes(self, data: bytes) -> bytes:
        """Rank 0's bytes, on every rank."""

    def allgather_bytes(self, data: bytes) -> list[bytes]:
        """The bytes of every rank, in rank order."""

    def max(self, values: Array) -> Array:
        """The elementwise maximum over ranks, of finite numbers or infinities."""

    def post(self, sends: PostLinks, receives: PostLinks, width: int) -> Any:
        """Open links of (rank, tag) pairs for messages of ``width`` int64 words, none of which
        waits for its receiver."""
        raise ValueError(f"{self.describe()['kind']} waits for every message")

    def watch(self, silence: float, computing: float) -> None:
        """Start the watchdog: end the job when a rank is silent for ``silence`` seconds or computes
        alone for ``computing``."""

    def describe(self) -> Mapping[str, Any]:
        """The kind of transport and the number of ranks, for the summary."""


@runtime_checkable
class Shrinking(Communicator, Protocol):
    """A group whose calls raise one of ``failures`` when a member is lost; the other members then
    continue as a smaller group."""

    alive: tuple[int, ...]
    """The ranks that the members had at the start."""

    def agree(self) -> None:
        """Return on all members or, if one has been lost, on none."""

    def shrunk(self) -> Self:
        """The communicator of the remaining members, in their order."""


_CALLS = [name for name in {**vars(Communicator), "rank": 0, "size": 0} if name[0] != "_"]
"""The names of what a communicator has."""


class SerialCommunicator(Communicator):
    """The communicator of a single process."""

    rank = 0
    size = 1

    def exchange(self, sends: Links, receives: Links) -> Exchange:
        raise ValueError("a single process cannot exchange with other ranks")

    def send(self, array: Array, target: int) -> None:
        raise ValueError(f"a single process cannot send to rank {target}")

    def receive(self, array: Array, source: int) -> None:
        raise ValueError(f"a single process cannot receive from rank {source}")

    def bcast(self, array: Array) -> None:
        pass

    def bcast_bytes(self, data: bytes) -> bytes:
        return data

    def allgather_bytes(self, data: bytes) -> list[bytes]:
        return [data]

    def max(self, values: Array) -> Array:
        return values

    def watch(self, silence: float, computing: float) -> None:
        pass

    def describe(self) -> Mapping[str, Any]:
        return {"kind": "in-process", "ranks": 1}


def surviving(comm: Any = None) -> Communicator:
    """As `connect`, for a run that continues when ranks are lost: with several ranks a `Shrinking`
    communicator.

    ValueError is raised where the MPI library lacks fault tolerance, or was started without it.
    """
    communicator: Any = connect(comm)
    if communicator.size == 1 or isinstance(communicator, Shrinking):
        return communicator
    if (kind := communicator.describe()["kind"]) != "MPI":
        raise ValueError(f"{kind} cannot continue without lost ranks: leave on_rank_loss out")
    from .ulfm import surviving

    return surviving(communicator)


def connect(comm: Any = None, waiting: float = RANK_TIMEOUT) -> Communicator:
    """The communicator a run will use.

    Parameters
    ----------
    comm
        None: all ranks that the launcher started (this process alone, without a launcher);
        ``"serial"``: this process alone in any case; ``"torch"``: all processes that ``torchrun``
        started, then also the default; an mpi4py communicator; a process group of
        torch.distributed; or the result of an earlier call.
    waiting
        The seconds that the ranks have to meet when they first connect.

    Raises
    ------
    RuntimeError
        Several ranks are requested and no MPI library is installed, or launcher and library do not
        belong together (``srun`` without PMI), or a rank does not connect in time. ``torchrun``
        started several processes, and neither ``"torch"`` nor ``"serial"`` was asked for.
    """
    if comm is None:
        if None in _chosen:
            return _chosen[None]
        check_alone()
        comm = "world" if expected_ranks()[0] > 1 else "serial"
    match comm:
        case "serial":
            return SerialCommunicator()
        case "torch":
            from .torch_group import torch_communicator

            _chosen[None] = torch_communicator(comm, waiting)
            return _chosen[None]
        case str() if comm != "world":
            raise ValueError(
                "comm must be None, 'serial', 'torch', 'world' or an mpi4py communicator, got "
                f"{comm!r}"
            )
        case Communicator():
            return comm
        case object(exchange=_, allgather_bytes=_):
            lacking = sorted({*_CALLS} - {*dir(comm)})
            raise TypeError(
                f"comm is no communicator, as it lacks {', '.join(lacking)}: derive "
                f"{type(comm).__name__} from decentorth.network.Communicator"
            )
    if type(comm).__module__.startswith("torch."):
        from .torch_group import torch_communicator

        return torch_communicator(comm, waiting)
    from .mpi import mpi_communicator

    return mpi_communicator(comm, waiting)
