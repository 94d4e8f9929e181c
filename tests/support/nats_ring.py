"""The transport of a site over a NATS server, whose folder `decentorth sites make` has made."""

from __future__ import annotations

import atexit
import json
import os
import sys
from pathlib import Path
from typing import Any

from decentorth.network import AlongEdges


def carrier(folder: Path, waiting: float = 60.0, **more: Any) -> Any:
    """The carrier of the site whose folder this is, and its edges and names."""
    from decentorth.network.transport.nats_carrier import NatsCarrier
    from decentorth.network.transport.sealed import SiteIdentity

    about = json.loads((folder / "site.json").read_text())
    identity = SiteIdentity(folder, about["site"])
    names, edges = about["names"], [tuple(edge) for edge in about["edges"]]
    rank = names.index(identity.name)
    near = sorted({j for edge in edges if rank in edge for j in edge} - {rank})
    made = NatsCarrier(identity, about["server"], names, near, about["run"], waiting, **more)
    return made, edges, names


def joined() -> AlongEdges:
    """The transport of the site in the folder SITE."""
    made, edges, names = carrier(Path(os.environ["SITE"]))
    atexit.register(made.leave)

    def failed(kind: object, error: BaseException, trace: object) -> None:
        sys.stderr.write(f"{made.identity.name}: {error}\n")
        made.leave(error)

    sys.excepthook = failed
    return AlongEdges(made, edges, names)
