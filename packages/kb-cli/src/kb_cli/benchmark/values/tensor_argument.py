"""Tensors as arguments of a call: their content, their place on the chip, and whether they are results."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from kb_engine import Sharding
from kb_messages import BenchmarkError, DType
from kb_topology import did_you_mean, listing

if TYPE_CHECKING:
    from kb_engine import Host, Tensor


class TensorPlacement(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The place of a tensor as `Host.empty` takes it: the cut into blocks, their memories, a sharding, a cube."""

    blocks: tuple[int, int] = (1, 1)
    slices: tuple[int, ...] | None = None
    memory: str = "hbm"
    shard: Sharding | str | None = None
    cube: int | None = None


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
    """The place of a tensor: the options of `tensor`, which explains them."""

    blocks: tuple[int, int]
    slices: Sequence[int] | None
    memory: str
    shard: Sharding | str | None
    cube: int | None


_TO_WRITE: Final = (
    "pass kernbench.empty(shape, dtype) for a result, kernbench.tensor(x, output=True) for a tensor that the kernel "
    "reads and writes, or kernbench.tensor(x, scratch=True) for bytes that nobody reads afterwards"
)


class TensorArgument(Struct, frozen=True, eq=False):
    """One tensor of a call, of *shape* and *dtype*. *data* is its first content, None for bytes not written yet.

    An output is read when the kernel has ended. A kernel may write outputs, and tensors that are scratch.
    """

    shape: tuple[int, ...]
    dtype: DType
    data: npt.NDArray[Any] | None
    is_output: bool
    placement: TensorPlacement
    is_scratch: bool = False

    def put(self, host: Host, name: str, spreads: bool = False) -> Tensor:
        """Places the tensor in the memories of *host*. With *spreads*, it lies over all HBM slices where the author
        names no place. A kernel that writes an input is refused, because nobody would read the input afterwards.
        Raises KernelError and OutOfMemoryError as `Host.tensor` does.
        """
        where = self.placement
        options: dict[str, Any] = {"memory": where.memory, "shard": where.shard, "cube": where.cube}
        blocks = host.spread(self.shape, self.dtype) if spreads and where == TensorPlacement() else where.blocks
        tensor = host.empty(name, self.shape, self.dtype, blocks, where.slices, **options)
        if self.data is not None:
            host.write(tensor, self.data)
        return tensor if self.is_output or self.is_scratch else replace(tensor, read_only=_TO_WRITE)

    def __str__(self) -> str:
        return f"{self.dtype} {'x'.join(map(str, self.shape))}"


def tensor(
    data: npt.ArrayLike, *, output: bool = False, scratch: bool = False, **placing: Unpack[Placing]
) -> TensorArgument:
    """Returns a tensor that holds a copy of *data*, as an argument of `kernbench.run`; with *output*, a result too.

    With *scratch*, the kernel may write the tensor, and nobody reads it afterwards. A store to a tensor that is neither
    is refused at the store's line.

    *memory* is `hbm`, `sram` or `tcm`, or a set of slices that the chip interleaves. *blocks* are the numbers of blocks
    into which it is cut, down the rows and along the columns, and *slices* names the memory of each block, row by row;
    without *slices* the blocks are spread evenly. *shard* (`row`, `column`, `replica` or a Sharding) cuts or copies it
    over the PEs instead. On a chip with `hbm_interleave_nbytes`, a tensor in HBM without *blocks*, *slices* and *shard*
    lies over all slices of cube number *cube*, by default of the first. Raises BenchmarkError for data of a dtype that
    the chip does not have.
    """
    array = np.array(data)
    if array.dtype.name not in _BY_NUMPY_NAME or not array.dtype.isnative:
        fix = "convert it first, such as by x.astype(np.float32), or kernbench.cast(x, 'bf16')"
        raise BenchmarkError("a tensor", f"an array of {array.dtype!s:.100}", f"one of {listing(_BY_NUMPY_NAME)}", fix)
    array.flags.writeable = False
    dtype = _BY_NUMPY_NAME[array.dtype.name]
    return TensorArgument(array.shape, dtype, array, output, _placement(**placing), scratch and not output)


def empty(shape: int | Sequence[int], dtype: DType | npt.DTypeLike, **placing: Unpack[Placing]) -> TensorArgument:
    """Returns a result of `kernbench.run`, of *shape* and *dtype*, whose bytes the kernel has to write.

    The dtype is a name such as `f16`, or a numpy dtype. The other arguments are the options of `tensor`. Raises
    BenchmarkError for an unknown dtype, and for an invalid shape.
    """
    return TensorArgument(_shape_of(shape), dtype_of(dtype), None, True, _placement(**placing))


def zeros(shape: int | Sequence[int], dtype: DType | npt.DTypeLike, **placing: Unpack[Placing]) -> TensorArgument:
    """Returns a result of `kernbench.run`, of *shape* and *dtype*, that holds zeros before the kernel begins.

    The arguments and errors are the same as for `empty`.
    """
    from kb_dataexec import numpy_dtype

    return tensor(np.zeros(_shape_of(shape), numpy_dtype(dtype_of(dtype))), output=True, **placing)


def cast(data: npt.ArrayLike, dtype: DType | npt.DTypeLike) -> npt.NDArray[Any]:
    """Returns *data* as an array of *dtype* of the same shape, rounded as the chip rounds: see `kb_dataexec.cast`.

    The dtype is a name such as `bf16`, or a numpy dtype. Raises BenchmarkError for an unknown dtype, and for data that
    are no numbers.
    """
    from kb_dataexec import cast as cast_array

    target, array = dtype_of(dtype), np.asarray(data)
    if array.dtype.kind not in "biuf" and array.dtype.name not in _BY_NUMPY_NAME:
        raise BenchmarkError("kernbench.cast", f"an array of {array.dtype!s:.100}", "numbers")
    return cast_array(array, target)


def dtype_of(given: DType | npt.DTypeLike) -> DType:
    """Returns the element type that *given* names: `f16`, `float16`, or a numpy dtype. Raises BenchmarkError for
    others.
    """
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


def _shape_of(shape: object) -> tuple[int, ...]:
    """Returns *shape* as a tuple of ints. Raises BenchmarkError for an invalid shape."""
    several = isinstance(shape, Iterable) and not isinstance(shape, str)
    return _integers("a tensor's shape", shape if several else (shape,), "integers of 0 or more")


def _integers(what: str, given: Any, needs: str) -> tuple[int, ...]:
    """Returns *given*, integers of Python or numpy, as ints. Raises BenchmarkError for negative ones and other
    types.
    """
    try:
        found = tuple([-1 if isinstance(each, bool) else operator.index(each) for each in given])
    except TypeError:
        found = (-1,)
    if min(found, default=0) < 0:
        raise BenchmarkError(what, repr(given), needs)
    return found


def _placement(
    *, slices: Sequence[int] | None = None, blocks: tuple[int, int] = (1, 1), cube: int | None = None, **others: Any
) -> TensorPlacement:
    rows_and_cols = "two numbers: down the rows, and along the columns"
    cut = _integers("blocks", blocks, rows_and_cols)
    if len(cut) != 2:
        raise BenchmarkError("blocks", repr(blocks), rows_and_cols)
    named = None if slices is None else _integers("slices", slices, "the numbers of memories")
    number = None if cube is None else _integers("cube", [cube], "the number of a cube")[0]
    return TensorPlacement(blocks=(cut[0], cut[1]), slices=named, cube=number, **others)
