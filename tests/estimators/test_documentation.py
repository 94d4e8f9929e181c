"""What the page on estimators says runs, and agents find what is found in one place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "estimators.md"


@pytest.mark.slow
def test_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S))
    names: dict[str, object] = {}
    exec(compile(code, PAGE.name, "exec"), names)
    *differences, correlation, samples = [float(said) for said in capsys.readouterr().out.split()]
    assert len(differences) == 2
    assert max(differences) < 1e-6  # the tolerance over the least gap of the explained variance ratios, 1e-8 / 0.0087
    assert correlation > 0.99
    assert samples == 1797
    assert {"stream", "tracked", "unmixed", "x_scores"} <= names.keys()
