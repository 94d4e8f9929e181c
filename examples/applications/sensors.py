"""
Sensors: how do they find a spatial filter over lossy radio links?
==================================================================

Sixteen stations, at random in a square, each have an array of twelve sensors of
one design and hear their nearest neighbours over radio links that lose some of
the messages. Every station records noise, with two sources of interference of
its own, and then signals of two common sources. No recording leaves its
station. Together they want

- the spatial filter that a centre with all recordings would design: the x with
  the largest trace of x^T A x under x^T B x = I. The covariances A of the
  signals and B of the noise are means over the stations and known to none of
  them. This generalized eigenvalue problem is that of maximum-SNR beamformers
  and, for brain signals, of common spatial patterns;
- the canonical correlations between the first six and the last six sensors
  while there are signals.

For each the script prints what the worst station's answer loses to that of
``scipy.linalg.eigh`` for all recordings, in decibels of the filter's output or
in correlation, the largest principal angle to it, and the megabytes sent, for

- CDADT on links that lose 0, 10 and 30 % (then without momentum) of the
  messages, and GeneralizedDRFGT, until the stations agree that they are done;
- CDADT where messages are lost and nobody knows it (without repair), after 3000
  iterations;
- covariances averaged over the network, from which every station computes the
  answer, without loss and with 10 %: exact too;
- the average of the stations' own answers, made by a server, and the median
  station alone, with a thousandth of diagonal loading.

The page ``docs/applications/sensors.md`` discusses the numbers. ::

    python examples/applications/sensors.py --figure sensors.png
    python examples/applications/sensors.py --noise noise.npy \\
        --data signals.npy --stations 16 --rank 2 --first-group 6
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
from collections.abc import Callable
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import eigh, orth, subspace_angles

import decentorth as do
import topologies as tp
from decentorth.authoring import average
from decentorth.network import Network, UnreliableNetwork
from decentorth.problems import canonical_correlations

# The stations find, by max-consensus, if every quantity of every station is at
# most 1e-8.
STOPPING = do.stopping.LocalMaximum(1e-8)
# A station alone adds this share of the mean to the diagonal of a covariance:
# it may have few samples.
LOADING = 1e-3
# The methods and the links of each run.
RUNS = {
    "CDADT": (do.CDADT(), None),
    "CDADT, 10 % lost": (do.CDADT(), do.Channel("loss:p=0.1")),
    "CDADT without momentum, 30 % lost": (
        do.CDADT(momentum=0.0),
        do.Channel("loss:p=0.3"),
    ),
    "CDADT, 10 % lost, no repair": (
        do.CDADT(),
        do.Channel("loss:p=0.1", repair=False),
    ),
    "GeneralizedDRFGT": (do.GeneralizedDRFGT(), None),
}

# %%
# The problem: nobody knows the noise covariance
# ----------------------------------------------


class SpatialFilter(do.problems.GEVP):
    """f_i(x) = -1/2 tr(x^T A_i x) over {x : x^T B x = I}, where B is the mean
    of the B_i and station i knows only its A_i and B_i.

    `GEVP` has the objective and, for the metrics, the answer; methods that
    track products with B need two functions more.
    """

    def __init__(self, signal, noise, rank):
        super().__init__(list(signal), noise.mean(axis=0), rank)
        self.noise = noise

    def _take(self, local):
        super()._take(local)
        self.noise = self.noise[local]

    def local_product(self, x):
        """B_i x_i of each station."""
        return self.noise @ x

    def local_diagonal(self):
        """The diagonal of each B_i."""
        return np.diagonal(self.noise, axis1=1, axis2=2).copy()


def covariances(recordings):
    """A covariance for each station whose means are those of all samples,
    however many each station has.
    """
    count = sum(len(X) for X in recordings) / len(recordings)
    return np.array([X.T @ X / count for X in recordings])


def loaded_diagonal(C):
    """The covariance of one station with `LOADING`."""
    return C + LOADING * np.trace(C) / len(C) * np.eye(len(C))


def symmetric(numbers, d):
    """The symmetric matrix with these numbers on and above its diagonal."""
    rows, columns = np.triu_indices(d)
    C = np.zeros((d, d))
    C[rows, columns] = C[columns, rows] = numbers
    return C


# %%
# Recordings
# ----------


def generated(n_stations=16, n_sensors=12, seed=1):
    """Noise and signals of each station, 30 to 119 samples of each."""
    rng = np.random.default_rng(seed)
    patterns = rng.standard_normal(
        (2, n_sensors)
    )  # of the two sources at the sensors
    colour = (
        rng.standard_normal((n_sensors, n_sensors))
        * np.geomspace(1.0, 0.1, n_sensors)[:, None]
    )
    noise = []
    signals = []
    for _ in range(n_stations):
        samples = int(rng.integers(30, 120))
        interference = 1.5 * rng.standard_normal((2, n_sensors))
        loudness = np.exp(0.5 * rng.standard_normal(2))

        def heard(samples, interference=interference):
            local = rng.standard_normal((samples, 2)) @ interference
            return (
                rng.standard_normal((samples, n_sensors)) @ colour
                + local
                + 0.3 * rng.standard_normal((samples, n_sensors))
            )

        noise.append(heard(samples))
        signals.append(
            (rng.standard_normal((samples, 2)) * loudness) @ patterns
            + heard(samples)
        )
    return noise, signals


def loaded(path, n_stations):
    """The samples of a file in consecutive parts, one for each station, which
    takes its own means away.
    """
    X = do.data.load_matrix(path)
    if len(X) < n_stations:
        raise ValueError(
            f"{path} has {len(X)} samples for {n_stations} stations: give "
            f"--stations at most as many"
        )
    return [part - part.mean(axis=0) for part in np.array_split(X, n_stations)]


# %%
# The two tasks
# -------------


class Task(NamedTuple):
    """A task with the ways to its answer; points of two views are stacked by
    rows.
    """

    problem: object
    answer: np.ndarray
    """``(d, rank)``: the answer of all recordings in one place."""
    cuts: tuple
    """The rows at which the second view begins."""
    lost: Callable
    """From a point to what it loses against the answer, in this ``unit``."""
    unit: str
    local: list
    """Each station's own answer, from its own recordings."""
    own: np.ndarray
    """``(n, k)``: the numbers whose averages determine the answer."""
    centre: Callable
    """From those averages to the answer."""

    def angle(self, x):
        """Largest principal angle of a point to the answer, in any view."""
        views = zip(
            np.split(x, self.cuts),
            np.split(self.answer, self.cuts),
            strict=True,
        )
        return max(float(subspace_angles(*pair)[0]) for pair in views)

    def averaged_filters(self):
        """The average of the stations' own subspaces: the leading left singular
        vectors of all of their bases, view by view.
        """
        views = zip(*(np.split(x, self.cuts) for x in self.local), strict=True)
        return np.concatenate(
            [
                np.linalg.svd(np.hstack([orth(x) for x in view]))[0][
                    :, : len(self.answer[0])
                ]
                for view in views
            ]
        )


