"""Landing on samples alone against methods with a rolling mean of the covariances (paper 003,
Section 4), on CCA and ICA.

    python benchmarks/stochastic_cca.py                  # small problems, under a minute
    python benchmarks/stochastic_cca.py full             # 100,000 samples, five seeds; half an hour
    python benchmarks/stochastic_cca.py images           # 10,000 x (392 + 392) halves of images, two seeds; minutes
    python benchmarks/stochastic_cca.py images t10k-images-idx3-ubyte.gz
    python benchmarks/stochastic_cca.py ica              # 100,000 samples of 10 sources, three seeds; minutes
    python benchmarks/stochastic_cca.py images-few       # 2000 images, one seed; ica-few: 20,000 samples
    python benchmarks/stochastic_cca.py memory           # 2 x 20,000 columns

1. How much of the sum of the p = 5 largest canonical correlations is within the column spaces of X
   and Y (100: all) after as many samples as there are, or a multiple of that, and after as many
   seconds of the processor as RGD in the Euclidean metric takes for that; of independent
   components, 100 less the Amari distance in percent. Landing on samples draws three batches an
   iteration, the others one, which online landing takes for the gradient and B. Steps are those of
   a grid that are best on a seed of their own; then the median and the range over other seeds.
   Where the mean of the first batches is singular, RGD in the natural metric, which solves with it,
   cannot start. Lines are CSV.
2. Memory that an iteration takes beside the samples, where a covariance would be 3.2 GB.

Without a file the images are those of examples/generalized/wide_views.py: scikit-learn's digits,
enlarged to 28 x 28 pixels and deformed. Pixels that hardly vary are left out, and the ridge is a
hundredth of the mean eigenvalue. Times are of the processor (one thread), without measuring.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import math
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse.linalg  # noqa: F401  # before memory is traced
from threadpoolctl import threadpool_limits

from decentorth import RGD, GeneralizedLanding
from decentorth.api import set_up
from decentorth.problems import CCA, CCASettings, ICASettings

P = 5
TUNING, CHECKS = 1000, 25
"""The seed of the grid, and how often the correlations are looked at."""


class Case(NamedTuple):
    """A problem, the batches for it, after how many passes over all samples methods are compared,
    and if with fewer steps."""

    name: str
    settings: CCASettings | ICASettings
    batches: tuple[int, ...]
    passes: tuple[float, ...] = (1,)
    coarse: bool = False


def generated(samples: int, columns: int, ridge: float = 0.0) -> CCASettings:
    return CCASettings(
        data="synthetic",
        samples=samples,
        dimension=columns,
        dimension_y=columns,
        ridge=ridge,
        scale="view",
        rank=P,
    )


def halves(file: str) -> tuple[Case, ...]:
    settings = CCASettings(data=file, scale="view", rank=P)
    return tuple(
        Case("halves of images", settings, (b,), (passes,), coarse=True)
        for b, passes in ((512, 1.0), (64, 0.2))
    )


def written(path: Path, count: int) -> None:
    """Write digits that are enlarged and deformed to an idx file, as 28 x 28 bytes each."""
    sys.path.append(str(Path(__file__).parents[1] / "examples" / "generalized"))
    from wide_views import images  # type: ignore[import-not-found]

    made = np.rint(255 * images(count)[0]).astype(np.uint8)
    path.write_bytes(b"\0\0\x08\x03" + np.array(made.shape, ">i4").tobytes() + made.tobytes())


DIGITS = Case(
    "digits, left and right halves, 1797 x (26 + 30)",
    CCASettings(scale="view", rank=P),
    (64, 512),
    (10,),
)
SMALL = (
    DIGITS,
    Case("generated, 10,000 x (40 + 40)", generated(10_000, 40), (32,)),
    Case("generated, 3000 x (250 + 250)", generated(3000, 250, 0.01), (32,)),
)
FULL = (
    DIGITS,
    Case("generated, 100,000 x (100 + 100)", generated(100_000, 100), (64, 512)),
    Case("generated, 6400 x (1000 + 1000)", generated(6400, 1000, 0.01), (64,)),
)


def sources(samples: int) -> Case:
    return Case(
        f"independent components, {samples:,} x 10",
        ICASettings(samples=samples, whiten=False),
        (1000,),
        (0.1, 1),
    )


class Curve(NamedTuple):
    """After so many samples and seconds: the share of the optimal correlations, in percent."""

    samples: list[int]
    seconds: list[float]
    shares: list[float]

    def share(self, spent: str, limit: float) -> float:
        """The share at the last look before so many samples or seconds are spent."""
        looks = [
            share
            for used, share in zip(getattr(self, spent), self.shares, strict=True)
            if used <= limit
        ]
        return looks[-1] if looks else 0.0


class Method(NamedTuple):
    """A method by a step relative to what its curvature allows, and a penalty relative to the
    step."""

    name: str
    make: Callable[[Any, int, float, float], Any]
    steps: tuple[float, ...]
    penalties: tuple[float, ...] = (0.0,)
    draws: int = 1

    def coarser(self) -> Method:
        """The method with every other step and the last penalty."""
        return self._replace(steps=self.steps[::2], penalties=self.penalties[-1:])


def landing(
    covariance: Any, policy: str, batches: Any = "three"
) -> Callable[[Any, int, float, float], Any]:
    def make(problem: Any, batch: int, step: float, penalty: float) -> Any:
        largest = problem.constraint.largest
        eta = step / (largest * float(problem.lipschitz[0]))
        written = policy.format(eta) if policy else eta
        return GeneralizedLanding(
            step_size=written,
            penalty=penalty / (largest * eta),
            batch_size=batch,
            covariance=covariance,
            batches=batches,
        )

    return make


def rgd(metric: Any) -> Callable[[Any, int, float, float], Any]:
    def make(problem: Any, batch: int, step: float, penalty: float) -> Any:
        scale = (
            1.0 if metric == "natural" else problem.constraint.largest + float(problem.lipschitz[0])
        )
        return RGD(
            step_size=step / scale,
            batch_size=batch,
            covariance="rolling",
            metric=metric,
            retraction="cholesky-qr",
        )

    return make


LANDING = (1 / 128, 1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0)
"""Of RGD too the grids go on from where most problems have the best step: components take steps
much longer."""
EUCLIDEAN = Method(
    "RGD rolling mean Euclidean",
    rgd("euclidean"),
    (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 4.0, 16.0, 64.0, 256.0),
)
NATURAL = (1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1.0, 4.0, 16.0, 64.0)
METHODS = (
    EUCLIDEAN,
    Method("RGD rolling mean natural", rgd("natural"), NATURAL),
    Method("landing rolling mean", landing("rolling", ""), LANDING, (0.02, 0.1)),
    Method("online landing", landing("sampled", "", "one"), LANDING, (0.02, 0.1)),
    Method("landing on samples", landing("sampled", ""), LANDING, (0.02, 0.1), 3),
    Method(
        "landing on samples 1/sqrt(k)",
        landing("sampled", "diminishing:initial={}"),
        (1 / 8, 1 / 4, 1 / 2, 1.0),
        (0.1,),
        3,
    ),
)


def share(problem: Any, x: Any) -> float:
    """The percentage of the best sum of correlations, or 100 less that of the Amari distance."""
    error = float(problem.error(problem.constraint.project(x)[0]))
    return 100.0 * (
        1.0
        - error
        / (float(problem.optimum.correlations[:P].sum()) if isinstance(problem, CCA) else 1.0)
    )


def curve(
    problem: Any, method: Any, per_iteration: int, total: float, seconds: float, seed: int
) -> Curve | None:
    """Until ``total`` samples are drawn and the seconds are over; None where that cannot be."""
    found = Curve([], [], [])
    states = set_up(problem, method, comm="serial", seed=seed).states()
    spent, drawn, due, k = 0.0, 0, 1.0, 0
    grow = (total / per_iteration) ** (1.0 / CHECKS)
    with np.errstate(all="ignore"):
        while drawn + per_iteration <= total or spent < seconds:
            begun = time.process_time()
            try:
                state = next(states)
            except ValueError:  # a singular mean of the first batches
                return None
            spent += time.process_time() - begun
            k, drawn = k + 1, drawn + per_iteration
            if k < due and drawn + per_iteration <= total:
                continue
            due = max(due * grow, k + 1.0)
            if not problem.constraint.feasibility(state.x)[0] < 1e3:
                return None
            found.samples.append(drawn)
            found.seconds.append(spent)
            found.shares.append(share(problem, state.x))
    return found


def compare(case: Case, seeds: int) -> None:
    problem = set_up(case.settings.problem(1, 0), GeneralizedLanding(), comm="serial").problem
    samples = int(problem.n_samples[0])
    parts = getattr(problem.constraint, "parts", (problem.constraint,))
    condition = max(float(np.linalg.cond(part.operator.stack[0])) for part in parts)
    columns = " + ".join(str(part.shape[0]) for part in parts)
    print(f"# {case.name}: {samples} x ({columns}), condition {condition:.0f}")
    print("batch,after,method,median,least,most,step,penalty,diverged")
    for batch in case.batches:
        begun = curve(
            problem,
            EUCLIDEAN.make(problem, batch, 0.1, 0.0),
            batch,
            max(case.passes) * samples,
            0.0,
            TUNING,
        )
        assert begun is not None
        limits = []
        for passes in case.passes:
            within = [
                spent
                for used, spent in zip(begun.samples, begun.seconds, strict=True)
                if used <= passes * samples
            ]
            limits += [
                (f"{passes:g} passes", "samples", passes * samples),
                (f"{within[-1]:.2f} s", "seconds", within[-1]),
            ]
        for method in METHODS:
            for line in reached(
                problem, method.coarser() if case.coarse else method, batch, limits, seeds
            ):
                print(f"{batch},{line}", flush=True)


def reached(
    problem: Any, method: Method, batch: int, limits: list[tuple[str, str, float]], seeds: int
) -> list[str]:
    """What the step that is best on the tuning seed reaches on others, for each way to count."""
    total, seconds = (
        max(limit for _, spent, limit in limits if spent == way) for way in ("samples", "seconds")
    )

    def run(step: float, penalty: float, seed: int) -> Curve | None:
        made = method.make(problem, batch, step, penalty)
        return curve(problem, made, method.draws * batch, total, seconds, seed)

    grid = [(step, penalty) for step in method.steps for penalty in method.penalties]
    tried = {pair: found for pair in grid if (found := run(*pair, TUNING)) is not None}
    if not tried:
        return [
            f",{method.name},,,,,,all: "
            f"{'cannot start' if 'natural' in method.name else 'at every step'}"
        ]
    told = []
    runs: dict[tuple[float, float], list[Curve | None]] = {}
    for name, spent, limit in limits:
        best = max(tried, key=lambda pair: tried[pair].share(spent, limit))
        if best not in runs:
            runs[best] = [run(*best, seed) for seed in range(seeds)]
        shares = [found.share(spent, limit) for found in runs[best] if found is not None] or [
            math.nan
        ]
        numbers = ",".join(
            f"{value:.2f}" for value in (statistics.median(shares), min(shares), max(shares))
        )
        told.append(
            f"{name},{method.name},{numbers},{best[0]:.3g},{best[1]:g},{runs[best].count(None)}"
        )
    return told


def memory(samples: int, columns: int, batch: int) -> None:
    """What landing on samples, and landing on all of them, take beside the samples."""
    rng = np.random.default_rng(0)
    common = rng.standard_normal((samples, 2 * P))
    first, second = (
        common @ rng.standard_normal((2 * P, columns)) + rng.standard_normal((samples, columns))
        for _ in range(2)
    )
    point = 2 * columns * P * 8
    print(
        f"{samples} samples of {columns} + {columns} columns, {2 * first.nbytes / 1e6:.0f} MB; a "
        f"covariance would be {columns * columns * 8e-9:.1f} GB, a point is {point / 1e6:.1f} MB"
    )
    problem = CCA([first], [second], P, ridge=0.01)
    for name, method in (
        (
            f"on samples, batch {batch}",
            GeneralizedLanding(step_size=1e-4, penalty=1.0, batch_size=batch, covariance="sampled"),
        ),
        ("on all samples", GeneralizedLanding(step_size="bb:cap=inf")),
    ):
        states = set_up(problem, method, comm="serial").states()
        next(states)
        tracemalloc.start()
        begun = time.process_time()
        for _ in range(10):
            state = next(states)
        spent = (time.process_time() - begun) / 10
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        drawn = 2 * batch * columns * 8 if "batch" in name else 0
        print(
            f"  landing {name}: {peak / 1e6:.1f} MB, of which {drawn / 1e6:.1f} MB are a batch, "
            f"beside the state: {(peak - drawn) / point:.1f} points; {1e3 * spent:.0f} ms an "
            f"iteration; k = {state.k}"
        )


def main(what: str = "small", file: str | None = None) -> None:
    with threadpool_limits(1), TemporaryDirectory() as folder:
        if what == "memory":
            memory(2000, 20_000, 64)
            return
        few = what.endswith("-few")
        if what.startswith("ica"):
            compare(sources(20_000 if few else 100_000), 1 if few else 3)
            return
        if what.startswith("images"):
            path = Path(folder, "images.idx")
            if file is None:
                written(path, 2000 if few else 10_000)
            for case in halves(file or str(path)):
                compare(case, 1 if few else 2)
            return
        for case in FULL if what == "full" else SMALL:
            compare(case, 5 if what == "full" else 3)
        memory(*((2000, 20_000, 64) if what == "full" else (200, 4000, 64)))


if __name__ == "__main__":
    main(*sys.argv[1:])
