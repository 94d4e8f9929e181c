"""What has left a site since its run began, over all losses and restarts: ``sent.csv``."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from topologies.line.flags import InputError

from ...network import AlongEdges
from ...records.run_files import SENT, replacing
from ...running.checkpoint import newest_notes

_HEADER = ["to", "use", "messages", "bytes"]
_NOTE = "sent"
"""The name under which checkpoints keep the rows."""
Rows = Iterable[Sequence[Any]]


class Traffic:
    """The messages that have left a site and their bytes, by neighbour and use.

    Parameters
    ----------
    names
        The names of all sites.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self._messages: Counter[tuple[int, str]] = Counter()
        self._bytes: Counter[tuple[int, str]] = Counter()

    def count(self, communicator: AlongEdges) -> None:
        """Count what this communicator sends, beside what others have sent."""
        communicator.messages = self._messages
        communicator.bytes = self._bytes

    def notes(self) -> dict[str, Any]:
        """The rows, for a checkpoint."""
        return {_NOTE: [*self._rows()]}

    def read(self, out: Path) -> None:
        """Take over the counts of a process that has ended: of its file or of its newest
        checkpoint, whichever is later."""
        notes, _ = newest_notes(out)
        self._take(out, notes.get(_NOTE, ()))
        file = out / SENT
        if file.is_file():
            lines = csv.reader(io.StringIO(file.read_text(encoding="utf-8")))
            self._take(file, [row for row in lines if row != _HEADER])

    def write(self, out: Path) -> None:
        """Write the file into the folder of the run, if there is one."""
        if not out.is_dir():
            return
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow(_HEADER)
        table.writerows(self._rows())
        with replacing(out / SENT) as file:
            file.write(text.getvalue().encode())

    def _rows(self) -> list[tuple[str, str, int, int]]:
        return [
            (self._names[rank], use, self._messages[rank, use], sent)
            for (rank, use), sent in sorted(self._bytes.items())
        ]

    def _take(self, place: Path, rows: Rows) -> None:
        """Raise the counts to those of ``rows``; both count from the beginning of the run."""
        try:
            for to, use, messages, sent in rows:
                key = self._names.index(to), str(use)
                self._messages[key] = max(self._messages[key], int(messages))
                self._bytes[key] = max(self._bytes[key], int(sent))
        except (ValueError, TypeError):
            raise InputError(f"{place}: the counts of what this site sent are damaged") from None
