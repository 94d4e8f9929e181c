"""
Paper 003: times of directions and retractions
==============================================

Figure 7 of paper 003: the time of a descent direction and of a retraction,
against the size. ::

    # n up to 500, a few seconds
    python examples/generalized/figure7.py
    # n up to 2000
    python examples/generalized/figure7.py --published
    python examples/generalized/figure7.py --published --device cuda \\
        --repeats 30

Left two panels p = n, the paper's, where landing is at its worst; right two p =
n / 10. Every time includes the product B x, or the solve with B (factored
beforehand), that it needs, and none the gradient. Medians and ranges over
repeats, processor seconds, one thread; with a device those of the clock. The
paper's are of a GPU.

All numbers: ``docs/papers/003.md``.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import time

import numpy as np
from threadpoolctl import threadpool_limits

from decentorth.authoring import open_device
from decentorth.figures import (
    band,
    legend_below,
    logarithmic,
    panels,
    publish,
    style,
)
from decentorth.problems import pencil
from decentorth.sets import GeneralizedStiefel

DIRECTIONS = {
    r"$\Psi_B$": lambda manifold, x, g: manifold.relative_gradient(
        x, g, "psi-b"
    ),
    r"$\Psi_B^R$": lambda manifold, x, g: manifold.relative_gradient(
        x, g, "psi-br"
    ),
    "Riemannian, Euclidean metric": lambda manifold, x, g: manifold.tangent(
        x, g
    ),
    "Riemannian, natural metric": lambda manifold, x, g: (
        manifold.natural_gradient(x, g)[0]
    ),
}
RETRACTIONS = {
    r"$\nabla \mathcal{N}$, no retraction": lambda manifold, x, v: (
        manifold.landing(x, np.zeros_like(x), np.ones(1))
    ),
    "polar": lambda manifold, x, v: manifold.retract(x, v, "polar"),
    "polar, eigenvectors (SVD-like)": lambda manifold, x, v: manifold.retract(
        x, v, "polar-eigh"
    ),
    "Cholesky-QR": lambda manifold, x, v: manifold.retract(x, v, "cholesky-qr"),
    "QR (Cholesky-QR twice)": lambda manifold, x, v: manifold.retract(
        x, v, "qr"
    ),
}


def times(work, repeats, device):
    """Milliseconds of each repeat, of the processor or, on a device, of the
    clock once the result is there.
    """
    now = time.process_time if device is None else time.perf_counter
    found = []
    for _ in range(repeats + 1):
        begun = now()
        float(work()[0, 0, 0])
        found.append(1e3 * (now() - begun))
    return np.array(found[1:])


def measured(n, p, repeats, device):
    """The times of all directions and retractions."""
    A, B = pencil(n, 100.0, 0)
    manifold = GeneralizedStiefel(B, p)
    x = manifold.random(np.random.default_rng(0))[None]
    g = -(A @ x)
    v = -0.01 * manifold.tangent(x, g)
    if device is not None:
        put = open_device(device).put
        manifold = manifold.on(put)
        x = put(x)
        g = put(g)
        v = put(v)
    found = {
        name: times(lambda work=work: work(manifold, x, g), repeats, device)
        for name, work in DIRECTIONS.items()
    }
    return found | {
        name: times(lambda work=work: work(manifold, x, v), repeats, device)
        for name, work in RETRACTIONS.items()
    }


def draw(axes, share, sizes, found):
    """The times of directions on the left, of retractions on the right."""
    sides = {"directions": list(DIRECTIONS), "retractions": list(RETRACTIONS)}
    ticks = [sizes[0], sizes[len(sizes) // 2], sizes[-1]]
    place = 0
    for panel, (title, names) in zip(axes, sides.items(), strict=True):
        across = "n" if share > 1 else ""
        logarithmic(panel, across, "milliseconds" * (title == "directions"))
        for name in names:
            spent = np.array([one[name] for one in found]).T
            band(panel, sizes, spent, place, name)
            place += 1
        panel.set_xticks(ticks, [str(size) for size in ticks])
        panel.minorticks_off()
        panel.set_title(
            f"{title}, p = n" + (f" / {share}" if share > 1 else "")
        )


def report(n, p, found):
    """Print the median times of one size."""
    times = ", ".join(
        f"{name} {np.median(spent):.2f} ms" for name, spent in found.items()
    )
    print(f"n = {n}, p = {p}: {times}", flush=True)


@style()
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("figure", nargs="?", default="figure7.png")
    parser.add_argument("--published", action="store_true", help="n up to 2000")
    parser.add_argument("--largest", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument(
        "--device", help="cuda, or cuda:float32 for single precision"
    )
    given = parser.parse_args()
    largest = 2000 if given.published else given.largest
    sizes = sorted(
        {max(10, round(largest / 2.0**k)) for k in np.arange(0, 4, 0.5)}
    )
    figure, grid = panels(2, 2, (7.16, 5.4), sharey=True, sharex=True)
    with threadpool_limits(1):
        for share, axes in ((1, grid[0]), (10, grid[1])):
            found = [
                measured(n, n // share, given.repeats, given.device)
                for n in sizes
            ]
            draw(axes, share, sizes, found)
            for n, one in zip(sizes, found, strict=True):
                if n in (500, 1000, largest):
                    report(n, n // share, one)
    legend_below(figure, grid[0], 3)
    where = (
        f"on {given.device}, seconds of the clock"
        if given.device
        else "one thread, seconds of the processor"
    )
    publish(
        figure,
        given.figure,
        f"""The time of a descent direction and of a retraction on the
        generalized Stiefel manifold against n, B of condition 100, {where}.
        Medians and ranges of {given.repeats} repeats. The product B x or the
        solve with B (factored beforehand) is included. Made by
        examples/generalized/figure7.py.""",
    )


if __name__ == "__main__":
    main()
