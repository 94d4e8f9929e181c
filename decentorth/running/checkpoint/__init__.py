"""Checkpoints: files with the state of a run, written during it, and read to continue it on any number of ranks."""

from .files import AGENTS as AGENTS
from .files import FOLDER as FOLDER
from .files import CheckpointError as CheckpointError
from .files import clear as clear
from .files import kept as kept
from .files import limited as limited
from .files import on_all as on_all
from .identity import Identity as Identity
from .identity import identity as identity
from .identity import printed as printed
from .resuming import Losses as Losses
from .resuming import Resumed as Resumed
from .resuming import newest_notes as newest_notes
from .resuming import resume as resume
from .signals import ENDINGS as ENDINGS
from .signals import PendingSignals as PendingSignals
from .writer import LOOK_SECONDS as LOOK_SECONDS
from .writer import Checkpoints as Checkpoints
from .writer import CheckpointWriter as CheckpointWriter
from .writer import SharedLooks as SharedLooks
from .writer import Snapshot as Snapshot
from .writer import interval as interval
