"""Plugins: Python files, named on the command line, that register methods and problems.

Nothing else executes a file that a setting names: a configuration or a checkpoint that names
plugins is refused unless the command line names them too.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
from pathlib import Path
from types import ModuleType

_LOADED: dict[Path, ModuleType] = {}


def load(path: str | os.PathLike[str]) -> ModuleType:
    """Execute the file at ``path``, once in each process, and return its module.

    Raises
    ------
    ValueError
        It does not exist or is no Python file, or its code fails; the message has the line.
    """
    place = Path(path).expanduser().resolve()
    if place in _LOADED:
        return _LOADED[place]
    if not place.is_file():
        hint = "name a plugin's file, or make one with decentorth new"
        raise ValueError(f"there is no file {path}: {hint}")
    if place.suffix != ".py":
        hint = "a plugin is a file that ends in .py; make one with decentorth new"
        raise ValueError(f"{path} is no Python file: {hint}")
    folder = hashlib.sha256(str(place).encode()).hexdigest()[:8]
    name = f"decentorth_plugin_{re.sub('[^0-9A-Za-z_]', '_', place.stem)}_{folder}"
    spec = importlib.util.spec_from_file_location(name, place)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # for annotations, and for classes in other processes
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise ValueError(f"{path}{_line(error, place)}: {type(error).__name__}: {error}") from error
    _LOADED[place] = module
    return module


def loaded() -> tuple[str, ...]:
    """The paths of the plugins of this process, in the order in which they were executed."""
    return tuple(map(str, _LOADED))


def digest() -> bytes:
    """SHA-256 of the plugins of this process, for comparing ranks."""
    files = [hashlib.sha256(place.read_bytes()).digest() for place in _LOADED]
    return hashlib.sha256(b"".join(files)).digest()


def _line(error: BaseException, place: Path) -> str:
    """The last line of the file that was reached, in words; none if it is not known."""
    number = getattr(error, "lineno", None)  # of a SyntaxError
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(place):
            number = trace.tb_lineno
        trace = trace.tb_next
    if number is None:
        return ""
    return f", line {number}"
