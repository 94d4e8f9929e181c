"""
How do I minimise my own function?
==================================

Your own objective on your own graph, to a figure: autograd, JAX and PyTorch
find the gradients. ::

    # in a checkout; ".[torch]" for PyTorch
    pip install ".[plot,autograd,jax]"
    python examples/own_objective.py autograd figure.png

Explained in ``docs/own_objective.md``.
"""

import sys

# %%
# Autograd
# --------
#
# A function in the words of NumPy.


def autograd(path: str) -> float:
    import autograd.numpy as np
    import networkx as nx

    import decentorth as do

    graph = nx.path_graph(6)
    samples = np.random.RandomState(0).standard_normal((6, 40, 8))
    problem = do.problems.from_function(
        lambda a, x: -np.mean((a @ x) ** 4),
        do.sets.Stiefel(8, 2),
        data=samples,
        backend="autograd",
    )
    result = do.solve(problem, do.DRFGT(), graph, iterations=300, check=True)
    result.plot(metrics=["gradient_norm"]).savefig(path)
    return float(
        result.history["gradient_norm"][-1] / result.history["gradient_norm"][0]
    )


# %%
# JAX
# ---


def jax(path: str) -> float:
    import jax.numpy as jnp
    import networkx as nx
    import numpy as np

    import decentorth as do

    graph = nx.path_graph(6)
    samples = np.random.default_rng(0).standard_normal((6, 40, 8))
    problem = do.problems.from_function(
        lambda a, x: -jnp.mean((a @ x) ** 4),
        do.sets.Stiefel(8, 2),
        data=samples,
        backend="jax",
    )
    result = do.solve(problem, do.DRFGT(), graph, iterations=300, check=True)
    result.plot(metrics=["gradient_norm"]).savefig(path)
    return float(
        result.history["gradient_norm"][-1] / result.history["gradient_norm"][0]
    )


# %%
# PyTorch
# -------


def torch(path: str) -> float:
    import networkx as nx
    import torch

    import decentorth as do

    graph = nx.path_graph(6)
    samples = torch.randn(
        6,
        40,
        8,
        generator=torch.Generator().manual_seed(0),
        dtype=torch.float64,
    )
    problem = do.problems.from_function(
        lambda a, x: -((a @ x) ** 4).mean(),
        do.sets.Stiefel(8, 2),
        data=samples,
        backend="torch",
    )
    result = do.solve(problem, do.DRFGT(), graph, iterations=300, check=True)
    result.plot(metrics=["gradient_norm"]).savefig(path)
    return float(
        result.history["gradient_norm"][-1] / result.history["gradient_norm"][0]
    )


# %%
# One of them
# -----------

if __name__ == "__main__":
    libraries = {"autograd": autograd, "jax": jax, "torch": torch}
    if len(sys.argv) != 3 or sys.argv[1] not in libraries:
        sys.exit(
            "give a library, autograd, jax or torch, and a figure: python "
            "examples/own_objective.py autograd figure.png"
        )
    _, library, figure = sys.argv
    share = libraries[library](figure)
    print(f"{library}: the gradient norm falls to {share:.1e} of the start's")
