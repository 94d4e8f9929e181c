"""
Orthogonal layers: can ten agents with one class each train one network?
========================================================================

Each of ten agents has images of one digit only (scikit-learn's digits), and no
image leaves it. Together, on a ring, they train a PyTorch network whose two
hidden layers have orthonormal rows. The script prints the accuracy on test
images of all digits, the exchanges with neighbours, the megabytes sent and the
distance ||X X^T - I|| of the worst agent's layers from orthogonality, for

- DRFGT, which tracks the gradient of all agents and lands on the orthonormal
  layers;
- averaging of parameters (federated averaging without a server): local steps on
  the manifold, then an average over the neighbours, after which the layers are
  no longer orthonormal; and with these moved back after it;
- pooled images, and agents alone.

It needs PyTorch. The page ``docs/applications/orthogonal_layers.md`` discusses
the numbers. ::

    python examples/applications/orthogonal_layers.py \\
        --figure orthogonal_layers.png
    python examples/applications/orthogonal_layers.py --data images.npz
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits

import decentorth as do
import topologies as tp
from decentorth.network import Network

torch.set_num_threads(1)  # the matrices are small


def loaded(path):
    """The agents' rows, one class each and equally many, and a quarter of all
    rows for the test, with labels 0, 1, ...
    """
    if path is None:
        X, y = load_digits(return_X_y=True)
    else:
        X = do.data.load_matrix(f"{path}:X")
        y = do.data.load_labels(f"{path}:y")
    if len(X) != len(y):
        raise ValueError(
            f"X has {len(X)} rows and y has {len(y)} labels: give one label "
            f"for each row"
        )
    X = X / np.abs(X).max()
    y = np.unique(y, return_inverse=True)[1]
    order = np.random.default_rng(0).permutation(len(y))
    test, train = np.split(order, [len(y) // 4])
    size = np.bincount(y[train], minlength=y.max() + 1).min()
    if y.max() < 1 or size < 1:
        raise ValueError(
            "y must have at least two classes, each of several rows"
        )
    shares = [train[y[train] == label][:size] for label in range(y.max() + 1)]
    return [(X[share], y[share]) for share in shares], (X[test], y[test])


def problem_of(data, n_classes):
    """The network's mean cross entropy over the agents with these data; it
    starts from the same parameters at every call.
    """
    torch.manual_seed(0)
    first = torch.nn.Linear(data[0][0].shape[1], 24)
    second = torch.nn.Linear(24, 24)
    third = torch.nn.Linear(24, n_classes)
    module = torch.nn.Sequential(
        first, torch.nn.Tanh(), second, torch.nn.Tanh(), third
    )
    return do.problems.from_module(
        module,
        torch.nn.functional.cross_entropy,
        data,
        orthogonal=["0.weight", "2.weight"],
    )


class Accuracy:
    """The metrics ``mean`` and ``worst``: the percentage of test images whose
    class the agents' networks find.
    """

    columns = ("mean", "worst")

    def __init__(self, X, y):
        self.X = torch.from_numpy(X)
        self.y = y

    def __call__(self, problem, state, collective):
        return self.of(problem, state.x)

    def of(self, problem, x):
        """The mean over the points of all agents and the worst one."""
        with torch.no_grad():
            found = [
                problem.module_at(one)(self.X).argmax(1).numpy() for one in x
            ]
        right = [100.0 * float((classes == self.y).mean()) for classes in found]
        return np.mean(right), min(right)


def averaging(
    problem, W, accuracy, exchanges, local_steps, step_size, back=False
):
    """Federated averaging over W: local steps on the manifold, then an average;
    ``back`` moves that onto the manifold too.
    """
    links = Network(W, "serial")
    manifold = problem.constraint
    x = np.repeat(problem.start(0)[None], problem.n_agents, axis=0)
    curve = [(0, *accuracy.of(problem, x))]
    for k in range(1, exchanges + 1):
        for _ in range(local_steps):
            x = manifold.project(
                x - step_size * manifold.tangent(x, problem.gradient(x))
            )
        (x,) = links.mix(x)
        if back:
            x = manifold.project(x)
        if k % max(1, exchanges // 30) == 0:
            curve.append((k, *accuracy.of(problem, x)))
    return (
        *accuracy.of(problem, x),
        exchanges,
        links.bytes / 1e6,
        manifold.feasibility(x).max(),
    ), np.array(curve).T


def solved(problem, method, W, accuracy, iterations):
    """The numbers and the curve of a method of the package."""
    result = do.solve(
        problem,
        method,
        W,
        iterations=iterations,
        metrics=[accuracy],
        rows=30,
        comm="serial",
    )
    numbers = (
        result.row.rounds,
        result.row.bytes / 1e6,
        problem.constraint.feasibility(result.x).max(),
    )
    return (*accuracy.of(problem, result.x), *numbers), np.array(
        [result.history[name] for name in ("rounds", "mean", "worst")]
    )


def compared(agents, test, exchanges=600):
    """The numbers and the curve of each row of the table."""
    n = len(agents)
    accuracy = Accuracy(*test)
    W = tp.metropolis_weights(tp.ring(n))
    together = problem_of(agents, n)
    pooled = problem_of(
        [tuple(map(np.concatenate, zip(*agents, strict=True)))], n
    )
    own = [
        solved(
            problem_of([part], n), do.Landing(step_size=0.2), None, accuracy, 50
        )[0]
        for part in agents
    ]
    drfgt = do.DRFGT(
        step_size=0.2, order="adapt-then-combine"
    )  # two exchanges in an iteration
    return {
        "agents, DRFGT": solved(together, drfgt, W, accuracy, exchanges // 2),
        "averaging, 1 local step": averaging(
            together, W, accuracy, exchanges, 1, 0.03
        ),
        "averaging, 1 step, moved back": averaging(
            together, W, accuracy, exchanges, 1, 0.03, back=True
        ),
        "averaging, 5 local steps": averaging(
            together, W, accuracy, exchanges, 5, 0.01
        ),
        "pooled images": solved(
            pooled, do.Landing(step_size=0.2), None, accuracy, exchanges // 2
        ),
        "agents alone": (
            (
                np.mean(own, axis=0)[0],
                min(row[1] for row in own),
                0,
                0.0,
                max(row[-1] for row in own),
            ),
            None,
        ),
    }


def drawn(found):
    """The figure: the accuracy of the mean agent and, dotted, of the worst one
    over the exchanges.
    """
    figure, axis = plt.subplots(figsize=(4.2, 4.2), layout="constrained")
    for color, (label, (_, curve)) in enumerate(found.items()):
        if curve is not None and label != "pooled images":
            axis.plot(curve[0], curve[1], f"C{color}", label=label)
            axis.plot(curve[0], curve[2], f"C{color}:")
    axis.axhline(
        found["pooled images"][0][0],
        color="gray",
        linewidth=1.0,
        label="pooled images",
    )
    axis.set(xlabel="exchanges", ylabel="test accuracy in %", ylim=(0, 100))
    figure.legend(loc="outside lower center", fontsize=9)
    return figure


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description="A network with orthogonal layers from agents with one "
        "class each."
    )
    parser.add_argument(
        "--data",
        help="a file .npz with the rows X and their labels y, instead of the "
        "digits",
    )
    parser.add_argument("--figure", help="a file for the figure")
    given = parser.parse_args(arguments)
    try:
        agents, test = loaded(given.data)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    print(
        f"{len(agents)} agents with {len(agents[0][0])} images of one class "
        f"each, {len(test[0])} images for the test"
    )
    found = compared(agents, test)
    print(
        f"  {'':32}{'mean %':>8}{'worst %':>9}"
        f"{'exchanges':>11}{'MB':>8}{'distance':>11}"
    )
    for label, ((mean, worst, exchanges, sent, distance), _) in found.items():
        print(
            f"  {label:32}{mean:8.1f}{worst:9.1f}"
            f"{exchanges:11d}{sent:8.1f}{distance:11.1e}"
        )
    figure = drawn(found)
    if given.figure:
        figure.savefig(given.figure, dpi=100)
    return found


if __name__ == "__main__":
    main()