def spatial_filter(noise, signals, rank):
    """The filter with the most power of signals per power of noise."""

    def best(A, B):
        return eigh(A, B)[1][:, ::-1][:, :rank]

    def power(x):
        return eigh(x.T @ A @ x, x.T @ B @ x, eigvals_only=True).mean()

    As = covariances(signals)
    Bs = covariances(noise)
    A = As.mean(axis=0)
    B = Bs.mean(axis=0)
    if np.linalg.cond(B) > 1e12:
        raise ValueError(
            "the covariance of the noise is singular: record more samples, or "
            "leave out sensors that repeat others"
        )
    rows, columns = np.triu_indices(len(A))

    def centre(means):
        signal, noise = np.split(means, 2)
        return best(symmetric(signal, len(A)), symmetric(noise, len(A)))

    answer = best(A, B)
    return Task(
        SpatialFilter(As, Bs, rank),
        answer,
        (),
        lambda x: 10.0 * np.log10(power(answer) / power(x)),
        "dB lost",
        [best(A, loaded_diagonal(B)) for A, B in zip(As, Bs, strict=True)],
        np.hstack([C[:, rows, columns] for C in (As, Bs)]),
        centre,
    )


def correlation_total(C, width):
    """The function of points that is the sum of the correlations of the spaces
    that they span.
    """
    roots = [
        np.linalg.cholesky(block).T
        for block in (C[:width, :width], C[width:, width:])
    ]
    whitened = np.linalg.solve(
        roots[0].T, np.linalg.solve(roots[1].T, C[width:, :width]).T
    )

    def total(z):
        x, y = (
            orth(factor @ part)
            for factor, part in zip(roots, np.split(z, [width]), strict=True)
        )
        return np.linalg.svd(x.T @ whitened @ y, compute_uv=False).sum()

    return total


