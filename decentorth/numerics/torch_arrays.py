"""PyTorch's tensors as arrays that NumPy's own functions and operators take, so that one source runs on every device.

NumPy asks an argument of a foreign type to evaluate a function itself: ``__array_ufunc__`` (NEP 13) for elementwise functions,
operators and ``matmul``, ``__array_function__`` (NEP 18) for the others. `DeviceArray` answers with PyTorch's function of the same
name. Nothing else changes: the code of methods, sets and problems is that of NumPy's arrays, which never come here.

A NumPy array beside one of these is brought to the device. The other way is never taken unasked: ``np.asarray`` is refused, and
only `DeviceArray.host`, ``float``, ``bool`` and ``tolist`` bring numbers to the host.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partialmethod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

_UFUNCS = {
    "equal": torch.eq,
    "power": torch.pow,
    "invert": torch.bitwise_not,
    "rint": torch.round,
    "ldexp": lambda x, exponent, out=None: torch.mul(x, torch.exp2(exponent.to(x.dtype)), out=out),
}
"""The elementwise functions that PyTorch has under another name, or for fewer types."""
_KINDS = (torch.float64, torch.float32, torch.int64, torch.int32, torch.bool)
_DTYPES = {torch.empty(0, dtype=kind).numpy().dtype: kind for kind in _KINDS}
DENSE = 64
"""W is multiplied as a dense matrix where its fullest row has at least a share of 1 / DENSE of all entries."""
_NAMES = {tensor: dtype for dtype, tensor in _DTYPES.items()}


class DeviceArray(np.lib.mixins.NDArrayOperatorsMixin):
    """An array on a device, with the attributes, methods and functions of NumPy's arrays that this library uses.

    Parameters
    ----------
    tensor
        The tensor that holds it.
    """

    __slots__ = ("tensor",)

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __repr__(self) -> str:
        return f"DeviceArray({self.shape}, {self.tensor.device}, {self.dtype})"

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of its axes."""
        return tuple(self.tensor.shape)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return int(self.tensor.ndim)

    @property
    def size(self) -> int:
        """The number of entries."""
        return int(self.tensor.numel())

    @property
    def nbytes(self) -> int:
        """The bytes of the entries."""
        return self.size * int(self.tensor.element_size())

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's type of the entries."""
        return _NAMES[self.tensor.dtype]

    @property
    def T(self) -> DeviceArray:
        """The axes in reverse order, a view."""
        return DeviceArray(self.tensor.permute(*reversed(range(self.ndim))))

    def __len__(self) -> int:
        return len(self.tensor)

    def __array__(self, *_: Any, **__: Any) -> Any:
        """Refused: an array leaves its device only where the code says so."""
        raise TypeError(f"an array on {self.tensor.device} is not brought to the host by itself: call its host()")

    def host(self) -> NDArray[Any]:
        """A copy on the host, of float64 where it holds real numbers."""
        tensor = self.tensor.detach()
        return np.array((tensor.double() if tensor.is_floating_point() else tensor).cpu().numpy(), order="C")

    def __float__(self) -> float:
        return float(self.tensor)

    def __bool__(self) -> bool:
        return bool(self.tensor)

    def tolist(self) -> Any:
        """The entries on the host, as nested lists."""
        return self.tensor.tolist()

    def __getitem__(self, key: Any) -> DeviceArray:
        key, reversed_axes = self._key(key)
        found = self.tensor[key]
        return DeviceArray(torch.flip(found, reversed_axes) if reversed_axes else found)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.tensor[self._key(key)[0]] = self._tensor(value)

    def reshape(self, *shape: Any) -> DeviceArray:
        """The entries in another shape; a view where there is one, as there always is of a fresh array."""
        return DeviceArray(self.tensor.reshape(*shape))

    def swapaxes(self, first: int, second: int) -> DeviceArray:
        """Two axes exchanged, a view."""
        return DeviceArray(self.tensor.swapaxes(first, second))

    def copy(self) -> DeviceArray:
        """A fresh array."""
        return DeviceArray(self.tensor.clone(memory_format=torch.contiguous_format))

    def astype(self, dtype: Any) -> DeviceArray:
        """The entries as another type."""
        return DeviceArray(self.tensor.to(_DTYPES[np.dtype(dtype)]))

    def inverse_factor(self) -> DeviceArray:
        """The upper triangular U with U^T A U = I of this symmetric matrix A; NaN where A is not positive definite."""
        factor, failed = torch.linalg.cholesky_ex(self.tensor)
        identity = torch.eye(len(self), dtype=factor.dtype, device=factor.device)
        inverse = torch.linalg.solve_triangular(factor, identity, upper=False).T.contiguous()
        return DeviceArray(torch.where(failed == 0, inverse, torch.nan))

    def _reduced(self, function: Callable[..., Any], axis: Any = None, keepdims: bool = False) -> DeviceArray:
        """A reduction over one axis, several, or all; of NaN it is NaN."""
        if axis is None:
            axis = tuple(range(self.ndim))
        return DeviceArray(function(self.tensor, dim=axis, keepdim=keepdims) if self.ndim else self.tensor)

    sum = partialmethod(_reduced, torch.sum)
    max = partialmethod(_reduced, torch.amax)
    min = partialmethod(_reduced, torch.amin)
    any = partialmethod(_reduced, torch.any)
    all = partialmethod(_reduced, torch.all)

    def _tensor(self, value: Any) -> Any:
        """A value on this device; numbers as tensors without axes, which take the precision of what they meet."""
        if isinstance(value, DeviceArray):
            return value.tensor
        if isinstance(value, np.ndarray) and value.ndim:
            own = self.tensor
            return brought(value, own.device, own.dtype if own.is_floating_point() else torch.float64)
        return torch.tensor(value.item() if isinstance(value, np.ndarray | np.generic) else value, dtype=_number(value))

    def _there(self, value: Any) -> Any:
        """As `_tensor`, for functions that do not take numbers of the host beside arrays of a GPU."""
        found = self._tensor(value)
        device = self.tensor.device
        return found if found.device == device else torch.full((), value, dtype=found.dtype, device=device)

    def _given(self, value: Any) -> Any:
        """An argument of a function: arrays and real numbers as tensors on this device, also in a list."""
        if isinstance(value, list | tuple):
            return [self._given(one) for one in value]
        return self._there(value) if isinstance(value, DeviceArray | np.ndarray | float) else value

    def _key(self, key: Any) -> tuple[Any, list[int]]:
        """An index for PyTorch, and the axes of the result to reverse: PyTorch lacks slices with negative steps."""
        keys = key if isinstance(key, tuple) else (key,)
        turned = [n for n, one in enumerate(keys) if isinstance(one, slice) and one == slice(None, None, -1)]
        if turned and not all(isinstance(one, slice) for one in keys):
            raise TypeError(f"an axis of an array on a device is reversed by slices alone, got {key!r}")
        device = self.tensor.device

        def index(one: Any) -> Any:
            if isinstance(one, DeviceArray):
                return one.tensor
            return brought(one, device, None) if isinstance(one, np.ndarray) else one

        return tuple([slice(None) if n in turned else index(one) for n, one in enumerate(keys)]), turned

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **given: Any) -> Any:
        if method != "__call__" or given:
            return NotImplemented
        function = _UFUNCS.get(ufunc.__name__) or getattr(torch, ufunc.__name__, None)
        if function is None:
            return NotImplemented
        tensors = [self._tensor(one) for one in inputs]
        if out is not None:
            function(*tensors, out=out[0].tensor)
            return out[0]
        return _arrays(function(*tensors))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        own = _FUNCTIONS.get(function)
        return NotImplemented if own is None else own(self, *args, **kwargs)


