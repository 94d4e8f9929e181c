"""Exact sums in which no agent sees another's terms: integers under pairwise masks that cancel.

Every two agents i < j agree on a key by X25519 and HKDF. For every sum both take the next numbers
of its AES-CTR stream; i adds them to its term and j subtracts them, modulo 2^47. What an agent
sends is uniformly random for all who lack one of its keys, and the masks cancel in the total. This
is the secure aggregation of Bonawitz et al. (CCS 2017) without its dropouts.

Messages are float64, in which sums of 64 integers below 2^47 are exact. A number becomes two of
them, or five in a sum that is made once: the digits of 40 bits of x / 2^e, where e is common to an
array. The agents find e by masked sums, too: every agent states which sizes its numbers reach, and
a statement is a random number in place of a zero.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from ..protocols import Array, Index

Add = Callable[[Array], Array]
"""From the agents' numbers, ``(n_local, k)``, to their sums ``(k,)``."""
MOST_AGENTS = 64
"""The largest number of agents: each has a mask with every other one."""
MASK = np.uint64(2**47 - 1)
"""The bits of a masked number: the sum of those of 64 agents is an integer in float64."""
BITS = 40
"""The binary digits of a number that a masked number holds: 2^40 / 2 of 64 agents is below
2^47 / 2, where numbers become negative."""
DIGITS = 2
"""The masked numbers for a number: with a size of 16 digits and the margin at least 58 binary
digits of the largest number."""
DIGITS_ONCE = 5
"""The masked numbers for a number of a sum that is made once, whose columns may have any units."""
STEP = 16
"""The binary digits between two sizes."""
LEAST, SIZES = -1074, 132
"""Numbers of size s are below 2^(LEAST + STEP s); all float64 are of size 132 or less, 0 of size
0."""
MARGIN = 6
"""The binary digits by which later terms may be larger than the largest size of the first."""


class Masks:
    """The masks of this process's agents.

    Parameters
    ----------
    agents, n_agents
        The agents of this process, and the number of all agents.
    add
        Exact sums of integers over all agents, for the public keys.

    Attributes
    ----------
    keys
        The SHA-256 of all public keys as they have reached this process.
    sizes
        By the widths of the arrays of a sum, the sizes for which their numbers are cut; the same
        for all agents.

    Raises
    ------
    ImportError
        The library ``cryptography`` is missing.
    """

    def __init__(self, agents: slice, n_agents: int, add: Add) -> None:
        try:
            from cryptography.hazmat.primitives.asymmetric.x25519 import (
                X25519PrivateKey,
                X25519PublicKey,
            )
        except ImportError:
            raise ImportError("secure sums need cryptography: pip install cryptography") from None
        self.sizes: dict[tuple[int, ...], list[int]] = {}
        first = agents.start
        own = {agent: X25519PrivateKey.generate() for agent in range(first, agents.stop)}
        pieces = np.zeros((len(own), n_agents, 8))
        for agent, key in own.items():
            raw = key.public_key().public_bytes_raw()
            pieces[agent - first, agent] = np.frombuffer(raw, "<u4")
        everyone = add(pieces.reshape(len(own), -1)).reshape(n_agents, 8).astype("<u4")
        public = [piece.tobytes() for piece in everyone]
        self.keys = hashlib.sha256(b"".join(public)).digest()
        self._pairs = []
        """Of each two partners the local number of the one that adds, of the one that subtracts,
        None on another rank, and their stream."""
        for i, j in combinations(range(n_agents), 2):
            mine, other = (i, j) if i in own else (j, i)
            if mine in own:
                secret = own[mine].exchange(X25519PublicKey.from_public_bytes(public[other]))
                stream = _stream(secret, public[i] + public[j])
                ends = [agent - first if agent in own else None for agent in (i, j)]
                self._pairs.append((*ends, stream))

    def total(self, arrays: Sequence[Array], add: Add, once: bool = False) -> Array:
        """``(k,)``: the sums over all agents of the arrays, ``(n_local, ...)`` each, side by side.

        The same bits on all agents. A number that is not finite makes the whole sum NaN. The sizes
        of a sum that is made ``once`` are not kept.
        """
        widths = tuple([array.shape[1] for array in arrays])
        sizes = {} if once else self.sizes
        digits = DIGITS_ONCE if once else DIGITS
        values = np.concatenate(arrays, axis=1)
        while True:
            if widths not in sizes:
                agreed = self._agree(arrays, add)
                if agreed is None:
                    return np.full(sum(widths), np.nan)
                sizes[widths] = agreed
            tops = LEAST + STEP * np.array(sizes[widths]) + MARGIN
            exponents = BITS - 1 - np.repeat(tops, widths)
            integers, beyond = _cut(values, exponents, digits)
            terms = np.concatenate((integers, np.zeros((len(integers), 1), np.int64)), axis=1)
            if beyond.any():  # not zeros: the totals without and with a term would show it
                terms[beyond] = _random((int(np.count_nonzero(beyond)), terms.shape[1]))
            found = self._sum(terms, add)
            if not found[-1]:
                return _joined(found[:-1], exponents, digits)
            del sizes[widths]

    def remembered(self) -> Array:
        """``(1, k, 3)``: the sizes, for a checkpoint: a row for each array of each kind of sum,
        with the number of the kind, the width and the size."""
        rows = [
            (kind, width, size)
            for kind, (widths, sizes) in enumerate(self.sizes.items())
            for width, size in zip(widths, sizes, strict=True)
        ]
        return np.array(rows, dtype=np.float64).reshape(1, len(rows), 3)

    def remember(self, sizes: Array) -> None:
        """Continue with the sizes of `remembered`."""
        kinds, widths, found = sizes[0].astype(np.int64).T
        self.sizes = {
            tuple(widths[kinds == kind].tolist()): found[kinds == kind].tolist()
            for kind in np.unique(kinds)
        }

    def _agree(self, arrays: Sequence[Array], add: Add) -> list[int] | None:
        """The largest size of each array over all agents; None if a number is not finite.

        Only the totals are known: that some agent has a number of this size or a larger one.
        """
        finite = np.all([np.isfinite(array).all(axis=1) for array in arrays], axis=0)
        reached = [_sizes(array, finite)[:, None] > np.arange(SIZES) for array in arrays]
        said = np.concatenate((*reached, ~finite[:, None]), axis=1)
        some = self._sum(np.where(said, _random(said.shape), 0), add) != 0
        if some[-1]:
            return None
        sizes = some[:-1].reshape(len(arrays), SIZES) * np.arange(1, SIZES + 1)
        largest: list[int] = sizes.max(axis=1).tolist()
        return largest

    def _sum(self, integers: Index, add: Add) -> Index:
        """``(k,)``: the sums of ``(n_local, k)`` integers modulo 2^47, from -2^46 to 2^46."""
        hidden = integers.astype(np.int64).view(np.uint64)
        zeros = bytes(8 * hidden.shape[1])
        for plus, minus, stream in self._pairs:
            mask = np.frombuffer(stream.update(zeros), "<u8")
            if plus is not None:
                hidden[plus] += mask
            if minus is not None:
                hidden[minus] -= mask
        found = add((hidden & MASK).astype(np.float64)).astype(np.uint64) & MASK
        signed = found.astype(np.int64)
        signed[found > MASK >> np.uint64(1)] -= np.int64(MASK) + 1
        return signed


