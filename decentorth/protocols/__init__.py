"""The contracts between the parts of decentorth.

A *point* is ONE float64 C-contiguous array per agent, and everything an algorithm touches is
*stacked*: ``(n_local, *shape)``, where ``n_local`` is the number of agents that live in this
process. Several variables (CCA's X and Y) are slices of the point that only a problem and its
constraint know. Arithmetic, mixing, hashing and metrics never look inside.
"""

from .._lazy import lazily
from .arrays import *  # noqa: F403
from .network import *  # noqa: F403
from .problems import *  # noqa: F403
from .run import *  # noqa: F403
from .sets import *  # noqa: F403

__getattr__, __dir__ = lazily(__name__)
