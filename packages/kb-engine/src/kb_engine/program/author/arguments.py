"""Arguments of kernel calls: tiles, dtypes and handles, checked and converted to one form."""

from __future__ import annotations

from typing import Final

from kb_engine.program.values.handles import Handle
from kb_messages import DType, KernelError, LoopOrder, Matrix, PlanError, TileShape

_LONG_NAMES: Final = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"} | {
    f"{sign}int{bits}": f"{sign or 'i'}{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}
DTYPES: Final = {str(each): each for each in DType} | {long: DType(short) for long, short in _LONG_NAMES.items()}
"""The dtypes by their names."""
_LOOP_ORDERS: Final[dict[str | None, LoopOrder]] = {None: LoopOrder.MNK, **{str(each): each for each in LoopOrder}}


def tile_shape(tile: object, line: str, flat: bool = False) -> TileShape | None:
    """A `tile` argument: M x N x K, or with *flat* M x N. Raises KernelError for anything else but None."""
    if tile is None or isinstance(tile, TileShape):
        return tile
    if isinstance(tile, str):
        return TileShape.parse(f"{tile}x1" if flat else tile)
    given: tuple[object, ...] = tile if isinstance(tile, tuple) else ()
    sizes = [size for size in given if isinstance(size, int) and size > 0]
    wanted = 2 if flat else 3
    if len(given) != wanted or len(sizes) != wanted:
        needs = "two positive integers (m, n)" if flat else "three positive integers (m, n, k)"
        raise KernelError(line, f"tile={tile!r}", needs)
    return TileShape(sizes[0], sizes[1], 1 if flat else sizes[2])


def loop_order_named(order: object, line: str) -> LoopOrder:
    """The loop order that *order* names; None is the default. Raises KernelError for anything else."""
    known = _LOOP_ORDERS.get(order) if order is None or isinstance(order, str) else None
    if known is not None:
        return known
    if not isinstance(order, str):
        raise KernelError(line, f"loop_order={order!r}", f"one of {', '.join(repr(str(each)) for each in LoopOrder)}")
    try:
        return LoopOrder.parse(order)
    except PlanError as error:
        raise KernelError(line, f"loop_order={order!r}", error.needs, error.fix) from None


def dtype_named(dtype: object, line: str) -> DType:
    """The dtype that *dtype* names: `f16`, `float16`, or a type of numpy. Raises KernelError for others."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", getattr(dtype, "name", None))
    named = DTYPES.get(name) if isinstance(name, str) else None
    if named is None:
        raise KernelError(line, f"dtype {dtype!r}", f"one of {', '.join(DType)}")
    return named


def in_tcm(value: object, line: str) -> Matrix | None:
    """The matrix of a handle in TCM; None for anything else. Raises KernelError for a handle that was freed."""
    if not isinstance(value, Handle):
        return None
    if value.freed:
        raise KernelError(line, f"{describe(value)} after tl.free", "one that still holds TCM")
    return value.matrix


def describe(value: object) -> str:
    """The name of the type of *value*, with its article."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
