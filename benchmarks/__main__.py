"""The report: methods and floors against each other, every row a ratio within one run.

    python -m benchmarks --quick                                # under 5 minutes
    python -m benchmarks                                        # more repetitions, and up to 100,000 agents
    python -m benchmarks --rows centralized floors

What is compared is measured in turn, in blocks, in one process with one BLAS thread: a row has the median ratio over the blocks and
its range. Below 1 decentorth is ahead. The report, a figure and the numbers go to ``--out``, in a folder for the kind of machine;
each row also shows its ratio in the run before on the same kind of machine. Peers run in environments of their own, made there from
``benchmarks/peers/*.txt``; a peer that cannot be installed is named with the reason.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import importlib.metadata
import importlib.util
import json
import platform
import re
import shutil
import statistics
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
from threadpoolctl import threadpool_limits

import topologies as tp
from benchmarks import many_agents, scaling
from benchmarks.generalized import Quadratic, Unsolved, until
from benchmarks.iteration import StraightFused
from decentorth import DRFGT, LBFGS, RGD, ConjugateGradients, GradientTracking
from decentorth.api import Run
from decentorth.problems import PCA, FunctionProblem, Procrustes, pencil
from decentorth.problems.stiefel.procrustes import published_rows
from decentorth.sets import Euclidean

HERE = Path(__file__).parent
TOLERANCE = 1e-6
"""The Riemannian gradient, relative to that at the start, at which a centralized method is done."""
PEERS = {"decent-bench": "python3.13", "disropt": "python3"}
"""The peers with requirement files, and the interpreters that they need."""
LEFT_OUT = {"geoopt and cdopt": "they need torch, which is large; python benchmarks/generalized.py procrustes has geoopt"}
Works = Mapping[str, Callable[[], float]]
"""By name, functions that do a piece of work and return its seconds."""


@dataclass(frozen=True)
class Row:
    """Decentorth's ``ours`` against ``other`` on a case: seconds, and the ratio's median, least and largest over the blocks."""

    section: str
    case: str
    ours: str
    other: str
    seconds: float
    other_seconds: float
    ratio: float
    least: float
    largest: float
    goal: float | None = None


def compared(section: str, case: str, works: Works, own: int, blocks: int, goal: float | None = None) -> list[Row]:
    """The rows of the first ``own`` works against all others, which are done in turn."""
    found: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(blocks):
        for name, work in works.items():
            found[name].append(work())
    names, rows = list(works), []
    for ours in names[:own]:
        for other in names[own:]:
            ratios = [a / b for a, b in zip(found[ours], found[other], strict=True)]
            middle = [statistics.median(found[name]) for name in (ours, other)]
            rows.append(Row(section, case, ours, other, *middle, statistics.median(ratios), min(ratios), max(ratios), goal))
            print(f"  {case}: {ours} / {other}: {rows[-1].ratio:.3g}", flush=True)
    return rows


def repeated(step: Callable[[], object], calls: int) -> Callable[[], float]:
    """The work of ``calls`` calls; the processor's seconds of one."""

    def work() -> float:
        begun = time.process_time()
        for _ in range(calls):
            step()
        return (time.process_time() - begun) / calls

    return work


def processor(work: Callable[[], object]) -> Callable[[], float]:
    """The processor's seconds of a piece of work."""
    return repeated(work, 1)


def printed(*command: Any) -> Callable[[], float]:
    """The work of another program, which prints its seconds last."""
    return lambda: float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


class StackedTracking:
    """Gradient tracking on the objectives ||x - b_i||^2 / 2 in plain NumPy and one sparse product for each array."""

    def __init__(self, W: Any, targets: np.ndarray, step: float) -> None:
        self.W, self.targets, self.alpha = W, targets, step
        self.x = np.zeros_like(targets)
        self.field = self.x - targets
        self.y = self.field.copy()

    def step(self) -> None:
        self.x = self.W @ self.x - self.alpha * self.y
        field = self.x - self.targets
        self.y = self.W @ self.y + field - self.field
        self.field = field


