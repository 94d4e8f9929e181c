"""A type checker refuses a method on a problem that lacks, or whose set lacks, what the method always needs."""

from __future__ import annotations

from pathlib import Path

import pytest

api = pytest.importorskip("mypy.api")

ROOT = Path(__file__).resolve().parents[2]
TEXT = """
from typing import Any

from decentorth import DESTINY, DRFGT, DRGTA, JADMM, DeEPCA, iterate, solve
from decentorth.problems import HEVP, PCA, Deferred, FunctionProblem
from decentorth.sets import Euclidean, JOrthogonal, JOrthogonalStack, Product, Stiefel

f: Any = 0

solve(FunctionProblem(f, f, Stiefel(4, 2), 1), DRFGT())
solve(FunctionProblem(f, f, JOrthogonal(2, 2), 1), DRFGT())  # refused: no landing field
solve(FunctionProblem(f, f, JOrthogonal(2, 2), 1), DRGTA())
solve(FunctionProblem(f, f, JOrthogonal(2, 2), 1), JADMM())
solve(FunctionProblem(f, f, JOrthogonalStack(JOrthogonal(2, 2), 3), 1), JADMM())  # refused: several matrices
solve(FunctionProblem(f, f, Euclidean(4, 2), 1), DESTINY())
solve(FunctionProblem(f, f, Product(Stiefel(4, 2), Stiefel(3, 2)), 1), DESTINY())
solve(HEVP(f, f), DESTINY())  # refused: nothing to dissolve
solve(PCA(f, 2), DeEPCA())
solve(FunctionProblem(f, f, Stiefel(4, 2), 1), DeEPCA())  # refused: no products with C_i
solve(PCA.from_loader(f, 3, 2), DRGTA())
iterate(PCA(f, 2), DRGTA())
iterate(PCA(f, 2), JADMM())  # refused: no signature
"""


@pytest.mark.slow  # .ci/run checks all types too
def test_only_pairs_that_do_not_match_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "pairs.py"
    file.write_text(TEXT)
    report, errors, _ = api.run([f"--config-file={ROOT / 'pyproject.toml'}", f"--cache-dir={tmp_path}", str(file)])
    refused = [number for number, line in enumerate(TEXT.split("\n"), 1) if "refused" in line]
    assert errors == ""
    assert [int(line.split(":")[1]) for line in report.splitlines() if ": error: " in line] == refused, report
