"""Gradients and fields in blocks, rounds of mixing, and step sizes, which methods of several
families use."""

from .automatic_steps import *  # noqa: F403
from .curvature import *  # noqa: F403
from .fields import *  # noqa: F403
from .loopless import *  # noqa: F403
from .method import *  # noqa: F403
from .mixing import *  # noqa: F403
from .schedules import *  # noqa: F403
from .shared_step import *  # noqa: F403
from .spectral_steps import *  # noqa: F403
from .step_sizes import *  # noqa: F403
from .traits import *  # noqa: F403