def _number(value: Any) -> Any:
    """The type for a number: that which gives way to any array's."""
    return torch.float64 if isinstance(value, float | np.floating) else None


def brought(array: NDArray[Any], device: Any, real: Any) -> Any:
    """A tensor on the device with a copy of the entries, real numbers in the precision ``real``."""
    whole = np.array(array, order="C")  # PyTorch would warn of arrays that cannot be written into
    return torch.from_numpy(whole).to(device=device, dtype=real if array.dtype.kind == "f" else None)


def _like(fill: Callable[..., Any]) -> Callable[..., DeviceArray]:
    """The function ``np.NAME_like`` for a function that fills a new tensor."""

    def made(own: DeviceArray, like: Any, *value: Any, shape: Any = None) -> DeviceArray:
        size = own.shape if shape is None else shape if isinstance(shape, tuple) else (shape,)
        return DeviceArray(fill(size, *value, dtype=own.tensor.dtype, device=own.tensor.device))

    return made


def _where(own: DeviceArray, condition: Any, yes: Any, no: Any) -> DeviceArray:
    # its precision, which the condition lacks
    real = next((one for one in (yes, no) if isinstance(one, DeviceArray)), own)
    return DeviceArray(torch.where(own._there(condition), real._there(yes), real._there(no)).contiguous())


