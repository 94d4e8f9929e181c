"""Devices by their names, and the few numbers that come from them to the host."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .torch_arrays import Device

_NAME = re.compile(r"(?:torch:)?(cpu|cuda(?::\d+)?)(?::(float32|float64))?")


def open_device(name: str) -> Device:
    """Return the device called ``cuda``, ``cuda:1`` or ``torch:cpu``, with ``:float32`` behind it for
    single precision.

    Raises
    ------
    ValueError
        There is none, or PyTorch, which computes on it, is not installed; the message says what to
        type.
    """
    found = _NAME.fullmatch(name)
    if found is None or name.startswith("cpu"):  # NumPy's own path is that without a device
        raise ValueError(
            "device must be 'cuda', 'cuda:1' or 'torch:cpu', with ':float32' behind it for single "
            f"precision, got {name!r}; leave it out to compute with NumPy"
        )
    try:
        import torch
    except ImportError:
        raise ValueError(f"device {name!r} needs PyTorch: pip install torch") from None
    from .torch_arrays import Device

    kind, real = found.groups()
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if kind.startswith("cuda") and int(kind[5:] or 0) >= count:
        raise ValueError(
            f"device {name!r} is not there (PyTorch finds {count or 'no'} GPU{'s' * (count > 0)}): "
            "leave device out, or take 'torch:cpu'"
        )
    return Device(kind, real or "float64")


def is_on_device(value: Any) -> bool:
    """True for an array on a device, `torch_arrays.DeviceArray`, without an import of PyTorch."""
    return hasattr(value, "host")


def on_host(value: Any) -> Any:
    """An array of a device on the host; anything else as it is."""
    return value.host() if is_on_device(value) else value


def numbers(values: Sequence[Any]) -> tuple[float, ...]:
    """Numbers of the host or of a device as floats; those of a device come together."""
    own = [value for value in values if is_on_device(value)]
    if not own:
        return tuple(map(float, values))
    found = iter(np.stack(own).tolist())
    return tuple([next(found) if is_on_device(value) else float(value) for value in values])