def group_correlations(signals, width, rank):
    """The leading canonical directions of the first ``width`` sensors and the
    others.
    """
    d = signals[0].shape[1]
    if not 0 < width < d:
        raise ValueError(
            f"the first group must have between 1 and {d - 1} of the {d} "
            f"sensors, got {width}"
        )

    def best(C):
        found = canonical_correlations(
            C[:width, :width], C[:width, width:], C[width:, width:]
        )
        return np.concatenate((found.x[:, :rank], found.y[:, :rank]))

    Cs = covariances(signals)
    C = Cs.mean(axis=0)
    total = correlation_total(C, width)
    rows, columns = np.triu_indices(d)
    answer = best(C)
    first = [np.ascontiguousarray(X[:, :width]) for X in signals]
    second = [np.ascontiguousarray(X[:, width:]) for X in signals]
    return Task(
        do.problems.CCA(first, second, rank),
        answer,
        (width,),
        lambda x: total(answer) - total(x),
        "corr. lost",
        [best(loaded_diagonal(own)) for own in Cs],
        Cs[:, rows, columns],
        lambda means: best(symmetric(means, d)),
    )


# %%
# The tables and the figure
# -------------------------


class WorstAngle:
    """The metric ``angle``: the largest principal angle of any station to the
    answer.
    """

    columns = ("angle",)

    def __init__(self, task):
        self.task = task

    def __call__(self, problem, state, collective):
        return (
            max(self.task.angle(x) for x in state.x)
            if np.isfinite(state.x).all()
            else np.nan,
        )


def averaged(W, values):
    """The averages ``(n, k)`` of the stations' ``values``, by accelerated
    rounds that need every message; and the network.
    """
    network = Network(W, "serial")
    return average(network, values, 1e-14), network


def averaged_with_losses(W, values):
    """The same by plain rounds, of which each keeps the mean whatever is lost,
    until all stations agree to ten digits.
    """
    network = UnreliableNetwork(W, "serial", channel=do.Channel("loss:p=0.1"))
    nobody = np.zeros(len(values), dtype=bool)
    scale = np.abs(values).max()
    while np.ptp(values, axis=0).max() > 1e-10 * scale:
        with network.iteration(asleep=nobody, back=nobody):
            (values,) = network.mix(values)
    return values, network


def run_of(task, W, method, channel):
    """A run of the stations: a row of the table without its label, and the
    curve of angles over rounds.
    """
    result = do.solve(
        task.problem,
        method,
        W,
        iterations=20_000 if channel is None or channel.repair else 3000,
        channel=channel,
        stopping=STOPPING,
        rows=100,
        metrics=[WorstAngle(task)],
        comm="serial",
    )
    end = f"{result.row.iteration} iterations"
    if not result.converged:
        end += ", not converged"
    lost = np.nan
    if np.isfinite(result.x).all():
        lost = max(map(task.lost, result.x))
    angles = result.history["angle"]
    row = lost, angles[-1], result.row.bytes, end
    return row, (result.history["rounds"], angles)


def rivals(task, W):
    """The rows of the table below those of the runs."""
    rows = []
    for label, averaging in (
        ("covariances averaged", averaged),
        ("covariances averaged, 10 % lost", averaged_with_losses),
    ):
        means, network = averaging(W, task.own)
        point = task.centre(means[0])
        end = f"{network.rounds} rounds"
        rows.append(
            (label, task.lost(point), task.angle(point), network.bytes, end)
        )
    merged = task.averaged_filters()
    sent = 16 * len(task.local) * task.answer.size  # to a server and back
    label = "average of own answers, server"
    rows.append((label, task.lost(merged), task.angle(merged), sent, ""))
    lost = np.median([task.lost(x) for x in task.local])
    angle = np.median([task.angle(x) for x in task.local])
    return [*rows, ("alone, median station", lost, angle, 0, "")]


