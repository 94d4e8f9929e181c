"""``python -m topologies``: see `topologies.command`."""

from topologies.command import app

if __name__ == "__main__":
    app()
