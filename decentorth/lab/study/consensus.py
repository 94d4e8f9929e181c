"""The consensus study: the convergence of plain averaging, against sigma_W^k.

Gaussian vectors of length 8, one for each agent, are averaged by `Network.mix`; ``error`` is
||x_k - xbar|| / ||x_0 - xbar||. It never exceeds sigma^k, and its asymptotic rate is sigma.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

import topologies as tp

from ...figures.canvas import logarithmic, panels, style
from ...figures.publication import legend_below
from ...network import Network
from .spectral import EXACT
from .study_graphs import FAMILIES, RULES, look_of, mixing_matrix
from .sweep import Row, Study, Trial, grid, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

POINTS = 25
_SMALLEST = 1e-10
_COLUMNS = 8


def trials(full: bool, seed: int) -> list[Trial]:
    """The trials: families times weights times seeds, with 64 agents (in full also 256, and three
    seeds)."""
    seeds = range(seed, seed + 1 + 2 * full)
    return grid(n=(64, 256)[: 1 + full], family=FAMILIES, weights=RULES, seed=seeds)


def run(trial: Trial) -> list[Row]:
    """The rows of a trial: `POINTS` rows, evenly spaced in k until sigma^k is 1e-10."""
    n = trial["n"]
    seed = trial["seed"]
    network = Network(mixing_matrix(trial), "serial")
    spectrum = tp.spectrum(network.W)
    last = POINTS - 1
    if spectrum.sigma >= EXACT:
        last = max(last, math.ceil(math.log(_SMALLEST) / math.log1p(-spectrum.gap)))
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(n,)))
    x = rng.standard_normal((n, _COLUMNS))
    x -= x.mean(0)
    first = float(np.linalg.norm(x))
    rows: list[Row] = []
    before, past = 0, 1.0
    for k in np.linspace(0, last, POINTS).round().astype(int).tolist():
        rate = None
        if k > before:
            (x,) = network.mix(x, rounds=k - before)
        error = float(np.linalg.norm(x - x.mean(0))) / first
        if k > before and spectrum.sigma >= EXACT:
            rate = (error / past) ** (1.0 / (k - before))
        measured = {"k": k, "error": error, "bound": spectrum.sigma**k, "rate": rate}
        rows.append({**trial, "sigma": spectrum.sigma, **measured})
        before = k
        past = error
    return rows


@style()
def figure(rows: DataFrame) -> Figure:
    """The figure of the error of each family against sigma^k, below the diagonal."""
    drawn, (axes,) = panels(1, len(RULES), (10.5, 3.9))
    n = rows["n"].max()
    ends = [_SMALLEST, 1.0]
    shown = rows[(rows["n"] == n) & (rows["seed"] == rows["seed"].min())]
    for panel, rule in zip(axes, RULES, strict=True):
        for family, found in shown[shown["weights"] == rule].groupby("family", sort=False):
            label = family.replace("_", " ")
            panel.plot(found["bound"], found["error"], label=label, **look_of(family))
        panel.plot(ends, ends, color="0.4", linewidth=0.8, linestyle="--", label=r"$\sigma_W^k$")
        logarithmic(panel, r"$\sigma_W^k$", r"$\|x_k - \bar x\| / \|x_0 - \bar x\|$")
        panel.set_xlim(1.0, _SMALLEST)
        panel.set_title(f"{rule}, n = {n}", fontsize=8)
    legend_below(drawn, axes[:1], 7)
    return drawn


def conclusions(rows: DataFrame) -> Iterator[str]:
    """The measured contraction beside sigma."""
    seen = rows[rows["bound"] > _SMALLEST / 10]
    largest = (seen["error"] / seen["bound"]).max()
    yield f"the error never exceeds sigma^k: largest ratio {largest:.15g}"
    trial = ["family", "n", "weights", "seed"]
    last = rows.dropna(subset="rate").groupby(trial, sort=False).tail(1)
    compared = last.assign(**{"log ratio": np.log(last["rate"]) / np.log(last["sigma"])})
    yield table(compared, ("family", "weights", "n", "sigma", "rate", "log ratio"))


_SUMMARY = "measured contraction of plain averaging against sigma^k"
STUDY = Study("consensus", _SUMMARY, trials, run, figure, conclusions)