def analysed(name, task, W, runs):
    """Print the table of one task; returns its rows, and the curves of the
    runs.
    """
    rows = []
    curves = {}
    for label, (method, channel) in runs.items():
        row, curves[label] = run_of(task, W, method, channel)
        rows.append((label, *row))
    rows += rivals(task, W)
    print(f"{name}\n  {'':34}{task.unit:>12}{'angle':>10}{'MB':>8}")
    for label, lost, angle, sent, end in rows:
        numbers = f"{abs(round(lost, 4)):12.4f}{angle:10.1e}{sent / 1e6:8.2f}"
        print(f"  {label:34}{numbers}  {end}".rstrip())
    return rows, curves


def drawn(found):
    """The figure: a panel for each task, angles over rounds of messages."""
    figure, axes = plt.subplots(
        1,
        len(found),
        figsize=(3.6 * len(found), 4.2),
        layout="constrained",
        sharey=True,
    )
    for axis, (name, (rows, curves)) in zip(axes, found.items(), strict=True):
        for (label, curve), look in zip(
            curves.items(), ("C0-", "C1-", "C3-", "C6-", "C2--"), strict=False
        ):
            axis.semilogy(*curve, look, label=label)
        for (label, _, angle, *_), look in zip(
            rows[-2:], ("C4", "C5"), strict=True
        ):
            axis.axhline(angle, color=look, linewidth=1.0, label=label)
        axis.set(title=name, xlabel="rounds of messages")
    axes[0].set_ylabel("largest principal angle")
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=2,
        fontsize=8,
    )
    return figure


def command_line():
    """The command line."""
    parser = argparse.ArgumentParser(
        description="A spatial filter and correlations of sensors over lossy "
        "links."
    )
    parser.add_argument(
        "--data",
        help="a file with samples of all sensors in rows, while there are "
        "signals",
    )
    parser.add_argument("--noise", help="such a file without signals")
    parser.add_argument(
        "--stations",
        type=int,
        default=16,
        help="stations, which share the samples in consecutive parts",
    )
    parser.add_argument(
        "--radius",
        type=float,
        default=0.4,
        help="the reach of a station, in sides of the square",
    )
    parser.add_argument(
        "--rank",
        type=int,
        default=2,
        help="filters, and pairs of canonical directions",
    )
    parser.add_argument(
        "--first-group",
        type=int,
        default=6,
        help="number of sensors in the first group",
    )
    parser.add_argument("--figure", help="a file for the figure")
    return parser


def recordings(given):
    """Noise and signals of each station, from the files or generated."""
    if given.data is None:
        return generated(given.stations)
    noise = loaded(given.noise, given.stations)
    signals = loaded(given.data, given.stations)
    if noise[0].shape[1] != signals[0].shape[1]:
        raise ValueError(
            f"{given.noise} and {given.data} must have a column for "
            f"each sensor, the same in both"
        )
    return noise, signals


def main(arguments=None):
    parser = command_line()
    given = parser.parse_args(arguments)
    if given.rank < 1:
        parser.error(f"--rank must be at least 1, got {given.rank}")
    if (given.data is None) != (given.noise is None):
        parser.error(
            "--data and --noise go together: recordings with signals, and "
            "without"
        )
    try:
        noise, signals = recordings(given)
        W = tp.metropolis_weights(
            tp.random_geometric(given.stations, radius=given.radius, seed=3)
        )
        width = given.first_group
        tasks = {
            "spatial filter": spatial_filter(noise, signals, given.rank),
            "correlations": group_correlations(signals, width, given.rank),
        }
        found = {
            name: analysed(name, task, W, RUNS) for name, task in tasks.items()
        }
    except (ValueError, OSError) as error:
        parser.error(str(error))
    figure = drawn(found)
    if given.figure:
        figure.savefig(given.figure, dpi=100)
    return found


if __name__ == "__main__":
    main()
