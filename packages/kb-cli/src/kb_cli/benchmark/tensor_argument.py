"""Tensors as arguments of a call: what they hold, where they lie on the chip, and whether they are results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from kb_cli.benchmark.tensor_placement import TensorPlacement
from kb_engine import Sharding
from kb_messages import BenchmarkError, DType
from kb_topology import did_you_mean, listing

if TYPE_CHECKING:
    from kb_engine import Host, Tensor

_BY_NUMPY_NAME = {
    "float32": DType.F32,
    "float16": DType.F16,
    "bfloat16": DType.BF16,
    "float8_e4m3fn": DType.F8E4M3,
    "float8_e5m2": DType.F8E5M2,
    **{f"int{bits}": DType(f"i{bits}") for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": DType(f"u{bits}") for bits in (8, 16, 32, 64)},
    "bool": DType.BOOL,
}


class Placing(TypedDict, total=False):
    """Where a tensor is to lie: the options of `tensor`, which says what they mean."""

    blocks: tuple[int, int]
    slices: Sequence[int] | None
    memory: str
    shard: Sharding | str | None
    cube: int | None


class TensorArgument(Struct, frozen=True, eq=False):
    """One tensor of a call, of *shape* and *dtype*. *data* is what it holds at first, None for bytes not written yet.

    An output is read when the kernel has ended.
    """

    shape: tuple[int, ...]
    dtype: DType
    data: npt.NDArray[Any] | None
    is_output: bool
    placement: TensorPlacement

    def put(self, host: Host, name: str) -> Tensor:
        """The tensor in the memories of *host*. Raises KernelError and OutOfMemoryError as `Host.tensor` does."""
        where = self.placement
        options: dict[str, Any] = {"memory": where.memory, "shard": where.shard, "cube": where.cube}
        tensor = host.empty(name, self.shape, self.dtype, where.blocks, where.slices, **options)
        if self.data is not None:
            host.write(tensor, self.data)
        return tensor

    def __str__(self) -> str:
        return f"{self.dtype} {'x'.join(map(str, self.shape))}"


def tensor(data: npt.ArrayLike, *, output: bool = False, **placing: Unpack[Placing]) -> TensorArgument:
    """A tensor that holds a copy of *data*, as an argument of `kernbench.run`; with *output*, a result too.

    *memory* is `hbm`, `sram` or `tcm`, or a set of slices that the chip interleaves. *blocks* says into how many blocks
    it is cut, down the rows and along the columns, and *slices* names the memory of each block, row by row; without
    *slices* the blocks are spread evenly.
    *shard* (`row`, `column`, `replica` or a Sharding) cuts or copies it over the PEs instead. On a chip with
    `hbm_interleave_nbytes`, a tensor in HBM without *blocks*, *slices* and *shard* lies over all slices of cube number
    *cube*, by default of the first. Raises BenchmarkError for data of a type that the chip does not have.
    """
    array = np.array(data)
    if array.dtype.name not in _BY_NUMPY_NAME or not array.dtype.isnative:
        fix = "convert it first, such as by x.astype(np.float32), or kernbench.cast(x, 'bf16')"
        raise BenchmarkError("a tensor", f"an array of {array.dtype!s:.100}", f"one of {listing(_BY_NUMPY_NAME)}", fix)
    array.flags.writeable = False
    return TensorArgument(array.shape, _BY_NUMPY_NAME[array.dtype.name], array, output, _placement(**placing))


def empty(shape: int | Sequence[int], dtype: DType | npt.DTypeLike, **placing: Unpack[Placing]) -> TensorArgument:
    """A result of `kernbench.run`, of *shape* and *dtype*, whose bytes the kernel has to write.

    The type is a name such as `f16`, or a numpy dtype. The other arguments are those of `tensor`. Raises
    BenchmarkError for an unknown type.
    """
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    return TensorArgument(shape, dtype_of(dtype), None, True, _placement(**placing))


def zeros(shape: int | Sequence[int], dtype: DType | npt.DTypeLike, **placing: Unpack[Placing]) -> TensorArgument:
    """As `empty`, but the tensor holds zeros before the kernel begins."""
    from kb_dataexec import numpy_dtype

    return tensor(np.zeros(shape, numpy_dtype(dtype_of(dtype))), output=True, **placing)


def dtype_of(given: DType | npt.DTypeLike) -> DType:
    """The element type that *given* names: `f16`, `float16`, or a numpy dtype. Raises BenchmarkError for others."""
    if isinstance(given, str) and given in list(DType):
        return DType(given)
    try:
        name = given if isinstance(given, str) else np.dtype(given).name
    except TypeError:
        name = str(given)[:100]
    if name not in _BY_NUMPY_NAME:
        known = [each.value for each in DType]
        raise BenchmarkError("a tensor's dtype", repr(name), f"one of {listing(known)}", did_you_mean(name, known))
    return _BY_NUMPY_NAME[name]


def _placement(*, slices: Sequence[int] | None = None, **others: Any) -> TensorPlacement:
    rows, cols = others.pop("blocks", (1, 1))
    named = None if slices is None else tuple(int(each) for each in slices)
    return TensorPlacement(blocks=(rows, cols), slices=named, **others)
