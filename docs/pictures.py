"""Draw the pictures of the first page.

    python docs/pictures.py

agents.svg plays the run of ``decentorth demo``: points on the sphere, the ring and the curves, over
the iterations. Where nothing moves, as in print, it shows the end of the run. first.svg is the
figure of the first page's Python, with a row of every iteration.
"""

from __future__ import annotations

import colorsys
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import decentorth
from decentorth.commands.run.command import main as run
from decentorth.lab.demo import FLAGS
from decentorth.lab.plot.player import CURVES
from decentorth.records.saved_runs import read_history

FRAMES, SECONDS = 80, 9
COLOURS = ("#0072b2", "#d55e00", "#009e73")
COOL, WARM = np.array([68, 1, 84]), np.array([253, 200, 37])
TEXT = 'font-family="system-ui, sans-serif" font-size="13" fill="#444"'


def animated(attribute: str, values: Sequence[str]) -> str:
    """The movement of an attribute through the values, with a rest at the end."""
    times = [*np.linspace(0.0, 0.85, len(values)), 1.0]
    return (
        f'<animate attributeName="{attribute}" dur="{SECONDS}s" repeatCount="indefinite" '
        f'keyTimes="{";".join(f"{one:.4g}" for one in times)}" '
        f'values="{";".join([*values, values[-1]])}"/>'
    )


def moving_circle(
    x: NDArray[np.float64], y: NDArray[np.float64], radius: float, fill: str, inside: str = ""
) -> str:
    """A disc that goes through the places."""
    moves = animated("cx", [f"{one:.1f}" for one in x]) + animated(
        "cy", [f"{one:.1f}" for one in y]
    )
    return (
        f'<circle cx="{x[-1]:.1f}" cy="{y[-1]:.1f}" r="{radius}" '
        f'fill="{fill}">{moves}{inside}</circle>'
    )


def path(
    x: NDArray[np.float64], y: NDArray[np.float64], colour: str, width: float = 1.0, rest: str = ""
) -> str:
    """A line through the places."""
    places = " ".join(f"{one:.1f},{two:.1f}" for one, two in zip(x, y, strict=True))
    return (
        f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="{width}" {rest}/>'
    )


def projection(end: NDArray[np.float64]) -> NDArray[np.float64]:
    """``(3, 2)``: the plane of the picture, in which the end of the run is in front."""
    turn = np.arctan2(end[0], -end[1]) + 0.5
    c, s, up, down = np.cos(turn), np.sin(turn), np.cos(0.35), np.sin(0.35)
    return np.array([[c, down * s], [s, -down * c], [0.0, up]])


def sphere(points: NDArray[np.float64]) -> list[str]:
    """The points ``(frames, n, 3)`` on the sphere."""
    plane, middle, radius = projection(points[-1, 0]), np.array([150.0, 150.0]), 112.0

    def place(at: NDArray[np.float64]) -> NDArray[np.float64]:
        return middle + radius * (at @ plane) * [1.0, -1.0]

    drawn = ['<circle cx="150" cy="150" r="112" fill="#fafafa" stroke="#ccc"/>']
    angles = np.linspace(0.0, 2 * np.pi, 61)
    for one in range(6):
        tilt, level = one * np.pi / 6, np.sin((one - 2.5) * 0.45)
        belt, flat = np.sqrt(1 - level * level), np.cos(angles)
        for line in (
            np.stack([np.cos(tilt) * flat, np.sin(tilt) * flat, np.sin(angles)], axis=1),
            np.stack([belt * flat, belt * np.sin(angles), np.full(61, level)], axis=1),
        ):
            drawn.append(path(place(line)[:, 0], place(line)[:, 1], "#e6e6e6"))
    for agent in range(points.shape[1]):
        red, green, blue = colorsys.hls_to_rgb(agent / points.shape[1], 0.42, 0.7)
        colour = f"#{round(255 * red):02x}{round(255 * green):02x}{round(255 * blue):02x}"
        x, y = place(points[:, agent]).T
        drawn += [path(x, y, colour, rest='stroke-opacity="0.35"'), moving_circle(x, y, 5, colour)]
    return drawn


