"""PyTorch's tensors as arrays that NumPy's own functions and operators take, so that one source
runs on every device.

NumPy asks an argument of a foreign type to evaluate a function itself: ``__array_ufunc__`` (NEP 13)
for elementwise functions, operators and ``matmul``, ``__array_function__`` (NEP 18) for the others.
`DeviceArray` answers with PyTorch's function of the same name. Nothing else changes: the code of
methods, sets and problems is that of NumPy's arrays, which never come here.

A NumPy array beside one of these is brought to the device. The other way is never taken unasked:
``np.asarray`` is refused, and only `DeviceArray.host`, ``float``, ``bool`` and ``tolist`` bring
numbers to the host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partialmethod
from typing import Any, NoReturn

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from torch import Tensor

from ..protocols import Array, Index
from .definite import ROUNDING

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
Axes = int | tuple[int, ...] | None
Given = tuple[object, ...]
Named = Mapping[str, object]
Filled = Callable[..., Tensor]
DENSE = 64
"""W is multiplied as a dense matrix where its fullest row has at least a share of 1 / DENSE of all
entries."""
_NAMES = {tensor: dtype for dtype, tensor in _DTYPES.items()}


class DeviceArray(np.lib.mixins.NDArrayOperatorsMixin):
    """An array on a device, with the attributes, methods and functions of NumPy's arrays that this
    library uses.

    Parameters
    ----------
    tensor
        The tensor that holds it.
    """

    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor) -> None:
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

    def __array__(self, *_: object, **__: object) -> NoReturn:
        """Refused: an array leaves its device only where the code says so."""
        here = self.tensor.device
        raise TypeError(f"an array on {here} is not brought to the host by itself: call its host()")

    def host(self) -> NDArray[Any]:
        """A copy on the host, of float64 where it holds real numbers."""
        tensor = self.tensor.detach()
        if tensor.is_floating_point():
            tensor = tensor.double()
        return np.array(tensor.cpu().numpy(), order="C")

    def __float__(self) -> float:
        return float(self.tensor)

    def __bool__(self) -> bool:
        return bool(self.tensor)

    def tolist(self) -> object:
        """The entries on the host, as nested lists."""
        return self.tensor.tolist()

    def __getitem__(self, key: object) -> DeviceArray:
        key, reversed_axes = self._key(key)
        found = self.tensor[key]
        return DeviceArray(torch.flip(found, reversed_axes) if reversed_axes else found)

    def __setitem__(self, key: object, value: object) -> None:
        self.tensor[self._key(key)[0]] = self._tensor(value)

    def reshape(self, *shape: Axes) -> DeviceArray:
        """The entries in another shape; a view where there is one, as there always is of a fresh
        array."""
        return DeviceArray(self.tensor.reshape(*shape))

    def swapaxes(self, first: int, second: int) -> DeviceArray:
        """Two axes exchanged, a view."""
        return DeviceArray(self.tensor.swapaxes(first, second))

    def copy(self) -> DeviceArray:
        """A fresh array."""
        return DeviceArray(self.tensor.clone(memory_format=torch.contiguous_format))

    def astype(self, dtype: DTypeLike) -> DeviceArray:
        """The entries as another type."""
        return DeviceArray(self.tensor.to(_DTYPES[np.dtype(dtype)]))

    def inverse_factor(self) -> DeviceArray:
        """The upper triangular U with U^T A U = I of this symmetric matrix A; NaN where A is not
        positive definite, or only by a rounding error."""
        factor, failed = torch.linalg.cholesky_ex(self.tensor)
        pivots = factor.diagonal() ** 2
        least = ROUNDING * len(self) * self.tensor.diagonal()
        definite = (failed == 0) & (pivots > least).all()
        identity = torch.eye(len(self), dtype=factor.dtype, device=factor.device)
        inverse = torch.linalg.solve_triangular(factor, identity, upper=False)
        return DeviceArray(torch.where(definite, inverse.T.contiguous(), torch.nan))

    def _reduced(self, function: Filled, axis: Axes = None, keepdims: bool = False) -> DeviceArray:
        """A reduction over one axis, several, or all; of NaN it is NaN."""
        if axis is None:
            axis = tuple(range(self.ndim))
        return DeviceArray(function(self.tensor, dim=axis, keepdim=keepdims)) if self.ndim else self

    sum = partialmethod(_reduced, torch.sum)
    max = partialmethod(_reduced, torch.amax)
    min = partialmethod(_reduced, torch.amin)
    any = partialmethod(_reduced, torch.any)
    all = partialmethod(_reduced, torch.all)

    def _tensor(self, value: object) -> Tensor:
        """A value on this device; numbers as tensors without axes, which take the precision of what
        they meet."""
        match value:
            case DeviceArray():
                return value.tensor
            case np.ndarray() if value.ndim:
                own = self.tensor
                real = self.tensor.dtype
                return brought(value, own.device, real if real.is_floating_point else torch.float64)
            case float() | np.floating():  # of the type that gives way to any array's
                return torch.tensor(float(value), dtype=torch.float64)
            case np.ndarray() | np.generic():
                return torch.tensor(value.item())
        return torch.tensor(value)

    def _there(self, value: object) -> Tensor:
        """As `_tensor`, for functions that do not take numbers of the host beside arrays of a
        GPU."""
        found = self._tensor(value)
        device = self.tensor.device
        return (
            found
            if found.device == device
            else torch.full((), value, dtype=found.dtype, device=device)
        )

    def _given(self, value: object) -> object:
        """An argument of a function: arrays and real numbers as tensors on this device, also in a
        list."""
        match value:
            case list() | tuple():
                return [self._given(one) for one in value]
            case DeviceArray() | np.ndarray() | float():
                return self._there(value)
        return value

    def _key(self, key: object) -> tuple[Given, list[int]]:
        """An index for PyTorch, and the axes of the result to reverse: PyTorch lacks slices with
        negative steps."""
        index = [*key] if isinstance(key, tuple) else [key]
        turned = []
        for n, one in enumerate(index):
            match one:
                case slice(start=None, stop=None, step=-1):
                    turned.append(n)
                    index[n] = slice(None)
                case DeviceArray():
                    index[n] = one.tensor
                case np.ndarray():
                    index[n] = brought(one, self.tensor.device, None)
        if turned and not all(type(one) is slice for one in index):
            raise TypeError(f"on a device slices alone reverse an axis, got {key!r}")
        return tuple(index), turned

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **given: Any) -> Any:
        function = _UFUNCS.get(ufunc.__name__) or vars(torch).get(ufunc.__name__)
        out = given.pop("out", None)
        if method != "__call__" or given or function is None:
            return NotImplemented
        tensors = map(self._tensor, inputs)
        if out is None:
            return _arrays(function(*tensors))
        function(*tensors, out=out[0].tensor)
        return out[0]

    def __array_function__(self, function: object, _: object, args: Given, named: Named) -> object:
        own = _FUNCTIONS.get(function)
        return NotImplemented if own is None else own(self, *args, **named)


def brought(array: NDArray[Any], device: torch.device, real: torch.dtype | None) -> Tensor:
    """A tensor on the device with a copy of the entries, real numbers in the precision ``real``."""
    whole = np.array(array, order="C")  # PyTorch would warn of arrays that cannot be written into
    kind = real if array.dtype.kind == "f" else None
    return torch.from_numpy(whole).to(device=device, dtype=kind)


def _like(fill: Filled) -> Callable[..., DeviceArray]:
    """The function ``np.NAME_like`` for a function that fills a new tensor."""

    def made(own: DeviceArray, like: object, *value: object, shape: Axes = None) -> DeviceArray:
        size = own.shape if shape is None else shape
        return DeviceArray(fill(size, *value, dtype=own.tensor.dtype, device=own.tensor.device))

    return made


def _where(own: DeviceArray, condition: object, yes: object, no: object) -> DeviceArray:
    # its precision, which the condition lacks
    real = next((one for one in (yes, no) if isinstance(one, DeviceArray)), own)
    chosen = torch.where(own._there(condition), real._there(yes), real._there(no))
    return DeviceArray(chosen.contiguous())


def _svd(
    own: DeviceArray, x: DeviceArray, full_matrices: bool = True, compute_uv: bool = True
) -> Any:
    if not compute_uv:
        return _arrays(torch.linalg.svdvals(x.tensor))
    try:
        return _arrays(torch.linalg.svd(x.tensor, full_matrices=full_matrices))
    except torch.linalg.LinAlgError:  # LAPACK's in float32, rarely, for many singular values near 1
        found = torch.linalg.svd(x.tensor.double(), full_matrices=full_matrices)
        return _arrays(tuple(one.to(x.tensor.dtype) for one in found))


def _same(function: Callable[..., object]) -> Callable[..., object]:
    """PyTorch's function that does what NumPy's does; axes have another name."""

    def called(own: DeviceArray, *given: object, **named: object) -> object:
        options = {name.replace("axis", "dim"): value for name, value in named.items()}
        return _arrays(function(*map(own._given, given), **options))

    return called


def _arrays(found: Tensor | tuple[Tensor, ...]) -> DeviceArray | tuple[DeviceArray, ...]:
    """A tensor as an array, or several."""
    if isinstance(found, Tensor):
        return DeviceArray(found.contiguous())
    return tuple(map(DeviceArray, found))


_FUNCTIONS: dict[object, Callable[..., object]] = {
    np.empty_like: _like(torch.empty),
    np.zeros_like: _like(torch.zeros),
    np.full_like: _like(torch.full),
    np.copyto: lambda own, target, source: target.tensor.copy_(own._tensor(source)),
    np.where: _where,
    np.clip: _same(torch.clamp),
    np.stack: _same(torch.stack),
    np.concatenate: _same(torch.cat),
    np.split: lambda own, x, ends: _arrays(torch.tensor_split(x.tensor, [*map(int, ends)])),
    np.repeat: _same(torch.repeat_interleave),
    np.flatnonzero: lambda own, x: DeviceArray(torch.nonzero(x.tensor.ravel()).ravel()),
    np.searchsorted: _same(torch.searchsorted),
    np.vdot: lambda own, x, y: _arrays(torch.vdot(own._tensor(x).ravel(), own._tensor(y).ravel())),
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
    """A device that holds arrays: PyTorch's name of it (cpu, cuda, cuda:1), and the precision of
    real numbers there."""

    def __init__(self, kind: str, real: str) -> None:
        self.place = torch.device(kind)
        self.real = _DTYPES[np.dtype(real)]

    def put(self, value: Any) -> Any:
        """An array of the host on the device, copied; anything else as it is."""
        if isinstance(value, np.ndarray):
            return DeviceArray(brought(value, self.place, self.real))
        return value

    def mixing(self, indptr: Index, indices: Index, data: Array) -> Callable[..., DeviceArray]:
        """The product x -> W x for a sparse square matrix in compressed rows, in the faster of two
        ways, by the largest number of entries in a row: row by row from the neighbours' points, or
        W as a dense matrix.

        Both give the same bits from run to run; PyTorch's own sparse products need not on a GPU.
        """
        counts = np.diff(indptr)
        n = len(counts)
        most = int(counts.max())
        rows = np.repeat(np.arange(n), counts)
        if most * DENSE >= n:
            W = np.zeros((n, n))
            W[rows, indices] = data
            matrix = brought(W, self.place, self.real)
            return lambda x: DeviceArray((matrix @ x.tensor.reshape(n, -1)).reshape(x.shape))
        places = np.arange(len(data)) - np.repeat(indptr[:-1], counts)
        columns = np.tile(np.arange(n), (most, 1))
        weights = np.zeros((most, n))
        # shorter rows end with weights of 0
        columns[places, rows], weights[places, rows] = indices, data
        neighbours = brought(columns, self.place, None)
        shares = brought(weights, self.place, self.real)

        def mixed(x: DeviceArray) -> DeviceArray:
            flat = x.tensor.reshape(n, -1)
            out = torch.zeros_like(flat)
            for agents, share in zip(neighbours, shares, strict=True):
                out.addcmul_(share[:, None], flat.index_select(0, agents))
            return DeviceArray(out.reshape(x.shape))

        return mixed
