"""Features of the same samples in one file for each site.

A site's rows are matched with those of the others by a key, such as a patient's number. Keys stay
at their site: each orders its rows by their keys, and all compare one hash of these. Without a key
row k of all files is the same sample.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from decentorth.numerics.ordered_sums import sums
from decentorth.problems.common.division import Division
from decentorth.problems.common.pooled_rows import HERE, Wanted, in_units
from decentorth.protocols import Array, Collective, Index

from .split import Among

if TYPE_CHECKING:
    from decentorth.data.labels import Labels
    from decentorth.data.sites import SiteTable

_SIGNS = 512
"""The bits of a key's hash: their sums give the number of different keys to 6 percent."""


class Features(NamedTuple):
    """The features of the sites of this process, with their rows in the order of all sites."""

    samples: list[Array]
    """``(m, d_i)`` of each site, as they are."""
    columns: list[tuple[str, ...]]
    """The names of the columns of each site; none without names."""
    labels: list[Any]
    """``(m,)`` of each site, where a column of labels is asked for; else None."""

    def in_units(self, wanted: Wanted) -> list[Array]:
        """The samples in the units of their columns, which a site finds by itself."""
        pairs = zip(self.samples, self.columns, strict=True)
        return [in_units([rows], HERE, wanted, names)[0][0] for rows, names in pairs]


def features_of(
    source: Division, agents: slice, collective: Collective, key: str | None
) -> Features:
    """The features of the sites ``agents``; called by all ranks.

    Raises
    ------
    ValueError
        On every rank: a file cannot be read, or the sites have other samples than the first one.
    """
    from decentorth.data.sites import SiteTable

    names = source.sites
    files = source.files[0]
    with collective.together():
        tables = [SiteTable.of(names[i], files[i]) for i in range(agents.start, agents.stop)]
    _check_names(source, tables, collective)
    with collective.together():
        read = [_read(source, one, files[i], key) for i, one in enumerate(tables, agents.start)]
        keys = [np.sort(own) for _, own, _, _ in read]
    if key is None:
        _check_counts([len(rows) for rows, *_ in read], names, collective)
    else:
        _check_keys(keys, names, key, collective)
    samples = []
    columns = []
    labels = []
    with collective.together():
        for rows, own, known, classes in read:
            order = np.argsort(own, kind="stable")
            samples.append(rows[order])
            columns.append(known)
            labels.append(None if classes is None else classes[order])
    return Features(samples, columns, labels)


def among(agents: slice, widths: Sequence[tuple[int, ...]], collective: Collective) -> Among:
    """The place of the sites ``agents`` among all, from the numbers of their features."""
    every = collective.everyone(json.dumps(list(widths)).encode())
    return Among(agents.start, [tuple(own) for part in every for own in json.loads(part)])


def check_alike(what: str, own: Sequence[str], source: Division, collective: Collective) -> None:
    """Raise ValueError unless all sites have the same, of which they show each other a hash."""
    digests = [hashlib.sha256(one.encode()).hexdigest() for one in own]
    every = collective.everyone(json.dumps(digests).encode())
    found = [digest for part in every for digest in json.loads(part)]
    for name, digest in zip(source.sites, found, strict=True):
        if digest != found[0]:
            raise ValueError(
                f"the {what} of site {name} differ from those of site {source.sites[0]} for the "
                "same samples: give both the same"
            )


def _check_names(source: Division, tables: Sequence[SiteTable], collective: Collective) -> None:
    """Raise ValueError for names of columns that no site has."""
    chosen = source.columns
    asked = (*chosen.samples, *chosen.exclude)
    here = sorted({name for one in tables for name in one.known or ()}.intersection(asked))
    every = collective.everyone(json.dumps(here).encode())
    known = {name for part in every for name in json.loads(part)}
    for name in asked:
        if name not in known:
            raise ValueError(f"no site has the column {name!r}: give the name of another one")


def _read(
    source: Division, one: SiteTable, file: str, key: str | None
) -> tuple[Any, Any, tuple[str, ...], Labels | None]:
    """The rows of a site's file, their keys as text (their numbers without a key), the names of the
    columns, and the labels."""
    from decentorth.data.files import MatrixFile
    from decentorth.data.tables import lacking

    wanted = source.columns
    known = one.known
    if known is None:
        if key is not None or wanted.by_name:
            raise ValueError(f"{one.site} lacks names of columns: give it a line of names")
        rows = one.open(wanted).read()
        return rows, np.arange(len(rows)), (), None
    for name in (*wanted.labels, *([] if key is None else [key])):
        if name not in known:
            raise ValueError(f"{lacking(one.site, name, known)}; every site needs it here")
    out = {*wanted.exclude, *wanted.labels, key}
    own = tuple(name for name in wanted.samples or known if name in known and name not in out)
    if not own:
        raise ValueError(f"{one.site} lacks columns of samples: choose others, or leave it out")
    columns = wanted._replace(samples=own, exclude=())
    rows = one.open(columns).read()
    labels = MatrixFile(file, columns).labels if wanted.labels else None
    if key is None:
        return rows, np.arange(len(rows)), own, labels
    found = MatrixFile(file, columns._replace(label=key)).labels
    keys = np.array([str(value) for value in ([] if found is None else found.tolist())])
    twice = len(keys) - len(np.unique(keys))
    if twice:
        raise ValueError(
            f"{one.site} has {twice} rows whose key in the column {key!r} another row has: a key "
            "belongs to one sample"
        )
    return rows, keys, own, labels


def _check_counts(counts: list[int], names: Sequence[str], collective: Collective) -> None:
    """Raise ValueError unless all sites have as many rows."""
    every = collective.everyone(json.dumps(counts).encode())
    found = [count for part in every for count in json.loads(part)]
    for name, count in zip(names, found, strict=True):
        if count != found[0]:
            raise ValueError(
                f"site {name} has {count} rows, and site {names[0]} has {found[0]}: give both the "
                "same samples in the same order, or key, the column by which rows are matched"
            )


def _check_keys(
    keys: Sequence[Any], names: Sequence[str], key: str, collective: Collective
) -> None:
    """Raise ValueError unless all sites have the same keys, each in order.

    Sites show each other one hash of all their keys. Where these differ they show how many keys
    have each bit of their hashes, which shows how many keys differ, and not which.
    """
    digests = [hashlib.sha256(json.dumps(own.tolist()).encode()).hexdigest() for own in keys]
    every = collective.everyone(json.dumps(digests).encode())
    if len({digest for part in every for digest in json.loads(part)}) == 1:
        return
    told = [[len(own), *_bit_counts(own).tolist()] for own in keys]
    counted = [
        one for part in collective.everyone(json.dumps(told).encode()) for one in json.loads(part)
    ]
    count, *first = counted[0]
    for name, (other, *bits) in zip(names, counted, strict=True):
        apart = np.array(first) - np.array(bits) - 0.5 * (count - other)
        differ = round(4.0 * float(sums(apart[None] ** 2)[0]) / _SIGNS)
        if differ or bits != first:
            raise ValueError(
                f"the keys of site {name} differ from those of site {names[0]} in the column "
                f"{key!r}: about {max(differ, 1)} are at one of the two alone, of {other} and "
                f"{count}; give both the same samples"
            )


def _bit_counts(keys: Any) -> Index:
    """``(512,)``: how many keys have each bit of their hashes."""
    hashes = b"".join(hashlib.sha512(str(one).encode()).digest() for one in keys)
    bits = np.unpackbits(np.frombuffer(hashes, np.uint8)).reshape(len(keys), _SIGNS)
    return np.count_nonzero(bits.T, axis=-1)