def tracking(n: int, W: Any, width: int) -> tuple[Callable[[], object], StackedTracking]:
    """An iteration of decentorth's gradient tracking, and the same in plain NumPy."""
    targets = np.random.default_rng(0).standard_normal((n, width))
    stacked = targets[:, :, None]
    problem = FunctionProblem(
        lambda agents, x: 0.5 * ((x - stacked[agents]) ** 2).sum((-2, -1)),
        lambda agents, x: x - stacked[agents],
        Euclidean(width, 1),
        n,
        stacked=True,
    )
    states = Run(problem, GradientTracking(step_size=0.05, order="combine-then-adapt"), W, comm="serial", x0=np.zeros((width, 1)))
    generator = states.states()
    next(generator)
    return generator.__next__, StackedTracking(W, targets, 0.05)


def frameworks(quick: bool, peers: Mapping[str, Path | str]) -> Iterator[Row]:
    """Row a: an iteration in one process against stacked NumPy and other frameworks."""
    blocks = 15 if quick else 60
    for case, W, width, calls in (
        ("gradient tracking, 10 agents, ring, 1,000 numbers", tp.uniform_weights(tp.ring(10)), 1000, 300),
        ("gradient tracking, 1,000 agents, torus, 100 numbers", tp.metropolis_weights(tp.torus(25, 40)), 100, 20),
    ):
        ours, theirs = tracking(W.shape[0], W, width)
        goal = 1.6 if W.shape[0] == 10 else 1.2
        works = {"decentorth": repeated(ours, calls), "stacked NumPy": repeated(theirs.step, calls)}
        yield from compared("frameworks", case, works, 1, blocks, goal)
        ring = W.shape[0] == 10
        works = {"decentorth": repeated(ours, calls)}
        if isinstance(python := peers["decent-bench"], Path):
            script = HERE / "peers" / "run_decent_bench.py"
            works["decent-bench SimpleGT"] = printed(python, script, "ring" if ring else "torus", str(width))
        if ring and isinstance(python := peers["disropt"], Path):
            mpirun = (python.parent / "mpirun", "--oversubscribe", "--allow-run-as-root", "-n", "10")
            works["disropt, 10 ranks, wall time"] = printed(*mpirun, python, HERE / "peers" / "run_disropt.py")
        if len(works) > 1:
            yield from compared("frameworks", case, works, 1, 1 if quick else 3)
    a, b = published_rows(slice(0, 10), 10, 50, 20, 0)
    W = tp.uniform_weights(tp.ring(10))
    run = Run(Procrustes(a, b), DRFGT(step_size=1e-3, penalty=10.0), W, comm="serial")
    straight = StraightFused(np.stack(a), np.stack([m.T for m in b]).copy(), W, run.x0[0], 1e-3, 10.0)
    works = {"decentorth": repeated(run.states().__next__, 200), "stacked NumPy": repeated(straight.step, 200)}
    yield from compared("frameworks", "DRFGT, 10 agents of 50 x 20, ring", works, 1, blocks)


def solved(make: Callable[[], Any], method: Any, most: int = 3000) -> Callable[[], float]:
    """The work of one of our methods from the data to `TOLERANCE`."""

    def work() -> float:
        begun = time.process_time()
        problem = make()
        spent = time.process_time() - begun
        run = Run(problem, method, comm="serial", seed=1)

        def size(x: np.ndarray) -> float:
            g, known = problem.gradient(x), problem.constraint
            if not hasattr(known, "natural_gradient"):
                return float(np.linalg.norm(known.tangent(x, g)))
            z, image = known.natural_gradient(x, g)
            return float(np.sqrt((z * image).sum()))

        first = size(run.x0)
        k, seconds = until(run, lambda state: size(state.x) < TOLERANCE * first, 5, most)
        return spent + seconds if k > 0 else np.nan

    return work


def by_pymanopt(make: Callable[[], tuple[Quadratic, np.ndarray]], manifold: Any, optimizer: str) -> Callable[[], float]:
    """The work of pymanopt from the data to `TOLERANCE`, from the start that ``make`` gives."""
    import pymanopt.optimizers

    def work() -> float:
        begun = time.process_time()
        objective, x0 = make()
        problem = objective.pymanopt(manifold)
        spent = time.process_time() - begun
        least = TOLERANCE * float(np.linalg.norm(problem.riemannian_gradient(x0)))
        begun = time.process_time()
        run = getattr(pymanopt.optimizers, optimizer)(verbosity=0, min_gradient_norm=least, max_iterations=3000)
        return spent + time.process_time() - begun if _reached(run.run(problem, initial_point=x0), least) else np.nan

    return work


