"""``decentorth run --join FOLDER``: a site takes part in a run with others.

It meets its neighbours, compares hashes of the settings and the columns with all sites, shows what
will leave, and asks. Only then it runs, as ``decentorth run`` does on ranks.

Exit codes: those of ``decentorth run``, and 75 if a neighbour or the server is lost (try again).
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from topologies.line.flags import InputError, take

from ...api.capabilities import check_secure
from ...data.files import extension
from ...network import AlongEdges
from ...network.transport.along_edges import FACTS, USES
from ...network.transport.nats_carrier import WORD_SECONDS, NatsCarrier
from ...network.transport.sealed import SiteError, SiteLostError
from ...process.printing import complain, say
from ...running.checkpoint import FOLDER, kept
from ..line.config import Command, Configuration
from ..line.run_settings import Joining
from ..line.shell import framed
from ..run.execution import run
from .comparing import CommonPlan, compared_with_all
from .folders import GRAPH, Site
from .outgoing import Outgoing
from .plan import foresee, shown

TRY_AGAIN = 75
"""The exit code of a run that lost a neighbour or the server."""
_REFUSED = ("--topology", "--agents", "--weights-file", "--spread-samples", "--resume")
"""Flags of what the folder of the site says."""
_REFUSALS = (InputError, SiteError)


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


def _earlier(given: Joining, rest: Sequence[str], site: Site) -> Outgoing:
    """The messages that this site has sent in the run that it continues, if any."""
    sent = Outgoing(site.names)
    out = _value(list(rest), "--out")
    if _continues(given, out):
        sent.read(Path(str(out)))
    return sent


def _continues(given: Joining, out: str | None) -> bool:
    """True if the folder has checkpoints from which the run continues."""
    return out is not None and bool(given.retries) and bool(kept(Path(out) / FOLDER))


def _joined(given: Joining, rest: Sequence[str], site: Site, sent: Outgoing) -> int:
    """Meet, compare, ask and run; the exit code."""
    rest = _settings(given, rest, site)
    configuration: Configuration = Command.asked(rest).resolve()
    _check_masks(configuration, len(site.names))
    foreseen = foresee(site, configuration) if not given.check else None
    begun = time.monotonic()

    def tell(names: Sequence[str]) -> None:
        say(f"waiting     for {', '.join(names)} ({time.monotonic() - begun:.0f} s)")

    carrier = NatsCarrier(
        site.identity, site.server, site.names, site.near, site.run, given.wait, tell
    )
    away = [f"some of {', '.join(site.away)}"] if len(site.away) > 1 else site.away
    with carrier:
        communicator = AlongEdges(carrier, site.edges, site.names)
        sent.count(communicator)
        if configuration.run.rank_timeout is not None:
            carrier.limit(float(configuration.run.rank_timeout))
        before = communicator.bytes.copy()
        with _waiting(lambda: tell(away or ["the neighbours"])):
            plan = compared_with_all(communicator, site, configuration, foreseen)
        if foreseen is None:
            columns = ", columns" * bool(plan.width)
            say(f"works       {plan.sites}: server, certificates, neighbours, settings{columns}")
            communicator.max(np.zeros(1))
            return 0
        compared = {
            site.names[rank]: now - before[rank, use]
            for (rank, use), now in communicator.bytes.items()
            if use == USES[FACTS]
        }
        say("\n".join(shown(site, configuration, foreseen, plan.sites, compared)))
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


@contextlib.contextmanager
def _waiting(report: Callable[[], object]) -> Iterator[None]:
    """Call ``report`` after a second and then every ten until the other sites answer."""
    done = threading.Event()

    def work() -> None:
        seconds = 1.0
        while not done.wait(seconds):
            report()
            seconds = WORD_SECONDS

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


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


def _agreed(communicator: AlongEdges, site: Site, given: Joining, plan: CommonPlan) -> None:
    """Ask; a SiteError on all sites unless all agree to the plan that was shown."""
    refusal = ""
    if given.agree is None:
        say(f"agree       type {plan.code} to send this, anything else to leave")
        refusal = _asked(plan.code)
    elif given.agree != plan.code:
        refusal = f"--agree {given.agree:.20} was given for another plan; this one is {plan.code}"
    with _waiting(lambda: say("waiting     for the others to agree")):
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
