"""Attacks on a running run, through the server and by a site in the middle: one line everywhere,
and no result."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nats
import numpy as np
import pytest

import decentorth as do
from decentorth.network import AlongEdges
from decentorth.network.transport.along_edges import EXCHANGES, FACTS, _joined, _taken_apart
from decentorth.network.transport.nats_carrier import NatsCarrier
from decentorth.network.transport.sealed import SiteError
from tests.support.sites import Attack, Intruder, Place, at_sites

N = 3
_KEYS = 8 * 8 * N
"""The bytes of a sum of public keys: eight numbers of each site."""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def solved(communicator: AlongEdges, method: str = "direct", **more: Any) -> do.Result:
    rng = np.random.default_rng(0)
    problem = do.problems.PCA([rng.standard_normal((20, 5)) for _ in range(N)], 2)
    return do.solve(problem, method, "path", comm=communicator, **more)


def endless(communicator: AlongEdges) -> do.Result:
    return solved(communicator, "drfgt", clear_sums=True, iterations=10**7)


def endless_masked(communicator: AlongEdges) -> do.Result:
    return solved(communicator, "rgd:step_size=1e-6", iterations=10**7)


AT = 40
"""The number of the message that is attacked: one of the iterations."""


def repeat(number: int, data: bytes) -> Sequence[bytes]:
    return [data, data] if number == AT else [data]


def change(number: int, data: bytes) -> Sequence[bytes]:
    return [data[:-1] + bytes([data[-1] ^ 1])] if number == AT else [data]


def cut(number: int, data: bytes) -> Sequence[bytes]:
    return [data[:-3]] if number == AT else [data]


def drop(number: int, data: bytes) -> Sequence[bytes]:
    return [] if number == AT else [data]


class Swap:
    """Passes on two messages in the other order."""

    def __init__(self) -> None:
        self._held = b""

    def __call__(self, number: int, data: bytes) -> Sequence[bytes]:
        if number == AT:
            self._held = data
            return []
        return [data, self._held] if number == AT + 1 else [data]


@pytest.mark.parametrize(
    ("attack", "work", "words"),
    [
        (repeat, endless, f"message {AT} from site north came a second time: the server, or an"),
        (repeat, endless_masked, f"message {AT} from site north came a second time"),
        (change, endless, f"message {AT} from site north was changed on its way, or is of another"),
        (cut, endless_masked, f"message {AT} from site north was changed on its way, or is of"),
        (drop, endless, f"message {AT} from site north is missing: the server, or an intruder"),
        (Swap(), endless, f"message {AT} from site north is missing: the server, or an intruder"),
    ],
)
def test_a_message_that_the_server_touches_ends_the_run_of_all(
    place: Place, attack: Attack, work: Any, words: str
) -> None:
    intruder = Intruder(place, "north", "south", attack)
    with place.serving(), intruder:
        found = at_sites(place, work)
    for error in found:
        assert isinstance(error, SiteError), found
        assert str(error).startswith(words)
        assert "\n" not in str(error)


class Substituting(NatsCarrier):
    """The site in the middle, which puts its own public key in the place of others'."""

    def post(self, target: int, kind: bytes, data: bytes) -> None:
        if kind == EXCHANGES and len(data) == _KEYS:
            keys = np.frombuffer(data).reshape(N, 8).copy()
            keys[2 - target] = keys[self.rank]
            data = keys.tobytes()
        super().post(target, kind, data)


class Forging(Substituting):
    """The same, and it signs for the others what they would have to sign."""

    def post(self, target: int, kind: bytes, data: bytes) -> None:
        if kind == FACTS and b"CERTIFICATE" in data:
            found = _taken_apart(data)
            data = _joined({rank: self._own or signed for rank, signed in found.items()})
        super().post(target, kind, data)

    _own = b""

    def signed(self, data: bytes) -> bytes:
        self._own = super().signed(data)
        return self._own


WORDS = (
    "has received other public keys for masks than site ",
    "the certificate of site north is that of site south",
    "the certificate of site west is that of site south",
)


@pytest.mark.parametrize("kind", [Substituting, Forging])
def test_a_public_key_that_is_substituted_is_refused_before_a_masked_number_is_sent(
    place: Place, kind: type[NatsCarrier]
) -> None:
    with place.serving():
        honest = at_sites(place, solved)
        found = at_sites(place, solved, {"south": kind})
    assert all(isinstance(one, do.Result) for one in honest)
    for error in found:
        assert isinstance(error, SiteError), found
        assert any(words in str(error) for words in WORDS), found
        assert "\n" not in str(error)


async def _published(place: Place, context: ssl.SSLContext, subject: str) -> list[str]:
    """What the server says to a client that publishes and listens."""
    said: list[str] = []

    async def wrong(error: Exception) -> None:
        said.append(repr(error))

    try:
        client = await nats.connect(
            f"tls://localhost:{place.port}",
            tls=context,
            allow_reconnect=False,
            max_reconnect_attempts=1,
            connect_timeout=5,
            error_cb=wrong,
        )
        await client.publish(subject, b"x")
        await client.subscribe(subject)
        await client.flush()
        async with asyncio.timeout(10.0):  # the answer to the second comes last
            while "for subscription" not in str(said).lower():
                await asyncio.sleep(0.01)
        await client.close()
    except (TimeoutError, nats.errors.Error, OSError) as error:
        said.append(repr(error))
    return said


def test_the_server_refuses_strangers_old_tls_and_other_subjects(place: Place) -> None:
    """Without a certificate, with that of another authority, with TLS 1.2, and to write or listen
    where only another site may."""
    other = Place(place.root / "other")
    about = json.loads((place.root / "north" / "site.json").read_text())

    def context(folder: Path | None, newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> Any:
        made = ssl.create_default_context(cafile=place.root / "north" / "ca.pem")
        made.maximum_version = newest
        if folder is not None:
            made.load_cert_chain(folder / "north.pem", folder / "north.key")
        return made

    own = place.root / "north"
    allowed = f"do.{about['run']}.north.south"
    with place.serving():
        for stranger in (
            context(None),
            context(other.root / "north"),
            context(own, ssl.TLSVersion.TLSv1_2),
        ):
            assert asyncio.run(_published(place, stranger, allowed)) != []
        for subject in ("north.west", "west.south", "south.north"):
            said = asyncio.run(_published(place, context(own), f"do.{about['run']}.{subject}"))
            assert "permissions violation for publish" in str(said).lower()
        said = asyncio.run(_published(place, context(own), allowed))
        assert "publish" not in str(said).lower()
        assert "permissions violation for subscription" in str(said).lower()
