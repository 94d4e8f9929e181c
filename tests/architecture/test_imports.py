"""The table of layers and their permitted imports, and other rules that the source alone shows."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import networkx as nx
import pytest

from tests.support.source import Module, dotted, module, modules, with_places


class Layer(NamedTuple):
    """Some modules, and the imports that they may have besides each other and the standard
    library."""

    members: tuple[str, ...]
    """Modules and packages, by their longest prefix."""
    layers: str
    """Names of other layers."""
    packages: str
    """Third-party packages."""


CORE = (
    "lazy protocols settings display numerics kernels sets data problems algorithms text memory "
    "files"
)
"""What a family may use of the core."""
LAYERS = {
    "families": Layer(("decentorth.families",), "", ""),
    "text": Layer(("topologies.line",), "", ""),
    "memory": Layer(
        ("topologies.line.memory", "topologies.line.later"),
        "",
        "numpy scipy networkx cvxpy pandas pyamg yaml matplotlib",
    ),
    "files": Layer(("topologies.line.matrix_files",), "memory text", "numpy scipy"),
    "topologies": Layer(("topologies",), "files text memory", "numpy scipy matplotlib rich"),
    "process": Layer(("decentorth.process",), "", ""),
    "protocols": Layer(("decentorth.protocols",), "lazy", "numpy"),
    "display": Layer(("decentorth.display",), "memory", ""),
    "settings": Layer(("decentorth.settings",), "display text", ""),
    "version": Layer(("decentorth._version",), "", ""),
    "lazy": Layer(("decentorth._lazy",), "settings", ""),
    "numerics": Layer(("decentorth.numerics",), "protocols", "numpy scipy threadpoolctl torch"),
    "kernels": Layer(("decentorth.numerics.kernels",), "protocols", "numpy numba"),
    "sets": Layer(("decentorth.sets",), "lazy protocols settings numerics", "numpy scipy"),
    "data": Layer(
        ("decentorth.data",),
        "lazy protocols settings files text memory",
        "numpy scipy sklearn pyarrow",
    ),
    "problems": Layer(
        ("decentorth.problems",),
        "lazy protocols settings display numerics sets data text",
        "numpy scipy sklearn jax torch autograd",
    ),
    "algorithms": Layer(
        ("decentorth.algorithms",), "lazy protocols settings numerics kernels text memory", "numpy"
    ),
    "features": Layer(("decentorth.families.features",), CORE, "numpy scipy"),
    "certificate": Layer(
        ("decentorth.families.features.exact_end",), f"{CORE} features api network", "numpy"
    ),
    "asynchronous": Layer(("decentorth.families.asynchronous",), CORE, "numpy"),
    "asynchronous runs": Layer(
        tuple(f"decentorth.families.asynchronous.{one}" for one in ("kind", "kinds", "replay")),
        f"{CORE} asynchronous process api network running commands",
        "",
    ),
    "generalized": Layer(
        ("decentorth.families.generalized",), f"{CORE} features", "numpy scipy sklearn"
    ),
    "nonsmooth": Layer(("decentorth.families.nonsmooth",), f"{CORE} generalized", "numpy scipy"),
    "j_orthogonal": Layer(("decentorth.families.j_orthogonal",), CORE, "numpy scipy"),
    "knowledge_graphs": Layer(
        ("decentorth.families.knowledge_graphs",), f"{CORE} j_orthogonal", "numpy"
    ),
    "network": Layer(
        ("decentorth.network",),
        "lazy protocols settings display numerics kernels process topologies text",
        "numpy scipy cryptography",
    ),
    "mpi": Layer(
        (
            "decentorth.network.transport.mpi",
            "decentorth.network.transport.ulfm",
            "decentorth.network.transport.watch",
        ),
        "protocols process",
        "numpy mpi4py",
    ),
    "sites": Layer(
        ("decentorth.network.transport.sealed", "decentorth.network.transport.nats_carrier"),
        "network",
        "nats cryptography",
    ),
    "torch": Layer(
        ("decentorth.network.transport.torch_group",), "protocols network", "numpy torch"
    ),
    "running": Layer(
        ("decentorth.running", "decentorth.stopping"),
        "process protocols settings display text numerics version",
        "numpy pandas",
    ),
    "lists": Layer(("decentorth.compare", "decentorth.theory", "decentorth.recorders"), "lazy", ""),
    "recorders": Layer(("decentorth.lab.recorders",), "protocols", "tensorboardX mlflow pyarrow"),
    "records": Layer(
        ("decentorth.records",),
        "process protocols settings display version text files memory topologies numerics running "
        "figures",
        "numpy networkx matplotlib rich threadpoolctl IPython",
    ),
    "figures": Layer(("decentorth.figures",), "lazy text topologies running", "numpy matplotlib"),
    "registry": Layer(("decentorth.registry",), "lazy settings text algorithms problems", ""),
    "api": Layer(
        ("decentorth.api",),
        "lazy process protocols settings display text memory registry numerics problems "
        "algorithms network running topologies records figures",
        "numpy matplotlib pandas xarray",
    ),
    "estimators": Layer(
        ("decentorth.estimators",),
        "api registry running network problems data sets protocols numerics features generalized "
        "nonsmooth",
        "numpy scipy sklearn",
    ),
    "training": Layer(
        ("decentorth.training",),
        "algorithms sets numerics topologies",
        "numpy torch",
    ),
    "theory": Layer(
        ("decentorth.lab.theory",),
        "lazy protocols settings numerics algorithms topologies memory j_orthogonal",
        "numpy",
    ),
    "compare": Layer(
        ("decentorth.lab.compare",),
        "lazy version settings text api registry records figures running network numerics topologies "
        "protocols process algorithms",
        "numpy rich matplotlib joblib threadpoolctl",
    ),
    "commands": Layer(
        ("decentorth.commands", "decentorth.run", "decentorth.__main__"),
        "authoring version settings display text files memory process protocols numerics "
        "topologies data problems algorithms sets network sites running records figures registry "
        "api",
        "numpy scipy networkx yaml rich matplotlib pandas threadpoolctl cryptography",
    ),
    "laboratory": Layer(
        (
            "decentorth.lab",
            "decentorth.lab.compare.command",
            "decentorth.lab.theory.command",
            "decentorth.lab.theory.constants_report",
        ),
        "version settings display text files memory process protocols numerics topologies data "
        "problems algorithms sets network running records figures registry api commands compare "
        "theory",
        "numpy scipy networkx yaml rich matplotlib pandas threadpoolctl",
    ),
    "authoring": Layer(
        ("decentorth.authoring",), "lazy protocols settings numerics algorithms problems", ""
    ),
    "top": Layer(
        ("decentorth",),
        "process version lazy settings api registry running network algorithms problems sets "
        "data lists",
        "",
    ),
}
ABOVE = (
    "api",
    "registry",
    "estimators",
    "training",
    "compare",
    "commands",
    "laboratory",
    "top",
    "asynchronous runs",
    "certificate",
)
"""The programming interface and the layers on top of it."""
LAZY = {
    (
        "decentorth.network.transport.communicator",
        "mpi",
    ): "only a run that asks for ranks loads an MPI library",
    (
        "decentorth.network.transport.communicator",
        "torch",
    ): "only a run that asks for processes of torchrun loads PyTorch",
}
"""Exceptions (module, layer), each inside a function, with the reason."""


def layer_of(name: str) -> str | None:
    owners = {
        member: layer
        for layer, (members, *_) in LAYERS.items()
        for member in members
        if f"{name}.".startswith(f"{member}.")
    }
    return owners[max(owners, key=len)] if owners else None


def lists_names(node: ast.AST) -> bool:
    """True for ``from ..families.NAME.algorithms import *``, also of the laboratory: a list that
    `_lazy` and type checkers read, and that is never executed."""
    return (
        isinstance(node, ast.ImportFrom)
        and node.level > 0
        and str(node.module).startswith(("families.", "lab."))
        and all(alias.name in ("*", alias.asname) for alias in node.names)
    )


def imports(source: Module, names: frozenset[str]) -> Iterator[tuple[str, str]]:
    """(the function around it, dotted name) of everything that a module imports; ``names`` are the
    modules there are."""
    package = source.name if source.path.endswith("__init__.py") else source.name.rpartition(".")[0]
    for place, node in with_places(source.tree):
        if lists_names(node):
            continue
        if isinstance(node, ast.Import):
            yield from ((place, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = (
                ".".join(package.split(".")[: len(package.split(".")) - node.level + 1])
                if node.level
                else ""
            )
            start = ".".join(filter(None, (base, node.module)))
            for alias in node.names:
                whole = f"{start}.{alias.name}"
                yield place, whole if whole in names else start


def breaches(source: Module, names: frozenset[str]) -> list[str]:
    """The imports of a module that its layer does not permit."""
    own = layer_of(source.name)
    assert own is not None, f"{source.name} belongs to no layer"
    found = []
    for place, name in imports(source, names):
        other = layer_of(name)
        top = name.partition(".")[0]
        if other is None:
            if top in sys.stdlib_module_names or top in LAYERS[own].packages.split():
                continue
        elif (
            other == own
            or other in LAYERS[own].layers.split()
            or (place and (source.name, other) in LAZY)
        ):
            continue
        found.append(f"{source.name} ({own}) imports {name} ({other or 'another package'})")
    return found


NAMES = frozenset(source.name for source in modules())


@pytest.mark.parametrize("source", modules(), ids=lambda source: source.name)
def test_layers_import_only_what_they_may(source: Module) -> None:
    assert breaches(source, NAMES) == []


def test_the_table_has_no_circles_and_no_unknown_layers() -> None:
    graph = nx.DiGraph((layer, other) for layer in LAYERS for other in LAYERS[layer].layers.split())
    assert {*graph} <= {*LAYERS}
    assert nx.is_directed_acyclic_graph(graph)


@pytest.mark.parametrize(
    ("layer", "never"),
    [
        ("topologies", "decentorth mpi4py"),
        ("sets", "network problems algorithms data mpi4py"),
        ("problems", "network algorithms topologies mpi4py"),
        ("network", "problems algorithms running mpi4py"),
        ("algorithms", "topologies running network problems mpi4py"),
        ("running", "algorithms problems network topologies mpi4py"),
        *[(layer, "api registry commands top") for layer in LAYERS if layer not in ABOVE],
    ],
)
def test_the_table_keeps_the_promised_separations(layer: str, never: str) -> None:
    assert not {*LAYERS[layer].layers.split(), *LAYERS[layer].packages.split()} & set(never.split())


def circles(sources: Sequence[Module]) -> list[list[str]]:
    """The modules that import each other in a circle, at the top, inside functions or for type
    checking alone."""
    names = frozenset(source.name for source in sources)
    graph = nx.DiGraph(
        (source.name, name)
        for source in sources
        for _, name in imports(source, names)
        if name in names
    )
    alone = [[name] for name in nx.nodes_with_selfloops(graph)]
    return alone + [
        sorted(circle) for circle in nx.strongly_connected_components(graph) if len(circle) > 1
    ]


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circles(modules()) == []


@pytest.mark.parametrize(
    ("line", "circle"),
    [
        *(
            (line, True)
            for line in (
                "from .first import f",
                "def f():\n    from .first import f",
                "from . import second",
            )
        ),
        *((line, False) for line in ("from . import third", "from .. import version")),
    ],
)
def test_the_checker_sees_circles(line: str, circle: bool) -> None:
    """A line of the second module, which the first one imports."""
    sources = [
        module("decentorth.new", "", package=True),
        module("decentorth.new.first", "from .second import g"),
        module("decentorth.new.second", line),
        module("decentorth.new.third", ""),
    ]
    assert bool(circles(sources)) is circle


def test_only_the_transport_speaks_mpi() -> None:
    speakers = {
        source.name
        for source in modules()
        for _, name in imports(source, NAMES)
        if name.split(".")[0] == "mpi4py"
    }
    assert speakers == {"decentorth.network.transport.mpi", "decentorth.network.transport.ulfm"}


def test_only_arrays_transport_and_training_know_torch() -> None:
    """Besides problems, which differentiate with it, inside functions."""
    speakers = {
        source.name
        for source in modules()
        for place, name in imports(source, NAMES)
        if name.split(".")[0] == "torch" and not place
    }
    assert {name for name in speakers if not name.startswith("decentorth.training")} == {
        "decentorth.network.transport.torch_group",
        "decentorth.numerics.torch_arrays",
    }


@pytest.mark.parametrize(
    ("name", "line", "breach"),
    [
        ("decentorth.algorithms.new", "from ..network import Network", True),
        ("decentorth.algorithms.new", "import decentorth.running.loop", True),
        ("decentorth.algorithms.new", "from decentorth import api", True),
        ("decentorth.algorithms.new", "def f():\n    from mpi4py import MPI", True),
        (
            "decentorth.algorithms.new",
            "from ..numerics.ordered_sums import norms\nfrom . import drfgt\nimport math, numpy",
            False,
        ),
        ("decentorth.network.transport.communicator", "from .mpi import mpi_communicator", True),
        (
            "decentorth.network.transport.communicator",
            "def f():\n    from .mpi import mpi_communicator",
            False,
        ),
        (
            "decentorth.network.new",
            "def f():\n    from .transport.mpi import mpi_communicator",
            True,
        ),
        ("topologies.new", "from decentorth.protocols import Array", True),
        ("topologies.new", "from topologies.weights.weight_checks import check_graph", False),
        ("decentorth.running.loop", "from .. import stopping", False),
    ],
)
def test_the_checker_sees(name: str, line: str, breach: bool) -> None:
    assert bool(breaches(module(name, line), NAMES | {name})) is breach


UNSAFE_IMPORTS = {"pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
OWN_PROCESSES = {("decentorth.lab.compare.workers", "joblib")}
"""Modules that may use a pickling package, to send work to processes that they have started
themselves."""
BY_NAME = {
    "decentorth._lazy",
    "decentorth.__main__",
    "decentorth.api.kinds",
    "decentorth.commands.completion",
    "decentorth.families.j_orthogonal.kernels",
    "decentorth.numerics.kernels",
    "decentorth.process.process_ends",
    "decentorth.lab.recorders",
    "decentorth.commands.run.output",
    "topologies",
    "topologies.line.later",
}
"""Modules that import by a name which stands in their own table; `leaving` initializes MPI for
others that wait in MPI_Init."""
IMPORTS = {
    "__import__",
    "import_module",
    "importlib.import_module",
    "resolve_name",
    "pkgutil.resolve_name",
}
EVALUATES = {"eval", "exec", "compile", *IMPORTS}
EXECUTES = {"decentorth.registry", "decentorth.numerics.ordered_sums"}
"""The modules that execute a file: those that the user names on the command line, and SciPy's
compiled loops."""
PICKLES = (
    "bcast gather scatter allgather alltoall reduce allreduce scan exscan send recv isend irecv "
    "ssend issend bsend ibsend sendrecv mprobe improbe"
).split()
"""mpi4py's calls that pickle; those with a capital send buffers."""


