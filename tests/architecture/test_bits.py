"""What would let an agent's bits depend on who shares its process is not written in sets, problems
and algorithms.

Each rule is a counter-example that was met: sums over the agents differ with the number of ranks,
einsum and its kin choose another order for another number of agents, a batch-wide branch makes an
agent depend on its neighbours in the batch.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.support.source import Module, dotted, module, modules, with_places

LAYERS = ("decentorth.sets", "decentorth.problems", "decentorth.algorithms", "decentorth.families")
CONTRACTIONS = {"einsum", "tensordot", "dot", "inner", "vdot", "multi_dot"}
"""Their order of additions depends on the shape of the whole batch."""
REDUCTIONS = set(
    "sum mean average max min amax amin ptp prod any all std var median argmax argmin cumsum "
    "cumprod nansum nanmax nanmin count_nonzero logsumexp".split()
)
"""Fine over trailing axes, which are one agent's own."""
ARRAYS = ("np", "numpy", "np.linalg", "numpy.linalg", "scipy.linalg", "scipy.special")
GENERATORS = {"default_rng", "SeedSequence", "Generator"}

ALLOWED = {
    (
        "decentorth/families/generalized/sets/operators.py",
        "symmetric",
        "max",
    ): "validation of one matrix",
    (
        "decentorth/families/generalized/sets/operators.py",
        "SparseMatrix.__init__",
        "max",
    ): "validation of one matrix",
    (
        "decentorth/families/generalized/sets/operators.py",
        "SparseMatrix.check_definite",
        "min",
    ): "validation of B, which all agents share",
    (
        "decentorth/families/generalized/sets/operators.py",
        "SparseMatrix._factor",
        "min",
    ): "validation of B, which all agents share",
    (
        "decentorth/families/generalized/sets/operators.py",
        "_check_real",
        "all",
    ): "validation of B, which all agents share",
    (
        "decentorth/problems/base.py",
        "AgentProblem.blocks",
        "prod",
    ): "the size of a point, from its shape",
    (
        "decentorth/problems/base.py",
        "AgentProblem.start",
        "default_rng",
    ): "the common start, made once from the seed",
    (
        "decentorth/problems/common/checks.py",
        "_check_smallest",
        "max",
    ): "validation of one agent's matrix",
    ("decentorth/problems/common/checks.py", "_matrix", "any"): "validation of one agent's matrix",
    ("decentorth/problems/common/checks.py", "_matrix", "sum"): "validation of one agent's matrix",
    ("decentorth/problems/common/checks.py", "_matrix", "vdot"): "validation of one agent's matrix",
    ("decentorth/problems/common/checks.py", "_passes", "vdot"): "decides on a closer look only",
    (
        "decentorth/problems/stiefel/matrix_completion.py",
        "MatrixCompletionSettings._completion",
        "all",
    ): "validation of one agent",
    ("decentorth/problems/stiefel/pca.py", "subspace_distance", "sum"): "a measure of one point",
    (
        "decentorth/problems/spread.py",
        "SpreadProblem._total",
        "sum",
    ): "Collective.sum, which adds in agent order",
    (
        "decentorth/problems/spread.py",
        "SpreadProblem._evaluated",
        "sum",
    ): "Collective.sum, which adds in agent order",
    ("decentorth/problems/spread.py", "SpreadProblem.__init__", "prod"): "the numbers of a point",
    ("decentorth/problems/spread.py", "SpreadProblem.n_samples", "sum"): "of integers",
    ("decentorth/problems/spread.py", "SpreadProblem.learn", "vdot"): "of a single agent",
    (
        "decentorth/families/nonsmooth/problems/rsr.py",
        "RobustSubspaceRecovery.prepare",
        "max",
    ): "Collective.max, the same on every rank",
    (
        "decentorth/families/nonsmooth/problems/sparse_pca.py",
        "SparsePCA.prepare",
        "max",
    ): "Collective.max, the same on every rank",
    (
        "decentorth/families/nonsmooth/problems/odl.py",
        "OrthogonalDictionaryLearning.prepare",
        "sum",
    ): "Collective.sum, in agent order",
    (
        "decentorth/problems/base.py",
        "stream",
        "default_rng",
    ): "data generation, a stream for each agent",
    (
        "decentorth/problems/common/gradient_check.py",
        "worst",
        "argmin",
    ): "a choice among the slopes of all agents",
    (
        "decentorth/problems/common/gradient_check.py",
        "taylor_slopes",
        "max",
    ): "over the steps of the test",
    (
        "decentorth/problems/common/gradient_check.py",
        "random_direction",
        "default_rng",
    ): "the common direction, from the seed",
    (
        "decentorth/problems/autodiff/modules.py",
        "ModuleProblem.__init__",
        "prod",
    ): "sizes of a module's parameters",
    (
        "decentorth/algorithms/centralized/conjugate_gradients.py",
        "ConjugateGradients.step",
        "inner",
    ): "a method of a single agent",
    (
        "decentorth/algorithms/centralized/lbfgs.py",
        "LBFGS.step",
        "inner",
    ): "a method of a single agent",
    (
        "decentorth/algorithms/centralized/lbfgs.py",
        "two_loops",
        "inner",
    ): "a method of a single agent",
    (
        "decentorth/algorithms/centralized/search_points.py",
        "Vector.inner",
        "vdot",
    ): "a method of a single agent",
    (
        "decentorth/algorithms/centralized/search_points.py",
        "begun",
        "inner",
    ): "a method of a single agent",
    (
        "decentorth/algorithms/centralized/line_search.py",
        "search",
        "inner",
    ): "a method of a single agent",
    (
        "decentorth/algorithms/centralized/line_search.py",
        "search",
        "vdot",
    ): "a method of a single agent",
    (
        "decentorth/algorithms/centralized/line_search.py",
        "taylor",
        "inner",
    ): "a method of a single agent",
    (
        "decentorth/algorithms/centralized/line_search.py",
        "taylor",
        "vdot",
    ): "a method of a single agent",
    (
        "decentorth/algorithms/centralized/line_search.py",
        "last",
        "inner",
    ): "a method of a single agent",
    ("decentorth/sets/retractions.py", "factor", "max"): "for methods of a single agent",
    (
        "decentorth/families/generalized/problems/whitened.py",
        "Whitened._parts",
        "cumsum",
    ): "the rows of the parts of a product",
    (
        "decentorth/families/asynchronous/agent.py",
        "AsynchronousAgent.activate",
        "max",
    ): "the entries of one agent",
    (
        "decentorth/families/asynchronous/agent.py",
        "AsynchronousAgent._own_step",
        "max",
    ): "the versions that one agent knows",
    (
        "decentorth/families/asynchronous/agent.py",
        "AsynchronousAgent._fixed",
        "max",
    ): "the entries of one agent",
    (
        "decentorth/families/asynchronous/agent.py",
        "AsynchronousAgent._judge",
        "max",
    ): "the levels that one agent knows",
    (
        "decentorth/families/asynchronous/agent.py",
        "AsynchronousAgent._judge",
        "min",
    ): "the levels that one agent knows",
    (
        "decentorth/families/asynchronous/agent.py",
        "AsynchronousAgent.spend",
        "max",
    ): "the levels that one agent knows",
    (
        "decentorth/families/asynchronous/agent.py",
        "AsynchronousAgent.activations_known",
        "sum",
    ): "the versions that one agent knows",
    (
        "decentorth/families/asynchronous/agent.py",
        "AsynchronousAgent.take",
        "any",
    ): "validation: the masses of one agent",
    (
        "decentorth/families/asynchronous/agent.py",
        "AsynchronousAgent.take",
        "all",
    ): "validation: the entries of one agent",
    (
        "decentorth/families/asynchronous/asynchronous_drfgt.py",
        "AsynchronousDRFGT.init",
        "max",
    ): "Network.max, exact",
    ("decentorth/families/asynchronous/log.py", "decoded", "any"): "validation of a file",
    (
        "decentorth/families/asynchronous/schedule.py",
        "uniforms",
        "random.Philox",
    ): "an agent's own stream",
    (
        "decentorth/problems/common/squares.py",
        "_forms",
        "sum",
    ): "the targets of one agent, in a loop over agents",
    (
        "decentorth/families/features/split.py",
        "SplitPencil.__init__",
        "any",
    ): "the diagonal of E, which all agents share",
    (
        "decentorth/families/features/exact_end.py",
        "_Flooding.total",
        "max",
    ): "Network.max, exact",
    (
        "decentorth/families/features/exact_end.py",
        "_measured",
        "norm",
    ): "a matrix that all agents share",
    (
        "decentorth/families/features/exact_end.py",
        "certify",
        "max",
    ): "the values, which all agents share",
    (
        "decentorth/families/j_orthogonal/sets/j_orthogonal.py",
        "JOrthogonal.retract",
        "LinAlgError",
    ): "then each agent alone",
    (
        "decentorth/families/features/split.py",
        "SplitPencil._starts",
        "accumulate",
    ): "numbers of features",
    (
        "decentorth/families/features/split.py",
        "SplitPencil.error",
        "norm",
    ): "a measure of one point",
    (
        "decentorth/families/features/split.py",
        "SplitMetrics.__call__",
        "sum",
    ): "Collective.sum, which adds in agent order",
    (
        "decentorth/families/features/split.py",
        "SplitMetrics.__call__",
        "norm",
    ): "a measure of one point",
    (
        "decentorth/families/features/split.py",
        "SplitMetrics.__call__",
        "all",
    ): "a measure of one point",
    (
        "decentorth/families/generalized/problems/cca_settings.py",
        "CCASettings.features.build",
        "mean",
    ): "all data of one view",
    (
        "decentorth/families/generalized/problems/lda.py",
        "scatter_factors",
        "count_nonzero",
    ): "all data, before their features are divided",
    (
        "decentorth/families/generalized/problems/lda.py",
        "check_within",
        "any",
    ): "one matrix of all samples, the same on every rank",
    (
        "decentorth/families/generalized/problems/lda.py",
        "check_within",
        "count_nonzero",
    ): "one matrix of all samples, the same on every rank",
    (
        "decentorth/families/generalized/problems/lda.py",
        "LDASettings.features.build",
        "sum",
    ): "all data, before their features are divided",
}
"""(file, function, what): the reason."""


