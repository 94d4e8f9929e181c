"""Every method on the digits: its script runs and comes as near the answer as it claims."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from tests.support.mpi import ROOT

EXACT = {"deepca": 1e-10, "destiny": 1e-5, "drfgt": 1e-10, "gradient_tracking": 1e-10, "rextra": 1e-10, "rfextra": 1e-10}
EXACT |= {"drgta": 1e-2, "dprgt": 1e-3}
"""After so many iterations; the manifold methods' automatic steps are cautious on heterogeneous data."""


@pytest.mark.slow
@pytest.mark.parametrize("script", sorted(Path(ROOT, "examples", "digits").glob("*.py")), ids=lambda script: str(script.stem))
def test_every_method_on_digits(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(script), run_name="__main__")
    said = re.search(r"distance (\S+), consensus", capsys.readouterr().out)
    assert said is not None
    assert float(said[1]) < EXACT.get(script.stem, 2.5)
