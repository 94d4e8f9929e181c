"""``python -m decentorth.reproduce``: see `command`."""

from ..cli.trials import leave
from .command import main

if __name__ == "__main__":
    leave(main())
