"""``decentorth run --join FOLDER``: a site takes part in a run with others.

It meets its neighbours, compares hashes of the settings and the columns with all sites, shows what
will leave, and asks. Only then it runs, as ``decentorth run`` does on ranks.

Exit codes: those of ``decentorth run``, and 75 if a neighbour or the server is lost (try again).
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from topologies.line.flags import InputError, take

from ..._version import __version__
from ...api.capabilities import check_secure
from ...data.files import extension
from ...data.sites import SiteTable
from ...network import AlongEdges
from ...network.transport.nats_carrier import NatsCarrier
from ...network.transport.sealed import SiteError, SiteLostError, fingerprint
from ...process.printing import complain, say
from ...running.checkpoint import FOLDER, kept
from ..line.config import Command, Configuration
from ..line.run_settings import Joining
from ..line.shell import framed
from ..run.execution import run
from .folders import GRAPH, Site
from .plan import Foreseen, foresee, rounding, shown
from .traffic import Traffic

TRY_AGAIN = 75
"""The exit code of a run that lost a neighbour or the server."""
OWN = (
    *("data", "data_y", "topology", "out", "overwrite", "resume", "config", "plot", "quiet"),
    *("record", "checkpoint_every", "keep_checkpoints"),
)
"""Settings that are a site's own affair."""
_REFUSED = ("--topology", "--agents", "--weights-file", "--spread-samples", "--resume")
"""Flags of what the folder of the site says."""
_REFUSALS = (InputError, SiteError)
_CODE = 8
"""The characters of the code of a plan."""
_MOST_APART = 300.0
"""The seconds by which a clock may differ without a note."""


def main(words: Sequence[str]) -> int:
    """Take part in a run; the exit code."""
    return framed(lambda: _attempts(words), "decentorth", _REFUSALS, together=False)


def _attempts(words: Sequence[str]) -> int:
    """Join, and again after a loss as often as `Joining.retries` says."""
    given, rest = take(Joining, words)
    folder = Path(given.join)
    for flag in _REFUSED:
        if any(word == flag or word.startswith(f"{flag}=") for word in rest):
            raise InputError(f"{flag} is not for a run with --join, whose folder says it")
    attempt = 0
    sent = None
    while True:
        site = Site.of(folder)
        sent = sent or _earlier(given, rest, site)
        try:
            return _joined(given, rest, site, sent)
        except SiteLostError as error:
            if attempt == given.retries:
                complain(f"decentorth: {error}")
                return TRY_AGAIN
            attempt += 1
            say(f"lost        {error}; meeting again ({attempt} of {given.retries})")
            time.sleep(2.0)


def _earlier(given: Joining, rest: Sequence[str], site: Site) -> Traffic:
    """What has left this site already in the run that is to continue, if any."""
    sent = Traffic(site.names)
    out = _value(list(rest), "--out")
    if _continues(given, out):
        sent.read(Path(str(out)))
    return sent


def _continues(given: Joining, out: str | None) -> bool:
    """True if the folder has checkpoints from which the run is to continue."""
    return out is not None and bool(given.retries) and bool(kept(Path(out) / FOLDER))


def _joined(given: Joining, rest: Sequence[str], site: Site, sent: Traffic) -> int:
    """Meet, compare, ask and run; the exit code."""
    rest = _settings(given, rest, site)
    configuration: Configuration = Command.asked(rest).resolve()
    _check_masks(configuration, len(site.names))
    foreseen = foresee(site, configuration) if not given.check else None
    begun = time.monotonic()

    def tell(names: list[str]) -> None:
        say(f"waiting     for {', '.join(names)} ({time.monotonic() - begun:.0f} s)")

    carrier = NatsCarrier(
        site.identity, site.server, site.names, site.near, site.run, given.wait, tell
    )
    with carrier:
        communicator = AlongEdges(carrier, site.edges, site.names)
        sent.count(communicator)
        if configuration.run.rank_timeout is not None:
            carrier.limit(float(configuration.run.rank_timeout))
        plan = _compared(communicator, site, configuration, foreseen)
        if foreseen is None:
            say(f"works       {plan.sites}: server, certificates, neighbours, settings, columns")
            communicator.max(np.zeros(1))
            return 0
        say("\n".join(shown(site, configuration, foreseen, plan.sites)))
        _agreed(communicator, site, given, plan)
        out = configuration.run.out
        try:
            code = run(rest, configuration, communicator, sent.notes)
            communicator.max(np.zeros(1))
        except SiteLostError:
            if out is not None:
                sent.write(Path(out))
            raise
        if out is not None:
            sent.write(Path(out))
        return code


