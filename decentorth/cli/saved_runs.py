"""Runs read back from the files that `outputs` describes. Every error of a file is an `InputError` that names it."""

from __future__ import annotations

import csv
import json
import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topologies.matrix_files import npy_array, npz_array, require_real

from ..protocols import Array
from ..running.history import COUNTS
from .flags import InputError
from .outputs import FINAL, HISTORY, SUMMARY

log = logging.getLogger(__name__)


def read_finished(folder: str | os.PathLike[str]) -> tuple[dict[str, Any], Array, dict[str, NDArray[Any]]]:
    """The summary, the final points ``(n, *shape)`` and the columns of the history of a run that has ended."""
    summary, columns = read_summary(folder), read_history(folder)
    kinds = {"status": str, "converged": bool, "message": str, "seconds": dict}
    for name in (name for name, kind in kinds.items() if not isinstance(summary.get(name), kind)):
        raise InputError(f"{Path(folder) / SUMMARY}: not the summary of a run, as it has no {name}")
    if not len(columns["iteration"]):
        raise InputError(f"{Path(folder) / HISTORY}: has no rows")
    try:
        x = np.ascontiguousarray(final_points(folder), dtype=np.float64)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"cannot read the final points of {folder}: {error}") from None
    return summary, x, columns


def read_history(folder: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """The columns of a run's history: counts as int64, seconds and metrics as float64.

    The last line of a run that was killed may be cut short; it is left out, and the log says so.
    """
    path = Path(folder) / HISTORY
    text = _read(path)
    lines = text.split("\n")
    if lines.pop():
        log.warning("%s: the last line is incomplete and left out (the run was killed?)", path)
    rows = list(csv.reader(lines))
    if not rows or tuple(rows[0][: len(COUNTS) + 1]) != (*COUNTS, "seconds"):
        raise InputError(f"{path}: not a history; its first line must begin with {','.join(COUNTS)},seconds")
    header = rows.pop(0)
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise InputError(f"{path}, line {number}: {len(header)} values expected, got {len(row)}")
    columns: dict[str, NDArray[Any]] = {}
    for index, name in enumerate(header):
        cells = [row[index] for row in rows]
        try:
            if name in COUNTS:
                columns[name] = np.array([int(cell) for cell in cells], dtype=np.int64)
            else:
                columns[name] = np.array([float(cell) for cell in cells], dtype=np.float64)
        except (ValueError, OverflowError) as error:
            raise InputError(f"{path}, column {name}: {error}") from None
    return columns


def read_summary(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The summary of a run."""
    path = Path(folder) / SUMMARY
    text = _read(path)
    try:
        summary = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not well-formed JSON: {error}") from None
    if not isinstance(summary, dict):
        raise InputError(f"{path}: must hold a mapping, got {type(summary).__name__}")
    return summary


def read_start(place: str | os.PathLike[str]) -> Array:
    """The start point in ``place``: a run's folder (the final point of its first agent), or a ``.npy`` file that holds a point."""
    path = Path(place)
    final = path / FINAL if path.is_dir() else path
    try:
        point = final_points(path)[0] if path.is_dir() else npy_array(path)
        require_real(point.dtype, str(final))
    except FileNotFoundError:
        raise InputError(f"cannot start from {place}: {final} does not exist; has that run ended?") from None
    except OSError as error:
        raise InputError(f"cannot start from {place}: {error.strerror}") from None
    except (ValueError, TypeError) as error:
        raise InputError(f"cannot start from {place}: {error}; give a run's folder or a .npy file of real numbers") from None
    start: Array = np.ascontiguousarray(point, dtype=np.float64)
    return start


def final_points(folder: str | os.PathLike[str]) -> NDArray[Any]:
    """``(n, *shape)``: the agents' points at the end of the run in ``folder``.

    Raises
    ------
    OSError, ValueError, TypeError
        There is no such file, or it does not hold points.
    """
    path = Path(folder) / FINAL
    points = npz_array(path, "x")
    if points.ndim < 2 or not points.size:
        raise ValueError(f"{path}:x must hold a point for each agent, but has shape {points.shape}")
    return points


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; is {path.parent} the folder of a run?") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text file ({error.reason} at byte {error.start})") from None
