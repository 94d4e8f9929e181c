"""``python -m topologies``: see `topologies.command`."""

import sys

from topologies.command import command

if __name__ == "__main__":
    sys.exit(command())
