"""
Paper 003: times of directions and retractions
==============================================

Figure 7 of paper 003: the time of a descent direction and of a retraction, against the size. ::

    python examples/generalized/figure7.py                     # n up to 500, a few seconds
    python examples/generalized/figure7.py --published         # n up to 2000

Left two panels p = n, the paper's, where landing is at its worst; right two p = n / 10. Every time includes the product B x, or the
solve with B (factored beforehand), that it needs, and none the gradient. Medians and ranges over repeats, processor seconds, one
thread; the paper's are of a GPU.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import time

import numpy as np
from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits

from decentorth.problems import pencil
from decentorth.records.figures import COLOURS, DASHES, logarithmic, save
from decentorth.sets import GeneralizedStiefel

DIRECTIONS = {
    r"$\Psi_B$": lambda manifold, x, g: manifold.relative_gradient(x, g, "psi-b"),
    r"$\Psi_B^R$": lambda manifold, x, g: manifold.relative_gradient(x, g, "psi-br"),
    "Riemannian, Euclidean metric": lambda manifold, x, g: manifold.tangent(x, g),
    "Riemannian, natural metric": lambda manifold, x, g: manifold.natural_gradient(x, g),
}
RETRACTIONS = {
    r"$\nabla \mathcal{N}$, no retraction": lambda manifold, x, v: manifold.landing(x, np.zeros_like(x), np.ones(1)),
    "polar": lambda manifold, x, v: manifold.retract(x, v, "polar"),
    "polar, eigenvectors (SVD-like)": lambda manifold, x, v: manifold.retract(x, v, "polar-eigh"),
    "Cholesky-QR": lambda manifold, x, v: manifold.retract(x, v, "cholesky-qr"),
    "QR (Cholesky-QR twice)": lambda manifold, x, v: manifold.retract(x, v, "qr"),
}


def times(work, repeats):
    """Processor milliseconds of each repeat."""
    work()
    found = []
    for _ in range(repeats):
        begun = time.process_time()
        work()
        found.append(1e3 * (time.process_time() - begun))
    return np.array(found)


def measured(n, p, repeats):
    """The times of all directions and retractions."""
    A, B = pencil(n, 100.0, 0)
    manifold = GeneralizedStiefel(B, p)
    x = manifold.random(np.random.default_rng(0))[None]
    g = -(A @ x)
    v = -0.01 * manifold.tangent(x, g)
    found = {name: times(lambda work=work: work(manifold, x, g), repeats) for name, work in DIRECTIONS.items()}
    return found | {name: times(lambda work=work: work(manifold, x, v), repeats) for name, work in RETRACTIONS.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", nargs="?", default="figure7.png")
    parser.add_argument("--published", action="store_true", help="n up to 2000")
    parser.add_argument("--largest", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=7)
    given = parser.parse_args()
    largest = 2000 if given.published else given.largest
    sizes = sorted({max(10, round(largest / 2.0**k)) for k in np.arange(0, 4, 0.5)})
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    panels = figure.subplots(1, 4, sharey=True)
    with threadpool_limits(1):
        for share, axes in ((1, panels[:2]), (10, panels[2:])):
            found = [measured(n, n // share, given.repeats) for n in sizes]
            for panel, names, title in zip(axes, (DIRECTIONS, RETRACTIONS), ("directions", "retractions"), strict=True):
                for place, name in enumerate(names):
                    every = [one[name] for one in found]
                    low, median, high = (np.array([of(one) for one in every]) for of in (np.min, np.median, np.max))
                    panel.fill_between(sizes, low, high, color=COLOURS[place], alpha=0.18, linewidth=0)
                    panel.plot(sizes, median, color=COLOURS[place], linestyle=DASHES[place], linewidth=1.2, label=name)
                logarithmic(panel, "n", "milliseconds" if panel is panels[0] else "")
                panel.set_xticks(
                    [sizes[0], sizes[len(sizes) // 2], sizes[-1]], [str(sizes[0]), str(sizes[len(sizes) // 2]), str(sizes[-1])]
                )
                panel.minorticks_off()
                panel.grid(which="major", linewidth=0.3, color="0.85")
                panel.tick_params(labelsize=7)
                panel.set_title(f"{title}, p = n" + (f" / {share}" if share > 1 else ""), fontsize=9)
            last = {name: np.median(one) for name, one in found[-1].items()}
            print(f"n = {sizes[-1]}, p = {sizes[-1] // share}: " + ", ".join(f"{name} {one:.2f} ms" for name, one in last.items()))
    for panel in panels[:2]:
        panel.legend(fontsize=6.5, frameon=False, loc="upper left")
    save(figure, given.figure)


if __name__ == "__main__":
    main()