def axis_of(call: ast.Call, function: str) -> ast.expr | None:
    """The axis of a reduction, None where there is none: first argument of a method, second of a
    function, third of norm."""
    for keyword in call.keywords:
        if keyword.arg == "axis":
            return keyword.value
    position = (
        2 if function.endswith("linalg.norm") else 1 if function.rpartition(".")[0] in ARRAYS else 0
    )
    return call.args[position] if len(call.args) > position else None


def trailing(axis: ast.expr | None) -> bool:
    """Whether an axis, or each of a tuple of axes, is written out and not the first, that of the
    agents."""
    if isinstance(axis, ast.Tuple):
        return bool(axis.elts) and all(trailing(one) for one in axis.elts)
    if isinstance(axis, ast.UnaryOp) and isinstance(axis.op, ast.USub):
        return isinstance(axis.operand, ast.Constant) and axis.operand.value != 0
    return isinstance(axis, ast.Constant) and isinstance(axis.value, int) and axis.value > 0


def suspects(source: Module) -> Iterator[tuple[str, str]]:
    """(function around it, what) of everything that may break bits."""
    for place, node in with_places(source.tree):
        if (
            isinstance(node, ast.ExceptHandler)
            and node.type is not None
            and "LinAlgError" in ast.dump(node.type)
        ):
            yield place, "LinAlgError"
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in (
            "numpy",
            "scipy",
            "random",
        ):
            yield from (
                (place, alias.name)
                for alias in node.names
                if alias.name in CONTRACTIONS | REDUCTIONS | {"norm", "random"}
            )
        if isinstance(node, ast.Import):
            yield from ((place, "random") for alias in node.names if alias.name == "random")
        if (
            isinstance(node, ast.Attribute)
            and dotted(node.value) in ("np.random", "numpy.random")
            and node.attr not in GENERATORS
        ):
            yield place, f"random.{node.attr}"
        if not isinstance(node, ast.Call):
            continue
        function = dotted(node.func)
        last = function.rpartition(".")[2]
        if last == "default_rng":
            yield place, last
        if "." not in function:
            continue
        on_numpy = function.split(".")[0] in ("np", "numpy")
        over_agents = last in REDUCTIONS | {"norm"} and not trailing(axis_of(node, function))
        if (
            last in CONTRACTIONS
            or over_agents
            or (on_numpy and last in ("reduce", "reduceat", "accumulate"))
        ):
            yield place, last


