"""The report as text, figure and numbers, and earlier numbers from the same kind of machine."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

COLUMNS = ("case", "ours", "", "against", "", "ratio", "range", "goal", "before")
UNITS = {"s": (1e3, "ms")}
"""The factor and the name with which numbers of a unit are written; others as they are."""


class Earlier(NamedTuple):
    """The latest ratio of a row in earlier runs, and its commit."""

    ratio: float
    commit: str


def machine() -> str:
    """The kind of machine: its processor, its number of cores and the version of Python, fit for a
    folder's name."""
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    model = re.search(r"model name\s*:\s*(.*)", text)
    name = (
        f"{model.group(1) if model else platform.machine()} {os.cpu_count()} cores python "
        f"{platform.python_version()}"
    )
    return re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-").lower()


def commit() -> str:
    """The commit of this checkout, with a plus where it has changes."""
    command = ["git", "describe", "--always", "--dirty=+"]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def key(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """A row's name."""
    return row["section"], row["case"], row["ours"], row["other"]


def earlier(folder: Path) -> dict[tuple[str, str, str, str], Earlier]:
    """By name, the latest of each row in the runs stored in ``folder``; files that are no such runs
    are left out."""
    found: dict[tuple[str, str, str, str], Earlier] = {}
    for path in sorted(folder.glob("*.json")):
        try:
            kept = json.loads(path.read_text())
            found |= {
                key(row): Earlier(float(row["ratio"]), str(kept["commit"])) for row in kept["rows"]
            }
        except (ValueError, KeyError, TypeError):
            print(f"{path} is no stored run and is left out")
    return found


def markdown(kept: Mapping[str, Any], before: Mapping[tuple[str, str, str, str], Earlier]) -> str:
    """The report's text."""
    lines = [
        "# Benchmarks\n",
        f"Commit {kept['commit']}, {kept['time']}, {kept['machine']}; one BLAS thread. A ratio "
        "below 1 means that decentorth is ahead. Before: the latest earlier ratio on this kind of "
        "machine, with its commit.\n",
    ]
    lines += [f"{line}.\n" for line in kept["notes"]]
    lines += [
        "Versions: "
        + ", ".join(f"{name} {version}" for name, version in kept["versions"].items())
        + "."
    ]
    for section in kept["sections"]:
        rows = [row for row in kept["rows"] if row["section"] == section]
        lines += [f"\n## {section.capitalize()}\n"]
        if rows:
            lines += ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
        lines += ["| " + " | ".join(_cells(row, before.get(key(row)))) + " |" for row in rows]
        failed = [one for one in kept["failures"] if one["section"] == section]
        lines += ["\nNot measured:\n"] * bool(failed)
        lines += [f"- {one['case']}, {one['work']}: {one['reason']}" for one in failed]
    if kept["left_out"]:
        lines += [
            "\n## Left out\n",
            *[f"- {name}: {reason}" for name, reason in kept["left_out"].items()],
        ]
    return "\n".join(lines) + "\n"


def _cells(row: Mapping[str, Any], last: Earlier | None) -> list[str]:
    factor, unit = UNITS.get(row["unit"], (1.0, row["unit"]))
    mine, theirs = (f"{_short(factor * row[name])} {unit}" for name in ("value", "other_value"))
    return [
        row["case"],
        row["ours"],
        mine,
        row["other"],
        theirs,
        f"{row['ratio']:.3g}",
        f"{row['least']:.3g} to {row['largest']:.3g}",
        "" if row["goal"] is None else f"{row['goal']:.3g}",
        "" if last is None else f"{last.ratio:.3g} ({last.commit})",
    ]


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 1000.0 else f"{value:.4g}"


def draw(rows: list[Mapping[str, Any]], path: Path) -> None:
    """A dot for each ratio, on a logarithmic axis, over its range; cases of a section with the same
    two works share a line."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    lines: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        lines.setdefault((row["section"], row["ours"], row["other"]), []).append(row)
    figure, axes = pyplot.subplots(figsize=(10, 1 + 0.17 * len(lines)), layout="constrained")
    for place, shared in enumerate(lines.values()):
        ratios = np.array([row["ratio"] for row in shared])
        axes.hlines(
            place,
            min(row["least"] for row in shared),
            max(row["largest"] for row in shared),
            color="0.8",
            linewidth=1,
        )
        axes.scatter(
            ratios,
            np.full(len(ratios), place),
            s=8,
            color=np.where(ratios < 1.0, "tab:green", "tab:orange"),
            zorder=2,
        )
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set(xscale="log", xlabel="decentorth / other", ylim=(len(lines), -1))
    cases = [
        shared[0]["case"] if len(shared) == 1 else f"{key[0]}, {len(shared)} cases"
        for key, shared in lines.items()
    ]
    names = [
        f"{case}: {ours} / {other}" for case, (_, ours, other) in zip(cases, lines, strict=True)
    ]
    axes.set_yticks(range(len(lines)), names, fontsize=6)
    figure.savefig(path, dpi=150)