def ring(distance: NDArray[np.float64]) -> list[str]:
    """The agents on the ring, whose colours follow their distances ``(frames, n)`` from the mean,
    and their messages."""
    n = distance.shape[1]
    angles = 2 * np.pi * np.arange(n) / n
    x, y = 450 + 100 * np.sin(angles), 150 - 100 * np.cos(angles)
    drawn, logs = [], np.log10(np.maximum(distance, 1e-4))
    share = (logs - logs.min()) / (logs.max() - logs.min())
    for i in range(n):
        j = (i + 1) % n
        drawn.append(path(x[[i, j]], y[[i, j]], "#ccc", 1.5))
        for a, b in ((i, j), (j, i)):
            moves = "".join(
                f'<animate attributeName="{name}" dur="0.9s" repeatCount="9" '
                f'values="{values[a]:.1f};{values[b]:.1f}"/>'
                for name, values in (("cx", x), ("cy", y))
            )
            drawn.append(
                f'<circle cx="{x[a]:.1f}" cy="{y[a]:.1f}" r="2.5" fill="#999">{moves}</circle>'
            )
    for i in range(n):
        shades = COOL + share[:, i, None] * (WARM - COOL)
        colours = [f"rgb({','.join(str(round(part)) for part in shade)})" for shade in shades]
        drawn.append(
            f'<circle cx="{x[i]:.1f}" cy="{y[i]:.1f}" r="13" '
            f'fill="{colours[-1]}">{animated("fill", colours)}</circle>'
        )
    return drawn


def curves(history: dict[str, NDArray[np.float64]], frames: NDArray[np.int64]) -> list[str]:
    """The curves over the iterations, and where the run is."""
    k = history["iteration"]
    columns = [np.where(history[name] > 1e-14, history[name], np.nan) for name in CURVES]
    low, high = np.floor(np.log10(np.nanmin(columns))), np.ceil(np.log10(np.nanmax(columns)))
    across, drawn = 650 + 230 * k / k[-1], []
    for ten in np.arange(low, high + 1, 2):
        y = 40 + 190 * (high - ten) / (high - low)
        drawn.append(path(np.array([650.0, 880.0]), np.array([y, y]), "#eee"))
        drawn.append(f'<text x="644" y="{y + 4:.0f}" text-anchor="end" {TEXT}>{10.0**ten:g}</text>')
    for column, words, colour, row in zip(
        columns, CURVES.values(), COLOURS, (246, 264, 282), strict=True
    ):
        seen = ~np.isnan(column)
        y = 40 + 190 * (high - np.log10(column[seen])) / (high - low)
        drawn.append(path(across[seen], y, colour, 2))
        drawn.append(f'<text x="650" y="{row + 8}" {TEXT.replace("#444", colour)}>{words}</text>')
    moves = "".join(
        animated(name, [f"{one:.1f}" for one in across[frames]]) for name in ("x1", "x2")
    )
    return [*drawn, f'<line x1="880" x2="880" y1="36" y2="234" stroke="#444">{moves}</line>']


def main() -> None:
    """Make the runs and the pictures."""
    here = Path(__file__).parent
    (code,) = re.findall(r"```python\n(.*?)```", (here / "index.md").read_text(), re.S)
    names: dict[str, Any] = {}
    exec(code, names)  # our own page
    result = decentorth.solve(
        names["problem"], "drfgt", "ring", stopping=names["stopping"], record_every=1
    )
    result.plot(width="page").savefig(here / "first.svg", metadata={"Date": None})
    with tempfile.TemporaryDirectory() as folder:
        run([*FLAGS.split(), "--quiet", "--overwrite", "--out", folder])
        history = read_history(folder)
    n = sum(name.endswith("_x") for name in history)
    frames = np.unique(np.linspace(0, len(history["iteration"]) - 1, FRAMES).round().astype(int))
    points = np.stack(
        [[history[f"agent_{i}_{axis}"][frames] for i in range(n)] for axis in "xyz"]
    ).transpose(2, 1, 0)
    distance = np.stack([history[f"agent_{i}"][frames] for i in range(n)], axis=1)
    titles = (
        (150, "points on the sphere"),
        (450, "messages to two neighbours"),
        (765, f"{history['iteration'][-1]} iterations"),
    )
    drawn = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 306" role="img">',
        "<title>Ten agents on a ring: their points on the sphere come together while the errors "
        "fall</title>",
        '<rect width="900" height="306" rx="8" fill="#fff"/>',
        *(
            f'<text x="{x}" y="24" text-anchor="middle" {TEXT}>{words}</text>'
            for x, words in titles
        ),
        *sphere(points),
        *ring(distance),
        *curves(history, frames),
        "</svg>",
    ]
    (here / "agents.svg").write_text("\n".join(drawn) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
