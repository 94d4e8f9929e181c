"""A type checker refuses a method on a problem that lacks, or whose set lacks, what the method
always needs.

Nothing here is run. mypy checks this file with all others and reports an ignored error that does
not occur, so it refuses exactly the lines that are marked.
"""

from __future__ import annotations

from typing import Any

from decentorth import DESTINY, DRFGT, DRGTA, JADMM, DeEPCA, iterate, solve
from decentorth.problems import HEVP, PCA, FunctionProblem
from decentorth.sets import Euclidean, JOrthogonal, JOrthogonalStack, Product, Stiefel


def pairs(f: Any) -> None:
    """Methods and problems."""
    solve(FunctionProblem(f, f, Stiefel(4, 2), 1), DRFGT())
    solve(FunctionProblem(f, f, JOrthogonal(2, 2), 1), DRFGT())  # type: ignore[misc]  # no landing field
    solve(FunctionProblem(f, f, JOrthogonal(2, 2), 1), DRGTA())
    solve(FunctionProblem(f, f, JOrthogonal(2, 2), 1), JADMM())
    solve(FunctionProblem(f, f, JOrthogonalStack(JOrthogonal(2, 2), 3), 1), JADMM())  # type: ignore[misc]  # several matrices
    solve(FunctionProblem(f, f, Euclidean(4, 2), 1), DESTINY())
    solve(FunctionProblem(f, f, Product(Stiefel(4, 2), Stiefel(3, 2)), 1), DESTINY())
    solve(HEVP(f, f), DESTINY())  # type: ignore[misc]  # nothing to dissolve
    solve(PCA(f, 2), DeEPCA())
    solve(FunctionProblem(f, f, Stiefel(4, 2), 1), DeEPCA())  # type: ignore[misc]  # no products with C_i
    solve(PCA.from_loader(f, 3, 2), DRGTA())
    iterate(PCA(f, 2), DRGTA())
    iterate(PCA(f, 2), JADMM())  # type: ignore[misc]  # no signature
