"""
Hospitals: what do the pooled records show, though none leaves its site?
========================================================================

Ten hospitals of unequal sizes want the principal components of all their
records, and the canonical correlations of two groups of measurements, as if all
records were in one table. No record leaves its hospital, there is no server,
and every hospital talks to two others only (a ring). The records are
scikit-learn's breast cancer data (569 records of 30 features, 3 components) and
diabetes data (442 records, four features of the body against six of the blood,
2 pairs). They are divided in the ratio 1 : 2 : ... : 10; some hospitals see
more severe cases than others, and the devices of each have offsets and scales
of their own.

The script prints the largest principal angle to the answer of the pooled table,
and the bytes sent, for

- the agents, with DeEPCA and CDADT, until they agree among themselves that they
  are done;
- covariances that are averaged among the agents, or added up by a server, and
  power iterations with a server: exact too;
- one round of merged local components: each site sends its leading directions,
  and a server takes those of the stack;
- agents that count every site alike, however many records it has, and a site
  alone.

It also computes what the messages tell: how well the two neighbours of a site
know the covariance of its records if they put together what they have heard.
The page ``docs/applications/hospitals.md`` discusses the numbers. ::

    python examples/applications/hospitals.py --figure hospitals.png
    python examples/applications/hospitals.py --data records.csv \\
        --site-column hospital --rank 3 --first-view 4
    python examples/applications/hospitals.py --data records.npy \\
        --sites sites.npy --center-sites

With ``--write FOLDER`` it only writes the records of each site into a file of
its own. Then each site can have a process that opens no other file (the page
has the commands).
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
from itertools import pairwise
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import orth, subspace_angles
from sklearn.datasets import load_breast_cancer, load_diabetes

import decentorth as do
import topologies as tp
from decentorth.authoring import average
from decentorth.network import Network
from decentorth.problems import canonical_correlations

# Every 20 iterations the agents find, by max-consensus, if every quantity of
# every agent is at most 1e-8.
STOPPING = do.stopping.LocalMaximum(1e-8, every=20)

# %%
# The records of each site
# ------------------------


def divided(X, severity, seed, n_sites=10):
    """The records of each site: sizes in the ratio 1 : 2 : ..., roughly sorted
    by severity, with offsets and scales of the site.
    """
    rng = np.random.default_rng(seed)
    shares = np.cumsum(np.arange(1, n_sites + 1))
    cuts = np.round(shares / shares[-1] * len(X)).astype(int)
    order = np.argsort(
        severity / severity.std() + rng.standard_normal(len(X)), kind="stable"
    )
    sites = []
    for first, last in pairwise([0, *cuts]):
        scale = np.exp(0.1 * rng.standard_normal(X.shape[1]))
        offset = 0.5 * X.std(axis=0) * rng.standard_normal(X.shape[1])
        sites.append(X[order[first:last]] * scale + offset)
    return [
        sites[i] for i in rng.permutation(n_sites)
    ]  # sites of all sizes are neighbours in the ring


def loaded(path, site_column, sites_file):
    """The records of each site of a file: a column names the site, or a second
    file has the site of each row.
    """
    source = do.data.MatrixFile(path, do.data.Columns(label=site_column))
    names = (
        source.labels if sites_file is None else do.data.load_labels(sites_file)
    )
    X = source.matrix()
    if len(names) != len(X):
        raise ValueError(
            f"{path} has {len(X)} rows, but {sites_file} has {len(names)}: "
            f"give the site of each row"
        )
    n_sites = len(np.unique(names))
    if n_sites < 3:
        raise ValueError(f"a ring needs at least three sites, got {n_sites}")
    return [X[rows] for rows in do.data.by_column(names, n_sites)]


def written(folder, name, sites):
    """Write the records of each site into a table of its own,
    ``folder/name/site-01.csv`` and so on; print the folder.
    """
    place = Path(folder) / name.split(",")[0].replace(" ", "-")
    place.mkdir(parents=True, exist_ok=True)
    columns = ",".join(f"c{column + 1}" for column in range(sites[0].shape[1]))
    for number, X in enumerate(sites, 1):
        np.savetxt(
            place / f"site-{number:02d}.csv",
            X,
            "%.17g",
            ",",
            header=columns,
            comments="",
        )
    print(f"{len(sites)} files in {place}")


# %%
# Messages
# --------


def averaged(W, values):
    """Each agent's mean of all agents' ``values``, ``(n, ...)``, from messages
    between neighbours; and the bytes sent.
    """
    network = Network(W, "serial")
    return average(network, values, 1e-14), network.bytes


def standardized(sites, W, center_sites):
    """Each site's records in the units of all records together, the weight of a
    record at each site, and the bytes sent.

    The agents average their numbers of records and their sums, centre their
    records with these, and average the sums of squares. ``center_sites`` takes
    each site's own means away before, and with them the offsets of the sites.
    """
    varying = sites if center_sites else [np.concatenate(sites)]
    constant = np.flatnonzero(
        np.max([np.ptp(X, axis=0) for X in varying], axis=0) == 0.0
    )
    if len(constant):
        raise ValueError(
            f"column {constant[0] + 1} has the same number in all "
            f"rows{' of a site' * center_sites}: leave it out"
        )
    if center_sites:
        sites = [X - X.mean(axis=0) for X in sites]
    sums, first = averaged(
        W, np.array([[len(X), *X.sum(axis=0)] for X in sites])
    )
    count = sums[:, :1]
    sites = [
        X - mean for X, mean in zip(sites, sums[:, 1:] / count, strict=True)
    ]
    squares, second = averaged(
        W, np.array([(X * X).sum(axis=0) for X in sites])
    )
    scales = np.sqrt(squares / count)
    return (
        [X / scale for X, scale in zip(sites, scales, strict=True)],
        1.0 / count[:, 0],
        first + second,
    )


def mean_covariance(sites, W):
    """The sum of the sites' X^T X over the number of sites, as the first agent
    has it after averaging, and the bytes sent.
    """
    d = sites[0].shape[1]
    upper = np.triu_indices(d)
    means, sent = averaged(W, np.array([(X.T @ X)[upper] for X in sites]))
    C = np.zeros((d, d))
    C[upper] = means[0]
    return C + np.triu(C, 1).T, sent


def server(sites, numbers, rank):
    """Bytes to and from a server: counts, sums and squares and their totals,
    ``numbers`` of each site, the answer to each.
    """
    d = sites[0].shape[1]
    return 8 * len(sites) * ((1 + 2 * d) + (1 + 2 * d) + numbers + rank * d)


class WorstAngle:
    """The metric ``angle``: the largest principal angle of any agent, in any
    view, to the pooled answer.
    """

    columns = ("angle",)

    def __init__(self, *answers):
        self.answers = answers
        self.cuts = np.cumsum([len(answer) for answer in answers])[:-1]

    def __call__(self, problem, state, collective):
        return (max(self.of(x) for x in state.x),)

    def of(self, x):
        """The largest angle of a point, whose views are stacked."""
        return max(
            angle(view, answer)
            for view, answer in zip(
                np.split(x, self.cuts), self.answers, strict=True
            )
        )


def angle(x, answer):
    """The largest principal angle between the column spaces of two matrices."""
    return float(subspace_angles(x, answer)[0])


def together(problem, method, W, answers, before):
    """The run of the agents until they agree on its end: a row of the table,
    and its curve of angles over MB.

    ``before`` is the number of bytes that preparing the records took.
    """
    result = do.solve(
        problem,
        method,
        W,
        iterations=20_000,
        stopping=STOPPING,
        rows=100,
        metrics=[WorstAngle(*answers)],
        comm="serial",
    )
    print(f"  {result.message}, after {result.row.iteration} iterations")
    curve = (before + result.history["bytes"]) / 1e6, result.history["angle"]
    return (
        f"agents, {type(method).__name__}",
        curve[1][-1],
        before + result.row.bytes,
    ), curve


# %%
# Principal components
# --------------------


def top(C, rank):
    """The leading eigenvectors of a symmetric matrix."""
    return np.linalg.eigh(C)[1][:, ::-1][:, :rank]


def local_components(X, k):
    """The leading right singular vectors of a site's records, times their
    singular values.
    """
    _, singular, vt = np.linalg.svd(X, full_matrices=False)
    return singular[:k, None] * vt[:k]


def power_iterations(sites, rank, answer):
    """Power iterations with a server: their result, and the number of rounds
    until it is right.
    """
    x = top(np.eye(len(answer)), rank)
    rounds = 0
    while angle(x, answer) > 1e-8 and rounds < 1000:
        x = np.linalg.qr(sum(X.T @ (X @ x) for X in sites)).Q
        rounds = rounds + 1
    return x, rounds


def one_round(sites, k, rank):
    """The components of the stack of ``k`` directions from each site."""
    stack = np.concatenate([local_components(X, k) for X in sites])
    return local_components(stack, rank).T


def component_rivals(sites, W, rank, answer, before):
    """The rows of the table below that of the agents."""
    d = sites[0].shape[1]
    mean, sent = mean_covariance(sites, W)
    total = sum(X.T @ X for X in sites)
    power, rounds = power_iterations(sites, rank, answer)
    rows = [
        (
            "agents average covariances",
            angle(top(mean, rank), answer),
            before + sent,
        ),
        (
            "a server adds covariances",
            angle(top(total, rank), answer),
            server(sites, d * (d + 1) // 2, rank),
        ),
        (
            "a server, power iterations",
            angle(power, answer),
            server(sites, (2 * rounds - 1) * rank * d, rank),
        ),
    ]
    for k in (rank, 2 * rank, 4 * rank):
        error = angle(one_round(sites, k, rank), answer)
        sent = server(sites, k * d, rank)
        rows.append((f"one round, {k} from each site", error, sent))
    alike = sum(X.T @ X / len(X) for X in sites)
    alone = [angle(local_components(X, rank).T, answer) for X in sites]
    return [
        *rows,
        ("every site counts alike", angle(top(alike, rank), answer), None),
        ("alone, median site", np.median(alone), 0),
    ]


def components(sites, weights, W, rank, before):
    """Principal components: the rows of the table, the agents' curve, and what
    neighbours know; ``before`` as in `together`.
    """
    answer = top(sum(X.T @ X for X in sites), rank)
    # with these factors every record counts the same, although no hospital
    # knows the number of all records
    factors = np.sqrt(
        [len(X) * weight for X, weight in zip(sites, weights, strict=True)]
    )
    problem = do.problems.PCA(
        [factor * X for factor, X in zip(factors, sites, strict=True)],
        rank,
        weights="agents",
    )
    first, curve = together(problem, do.DeEPCA(), W, [answer], before)
    rows = component_rivals(sites, W, rank, answer, before)
    return [first, *rows], curve, known(problem, sites, W)


def known(problem, sites, W, iterations=(1, 2, 5, 10, 20)):
    """The relative error of a site's covariance as its neighbours know it
    together, median over sites, after some iterations.

    A site sends S_i + C_i x_i - C_i (x_i of the iteration before), the first
    message of an iteration. Its neighbours together know S_i, which is mixed
    from messages that they sent and heard, and x_i, its orthonormal factor; so
    they know C_i times all x_i so far. On the space that these span they know
    C_i, and that it is symmetric.
    """
    points = []
    errors = {}
    for state in do.iterate(problem, do.DeEPCA(), W, comm="serial"):
        points.append(state.x.copy())
        if len(points) in iterations:
            each = zip(sites, np.swapaxes(points, 0, 1), strict=True)
            errors[len(points)] = np.median(
                [_error(X, np.hstack(x)) for X, x in each]
            )
        if len(points) == max(iterations):
            return errors


def _error(X, x):
    """The relative error of X^T X as known from its products with the columns
    of x.
    """
    C = X.T @ X
    inverse = np.linalg.pinv(x, rcond=1e-13)
    guess = C @ x @ inverse
    guess += (np.eye(len(C)) - x @ inverse) @ guess.T
    return float(np.linalg.norm(guess - C) / np.linalg.norm(C))


# %%
# Canonical correlations
# ----------------------


def directions(a, b, rank):
    """The leading canonical directions of two views of the same records, and
    all correlations; views may be of low rank.
    """
    (left, s, vt), (right, t, wt) = (
        np.linalg.svd(view, full_matrices=False) for view in (a, b)
    )
    few, fewer = (int((values > 1e-10 * values[0]).sum()) for values in (s, t))
    u, found, zt = np.linalg.svd(left[:, :few].T @ right[:, :fewer])
    return (
        vt[:few].T / s[:few] @ u[:, :rank],
        wt[:fewer].T / t[:fewer] @ zt.T[:, :rank],
        found,
    )


def from_covariance(C, width, rank):
    """The leading canonical directions from the covariance of both views,
    stacked by rows.
    """
    found = canonical_correlations(
        C[:width, :width], C[:width, width:], C[width:, width:]
    )
    return np.concatenate((found.x[:, :rank], found.y[:, :rank]))


def merged_directions(sites, own, rank):
    """The leading directions of the stack of each site's own ones, a site's
    with the weight of its records.
    """
    merged = []
    for view in (0, 1):
        stack = [
            np.sqrt(len(X)) * orth(pair[view])
            for X, pair in zip(sites, own, strict=True)
        ]
        merged.append(np.linalg.svd(np.hstack(stack))[0][:, :rank])
    return np.concatenate(merged)


def correlations(sites, width, W, rank, before):
    """Canonical correlations: the rows of the table and the agents' curve; the
    first view has ``width`` columns.
    """
    d = sites[0].shape[1]
    if not 0 < width < d:
        raise ValueError(
            f"the first view must have between 1 and {d - 1} of the {d} "
            f"columns, got {width}"
        )
    left = [np.ascontiguousarray(X[:, :width]) for X in sites]
    right = [np.ascontiguousarray(X[:, width:]) for X in sites]
    *answers, found = directions(
        np.concatenate(left), np.concatenate(right), rank
    )
    print("  pooled correlations:", *(f"{value:.3f}" for value in found))
    problem = do.problems.CCA(left, right, rank)  # every record counts the same
    first, curve = together(problem, do.CDADT(), W, answers, before)
    rows = correlation_rivals(
        sites, left, right, W, rank, WorstAngle(*answers), before
    )
    return [first, *rows], curve


def correlation_rivals(sites, left, right, W, rank, worst, before):
    """The rows of the table below that of the agents."""
    d = sites[0].shape[1]
    width = left[0].shape[1]
    mean, sent = mean_covariance(sites, W)
    total = sum(X.T @ X for X in sites)
    own = [directions(a, b, rank)[:2] for a, b in zip(left, right, strict=True)]
    alone = [worst.of(np.concatenate(pair)) for pair in own]
    return [
        (
            "agents average covariances",
            worst.of(from_covariance(mean, width, rank)),
            before + sent,
        ),
        (
            "a server adds covariances",
            worst.of(from_covariance(total, width, rank)),
            server(sites, d * (d + 1) // 2, rank),
        ),
        (
            f"one round, {rank} from each site",
            worst.of(merged_directions(sites, own, rank)),
            server(sites, rank * d, rank),
        ),
        ("alone, median site", np.median(alone), 0),
    ]


# %%
# The tables and the figure
# -------------------------


def analysed(name, sites, rank, center_sites, width=None):
    """Print the table of one analysis: components, or with a ``width`` of the
    first view correlations. Returns all numbers.
    """
    W = tp.metropolis_weights(tp.ring(len(sites)))
    sizes = [len(X) for X in sites]
    print(
        f"{name}: {sum(sizes)} records of {sites[0].shape[1]} features at "
        f"{len(sites)} sites with {min(sizes)} to {max(sizes)}"
    )
    units, weights, before = standardized(sites, W, center_sites)
    leak = {}
    if width is None:
        rows, curve, leak = components(units, weights, W, rank, before)
    else:
        rows, curve = correlations(units, width, W, rank, before)
    size = 8e-3 * sum(sizes) * sites[0].shape[1]
    print(
        f"  {'':32}{'largest angle':>14}{'kB sent':>10}  (the records "
        f"themselves: {size:.0f} kB)"
    )
    for label, value, sent in rows:
        kilobytes = "-" if sent is None else f"{sent / 1e3:.0f}"
        print(f"  {label:32}{value:14.1e}{kilobytes:>10}")
    for count, error in leak.items():
        print(
            f"  two neighbours know a site's covariance after {count} "
            f"iterations with a relative error of {error:.0e}"
        )
    return rows, curve, leak


def drawn(found):
    """The figure: a panel for each analysis, angles over the bytes sent."""
    figure, axes = plt.subplots(
        1,
        len(found),
        figsize=(3.6 * len(found), 4.6),
        layout="constrained",
        squeeze=False,
    )
    for axis, (name, (rows, curve, _)) in zip(
        axes[0], found.items(), strict=True
    ):
        axis.loglog(*curve, label="agents, worst one")
        for (label, value, sent), marker in zip(
            [row for row in rows[1:] if row[2]], "osPv^D", strict=False
        ):
            axis.loglog(sent / 1e6, max(value, 1e-15), marker, label=label)
        axis.axhline(1e-6, color="gray", linewidth=0.8)
        axis.set(title=name, xlabel="MB sent", ylabel="largest principal angle")
        axis.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.18))
    return figure


def command_line():
    """The command line."""
    parser = argparse.ArgumentParser(
        description="Components and correlations of records that stay at their "
        "sites."
    )
    parser.add_argument(
        "--data",
        help="a file with one record in each row, instead of the bundled "
        "records",
    )
    parser.add_argument(
        "--site-column", help="the column with the site's name, in a table"
    )
    parser.add_argument(
        "--sites",
        help="a file with the site of each row, where there is no such column",
    )
    parser.add_argument(
        "--rank", type=int, help="components and pairs of directions (3 and 2)"
    )
    parser.add_argument(
        "--first-view",
        type=int,
        help="number of columns of the first view; also computes the "
        "correlations of your data",
    )
    parser.add_argument(
        "--center-sites",
        action="store_true",
        help="take each site's mean away, and with it its offsets",
    )
    parser.add_argument("--figure", help="a file for the figure")
    parser.add_argument(
        "--write",
        help="a folder for a file of each site's records; nothing is analysed",
    )
    return parser


def check(parser, given):
    """Refuse flags that do not go together."""
    if given.rank is not None and given.rank < 1:
        parser.error(f"--rank must be at least 1, got {given.rank}")
    if given.data is not None and (given.site_column is None) == (
        given.sites is None
    ):
        parser.error(
            "--data needs the sites of its rows: give --site-column NAME or "
            "--sites FILE"
        )
    if given.data is None and (
        given.site_column or given.sites or given.first_view
    ):
        parser.error(
            "--site-column, --sites and --first-view go with --data FILE"
        )


def analyses(given):
    """The arguments of `analysed` for each analysis, by its name."""
    centre = given.center_sites
    if given.data is None:
        cancer = load_breast_cancer()
        diabetes = load_diabetes(scaled=False)
        patients = divided(cancer.data, -cancer.target, 0)
        others = divided(diabetes.data, diabetes.target, 1)
        return {
            "breast cancer, components": (patients, given.rank or 3, centre),
            "diabetes, correlations": (others, given.rank or 2, centre, 4),
        }
    sites = loaded(given.data, given.site_column, given.sites)
    tasks = {"components": (sites, given.rank or 3, centre)}
    if given.first_view is not None:
        width = given.first_view
        tasks["correlations"] = (sites, given.rank or 2, centre, width)
    return tasks


def main(arguments=None):
    parser = command_line()
    given = parser.parse_args(arguments)
    check(parser, given)
    try:
        tasks = analyses(given)
        if given.write:
            for name, (sites, *_) in tasks.items():
                written(given.write, name, sites)
            return {}
        found = {name: analysed(name, *task) for name, task in tasks.items()}
    except (ValueError, OSError) as error:
        parser.error(str(error))
    figure = drawn(found)
    if given.figure:
        figure.savefig(given.figure, dpi=100)
    return found


if __name__ == "__main__":
    main()