def _reached(found: Any, least: float) -> bool:
    return bool(found.gradient_norm < least)


def centralized(quick: bool, peers: Mapping[str, Path | str]) -> Iterator[Row]:
    """Row b: the seconds of the processor from the data to an answer, on one core."""
    from pymanopt.manifolds import Grassmann, Stiefel

    blocks, solvers = 2 if quick else 7, ("ConjugateGradient", "TrustRegions")
    ours = {"L-BFGS": LBFGS(retraction="cholesky-qr"), "conjugate gradients": ConjugateGradients(retraction="cholesky-qr")}
    ours |= {"RGD": RGD(step_size="bb", retraction="cholesky-qr")}
    rng = np.random.default_rng(0)

    A, B = rng.standard_normal((2000, 500)), rng.standard_normal((100, 2000))
    x0 = Run(Procrustes([A], [B]), RGD(), comm="serial", seed=1).x0[0]
    works = {name: solved(lambda: Procrustes([A], [B]), method) for name, method in ours.items()}
    for name in solvers:
        theirs = by_pymanopt(lambda: (Quadratic(2.0 * A.T @ A, 2.0 * A.T @ B.T), x0), Stiefel(500, 100), name)
        works[f"pymanopt {name}"] = theirs
    yield from compared("centralized", "Procrustes, St(500, 100)", works, len(ours), blocks, 1.0)

    C, D = pencil(1000, 100.0, 0)
    start = Run(Unsolved(C, D, 100), RGD(), comm="serial", seed=1).x0[0]

    def whitened() -> tuple[Quadratic, np.ndarray]:
        upper = scipy.linalg.cholesky(D)
        half = scipy.linalg.solve_triangular(upper, C, trans=1)
        both = scipy.linalg.solve_triangular(upper, half.T, trans=1)
        return Quadratic(-(both + both.T) / 2, 0.0), upper @ start

    works = {name: solved(lambda: Unsolved(C, D, 100), method) for name, method in ours.items()}
    for name, manifold in zip(solvers, (Stiefel(1000, 100), Grassmann(1000, 100)), strict=True):  # on which each is faster
        works[f"pymanopt {name}, {type(manifold).__name__}"] = by_pymanopt(whitened, manifold, name)
    works["scipy eigh"] = processor(lambda: scipy.linalg.eigh(C, D, subset_by_index=[900, 999]))
    yield from compared("centralized", "GEVP, 1000 x 100, condition 100", works, len(ours), blocks, 1.0)

    X = rng.standard_normal((10_000, 784)) * 0.98 ** np.arange(784)
    X -= X.mean(0)
    x0 = Run(PCA([X], 10), RGD(), comm="serial", seed=1).x0[0]
    works = {name: solved(lambda: PCA([X], 10), method) for name, method in ours.items()}
    for name in solvers:
        theirs = by_pymanopt(lambda: (Quadratic(-(X.T @ X) / len(X), 0.0), x0), Grassmann(784, 10), name)
        works[f"pymanopt {name}, Grassmann"] = theirs
    from sklearn.decomposition import PCA as SklearnPCA

    for solver in ("covariance_eigh", "randomized"):
        works[f"scikit-learn {solver}"] = processor(lambda solver=solver: SklearnPCA(10, svd_solver=solver).fit(X))
    yield from compared("centralized", "PCA, 10,000 x 784, 10 components", works, len(ours), blocks, 1.0)