def _svd(own: DeviceArray, x: DeviceArray, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    if not compute_uv:
        return DeviceArray(torch.linalg.svdvals(x.tensor))
    return tuple(map(DeviceArray, torch.linalg.svd(x.tensor, full_matrices=full_matrices)))


def _same(function: Callable[..., Any]) -> Callable[..., Any]:
    """PyTorch's function that does what NumPy's does; axes have another name."""

    def called(own: DeviceArray, *given: Any, **named: Any) -> Any:
        found = function(*map(own._given, given), **{name.replace("axis", "dim"): value for name, value in named.items()})
        return _arrays(found)

    return called


def _arrays(found: Any) -> Any:
    """A tensor as an array, or several."""
    return DeviceArray(found.contiguous()) if isinstance(found, torch.Tensor) else tuple(map(DeviceArray, found))


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.empty_like: _like(torch.empty),
    np.zeros_like: _like(torch.zeros),
    np.full_like: _like(torch.full),
    np.copyto: lambda own, target, source: target.tensor.copy_(own._tensor(source)),
    np.where: _where,
    np.clip: _same(torch.clamp),
    np.stack: _same(torch.stack),
    np.concatenate: _same(torch.cat),
    np.split: lambda own, x, ends: tuple(map(DeviceArray, torch.tensor_split(x.tensor, [int(end) for end in ends]))),
    np.repeat: _same(torch.repeat_interleave),
    np.flatnonzero: lambda own, x: DeviceArray(torch.nonzero(x.tensor.reshape(-1)).reshape(-1)),
    np.searchsorted: _same(torch.searchsorted),
    np.vdot: lambda own, x, y: DeviceArray(torch.vdot(own._tensor(x).reshape(-1), own._tensor(y).reshape(-1))),
    np.diagonal: _same(torch.diagonal),
    np.linalg.svd: _svd,
    np.linalg.norm: _same(torch.linalg.norm),
    np.linalg.cholesky: _same(torch.linalg.cholesky),
    np.linalg.inv: _same(torch.linalg.inv),
    np.linalg.eigh: _same(torch.linalg.eigh),
    np.linalg.eigvalsh: _same(torch.linalg.eigvalsh),
    np.linalg.qr: _same(torch.linalg.qr),
}


class Device:
    """A device that holds arrays: PyTorch's name of it (cpu, cuda, cuda:1), and the precision of real numbers there."""

    def __init__(self, kind: str, real: str) -> None:
        self.place, self.real = torch.device(kind), _DTYPES[np.dtype(real)]

    def put(self, value: Any) -> Any:
        """An array of the host on the device, copied; anything else as it is."""
        return DeviceArray(brought(value, self.place, self.real)) if isinstance(value, np.ndarray) else value

    def mixing(self, indptr: Any, indices: Any, data: Any) -> Callable[[DeviceArray], DeviceArray]:
        """The product x -> W x for a sparse square matrix in compressed rows, in the faster of two ways, by the largest number of
        entries in a row: row by row from the neighbours' points, or W as a dense matrix.

        Both give the same bits from run to run; PyTorch's own sparse products need not on a GPU.
        """
        counts = np.diff(indptr)
        n, most = len(counts), int(counts.max())
        rows = np.repeat(np.arange(n), counts)
        if most * DENSE >= n:
            W = np.zeros((n, n))
            W[rows, indices] = data
            matrix = brought(W, self.place, self.real)
            return lambda x: DeviceArray((matrix @ x.tensor.reshape(n, -1)).reshape(x.shape))
        places = np.arange(len(data)) - np.repeat(indptr[:-1], counts)
        columns, weights = np.tile(np.arange(n), (most, 1)), np.zeros((most, n))
        # shorter rows end with weights of 0
        columns[places, rows], weights[places, rows] = indices, data
        neighbours, shares = brought(columns, self.place, None), brought(weights, self.place, self.real)

        def mixed(x: DeviceArray) -> DeviceArray:
            flat = x.tensor.reshape(n, -1)
            out = torch.zeros_like(flat)
            for agents, share in zip(neighbours, shares, strict=True):
                out.addcmul_(share[:, None], flat.index_select(0, agents))
            return DeviceArray(out.reshape(x.shape))

        return mixed
