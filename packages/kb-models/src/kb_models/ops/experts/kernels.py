"""The kernels of experts: rows go to the cubes of their experts, through two products, and come back as a sum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kb_engine import TensorRef
from kb_models.layout import cut
from kb_models.ops.experts.places import ExpertPlaces, Range, slots_of


class Piece(NamedTuple):
    """The columns of an expert's product that a PE computes: the number of the expert in its cube, and the number of
    the part of the weights."""

    expert: int
    part: int
    cols: slice


class Plan(NamedTuple):
    """The places of experts by cube, the pieces of both products and the blocks of the result by program, and sizes.

    A PE loads `rows` rows at once. It keeps `block_m` x `block_n` elements of a product in TCM, begins `n_ahead` blocks
    before it ends one, and keeps up to `held_nbytes` bytes of rows. `is_partial` says that each cube adds up its own
    results alone.
    """

    places: Sequence[ExpertPlaces]
    ups: Sequence[Sequence[Piece]]
    downs: Sequence[Sequence[Piece]]
    sums: Sequence[tuple[Range, Range]]
    pes: int
    rows: int
    block_m: int
    block_n: int
    n_ahead: int
    held_nbytes: int
    is_partial: bool


class Work(NamedTuple):
    """Tensors between the launches, a part for each cube: rows by slot, rows of MLP columns, and rows of results."""

    packed: Sequence[Any]
    hidden: Sequence[Any]
    done: Sequence[Any]


def dispatch(tl: Any, x: Sequence[TensorRef], ids: Sequence[TensorRef], work: Work, plan: Plan) -> None:
    """The PEs of a cube load the rows of its experts from the cubes that have them, and pack them by expert."""
    cube, place = divmod(tl.program_id(), plan.pes)
    here = plan.places[cube]
    rows = slots_of(*choices(tl, ids, here), here.experts).rows
    runs = list(runs_of(rows, here, cut(len(rows), plan.pes, place), plan.rows))
    loads = (tl.load_async(x[source][wanted, :]) for _, source, wanted in runs)
    for (slots, _, _), block in zip(runs, tl.ahead(loads), strict=True):
        tl.store(work.packed[cube][slots, :], block)


def gate_up(
    tl: Any, ids: Sequence[TensorRef], w1: Sequence[TensorRef], w3: Sequence[TensorRef], work: Work, plan: Plan
) -> None:
    """Each PE computes its columns of silu(X W1) * (X W3), for each of the experts of its cube."""
    cube = tl.program_id() // plan.pes
    begun = products(tl, ids, w1, w3, work, plan)
    for m, n, gate, up in tl.ahead(begun, plan.n_ahead):
        tl.store(work.hidden[cube][m, n], gate * up)


def products(
    tl: Any, ids: Sequence[TensorRef], w1: Sequence[TensorRef], w3: Sequence[TensorRef], work: Work, plan: Plan
) -> Iterator[tuple[slice, slice, Any, Any]]:
    """The blocks of silu(X W1) and of X W3 of a PE, and their slots and columns."""
    cube = tl.program_id() // plan.pes
    for piece, slots in worked(tl, ids, plan.ups[tl.program_id()], plan.places[cube]):
        for n in steps(piece.cols, plan.block_n):
            own = slice(n.start - piece.cols.start, n.stop - piece.cols.start)
            for m in steps(slots, plan.block_m):
                x = held(tl, work.packed[cube][m, :], plan.held_nbytes)
                gate = tl.composite("gemm", x, w1[piece.part][:, own], epilogue=(tl.silu(),))
                yield m, n, gate, tl.composite("gemm", x, w3[piece.part][:, own])


def down(tl: Any, ids: Sequence[TensorRef], w2: Sequence[TensorRef], work: Work, plan: Plan) -> None:
    """Each PE computes its columns of H W2, for each of the experts of its cube."""
    cube = tl.program_id() // plan.pes
    h, y = work.hidden[cube], work.done[cube]
    begun = [
        tl.composite("gemm", held(tl, h[slots, :], plan.held_nbytes), w2[piece.part], out=y[slots, piece.cols])
        for piece, slots in worked(tl, ids, plan.downs[tl.program_id()], plan.places[cube])
    ]
    for each in begun:
        tl.wait(each)


def combine(
    tl: Any, ids: Sequence[TensorRef], shares: Sequence[TensorRef], work: Work, z: Sequence[TensorRef], plan: Plan
) -> None:
    """Each PE adds up the results of the experts of its rows, times their shares, from the cubes that have them."""
    cube = tl.program_id() // plan.pes
    here, (rows, cols) = plan.places[cube], plan.sums[tl.program_id()]
    if cols[0] == cols[1]:
        return
    (top, _), (left, _) = here.target
    out = z[cube][0] if plan.is_partial else z[cube]
    given = results_of(tl, ids, work, here, rows, cols, cube if plan.is_partial else None)
    weights = (tl.load_async(shares[source][at : at + 1, :]) for source, at in rows_in(here, rows))
    for row, weight, results in zip(range(*rows), tl.ahead(weights), tl.ahead(given), strict=True):
        terms = [each.to("f32") * weight[:, choice : choice + 1] for choice, each in results]
        total = sum(terms[1:], start=terms[0])
        tl.store(out[row - top : row - top + 1, cols[0] - left : cols[1] - left], total.to(out.dtype))


def held(tl: Any, rows: TensorRef, most_nbytes: int) -> Any:
    """*rows* in TCM if they have at most *most_nbytes* bytes, and else where they are.

    Tiles of few rows, each a load of its own, would wait behind the weights of other PEs in their HBM slices.
    """
    return tl.load(rows) if prod(rows.shape) * rows.dtype.nbytes <= most_nbytes else rows


def choices(tl: Any, ids: Sequence[TensorRef], place: ExpertPlaces) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The experts of all rows of a group, rows x choices, and the numbers of the rows."""
    loaded = [tl.load_async(ids[source]) for _, source in place.sources]
    numbers = [np.arange(*rows) for rows, _ in place.sources]
    return np.concatenate([each.data for each in loaded]), np.concatenate(numbers)