def agents(quick: bool, peers: Mapping[str, Path | str]) -> Iterator[Row]:
    """Row d: an edge of ever larger tori against one of 1,000 agents, and an agent of 50 x 20 with 10,000 others."""
    sides = [(3, 4), (10, 10), (100, 100), *([] if quick else [(250, 400)])]
    for a, b in sides:
        works = {f"{a * b} agents": lambda a=a, b=b: scaling.measure(a, b)[1], "1000 agents": lambda: scaling.measure(25, 40)[1]}
        yield from compared("agents", "seconds of an edge, DRFGT, 10 x 3, tori, wall time", works, 1, 1 if quick else 3)
    works = {f"{n} agents": lambda n=n: many_agents.measure(n)["us"] * 1e-6 for n in (10_000, 1_000)}
    yield from compared("agents", "seconds of an agent, DRFGT, 50 x 20, tori, wall time", works, 1, 1 if quick else 3)


def floors(quick: bool, peers: Mapping[str, Path | str]) -> Iterator[Row]:
    """Row e: iterations against the same products at NumPy's speed for their sizes, and against passes over memory."""
    blocks, n, d, r, rows = 15 if quick else 60, 10, 50, 20, 10
    a, b = published_rows(slice(0, n), n, d, r, 0)
    kernels: list[Any] = ["numpy", *(["numba"] if importlib.util.find_spec("numba") else [])]
    W, methods = tp.uniform_weights(tp.ring(n)), {k: DRFGT(step_size=1e-3, penalty=10.0, kernel=k) for k in kernels}
    states = {kernel: Run(Procrustes(a, b), method, W, comm="serial").states() for kernel, method in methods.items()}
    rng = np.random.default_rng(0)
    sizes = [(rows, d, r), (d, rows, r), (2 * r, d, r), (d, 2 * r, r)]  # the gradient's two products, and the landing field's
    products = [(rng.standard_normal((n, m, k)), rng.standard_normal((n, k, w)), np.empty((n, m, w))) for m, k, w in sizes]

    def multiply() -> None:
        for left, right, out in products:
            np.matmul(left, right, out=out)

    works = {f"iteration, kernel {kernel}": repeated(each.__next__, 200) for kernel, each in states.items()}
    works["its products"] = repeated(multiply, 200)
    yield from compared("floors", "DRFGT, 10 agents of 50 x 20, ring", works, len(states), blocks, 1.5)
    for n_agents, W, width, calls in (
        (10, tp.uniform_weights(tp.ring(10)), 1000, 300),
        (1000, tp.metropolis_weights(tp.torus(25, 40)), 100, 20),
    ):
        ours, other = tracking(n_agents, W, width)
        source, target = rng.standard_normal((3, *other.x.shape)), np.empty((3, *other.x.shape))

        def copy(source: np.ndarray = source, target: np.ndarray = target) -> None:
            np.copyto(target, source)

        case = f"gradient tracking, {n_agents} agents, {width} numbers"
        works = {"iteration": repeated(ours, calls), "x, y and gradient copied once": repeated(copy, calls)}
        yield from compared("floors", case, works, 1, blocks)


SECTIONS = {"frameworks": frameworks, "centralized": centralized, "agents": agents, "floors": floors}


