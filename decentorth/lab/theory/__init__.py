"""The theory of paper 004 (Sun, Chen, Garcia, Shahrampour, "Global convergence of decentralized
retraction-free optimization on the Stiefel manifold") as functions: its constants and guaranteed
steps, its merit function, and, beyond it, the exact linear rate near a solution. ``python -m
decentorth theory`` prints every constant for a problem and a graph.
"""

from ..._lazy import lazily
from .constants import *  # noqa: F403
from .local import *  # noqa: F403
from .merit import *  # noqa: F403
from .region import *  # noqa: F403

__getattr__, __dir__ = lazily(__name__)