def rows_in(place: ExpertPlaces, rows: Range) -> Iterator[tuple[int, int]]:
    """The cube that has each of *rows*, and the place of the row in the part of that cube."""
    return (
        next((source, row - first) for (first, last), source in place.sources if first <= row < last)
        for row in range(*rows)
    )


def runs_of(
    rows: npt.NDArray[Any], place: ExpertPlaces, span: Range, most: int
) -> Iterator[tuple[slice, int, npt.NDArray[Any]]]:
    """The slots *span* in runs of at most *most* rows of one cube: the slots, the cube and the rows in its part."""
    at = span[0]
    while at < span[1]:
        (first, last), source = next(each for each in place.sources if each[0][0] <= rows[at] < each[0][1])
        some = rows[at : min(at + most, span[1])]
        outside = np.flatnonzero((some < first) | (some >= last))
        some = some[: outside[0]] if outside.size else some
        yield slice(at, at + len(some)), source, some - first
        at += len(some)


def worked(
    tl: Any, ids: Sequence[TensorRef], pieces: Sequence[Piece], place: ExpertPlaces
) -> Iterator[tuple[Piece, slice]]:
    """Each of *pieces* whose expert has rows, and the slots of these rows."""
    if pieces:
        first = slots_of(*choices(tl, ids, place), place.experts).first
        for piece in pieces:
            if first[piece.expert] < first[piece.expert + 1]:
                yield piece, slice(first[piece.expert], first[piece.expert + 1])


def results_of(
    tl: Any,
    ids: Sequence[TensorRef],
    work: Work,
    place: ExpertPlaces,
    rows: Range,
    cols: Range,
    only: int | None,
) -> Iterator[list[tuple[int, Any]]]:
    """For each of *rows*, its choices and their results, from the cubes that have a part of each; from cube *only*
    where that is given."""
    found, numbers = choices(tl, ids, place)
    spans = {span: slots_of(found, numbers, span).of_pair for span, _ in place.holders}
    for row in range(*rows):
        at = int(np.searchsorted(numbers, row))
        loads: list[tuple[int, Any]] = []
        for choice, expert in enumerate(found[at].tolist()):
            span, cubes = place.holders[expert]
            slot = int(spans[span][at, choice])
            given = (work.done[cube][slot : slot + 1, slice(*cols)] for cube in (cubes if only is None else (only,)))
            loads.extend((choice, tl.load_async(each)) for each in given)
        yield loads


def steps(span: slice, size: int) -> list[slice]:
    """*span* in steps of *size*."""
    return [slice(at, min(at + size, span.stop)) for at in range(span.start, span.stop, size)]
