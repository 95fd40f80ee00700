"""DecodeAttention: one new token for each sequence attends to the keys of a cache, which are split over PEs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from msgspec import Struct

from kb_engine import Host, TensorRef
from kb_models.layout import Block, Mesh, Tensors, Value, cover, overlaps
from kb_models.layout.value import Array
from kb_models.ops.attention.flash import AHEAD, attended, chunks_of, merged, steps_for
from kb_models.ops.attention.heads import Heads, attention, attention_tolerance
from kb_models.ops.attention.kv_cache import KvCache, Pair, Span
from kb_models.ops.attention.rope import wait_for
from kb_models.ops.attention.rope_append import CacheSizes, Move, moves_of_new, row_of_new_key
from kb_models.ops.op import Op, Read


class Step(Struct, frozen=True):
    """Keys `start` to `stop` - 1 of a span, or with pages blocks of them; `hidden` keys of the last block are none."""

    start: int
    stop: int
    hidden: int = 0


class Job(Struct, frozen=True):
    """What one program does for one sequence and key head: `queries` attend to the steps of `span`. The first of
    `programs` stores into `results`."""

    queries: tuple[Block, ...]
    span: Span
    chunks: tuple[tuple[Step, ...], ...]
    programs: tuple[int, ...]
    results: tuple[Block, ...]


def kernel(
    tl: Any,
    q: Sequence[TensorRef],
    new: Sequence[Sequence[TensorRef]],
    caches: Sequence[Sequence[TensorRef]],
    table: Sequence[TensorRef],
    out: Sequence[TensorRef],
    work: Sequence[tuple[Sequence[Move], Sequence[Job]]],
    sizes: CacheSizes,
) -> None:
    """Program p stores its new keys and values, where no launch before did that, and does its jobs in order."""
    moves, jobs = work[tl.program_id()]
    append(tl, new, caches, table, moves, sizes)
    loads = tl.ahead(loads_of(tl, q, caches, table, jobs, sizes), AHEAD)
    stores: list[Any] = []
    for job in jobs:
        queries, scale = stacked(tl, next(loads), sizes.head_dim), sizes.head_dim**-0.5
        masks = [[mask_of(tl, step, sizes) for step in chunk] for chunk in job.chunks]
        found = merged(tl, attended(tl, queries, masks, loads, scale), job.programs, scale)
        if found is not None:
            heads = (found.values * (1.0 / found.total)).to(out[0].dtype)
            stores += [tl.store_async(*placed(out, heads, block, sizes.head_dim)) for block in job.results]
    wait_for(tl, stores)


def append(
    tl: Any,
    new: Sequence[Sequence[TensorRef]],
    caches: Sequence[Sequence[TensorRef]],
    table: Sequence[TensorRef],
    moves: Sequence[Move],
    sizes: CacheSizes,
) -> None:
    """Stores the new keys and values of *moves* as they are, and waits, because the next loads read them."""
    blocks = (new[move.source - 1][move.block.part][move.block.rows, move.block.cols] for move in moves)
    stores = []
    for move, x in zip(moves, tl.ahead(map(tl.load_async, blocks), 4), strict=True):
        assert move.span is not None, "queries are no news"
        stores.append(tl.store_async(row_of_new_key(tl, caches[move.source - 1], table, move.span, sizes), x))
    wait_for(tl, stores)


def loads_of(
    tl: Any,
    q: Sequence[TensorRef],
    caches: Sequence[Sequence[TensorRef]],
    table: Sequence[TensorRef],
    jobs: Sequence[Job],
    sizes: CacheSizes,
) -> Iterator[Any]:
    """The loads of *jobs* in the order of their use: queries, then for each chunk its keys and its values."""
    for job in jobs:
        span = job.span
        blocks = tl.load(table[span.number]).data.reshape(-1) if sizes.page else None
        yield [tl.load_async(q[block.part][block.rows, block.cols]) for block in job.queries]
        for chunk in job.chunks:
            for cache in caches:
                for step in chunk:
                    if blocks is None:
                        yield tl.load_async(cache[span.part][0, 0, step.start : step.stop, :])
                    else:
                        rows = tl.load_async(cache[span.part][blocks[step.start : step.stop]])
                        yield rows.reshape(-1, sizes.head_dim)


def stacked(tl: Any, loaded: Sequence[Any], d: int) -> Any:
    """The heads of *loaded*, each (1, n * d), one after the other as rows."""
    found = loaded[0].reshape(-1, d)
    for each in loaded[1:]:
        found = tl.cat(found, each.reshape(-1, d))
    return found


def mask_of(tl: Any, step: Step, sizes: CacheSizes) -> Any:
    """The keys of *step* that are keys of the sequence; None where all are."""
    if not step.hidden:
        return None
    n_keys = (step.stop - step.start) * sizes.page
    return (tl.arange(n_keys) < n_keys - step.hidden)[None, :]


def placed(out: Sequence[TensorRef], heads: Any, block: Block, d: int) -> tuple[TensorRef, Any]:
    """The place of *block* in *out*, and what of *heads*, a row each, belongs there."""
    first, end = block.cols_of_whole.start // d, block.cols_of_whole.stop // d
    mine = heads if end - first == heads.shape[0] else heads[first:end, :]
    return out[block.part][block.rows, block.cols], mine.reshape(1, (end - first) * d)


class DecodeAttention(Op):
    """softmax(Q K^T / sqrt(d)) V of one query for each head and sequence, to the keys and values of *cache*.

    *x* is the activation whose parts and axes the result has. Where *new* keys and values are given, the op appends
    them to the cache. `rows * heads` are spread over all PEs of the cubes that have query heads of a key head.
    """

    kind = "attention"

    def __init__(
        self, name: str, mesh: Mesh, q: Value, x: Value, cache: KvCache, new: tuple[Value, Value] | None = None
    ) -> None:
        self.mesh, self.q, self.cache, self.new = mesh, q, cache, new
        heads = cache.heads
        self.y = Value(name=name, shape=x.shape, dtype=x.dtype, parts=x.parts, axes=x.axes)
        self.flops = 4 * x.shape[0] * heads.heads * cache.context * heads.head_dim
        given = (q, *cache.reads) if new is None else (q, *new, *cache.reads)
        super().__init__(name, given, (self.y,) if new is None else (self.y, cache.new_k, cache.new_v))

    def launch(self, host: Host, tensors: Tensors) -> None:
        """Launches one program on each PE."""
        cache, heads = self.cache, self.cache.heads
        longest = max(span.stop - span.start for pair in cache.pairs for span in pair.spans)
        step = steps_for(host, heads.group, longest, heads.head_dim, self.y.dtype)
        if self.mesh.has_queues:
            host.chose(attention_keys=f"split over up to {cache.most_spans} PEs")
        else:
            host.chose(attention_keys="whole: PEs without pe_queue cannot merge parts")
        moves: list[list[Move]] = [[] for _ in self.mesh.pes]
        if self.new is not None:
            for program, move in moves_of_new(cache, self.mesh, *self.new):
                moves[program].append(move)
        jobs = [tuple(self._job(pair, span, step) for pair, span in each) for each in cache.of_programs()]
        work = [(tuple(some), each) for some, each in zip(moves, jobs, strict=True)]
        new = [tensors[value] for value in self.new or ()]
        caches, table = [tensors[cache.k], tensors[cache.v]], [] if cache.table is None else tensors[cache.table]
        sizes = CacheSizes(heads.head_dim, cache.context, cache.page)
        host.launch(kernel, tensors[self.q], new, caches, table, tensors[self.y], work, sizes, pes=self.mesh.pes)

    def _job(self, pair: Pair, span: Span, step: int) -> Job:
        width = self.cache.heads.group * self.cache.heads.head_dim
        rows, cols = (pair.sequence, pair.sequence + 1), (pair.head * width, (pair.head + 1) * width)
        queries = tuple(cover(self.q.parts, span.cube, rows, cols))
        results = tuple(overlaps(self.y.parts, rows, cols)) if span.program == pair.programs[0] else ()
        chunks = tuple(tuple(chunk) for chunk in chunks_of(self._steps(span, step), self.cache.heads.group))
        return Job(queries, span, chunks, pair.programs, results)

    def _steps(self, span: Span, step: int) -> list[Step]:
        """The steps of *span*, of equal numbers of keys, or of blocks, as far as they go."""
        page = self.cache.page or 1
        units, most = -(-(span.stop - span.start) // page), max(1, step // page)
        count = -(-units // most)
        bounds = [number * units // count for number in range(count + 1)]
        hidden = units * page - (span.stop - span.start)
        return [Step(a, b, hidden if b == units else 0) for a, b in pairwise(bounds)]

    def reference(self, read: Read) -> dict[str, Array]:
        """The definition in float64, and the new keys and values as they are."""
        found = {self.y.name: attention(*self._attention(read))}
        for value, new in zip(self.writes[1:], self.new or (), strict=True):
            found[value.name] = read(new).reshape(value.shape).astype(np.float64)
        return found

    def tolerance(self, read: Read, expected: Mapping[str, Array]) -> dict[str, Array]:
        """The rounding of results, probabilities and sums in f32; none of new keys and values."""
        found = {value.name: np.zeros(value.shape) for value in self.writes[1:]}
        return found | {self.y.name: attention_tolerance(*self._attention(read), self.y.dtype)}

    def _attention(self, read: Read) -> tuple[Array, Any, Any, Heads, int, bool]:
        cache = self.cache

        def keys(sequence: int, head: int) -> Array:
            return cache.rows_of(read, cache.k, sequence, head)

        def values(sequence: int, head: int) -> Array:
            return cache.rows_of(read, cache.v, sequence, head)

        return read(self.q), keys, values, cache.heads, self.y.shape[0], False
