"""Optimizers of PyTorch for one's own training loop, with orthonormal weights; experimental.

`DRFGT` and `GradientTracking` train one model on each process of a torch.distributed group, or one
for each of several `Agents` in this process. Processes send arrays to their neighbours in a graph;
no step has an all-reduce. `Landing` is for one process, or for DistributedDataParallel.

Only parameters are exchanged: the running statistics of BatchNorm stay those of each process until
``consolidate(model.buffers())``.
"""

try:
    import torch  # noqa: F401  # the optional extra ``torch``
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"decentorth.training needs PyTorch ({error}): pip install torch", name=error.name
    ) from error

from .agents import Agents
from .decentralized import DRFGT, GradientTracking
from .optimizers import Landing

__all__ = ["DRFGT", "Agents", "GradientTracking", "Landing"]
