"""The comparison of sites before they agree: versions, settings, columns, graphs, clocks and rounding."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from topologies.line.flags import InputError

from ..._version import __version__
from ...data.sites import SiteTable
from ...network import AlongEdges
from ...network.transport.sealed import SiteError, fingerprint
from ...process.printing import say
from ..line.config import Configuration
from .folders import Site
from .plan import Foreseen, rounding

OWN = (
    *("data", "data_y", "topology", "out", "overwrite", "resume", "config", "plot", "quiet"),
    *("record", "checkpoint_every", "keep_checkpoints"),
)
"""Settings that are a site's own affair."""
_CODE = 8
"""The characters of the code of a plan."""
_MOST_APART = 300.0
"""The seconds by which a clock may differ without a note."""


class CommonPlan(NamedTuple):
    """The plan that all sites have in common."""

    sites: str
    """The sites in words, with the fingerprints of their certificates."""
    code: str
    width: int
    """The columns of this site's table; 0 if they have no names."""


def compared_with_all(
    communicator: AlongEdges,
    site: Site,
    configuration: Configuration,
    foreseen: Foreseen | None,
) -> CommonPlan:
    """Compare versions, settings, columns and clocks with all sites; a SiteError names the first
    that differs."""
    columns = _columns(configuration, site)
    settings = {
        name: _hash(site.run, name, value)
        for name, value in configuration.mapping().items()
        if name not in OWN
    }
    facts = {
        "version": __version__,
        "settings": settings,
        "columns": _hash(site.run, "columns", sorted(columns or ())),
        "edges": site.edges,
        "clock": time.time(),
        "rounding": rounding(),
    }
    signed = communicator.allgather_bytes(site.identity.signed(facts))
    certificates = []
    for name, text in zip(site.names, signed, strict=True):
        theirs, certificate = site.identity.opened(text, name)
        certificates.append(certificate)
        try:
            _compare(name, theirs, facts)
            _compare_rounding(name, theirs["rounding"] == facts["rounding"], foreseen)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise SiteError(f"what site {name} has signed is damaged") from None
    plan = [settings, facts["columns"], site.edges, [fingerprint(one) for one in certificates]]
    code = hashlib.sha256(json.dumps(plan).encode()).hexdigest()[:_CODE]
    known = zip(site.names, certificates, strict=True)
    sites = ", ".join(f"{name} ({fingerprint(one)})" for name, one in known)
    return CommonPlan(sites, code, len(columns or ()))


def _compare(name: str, theirs: dict[str, Any], mine: Mapping[str, Any]) -> None:
    """Raise a SiteError for the first difference to another site; print a note about its clock."""
    if theirs["version"] != mine["version"]:
        raise SiteError(
            f"site {name} has decentorth {theirs['version']!s:.20}, this one {mine['version']}: "
            "install the same"
        )
    for setting in {**mine["settings"], **theirs["settings"]}:
        if theirs["settings"].get(setting) != mine["settings"].get(setting):
            flag = str(setting).replace("_", "-")
            raise SiteError(f"site {name} has another --{flag:.40}: agree on one")
    if theirs["columns"] != mine["columns"]:
        raise SiteError(
            f"the columns of site {name} are not those of this one: compare the first lines of "
            "the files"
        )
    if [list(edge) for edge in mine["edges"]] != theirs["edges"]:
        raise SiteError(f"site {name} has another graph: all need folders of one make")
    apart = float(theirs["clock"]) - time.time()
    if abs(apart) > _MOST_APART:
        say(f"note        the clock of {name} differs by {apart / 60:.0f} minutes")


def _compare_rounding(name: str, alike: bool, foreseen: Foreseen | None) -> None:
    """Raise a SiteError if another site rounds differently and the method needs the same bits;
    print a note otherwise."""
    if alike:
        return
    different = f"site {name} rounds differently (another processor, NumPy or BLAS)"
    if foreseen is not None and foreseen.alike:
        raise SiteError(
            f"{different}, and {foreseen.method} needs the same bits at all sites: take direct, or "
            "deepca, cdadt or drfgt with --clear-sums; or try the same NumPy and "
            "OPENBLAS_CORETYPE=Haswell at all sites"
        )
    say(f"note        {different}: the last digits of its results may differ")


def _hash(run: str, name: str, value: object) -> str:
    text = json.dumps([run, name, value], default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _columns(configuration: Configuration, site: Site) -> tuple[str, ...] | None:
    """The names of the columns of this site's file, if it has any that all sites share."""
    data = getattr(configuration.problem, "data", None)
    features = configuration.run.split == "features"
    if features or not isinstance(data, str) or "," not in data:
        return None
    file = data.split(",")[site.rank]
    try:
        return SiteTable.of(site.identity.name, file).known
    except (ValueError, OSError) as error:
        raise InputError(str(error)) from None