def checked() -> list[Module]:
    return [source for source in modules() if source.name.startswith(LAYERS)]


@pytest.mark.parametrize("source", checked(), ids=lambda source: source.name)
def test_nothing_depends_on_who_shares_a_process(source: Module) -> None:
    assert [found for found in suspects(source) if (source.path, *found) not in ALLOWED] == []


def test_every_exception_is_needed() -> None:
    assert set(ALLOWED) <= {
        (source.path, *found) for source in checked() for found in suspects(source)
    }


CAUGHT = (
    *(
        "np.einsum('ij,jk', a, b)",
        "a.dot(b)",
        "np.vdot(a, b)",
        "np.linalg.multi_dot([a, b])",
        "from numpy import einsum",
    ),
    *(
        "x.mean(0)",
        "x.sum(axis=0)",
        "x.sum((0, 1))",
        "x.sum(axis=(0, -1))",
        "x.max()",
        "(x * y).mean()",
        "np.mean(x, 0)",
    ),
    *(
        "np.max(x, axis=0)",
        "x.sum(axis=axis)",
        "x.sum(keepdims=True)",
        "x.sum(-0)",
        "np.add.reduce(x)",
        "np.any(x)",
    ),
    *(
        "np.linalg.norm(x)",
        "np.linalg.norm(x, 2, 0)",
        "while errors.max() > tol:\n    pass",
        "if (x > 0).all():\n    pass",
    ),
    *(
        "np.random.seed(0)",
        "import random",
        "from numpy import random",
        "def step():\n    rng = np.random.default_rng(0)",
    ),
    "try:\n    np.linalg.cholesky(a)\nexcept np.linalg.LinAlgError:\n    pass",
    "try:\n    np.linalg.solve(a, b)\nexcept (LinAlgError, ValueError):\n    pass",
)
FINE = (
    *(
        "a @ b",
        "(a * b).sum((-2, -1))",
        "x.sum(-1)",
        "x.max(axis=-1)",
        "np.mean(x, axis=(-2, -1))",
        "x.sum(axis=1)",
    ),
    *(
        "np.linalg.norm(x, axis=(-2, -1))",
        "np.linalg.qr(x)\nnp.linalg.solve(x, y)",
        "np.maximum(x, y)",
        "max(1, 2)\nsum([1, 2])",
    ),
    *(
        "def random(self, rng: np.random.Generator): ...",
        "np.random.SeedSequence(3)",
        "try:\n    f()\nexcept ValueError:\n    pass",
    ),
)


@pytest.mark.parametrize(
    ("line", "caught"), [*((line, True) for line in CAUGHT), *((line, False) for line in FINE)]
)
def test_the_checker_sees(line: str, caught: bool) -> None:
    assert bool([*suspects(module("decentorth.algorithms.new", line))]) is caught


def test_places_are_functions_of_classes() -> None:
    text = (
        "class A:\n    def f(self):\n        return x.sum()\n\ndef g():\n    return [x.sum() for "
        "_ in y]\n"
    )
    assert [*suspects(module("decentorth.sets.new", text))] == [("A.f", "sum"), ("g", "sum")]
