"""Ten agents train one network together, and each has the images of one digit only (scikit-learn's digits; needs PyTorch).

The first layer is orthonormal: the point of each agent is that layer on a Stiefel manifold beside the free parameters.

    python examples/digits_by_class.py
"""

import networkx as nx
import numpy as np
import torch
from sklearn.datasets import load_digits

import decentorth as do
import topologies as tp

images, labels = load_digits(return_X_y=True)
images = images / 16.0
order = np.random.default_rng(0).permutation(len(labels))
test, train = order[:450], order[450:]
shares = [train[labels[train] == digit][:115] for digit in range(10)]
torch.manual_seed(0)
module = torch.nn.Sequential(torch.nn.Linear(64, 24), torch.nn.Tanh(), torch.nn.Linear(24, 10))


def problem_of(parts: list[np.ndarray]) -> do.problems.ModuleProblem:
    """The network's mean cross entropy over the agents with these samples."""
    data = [(images[part], labels[part]) for part in parts]
    return do.problems.from_module(module, torch.nn.functional.cross_entropy, data, orthogonal=["0.weight"])


def accuracy(problem: do.problems.ModuleProblem, point: np.ndarray) -> float:
    """The share of test images whose digit the network finds, in percent."""
    outputs = problem.module_at(point)(torch.from_numpy(images[test]))
    return float(100.0 * (outputs.argmax(1).numpy() == labels[test]).mean())


W = tp.metropolis_weights(nx.circulant_graph(10, [1, 2, 4]))
together = problem_of(shares)
result = do.solve(together, do.DRFGT(step_size=0.2, order="adapt-then-combine"), W, iterations=600)
pooled = do.solve(problem_of([np.concatenate(shares)]), do.Landing(step_size=0.2), iterations=600)
alone = do.solve(problem_of(shares[:1]), do.Landing(step_size=0.2), iterations=100)
print(f"ten agents  {min(accuracy(together, x) for x in result.x):.2f} % of the test images, the worst agent")
print(f"pooled      {accuracy(together, pooled.x[0]):.2f} %")
print(f"alone       {accuracy(together, alone.x[0]):.2f} %, the agent with the zeros")
print(f"feasibility {result.row.values['feasibility']:.1e}, consensus {result.row.values['consensus_rms']:.1e}")
