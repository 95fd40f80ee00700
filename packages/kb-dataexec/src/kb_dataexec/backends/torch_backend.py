"""PyTorch as a backend, on the CPU or a GPU. Every product and function copies arrays to the device and back."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

import numpy as np

from kb_dataexec.arrays.dtypes import Array, cast
from kb_dataexec.backends.base import BackendError
from kb_dataexec.backends.numpy_backend import NumpyBackend
from kb_messages import DType

_ALIKE: Final = "tan asin acos atan atan2 sinh cosh asinh acosh atanh log10 hypot erfc nextafter signbit isfinite"
"""Functions that torch has under their own name."""
_LIMB: Final = 16
"""Bits of the digits into which integers are split for a product."""
_EXACT_DEPTH: Final = 1 << 20
"""The number of products of two 16-bit digits that f64 adds without rounding: 2^32 2^20 < 2^53."""


class TorchBackend:
    """Computes with torch on *device* (`cpu`, `cuda`, `cuda:1`, ...).

    Floats are multiplied in full f32: tf32 is off while a product runs. Functions that torch does not have, and all
    of u64, which torch cannot compute with, are computed by numpy. Raises BackendError when torch is not installed or
    has no such device.
    """

    name = "torch"
    shares_cores = False

    def __init__(self, device: str = "cpu") -> None:
        try:
            self._torch: Any = import_module("torch")
        except ImportError:
            fix = "pip install 'kb-dataexec[torch]'"
            raise BackendError("backend torch", "no module torch", "the extra torch", fix) from None
        try:
            self._device = self._torch.device(device)
            self._torch.zeros(1, device=self._device)
        except (RuntimeError, AssertionError) as error:
            reason = str(error).partition("\n")[0]
            raise BackendError("backend torch", f"device {device!r} ({reason})", "a device of this torch") from None
        self._functions = _functions(self._torch)
        self._on_bits = NumpyBackend()

    def matmul(self, a: Array, b: Array) -> Array:
        """Returns a @ b. Integers are multiplied as 16-bit digits in f64, which is exact."""
        if a.dtype.kind in "iub":
            return self._integer_matmul(a, b)
        with self._full_precision():
            product = self._to_device(cast(a, DType.F32)) @ self._to_device(cast(b, DType.F32))
            return self._to_host(product)

    def apply(self, op: str, arguments: Sequence[Array], axis: int | None) -> Array:
        """Returns function *op* of `MATH_FUNCTIONS`, applied to *arguments*."""
        if op == "copy":
            return np.array(arguments[0])
        if op not in self._functions or arguments[-1].dtype == np.uint64:
            return self._on_bits.apply(op, arguments, axis)
        if op == "where":
            arguments = [arguments[0] != 0, *arguments[1:]]
        tensors = [self._to_device(argument) for argument in arguments]
        return self._to_host(self._functions[op](*tensors, **({} if axis is None else {"axis": axis})))

    def _to_device(self, array: Array) -> Any:
        # Torch warns of read-only arrays, and the views of the memory are read-only.
        owned = array if array.flags.writeable and array.flags.c_contiguous else np.array(array, order="C")
        return self._torch.from_numpy(owned).to(self._device)

    def _to_host(self, tensor: Any) -> Array:
        found: Array = tensor.cpu().numpy()
        return found

    def _integer_matmul(self, a: Array, b: Array) -> Array:
        """a @ b modulo 2^32, from the low digits of both: (a0 + a1 2^16)(b0 + b1 2^16) without a1 b1 2^32."""
        out = np.zeros((*a.shape[:-1], b.shape[-1]), np.uint32)
        for start in range(0, a.shape[-1], _EXACT_DEPTH):
            part = slice(start, start + _EXACT_DEPTH)
            (a0, a1), (b0, b1) = self._digits(a[..., part]), self._digits(b[..., part, :])
            out += self._low(a0 @ b0)
            out += (self._low(a0 @ b1) + self._low(a1 @ b0)) << np.uint32(_LIMB)
        return out.view(np.int32)

    def _digits(self, array: Array) -> tuple[Any, Any]:
        bits = array.astype(np.int64)
        low, high = bits & (1 << _LIMB) - 1, bits >> _LIMB & (1 << _LIMB) - 1
        return self._to_device(low.astype(np.float64)), self._to_device(high.astype(np.float64))

    def _low(self, product: Any) -> Array:
        low: Array = self._to_host(product).astype(np.int64).astype(np.uint32)
        return low

    @contextmanager
    def _full_precision(self) -> Iterator[None]:
        """A context in which torch multiplies f32 in f32, not in tf32."""
        backends = self._torch.backends
        switches = [backends.cuda.matmul, backends.mkldnn.matmul]
        before = [switch.fp32_precision for switch in switches]
        try:
            for switch in switches:
                switch.fp32_precision = "ieee"
            yield
        finally:
            for switch, value in zip(switches, before, strict=True):
                switch.fp32_precision = value


def _functions(torch: Any) -> dict[str, Callable[..., Any]]:
    """Returns the functions of `MATH_FUNCTIONS` by name, without `copy` and some functions of bits."""

    def sigmoid(x: Any) -> Any:
        return 1 / (1 + torch.exp(-x))

    def gelu(x: Any) -> Any:
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))))

    return {
        "fill": lambda x, rows, cols: torch.broadcast_to(x, torch.broadcast_shapes(rows.shape, cols.shape)),
        "neg": torch.neg,
        "sign": lambda x: torch.where(torch.isnan(x), x, torch.sign(x)) if x.is_floating_point() else torch.sign(x),
        "abs": torch.abs,
        "exp": torch.exp,
        "exp2": torch.exp2,
        "expm1": torch.expm1,
        "log": torch.log,
        "log2": torch.log2,
        "log1p": torch.log1p,
        "sin": torch.sin,
        "cos": torch.cos,
        "erf": torch.erf,
        **{name: getattr(torch, name) for name in _ALIKE.split()},
        "floor": torch.floor,
        "ceil": torch.ceil,
        "rint": torch.round,
        "trunc": torch.trunc,
        "isnan": torch.isnan,
        "isinf": torch.isinf,
        "copysign": torch.copysign,
        "sqrt": torch.sqrt,
        "rsqrt": lambda x: 1 / torch.sqrt(x),
        "sigmoid": sigmoid,
        "tanh": torch.tanh,
        "relu": lambda x: torch.clamp(x, min=0),
        "gelu": gelu,
        "silu": lambda x: x * sigmoid(x),
        "not": torch.logical_not,
        "add": torch.add,
        "sub": torch.sub,
        "mul": torch.mul,
        "div": torch.div,
        "maximum": torch.maximum,
        "minimum": torch.minimum,
        "pow": torch.pow,
        "eq": torch.eq,
        "ne": torch.ne,
        "lt": torch.lt,
        "le": torch.le,
        "gt": torch.gt,
        "ge": torch.ge,
        "and": torch.logical_and,
        "or": torch.logical_or,
        "where": torch.where,
        "fma": lambda a, b, c: torch.add(torch.mul(a, b), c),
        **_axis_functions(torch),
        **_integer_functions(torch),
    }


def _axis_functions(torch: Any) -> dict[str, Callable[..., Any]]:
    """The functions that go along an axis, and those that leave out NaN."""
    return {
        "maximum_number": torch.fmax,
        "minimum_number": torch.fmin,
        "sum": lambda x, axis: torch.sum(x, dim=axis, keepdim=True),
        "prod": lambda x, axis: torch.prod(x, dim=axis, keepdim=True),
        "argmax": lambda x, axis: _first(torch, x, axis, torch.amax),
        "argmin": lambda x, axis: _first(torch, x, axis, torch.amin),
        "argmax_number": lambda x, axis: _first_number(torch, x, axis, _most(torch)),
        "argmin_number": lambda x, axis: _first_number(torch, x, axis, _least(torch)),
        "cumsum": lambda x, axis: torch.cumsum(x, dim=axis),
        "cumprod": lambda x, axis: torch.cumprod(x, dim=axis),
        **dict.fromkeys(("sort", "merge"), lambda x, axis: torch.sort(x, dim=axis, stable=True).values),
        "cummax": lambda x, axis: torch.cummax(x, dim=axis).values,
        "cummin": lambda x, axis: torch.cummin(x, dim=axis).values,
        "cummax_number": lambda x, axis: _most_so_far(torch, x, axis),
        "cummin_number": lambda x, axis: _least_so_far(torch, x, axis),
        "max": lambda x, axis: torch.amax(x, dim=axis, keepdim=True),
        "min": lambda x, axis: torch.amin(x, dim=axis, keepdim=True),
        "max_number": _most(torch),
        "min_number": _least(torch),
    }


def _first(torch: Any, x: Any, axis: int, extreme: Callable[..., Any]) -> Any:
    """The lowest index along *axis* at which *x* has its extreme, or NaN."""
    hit = (x == extreme(x, dim=axis, keepdim=True)) | (x != x)
    return torch.argmax(hit.to(torch.uint8), dim=axis, keepdim=True)


def _most(torch: Any) -> Callable[..., Any]:
    """The largest element along an axis that is not NaN; NaN if all are."""

    def most(x: Any, axis: int) -> Any:
        if not x.dtype.is_floating_point:
            return torch.amax(x, dim=axis, keepdim=True)
        found = torch.amax(torch.where(torch.isnan(x), -torch.inf, x), dim=axis, keepdim=True)
        return torch.where(torch.all(torch.isnan(x), dim=axis, keepdim=True), torch.nan, found).to(x.dtype)

    return most


def _least(torch: Any) -> Callable[..., Any]:
    """The smallest element along an axis that is not NaN; NaN if all are."""

    def least(x: Any, axis: int) -> Any:
        if not x.dtype.is_floating_point:
            return torch.amin(x, dim=axis, keepdim=True)
        return -_most(torch)(-x, axis)

    return least


def _most_so_far(torch: Any, x: Any, axis: int) -> Any:
    """The largest number up to each element along an axis; NaN before the first one."""
    if not x.dtype.is_floating_point:
        return torch.cummax(x, dim=axis).values
    found = torch.cummax(torch.where(torch.isnan(x), -torch.inf, x), dim=axis).values
    numbers = torch.cumsum((~torch.isnan(x)).to(torch.int32), dim=axis)
    return torch.where(numbers == 0, torch.nan, found).to(x.dtype)


def _least_so_far(torch: Any, x: Any, axis: int) -> Any:
    """The smallest number up to each element along an axis; NaN before the first one."""
    if not x.dtype.is_floating_point:  # the least integer has no negative
        return torch.cummin(x, dim=axis).values
    return -_most_so_far(torch, -x, axis)


def _first_number(torch: Any, x: Any, axis: int, extreme: Callable[..., Any]) -> Any:
    """The lowest index along *axis* at which *x* has its *extreme* of all elements but NaN; 0 where all are NaN."""
    return torch.argmax((x == extreme(x, axis)).to(torch.uint8), dim=axis, keepdim=True)


def _integer_functions(torch: Any) -> dict[str, Callable[..., Any]]:
    """The integer functions with the results of numpy: x // 0 and x % 0 are 0, a shift by 64 or more empties the word.

    Processors differ in these cases.
    """

    def divide(operation: Callable[..., Any], by_minus_one: Callable[..., Any]) -> Callable[..., Any]:
        def apply(a: Any, b: Any) -> Any:
            a, b = torch.broadcast_tensors(a, b)
            safe = torch.where((b == 0) | (b == -1), 1, b)
            found = torch.where(b == -1, by_minus_one(a), operation(a, safe))
            return torch.where(b == 0, 0, found)

        return apply

    def shift(operation: Callable[..., Any], emptied: Callable[..., Any]) -> Callable[..., Any]:
        def apply(a: Any, b: Any) -> Any:
            a, b = torch.broadcast_tensors(a, b)
            inside = (b >= 0) & (b < 64)
            return torch.where(inside, operation(a, torch.where(inside, b, 0)), emptied(a))

        return apply

    return {
        "floordiv": divide(torch.floor_divide, torch.neg),
        "mod": divide(torch.remainder, torch.zeros_like),
        "lshift": shift(torch.bitwise_left_shift, torch.zeros_like),
        "rshift": shift(torch.bitwise_right_shift, lambda a: torch.where(a < 0, -1, 0)),
        "bit_and": torch.bitwise_and,
        "bit_or": torch.bitwise_or,
        "bit_xor": torch.bitwise_xor,
        "bit_not": torch.bitwise_not,
    }