def environment(name: str, folder: Path) -> Path | str:
    """The interpreter of a peer's environment, made where it is missing; or the reason why there is none."""
    python = folder / name / "bin" / "python"
    if (folder / name / "installed").exists():
        return python
    base = shutil.which(PEERS[name])
    if base is None or subprocess.run([base, "-c", ""], capture_output=True).returncode:
        return f"there is no {PEERS[name]} here"
    if PEERS[name] == "python3":
        venv.create(folder / name, with_pip=True)
    else:
        subprocess.run([base, "-m", "venv", folder / name], check=True)
    command = [python, "-m", "pip", "install", "--quiet", "-r", HERE / "peers" / f"{name}.txt"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    except subprocess.TimeoutExpired:
        return "its installation took more than 10 minutes"
    if done.returncode:
        return next((line for line in done.stderr.splitlines() if line.startswith("ERROR")), "pip failed")
    (folder / name / "installed").touch()
    return python


def machine() -> str:
    """The kind of machine: its processor, its number of cores and the version of Python, fit for a folder's name."""
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    model = re.search(r"model name\s*:\s*(.*)", text)
    name = f"{model.group(1) if model else platform.machine()} {os.cpu_count()} cores python {platform.python_version()}"
    return re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-").lower()


def commit() -> str:
    """The commit of this checkout, with a plus where it has changes."""
    done = subprocess.run(["git", "describe", "--always", "--dirty=+"], cwd=HERE, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def markdown(kept: Mapping[str, Any], before: Mapping[str, Any] | None) -> str:
    """The report's text."""
    old = {(r["section"], r["case"], r["ours"], r["other"]): r["ratio"] for r in before["rows"]} if before else {}
    lines = [
        f"# Benchmarks\n\nCommit {kept['commit']}, {kept['time']}, {kept['machine']}; one BLAS thread. Ratios below 1: ahead.\n"
    ]
    lines += [f"Before: commit {before['commit']}, {before['time']}.\n"] if before else []
    lines += ["Versions: " + ", ".join(f"{name} {version}" for name, version in kept["versions"].items()) + ".\n"]
    lines += [f"- {name} is left out: {reason}." for name, reason in kept["left_out"].items()]
    for section in dict.fromkeys(row["section"] for row in kept["rows"]):
        lines += [
            f"\n## {section.capitalize()}\n",
            "| case | ours | ms | against | ms | ratio | range | goal | before |",
            "|---" * 9 + "|",
        ]
        for row in [row for row in kept["rows"] if row["section"] == section]:
            last = old.get((section, row["case"], row["ours"], row["other"]))
            times = [f"{1e3 * row[key]:.4g}" for key in ("seconds", "other_seconds")]
            cells = [row["case"], row["ours"], times[0], row["other"], times[1], f"{row['ratio']:.3g}"]
            cells += [
                f"{row['least']:.3g} to {row['largest']:.3g}",
                *("" if v is None else f"{v:.2f}" for v in (row["goal"], last)),
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def draw(rows: list[Row], path: Path) -> None:
    """A bar from 1 to each ratio, on a logarithmic axis."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 1 + 0.22 * len(rows)), layout="constrained")
    places = np.arange(len(rows))[::-1]
    ratios = np.array([row.ratio for row in rows])
    axes.barh(places, ratios - 1.0, left=1.0, color=np.where(ratios < 1.0, "tab:green", "tab:orange"))
    axes.hlines(places, [row.least for row in rows], [row.largest for row in rows], color="black", linewidth=1)
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set(xscale="log", xlabel="decentorth / other", ylim=(-1, len(rows)))
    axes.set_yticks(places, [f"{row.case}: {row.ours} / {row.other}" for row in rows], fontsize=6)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer repetitions and at most 10,000 agents; under 5 minutes")
    parser.add_argument("--rows", nargs="+", choices=SECTIONS, default=list(SECTIONS), help="the sections (default: all)")
    parser.add_argument("--peers", nargs="+", choices=[*PEERS, "none"], default=list(PEERS), help="those to install (default: all)")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="the folder of reports, numbers and environments")
    given = parser.parse_args()
    folder = given.out / machine()
    folder.mkdir(parents=True, exist_ok=True)
    peers: dict[str, Path | str] = dict.fromkeys(PEERS, "not asked for")
    peers |= {name: environment(name, (given.out / "environments").absolute()) for name in PEERS if name in given.peers}
    earlier = sorted(folder.glob("*.json"))
    rows: list[Row] = []
    with threadpool_limits(1), np.errstate(over="ignore", invalid="ignore"):
        for name in given.rows:
            print(name, flush=True)
            rows += SECTIONS[name](given.quick, peers)
    stamp = time.strftime("%Y-%m-%dT%H-%M-%S", time.gmtime())
    packages = ("numpy", "scipy", "pymanopt", "scikit-learn")
    kept = {
        "commit": commit(),
        "time": stamp,
        "machine": machine(),
        "versions": {name: importlib.metadata.version(name) for name in packages},
        "left_out": LEFT_OUT | {name: one for name, one in peers.items() if isinstance(one, str)},
        "rows": [asdict(row) for row in rows],
    }
    before = json.loads(earlier[-1].read_text()) if earlier else None
    (folder / f"{stamp}.json").write_text(json.dumps(kept, indent=1))
    report = folder / "report.md"
    report.write_text(markdown(kept, before))
    draw(rows, folder / "report.png")
    print(report.read_text(), f"\n{report}", sep="")


if __name__ == "__main__":
    sys.exit(main())
