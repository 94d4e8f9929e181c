"""Runs read back from the files that `outputs` describes. Every error of a file is an `InputError`
that names it."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from topologies.line.flags import InputError
from topologies.line.matrix_files import npy_array, npz_array, require_real

from ..protocols import Array
from ..running.checkpoint.checkpoint_files import Json, limited
from ..running.history import COUNTS, Column
from .run_files import FINAL, HISTORY, SUMMARY

log = logging.getLogger(__name__)
_HISTORY, _SUMMARY = 1 << 30, 1 << 26
"""The most bytes of a history and of a summary."""


def read_finished(folder: str | os.PathLike[str]) -> tuple[Json, Array, dict[str, Column]]:
    """The summary, the final points ``(n, *shape)`` and the columns of the history of a run that
    has ended.

    The folder of a site, whose summary has the number of its ``agent``, holds one point of n.
    """
    summary = read_end(folder)
    columns = read_history(folder)
    if not len(columns["iteration"]):
        raise InputError(f"{Path(folder) / HISTORY}: holds no rows")
    try:
        x = np.ascontiguousarray(final_points(folder), dtype=np.float64)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"cannot read the final points of {folder}: {error}") from None
    n_agents: object = len(x)
    if (agent := summary.get("agent")) is not None:
        n_agents = summary.get("agents")
        if type(agent) is not int or type(n_agents) is not int or not 0 <= agent < n_agents:
            raise InputError(
                f"{Path(folder) / SUMMARY}: agent must be the number of one of the agents, got "
                f"{agent!r:.80} of {n_agents!r:.80}"
            )
        if len(x) != 1:
            raise InputError(
                f"{Path(folder) / FINAL}: must hold the point of one site, got {len(x)} points"
            )
    labels = summary.get("labels")
    named = type(labels) is list and len(labels) == n_agents and {*map(type, labels)} == {str}
    if labels is not None and not named:
        raise InputError(
            f"{Path(folder) / SUMMARY}: labels must be the names of the {n_agents} agents, or "
            f"null, got {labels!r:.80}"
        )
    return summary, x, columns


def read_history(folder: str | os.PathLike[str]) -> dict[str, Column]:
    """The columns of a run's history: counts as int64, seconds and metrics as float64.

    The last line of a run that was killed may be cut short; it is left out, and the log says so.
    """
    path = Path(folder) / HISTORY
    with _refusing(path):
        text = limited(path, _HISTORY).decode()
    lines = text.splitlines()
    if lines and not text.endswith("\n"):
        del lines[-1]
        log.warning("%s: the last line is incomplete and left out (the run was killed?)", path)
    header, *rows = [line.split(",") for line in lines] or [[]]
    if header[: len(COUNTS) + 1] != [*COUNTS, "seconds"]:
        raise InputError(
            f"{path}: not a history; its first line must begin with {','.join(COUNTS)},seconds"
        )
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise InputError(
                f"{path}, line {number}: {len(header)} values expected, got {len(row)}"
            )
    columns: dict[str, Column] = {}
    for index, name in enumerate(header):
        try:
            if name in COUNTS:
                columns[name] = np.array([int(row[index]) for row in rows], dtype=np.int64)
            else:
                columns[name] = np.array([float(row[index]) for row in rows], dtype=np.float64)
        except (ValueError, OverflowError) as error:
            raise InputError(f"{path}, column {name}: {error!s:.200}") from None
    return columns


def read_summary(folder: str | os.PathLike[str]) -> Json:
    """The summary of a run, whatever is in it."""
    path = Path(folder) / SUMMARY
    with _refusing(path):
        text = limited(path, _SUMMARY).decode()
    try:
        summary = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not well-formed JSON: {error}") from None
    if type(summary) is not dict:
        raise InputError(f"{path}: must hold a mapping, got {type(summary).__name__}")
    return summary


def read_end(folder: str | os.PathLike[str]) -> Json:
    """The summary of a run that has ended, which says how it did, and how long it took."""
    path = Path(folder) / SUMMARY
    summary = read_summary(folder)
    for name, kind in {"status": str, "converged": bool, "message": str, "seconds": dict}.items():
        if type(summary.get(name)) is not kind:
            raise InputError(f"{path}: not the summary of a run, as it lacks {name}")
    seconds = summary["seconds"]
    numbers = all(type(one) in (int, float) and abs(one) < 2**63 for one in seconds.values())
    if "total" not in seconds or not numbers:
        raise InputError(f"{path}: seconds must hold numbers, and their total, got {seconds!r:.80}")
    return summary


def read_start(place: str | os.PathLike[str]) -> Array:
    """The start point in ``place``: a run's folder (the final point of its first agent), or a
    ``.npy`` file that holds a point."""
    path = Path(place)
    try:
        if path.is_dir():
            path = path / FINAL
            point = final_points(place)[0]
        else:
            point = npy_array(path)
        require_real(point.dtype, str(path))
    except FileNotFoundError:
        raise InputError(
            f"cannot start from {place}: {path} does not exist; has the run ended?"
        ) from None
    except OSError as error:
        raise InputError(f"cannot start from {place}: {error.strerror}") from None
    except (ValueError, TypeError) as error:
        raise InputError(
            f"cannot start from {place}: {error}; give a run's folder or a .npy file of real "
            "numbers"
        ) from None
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused later
        start: Array = np.ascontiguousarray(point, dtype=np.float64)
    return start


def final_points(folder: str | os.PathLike[str]) -> Column:
    """``(n, *shape)``: the agents' points at the end of the run in ``folder``.

    Raises
    ------
    OSError, ValueError, TypeError
        There is no such file, or it does not hold points.
    """
    path = Path(folder) / FINAL
    points = npz_array(path, "x")
    require_real(points.dtype, f"{path}:x")
    if points.ndim < 2 or not points.size:
        raise ValueError(f"{path}:x must hold a point for each agent, but has shape {points.shape}")
    return points


def mean_rows(folder: str | os.PathLike[str], names: Sequence[str]) -> Array:
    """The means over the agents of variables at the end of the run in ``folder``, one below the
    other."""
    path = Path(folder) / FINAL
    with _refusing(path):
        means = [np.asarray(npz_array(path, name), dtype=np.float64).mean(axis=0) for name in names]
        return np.concatenate(means)


@contextlib.contextmanager
def _refusing(path: Path) -> Iterator[None]:
    """Whatever is wrong with a file, or found out while it is read, is an InputError."""
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; is {path.parent} the folder of a run?") from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: not a text file ({error.reason} at byte {error.start})"
        ) from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise InputError(f"cannot read {path}: {error}") from None
