"""Attacks on a running run, through the server and by a site in the middle: one line everywhere,
and no result."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
