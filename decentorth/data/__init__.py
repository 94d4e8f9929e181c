"""Data: matrices from files or bundled sets, and the division of their samples over the agents.

Values are returned as in the file: nothing is centred, scaled or filled in. Every rank gets the
same result from the same call, and where the format allows it reads only the rows of its own
agents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from ..families.knowledge_graphs.data import *  # noqa: F403
    from .bundled import BUNDLED as BUNDLED
    from .bundled import digits as digits
    from .bundled import resolve as resolve
    from .files import EXTENSIONS as EXTENSIONS
    from .files import MatrixFile as MatrixFile
    from .files import load_labels as load_labels
    from .files import load_matrix as load_matrix
    from .frames import split_frame as split_frame
    from .labels import Labels as Labels
    from .partitions import KINDS as KINDS
    from .partitions import by_column as by_column
    from .partitions import by_label as by_label
    from .partitions import dirichlet as dirichlet
    from .partitions import even as even
    from .partitions import partition as partition
    from .tables import Columns as Columns

__getattr__, __dir__ = lazily(__name__)
