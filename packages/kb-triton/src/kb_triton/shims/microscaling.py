"""Tensors of torch in microscaling formats, for host code that makes operands of `tl.dot_scaled`.

Source: OCP Microscaling Formats (MX) Specification 1.0, tables 4 (E2M1) and 7 (E8M0).
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from itertools import pairwise
from math import frexp
from typing import Any, Final, Self

from kb_messages import KernelError

_E2M1: Final = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_BIAS: Final = 127
_NAN: Final = 255


class _Coded:
    """A tensor of codes: `data` has them as uint8. It is None where only a *size* was given."""

    def __init__(self, data: Any = None, size: Sequence[int] | int | None = None, device: Any = None) -> None:
        """Rounds *data*, a tensor of floats, to the format; without *data*, keeps *size* and *device* for `random`.

        Raises KernelError without *data* and *size*.
        """
        if data is None and size is None:
            raise KernelError(type(self).__name__, "no data and no size", "a tensor of floats, or a size")
        self.device = device if data is None else data.device
        self.size = data.shape if data is not None else (size,) if isinstance(size, int) else size
        self.data: Any = None if data is None else self._from_float(data)

    def _from_float(self, values: Any) -> Any:
        """Returns the codes of *values*."""
        raise NotImplementedError

    def _codes(self) -> Any:
        """Returns `data`. Raises KernelError where it is None."""
        if self.data is None:
            raise KernelError(type(self).__name__, "a size without elements", "random() before elements are read")
        return self.data

    def _drawn(self, low: int, high: int) -> Self:
        torch = import_module("torch")
        self.data = torch.randint(low, high + 1, tuple(self.size or ()), dtype=torch.uint8, device=self.device)
        return self


class MXFP4Tensor(_Coded):
    """Elements of E2M1: a sign, two bits of exponent and one of mantissa. Each byte of `data` has one code."""

    def random(self) -> Self:
        """Draws codes, each with the same probability."""
        return self._drawn(0, 15)

    def to(self, dtype: Any) -> Any:
        """Returns the elements as floats of *dtype*."""
        torch = import_module("torch")
        codes = self._codes().long()
        return torch.tensor([*_E2M1, *[-each for each in _E2M1]], dtype=dtype, device=codes.device)[codes]

    def _from_float(self, values: Any) -> Any:
        """Rounds to nearest, ties to the even code. Values beyond 6 become 6, and so does NaN."""
        torch = import_module("torch")
        magnitudes = values.abs().double().nan_to_num(nan=_E2M1[-1])
        middles = torch.tensor([(a + b) / 2 for a, b in pairwise(_E2M1)], device=values.device)
        middles = middles.double()
        below, above = (torch.bucketize(magnitudes, middles, right=right) for right in (False, True))
        codes = torch.where(below % 2 == 0, below, above)
        return (codes + 8 * torch.signbit(values)).to(torch.uint8)

    def to_packed_tensor(self, dim: int) -> Any:
        """Packs pairs of codes along *dim* into bytes, the first code in the low bits. An odd last code gets a 0."""
        torch = import_module("torch")
        codes = self._codes().movedim(dim, -1)
        if codes.shape[-1] % 2:
            codes = torch.nn.functional.pad(codes, (0, 1))
        return (codes[..., ::2] | codes[..., 1::2] << 4).movedim(-1, dim).contiguous()

    def unpack_packed_tensor(self, packed_tensor: Any, dim: int, original_shape: Sequence[int]) -> Any:
        """Returns the codes that `to_packed_tensor` has packed along *dim*, in the shape *original_shape*."""
        torch = import_module("torch")
        packed = packed_tensor.movedim(dim, -1)
        codes = torch.stack((packed & 15, packed >> 4), dim=-1).flatten(-2)
        return codes[..., : original_shape[dim]].movedim(-1, dim).contiguous()


class MXScaleTensor(_Coded):
    """Scales of E8M0: powers of two from 2^-127 to 2^127. Each byte of `data` has one code."""

    def random(self, low: float | None = None, high: float | None = None) -> Self:
        """Draws powers of two from *low* to *high*, each with the same probability.

        An end is rounded down to a power of two, and an end below 2^-127 counts as 2^-127. Raises KernelError for an
        end that is no positive number below 2^128, and for a *low* above *high*.
        """
        ends = [0 if low is None else _code_of("low", low), _NAN - 1 if high is None else _code_of("high", high)]
        if ends[0] > ends[1]:
            raise KernelError("MXScaleTensor.random", f"low={low}, high={high}", "a low that is not above high")
        return self._drawn(*ends)

    def to(self, dtype: Any) -> Any:
        """Returns the scales as floats of *dtype*."""
        return fp8e8m0_to_float32(self._codes()).to(dtype)

    def _from_float(self, values: Any) -> Any:
        """Rounds down to a power of two. A value that is no positive number becomes NaN."""
        torch = import_module("torch")
        exponents = torch.frexp(values.double())[1] - 1 + _BIAS
        codes = exponents.clamp(0, _NAN - 1)
        return torch.where(torch.isfinite(values) & (values > 0), codes, _NAN).to(torch.uint8)


def fp8e8m0_to_float32(scale: Any) -> Any:
    """Returns the codes *scale* of E8M0 as float32."""
    torch = import_module("torch")
    powers = torch.ldexp(torch.ones_like(scale, dtype=torch.float32), scale.int() - _BIAS)
    return torch.where(scale == _NAN, torch.nan, powers)


def _code_of(name: str, value: float) -> int:
    """Returns the code of *value*, the argument *name* of `random`, rounded down to a power of two."""
    if not 0 < value < 2.0**128:
        raise KernelError("MXScaleTensor.random", f"{name}={value}", "a number above 0 and below 2^128")
    return max(0, frexp(value)[1] - 1 + _BIAS)
