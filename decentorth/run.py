"""``python -m decentorth.run``: one run, as ``decentorth run``; see `commands.run.command`."""

from __future__ import annotations

import sys

from .commands.run.command import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