def unsafe(source: Module) -> list[str]:
    """The places that would run code from data: unpickling, evaluation, imports by name."""
    names = {name.split(".")[0] for _, name in imports(source, NAMES)}
    found = sorted(
        name for name in names & UNSAFE_IMPORTS if (source.name, name) not in OWN_PROCESSES
    )
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call):
            continue
        function = dotted(node.func)
        if function in EVALUATES and not (function in IMPORTS and source.name in BY_NAME):
            found.append(function)
        if function.endswith("exec_module") and source.name not in EXECUTES:
            found.append(function)
        for keyword in node.keywords:
            if keyword.arg == "allow_pickle" and not (
                isinstance(keyword.value, ast.Constant) and keyword.value.value is False
            ):
                found.append("allow_pickle")
        *receiver, method = function.split(".")
        on_mpi = bool(receiver) and (
            receiver[-1] in ("comm", "COMM_WORLD")
            or source.name == "decentorth.network.transport.mpi"
        )
        if method in PICKLES and on_mpi and receiver != ["self"]:
            found.append(function)
    return found


def banned_statements(source: Module) -> list[str]:
    calls = [dotted(node.func) for node in ast.walk(source.tree) if isinstance(node, ast.Call)]
    printing = [name for name in calls if name == "print" and layer_of(source.name) != "commands"]
    return printing + ["assert" for node in ast.walk(source.tree) if isinstance(node, ast.Assert)]


