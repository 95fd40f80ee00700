"""RopeAppend: the rotary positions of a decode step; the new keys and values go into the cache in the same launch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from kb_engine import Host, TensorRef
from kb_messages import DType
from kb_models.layout import Block, Mesh, Part, Tensors, Value, cover
from kb_models.layout.value import Array
from kb_models.ops.attention.kv_cache import KvCache, Span
from kb_models.ops.attention.rope import angles_of, rotated, rotation_tolerance, turned, wait_for
from kb_models.ops.op import Op, Read

Q, K, V = range(3)
"""The places of queries, keys and values in lists of the three."""


class Move(Struct, frozen=True):
    """A block of the queries, keys or values, by `source`, that one program turns, unless it holds values, and stores:
    queries into part number `part` of the result, keys and values into the row of the new key of `span`."""

    source: int
    block: Block
    part: int = 0
    span: Span | None = None


class CacheSizes(NamedTuple):
    """The elements of a head, the keys of a sequence, and the keys of a block, 0 without pages."""

    head_dim: int
    context: int
    page: int


def kernel(
    tl: Any,
    given: Sequence[Sequence[TensorRef]],
    results: Sequence[Sequence[TensorRef]],
    angles: Sequence[TensorRef],
    table: Sequence[TensorRef],
    moves: Sequence[Sequence[Move]],
    sizes: CacheSizes,
) -> None:
    """Program p turns its queries and new keys, and stores them. *results* are the queries, and the caches of keys and
    of values."""
    mine = moves[tl.program_id()]
    row = tl.load_async(angles[tl.program_id()]) if mine else None
    blocks = (given[move.source][move.block.part][move.block.rows, move.block.cols] for move in mine)
    stores = []
    for move, x in zip(mine, tl.ahead(map(tl.load_async, blocks), 4), strict=True):
        to = results[move.source]
        if move.span is None:
            place = to[move.part][:, move.block.cols_of_whole]
        else:
            place = row_of_new_key(tl, to, table, move.span, sizes)
        stores.append(tl.store_async(place, x if move.source == V else rotated(tl, x, row, sizes.head_dim)))
    wait_for(tl, stores)


def row_of_new_key(
    tl: Any, cache: Sequence[TensorRef], table: Sequence[TensorRef], span: Span, sizes: CacheSizes
) -> TensorRef:
    """The row of the last key of *span*, the last one of a sequence, in *cache*: (1, d)."""
    last = sizes.context - 1
    if not sizes.page:
        return cache[span.part][0, 0, last - span.start : span.stop - span.start, :]
    numbers = table[span.number]
    block, first = int(tl.load(numbers[0, 0, numbers.shape[2] - 1 :])[0]), last % sizes.page * sizes.head_dim
    return cache[span.part][block : block + 1, first : first + sizes.head_dim]


def moves_of_new(cache: KvCache, mesh: Mesh, k: Value, v: Value) -> Iterator[tuple[int, Move]]:
    """The moves of new keys and values into *cache*, each with the program that reads their rows."""
    d = cache.heads.head_dim
    for pair in cache.pairs:
        span = pair.spans[-1]
        for source, x in ((K, k), (V, v)):
            rows, cols = (pair.sequence, pair.sequence + 1), (pair.head * d, (pair.head + 1) * d)
            (block,) = cover(x.parts, span.cube, rows, cols)
            yield span.program, Move(source, block, span=span)


class RopeAppend(Op):
    """Rotary positions of *q* and *k* of one new token for each sequence; *k* and *v* go into *cache*.

    The turned queries lie near the program that merges what the programs of a key head find. These programs share the
    work; the last one, which reads the new key, stores the key and the value.
    """

    kind = "rope"

    def __init__(
        self, name: str, mesh: Mesh, qkv: tuple[Value, Value, Value], frequencies: Array, cache: KvCache
    ) -> None:
        q, heads = qkv[Q], cache.heads
        self.mesh, self.given, self.cache = mesh, qkv, cache
        width = heads.group * heads.head_dim
        homes = [(pair, pair.spans[0]) for pair in cache.pairs]
        parts = tuple(
            Part(
                ((pair.sequence, pair.sequence + 1), (pair.head * width, (pair.head + 1) * width)),
                span.cube,
                mesh.pes[span.program],
            )
            for pair, span in homes
        )
        self.q = Value(name=f"{name}.q", shape=q.shape, dtype=q.dtype, parts=parts, axes=q.axes)
        shape = (1, heads.head_dim)
        self.angles = Value(
            name=f"{name}.angles",
            shape=shape,
            dtype=DType.F32,
            parts=tuple(Part(((0, 1), (0, heads.head_dim)), cube.number, pe) for cube in mesh.cubes for pe in cube.pes),
            content=lambda _: angles_of(frequencies, np.array([cache.context - 1])),
            role="table",
        )
        self.flops = 3 * q.shape[0] * (heads.heads + heads.kv_heads) * heads.head_dim
        tables = () if cache.table is None else (cache.table,)
        super().__init__(name, (*qkv, self.angles, *tables), (self.q, cache.new_k, cache.new_v))

    def launch(self, host: Host, tensors: Tensors) -> None:
        """Launches one program on each PE."""
        cache = self.cache
        moves: list[list[Move]] = [[] for _ in self.mesh.pes]
        for program, move in (*moves_of_new(cache, self.mesh, *self.given[1:]), *self._moves_of_queries()):
            moves[program].append(move)
        given = [tensors[value] for value in self.given]
        results = [tensors[value] for value in (self.q, cache.k, cache.v)]
        table = [] if cache.table is None else tensors[cache.table]
        sizes = CacheSizes(cache.heads.head_dim, cache.context, cache.page)
        angles, mine = tensors[self.angles], [tuple(each) for each in moves]
        host.launch(kernel, given, results, angles, table, mine, sizes, pes=self.mesh.pes)

    def _moves_of_queries(self) -> Iterator[tuple[int, Move]]:
        q = self.given[Q]
        for number, (pair, part) in enumerate(zip(self.cache.pairs, self.q.parts, strict=True)):
            for turn, block in enumerate(cover(q.parts, part.cube, *part.bounds)):
                yield pair.spans[turn % len(pair.spans)].program, Move(Q, block, part=number)

    def reference(self, read: Read) -> dict[str, Array]:
        """The rotation by the table, in float64, and the new values as they are."""
        return {value.name: found for value, found, _ in self._expected(read)}

    def tolerance(self, read: Read, expected: Mapping[str, Array]) -> dict[str, Array]:
        """The rounding of products and of their sum, by their sizes; none of values."""
        return {
            value.name: np.zeros(found.shape) if sizes is None else rotation_tolerance(found, sizes, value.dtype)
            for value, found, sizes in self._expected(read)
        }

    def _expected(self, read: Read) -> Iterator[tuple[Value, Array, Array | None]]:
        """Each result, what it should be, and the sizes of the terms of a rotation."""
        d = self.cache.heads.head_dim
        table = np.tile(read(self.angles), (self.given[Q].shape[0], 1))
        for source, value in ((Q, self.q), (K, self.cache.new_k)):
            x = read(self.given[source])
            found, sizes = turned(x.reshape(len(x), -1, d), table)
            yield value, found.reshape(value.shape), sizes.reshape(value.shape)
        yield self.cache.new_v, read(self.given[V]).reshape(self.cache.new_v.shape).astype(np.float64), None