def _stream(secret: bytes, about: bytes) -> Any:
    """The stream of two partners, who know ``secret``; ``about`` are their public keys."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    key = HKDF(SHA256(), 32, None, b"decentorth sums" + about).derive(secret)
    return Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()


def _random(shape: tuple[int, ...]) -> Index:
    """Unpredictable integers, uniform modulo 2^47; one of 2^47 is 0 there."""
    size = int(np.prod(shape))
    return np.frombuffer(os.urandom(8 * size), np.int64).reshape(shape)


def _sizes(array: Array, finite: Array) -> Index:
    """``(n_local,)``: the size of each agent's largest number, 0 where one is not finite."""
    largest = np.where(finite, np.abs(array).max(axis=1, initial=0.0), 0.0)
    exponents = np.frexp(largest)[1]
    return np.where(largest > 0.0, -((LEAST - exponents) // STEP), 0)


def _cut(values: Array, exponents: Index, digits: int) -> tuple[Index, Array]:
    """The digits of ``values * 2^exponents``, the highest ones of all numbers first, and true for
    agents with a number that is too large."""
    rest = np.ldexp(values, exponents)
    beyond = ~(np.abs(rest).max(axis=1, initial=0.0) <= 2.0 ** (BITS - 1))
    rest[beyond] = 0.0
    found = []
    for _ in range(digits):
        whole = np.rint(rest)
        found.append(whole)
        rest = np.ldexp(rest - whole, BITS)
    return np.concatenate(found, axis=1).astype(np.int64), beyond


def _joined(sums: Index, exponents: Index, digits: int) -> Array:
    """The numbers of which `_cut` made these digits, before they were added."""
    found = np.zeros(len(exponents))
    for digit in reversed(range(digits)):
        part = sums[digit * len(exponents) : (digit + 1) * len(exponents)].astype(np.float64)
        found += np.ldexp(part, -(exponents + BITS * digit))
    return found