def _check_masks(configuration: Configuration, sites: int) -> None:
    """Raise an InputError for sums that must be masked and cannot be, before any site is met."""
    given = configuration.run
    if given.clear_sums:
        return
    hides = given.device is None and not given.channel
    try:
        check_secure(configuration.algorithm, sites, hides)
    except ValueError as error:
        raise InputError(str(error).replace("clear_sums", "--clear-sums")) from None


def _settings(given: Joining, rest: Sequence[str], site: Site) -> list[str]:
    """The arguments of ``decentorth run``, with the graph of the folder and a name of each site's
    file in the place of --data."""
    folder = site.identity.folder
    words = list(rest)
    data = _value(words, "--data")
    if data is None and not given.check:
        raise InputError("--join needs the file of this site: give --data YOUR_TABLE.csv")
    if data is not None:
        path = Path(data).expanduser().resolve()
        if not path.is_file():
            raise InputError(f"--data {data}: there is no such file")
        place = folder / "data"
        place.mkdir(exist_ok=True)
        ending = extension(path)
        own = place / f"{site.identity.name}{ending}"
        own.unlink(missing_ok=True)
        own.symlink_to(path)
        words += ["--data", ",".join(str(place / f"{name}{ending}") for name in site.names)]
    words += ["--topology", f"file:{folder / GRAPH}"]
    out = _value(list(rest), "--out")
    if out is not None and _continues(given, out):
        _value(words, "--out")
        words += ["--resume", out]
    return words


def _value(words: list[str], flag: str) -> str | None:
    """Take the value of a flag out of the words."""
    for place, word in enumerate(words):
        if word.startswith(f"{flag}="):
            return words.pop(place).partition("=")[2]
        if word == flag and place + 1 < len(words):
            words.pop(place)
            return words.pop(place)
    return None


class _Plan(NamedTuple):
    """The plan that all sites have in common."""

    sites: str
    """The sites in words, with the fingerprints of their certificates."""
    code: str
    width: int
    """The columns of this site's table; 0 if they have no names."""


def _compared(
    communicator: AlongEdges,
    site: Site,
    configuration: Configuration,
    foreseen: Foreseen | None,
) -> _Plan:
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
    return _Plan(sites, code, len(columns or ()))


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


def _agreed(communicator: AlongEdges, site: Site, given: Joining, plan: _Plan) -> None:
    """Ask; a SiteError on all sites unless all agree to the plan that was shown."""
    refusal = ""
    if given.agree is None:
        say(f"agree       type {plan.code} to send this, anything else to leave")
        refusal = _asked(plan.code)
    elif given.agree != plan.code:
        refusal = f"--agree {given.agree:.20} was given for another plan; this one is {plan.code}"
    every = communicator.allgather_bytes(b"no" * bool(refusal))
    if refusal:
        raise SiteError(f"{refusal}: nothing was sent but hashes")
    for name, refused in zip(site.names, every, strict=True):
        if refused:
            raise SiteError(f"site {name} did not agree: nothing was sent but hashes")
    say(f"agreed      all {len(site.names)} sites, plan {plan.code}")


def _asked(code: str) -> str:
    """The reason not to send, by what is typed; "" to send."""
    typed = sys.stdin.readline()
    if not typed:
        return f"there is no keyboard to agree at: read the lines above, and give --agree {code}"
    if typed.strip() != code:
        return "you did not agree"
    return ""
