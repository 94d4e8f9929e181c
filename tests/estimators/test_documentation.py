"""What the page on estimators says runs, and agents find what is found in one place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "estimators.md"


def test_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    names: dict[str, object] = {}
    exec(compile(code, PAGE.name, "exec"), names)
    assert all(float(said) < 1e-7 for said in capsys.readouterr().out.split())
    assert {"stream", "tracked", "unmixed", "x_scores"} <= names.keys()
