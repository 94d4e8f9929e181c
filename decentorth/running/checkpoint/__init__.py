"""Checkpoints: files with the state of a run, written during it, and read to continue it on any
number of ranks."""

from .checkpoint_files import AGENTS, FOLDER, CheckpointError, clear, kept, limited, on_all
from .identity import Identity, identity, printed
from .resuming import Losses, Resumed, newest_notes, resume
from .signals import ENDINGS, PendingSignals
from .writer import LOOK_SECONDS, Checkpoints, CheckpointWriter, SharedLooks, Snapshot, interval

__all__ = ["AGENTS", "ENDINGS", "FOLDER", "LOOK_SECONDS", "CheckpointError", "CheckpointWriter"]
__all__ += ["Checkpoints", "Identity", "Losses", "PendingSignals", "Resumed", "SharedLooks"]
__all__ += [
    "Snapshot",
    "clear",
    "identity",
    "interval",
    "kept",
    "limited",
    "newest_notes",
    "on_all",
]
__all__ += ["printed", "resume"]
