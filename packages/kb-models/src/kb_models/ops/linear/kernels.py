"""The kernels of linear ops: products of the rows of a cube with panels of columns of a weight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from kb_engine import TensorRef
from kb_models.ops.linear.grid import Block
from kb_models.ops.linear.weights import GROUP, Pair, pairs_of
from kb_models.ops.sums import FUNCTIONS

EPILOGUES: Final = ("none", "relu", "silu", "gelu_tanh")
"""The activation functions that a GEMM applies to its result on the way to memory."""


class Piece(NamedTuple):
    """Columns of a panel that belong to a result: its number, the columns in the panel and in the parts of the cubes
    that get them, and these cubes."""

    out: int
    cols: slice
    to: slice
    cubes: tuple[int, ...]


class Extras(NamedTuple):
    """What a product is multiplied with, and what is added to it: tensors of each panel, and of each cube.

    An entry is None where there is nothing.
    """

    scale: Sequence[TensorRef | None]
    bias: Sequence[TensorRef | None]
    residual: Sequence[TensorRef | None]


class Plan(NamedTuple):
    """How a program computes its block: `step` rows at a time, which it holds in TCM with `holds_x`, in steps of
    `depth` along K where it unpacks weights, and what it does with the columns of each panel.

    With `is_gated`, the result is `activation` of the first piece times the second one. With `is_direct`, the GEMM
    stores the only result.
    """

    step: int
    holds_x: bool
    depth: int
    pieces: Sequence[Sequence[Piece]]
    activation: str
    is_gated: bool = False
    is_direct: bool = False


def kernel(
    tl: Any,
    x: Sequence[TensorRef],
    w: Sequence[TensorRef],
    y: Sequence[Sequence[TensorRef]],
    blocks: Sequence[Block | None],
    extras: Extras,
    plan: Plan,
) -> None:
    """Each program multiplies the rows of its block with its panel. The GEMM of a plain result does the rest on the way
    to memory."""
    block = blocks[tl.program_id()]
    spans = [] if block is None else steps(block.rows, plan.step)
    of_steps = (x[block.cube][rows, :] for rows in spans)
    factors = tl.ahead(tl.load_async(a) for a in of_steps) if plan.holds_x else of_steps
    for rows, a in zip(spans, factors, strict=True):
        if plan.depth:
            finish(tl, unpacked(tl, a, w[block.panel], block, rows, extras, plan), y, block, rows, plan)
            continue
        epilogue = added(tl, block, rows, extras)
        if plan.is_direct:
            out = y[0][block.cube][rows, block.cols]
            tl.composite("gemm", a, w[block.panel], out=out, epilogue=[*epilogue, *activated(tl, plan.activation)])
        else:
            z = tl.composite("gemm", a, w[block.panel], epilogue=[*epilogue, tl.cast("f32")])
            finish(tl, z, y, block, rows, plan)


def unpacked(tl: Any, x: TensorRef, w: TensorRef, block: Block, rows: slice, extras: Extras, plan: Plan) -> Any:
    """X W with a bias and a residual in f32, for weights of integers, which become floats in TCM: an array multiplies
    equal kinds."""
    of_kind: Any = unpacked_int4 if w.dtype == "u8" else unpacked_int8
    z = of_kind(tl, x, w, extras.scale[block.panel], plan.depth)
    bias, residual = extras.bias[block.panel], extras.residual[block.cube]
    z = z if bias is None else z + tl.load(bias).to("f32")
    return z if residual is None else z + tl.load(residual[rows, block.cols]).to("f32")


def finish(tl: Any, z: Any, y: Sequence[Sequence[TensorRef]], block: Block, rows: slice, plan: Plan) -> None:
    """Stores the columns of *z*, a product of *rows*, that belong to each result, in all cubes that have a copy."""
    function, pieces = FUNCTIONS[plan.activation], plan.pieces[block.panel]
    found = [z if each.cols == slice(0, z.shape[1]) else z[:, each.cols] for each in pieces]
    found = [function(tl, found[0]) * found[1]] if plan.is_gated else [function(tl, each) for each in found]
    pending = []
    for piece, value in zip(pieces, found, strict=False):
        rounded = value.to(y[piece.out][block.cube].dtype)
        pending += [tl.store_async(y[piece.out][cube][rows, piece.to], rounded) for cube in piece.cubes]
    for each in pending:
        tl.wait(each)


def added(tl: Any, block: Block, rows: slice, extras: Extras) -> list[Any]:
    """The scale, the bias and the residual of a block as an epilogue."""
    scale, bias, residual = extras.scale[block.panel], extras.bias[block.panel], extras.residual[block.cube]
    return [
        *([] if scale is None else [tl.scale(scale)]),
        *([] if bias is None else [tl.bias(bias)]),
        *([] if residual is None else [tl.residual(residual[rows, block.cols])]),
    ]


def activated(tl: Any, activation: str) -> list[Any]:
    """The activation function, one of `EPILOGUES`, as an epilogue."""
    made = {"relu": tl.relu, "silu": tl.silu, "gelu_tanh": tl.gelu}
    return [] if activation == "none" else [made[activation]()]


def unpacked_int8(tl: Any, x: TensorRef, w: TensorRef, scale: TensorRef, depth: int) -> Any:
    """X W in f32, *depth* rows of W at a time, times a scale for each column."""
    acc: Any = 0
    spans = steps(slice(0, x.shape[1]), depth)
    for a, b in tl.ahead((tl.load_async(x[:, k]), tl.load_async(w[k, :])) for k in spans):
        acc = tl.dot(a, b.to(a.dtype), acc)
    return acc * tl.load(scale)


def unpacked_int4(tl: Any, x: TensorRef, w: TensorRef, scale: TensorRef, depth: int) -> Any:
    """X W in f32, a pair of groups of W at a time, each product of a group times the scales of the group."""
    total: Any = 0.0
    for pair, loaded, factors in tl.ahead(loads_of_pairs(tl, x, w, scale)):
        for left, right, factor in zip(loaded[1:], halves(loaded[0], pair), factors, strict=True):
            total = tl.dot(left, right.to(left.dtype) - 8.0) * factor + total
    return total


def loads_of_pairs(
    tl: Any, x: TensorRef, w: TensorRef, scale: TensorRef
) -> Iterator[tuple[Pair, list[Any], list[Any]]]:
    """For each pair of groups: the pair, its bytes and the columns of X for each group, and the scales of each."""
    for pair in pairs_of(x.shape[1]):
        groups = [slice(pair.row, pair.row + pair.low), slice(pair.row + GROUP, pair.row + GROUP + pair.high)]
        groups = groups[: 2 if pair.high else 1]
        loaded = [w[pair.byte : pair.byte + pair.low, :], *(x[:, group] for group in groups)]
        factors = [scale[number : number + 1, :] for number in range(pair.group, pair.group + len(groups))]
        yield pair, [tl.load_async(each) for each in loaded], [tl.load_async(each) for each in factors]


def halves(packed: Any, pair: Pair) -> list[Any]:
    """The numbers of the low and the high four bits, 8 above their int4; of a last group without a second the low."""
    if not pair.high:
        return [packed & 15]
    return [packed & 15, (packed if pair.high == pair.low else packed[: pair.high, :]) >> 4]


def steps(span: slice, most: int) -> list[slice]:
    """*span* in steps of *most*."""
    return [slice(at, min(at + most, span.stop)) for at in range(span.start, span.stop, most)]
