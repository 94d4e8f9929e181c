"""The transport of a site over a NATS server, whose folder `decentorth sites make` has made."""

from __future__ import annotations

import atexit
import os
import sys
from pathlib import Path
from typing import Any

from decentorth.commands.sites.folders import Site
from decentorth.network import AlongEdges
from decentorth.network.transport.nats_carrier import NatsCarrier


def carrier(
    folder: Path, kind: type[NatsCarrier] = NatsCarrier, waiting: float = 60.0
) -> NatsCarrier:
    """The carrier of the site whose folder this is."""
    site = Site.of(folder)
    return kind(site.identity, site.server, site.names, site.near, site.run, waiting)


def along_edges(folder: Path, made: Any) -> AlongEdges:
    """The transport of this site over a carrier."""
    site = Site.of(folder)
    return AlongEdges(made, site.edges, site.names)


def joined() -> AlongEdges:
    """The transport of the site in the folder SITE."""
    folder = Path(os.environ["SITE"])
    made = carrier(folder)
    atexit.register(made.leave)

    def failed(kind: object, error: BaseException, trace: object) -> None:
        sys.stderr.write(f"{made.identity.name}: {error}\n")
        made.leave(error)

    sys.excepthook = failed
    return along_edges(folder, made)