@pytest.mark.parametrize("source", modules(), ids=lambda source: source.name)
def test_nothing_runs_code_from_data_or_prints_below_the_command_line_or_asserts(
    source: Module,
) -> None:
    assert unsafe(source) == banned_statements(source) == []


@pytest.mark.parametrize(
    ("name", "line", "caught"),
    [
        ("decentorth.data.new", "import pickle", True),
        ("decentorth.data.new", "def f():\n    from cloudpickle import loads", True),
        ("decentorth.data.new", "np.load(path, allow_pickle=trusted)", True),
        ("decentorth.data.new", "np.load(path, allow_pickle=False)", False),
        ("decentorth.data.new", "importlib.import_module(name)", True),
        ("decentorth.data.new", "eval(text)", True),
        ("decentorth.data.new", "ast.literal_eval(text)", False),
        ("decentorth.numerics.kernels", "import_module(module)", False),
        ("decentorth.data.new", "spec.loader.exec_module(module)", True),
        ("decentorth.registry", "spec.loader.exec_module(module)", False),
        ("decentorth.network.transport.mpi", "self.comm.bcast(data)", True),
        ("decentorth.network.transport.mpi", "world.send(data, 0)", True),
        ("decentorth.network.transport.mpi", "self.comm.Bcast(data)", False),
        ("decentorth.network.transport.mpi", "self.bcast(data)", False),
        ("decentorth.network.collective", "self.communicator.bcast(data)", False),
        ("decentorth.network.collective", "comm.bcast(data)", True),
        ("decentorth.running.loop", "print('done')", True),
        ("decentorth.commands.line.new", "print('done')", False),
        ("decentorth.run", "assert x", True),
    ],
)
def test_the_checkers_see_what_is_banned(name: str, line: str, caught: bool) -> None:
    source = module(name, line)
    assert bool(unsafe(source) + banned_statements(source)) is caught
