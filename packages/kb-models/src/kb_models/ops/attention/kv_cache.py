"""KvCache: the keys and values of a decode step, in the slices of the PEs that read them, whole or in pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from kb_messages import DType
from kb_models.layout import Mesh, Part, Place, Value
from kb_models.layout.value import Array
from kb_models.ops.attention.heads import Heads
from kb_models.ops.attention.key_shares import key_shares
from kb_models.ops.linear import normal
from kb_models.ops.op import Read


class Span(Struct, frozen=True):
    """Keys `start` to `stop` - 1 of a sequence and a key head, which one program on a PE of `cube` reads.

    They lie in part number `part` of the keys and of the values: a part of their own, or the pool of the cube. Part
    number `number` of the table has the numbers of their blocks in the pool.
    """

    program: int
    cube: int
    number: int
    part: int
    start: int
    stop: int


class Pair(Struct, frozen=True):
    """A sequence and a key head, and the spans of its keys in order. The first program merges what all find."""

    sequence: int
    head: int
    spans: tuple[Span, ...]

    @property
    def programs(self) -> tuple[int, ...]:
        """The programs that read the keys."""
        return tuple(span.program for span in self.spans)


class KvCache:
    """The cache of the sequences of *q*, with *context* keys each, the new one of this step among them.

    `k` and `v` are (sequences, key heads, context, d). With *page*, they are (blocks, page * d): keys lie in blocks of
    *page* keys, anywhere in the HBM of the cube that reads them, and `table`, of (sequences, key heads, blocks), has
    the numbers of the blocks among those of the cube. *order* chooses the places of the blocks. `new_k` and `new_v`, of
    (sequences, key heads, d), are the rows of the new key in the cache.
    """

    def __init__(
        self, name: str, mesh: Mesh, q: Value, heads: Heads, context: int, *, page: int = 0, order: int = 0
    ) -> None:
        self.heads, self.context, self.page, self.mesh = heads, context, page, mesh
        shares = key_shares(mesh, q, heads, context, page)
        cubes = [share.program // mesh.pes_per_cube for pair in shares for share in pair]
        pools = list(dict.fromkeys(cubes))
        numbered = iter(enumerate(cubes))
        self.pairs = [
            Pair(
                pair[0].sequence,
                pair[0].head,
                tuple(
                    Span(share.program, cube, number, pools.index(cube) if page else number, share.start, share.stop)
                    for share, (number, cube) in zip(pair, numbered, strict=False)
                ),
            )
            for pair in shares
        ]
        self.table: Value | None = None
        if page:
            blocks = np.zeros((q.shape[0], heads.kv_heads, -(-context // page)), np.int32)
            self._first_blocks = np.zeros(blocks.shape, np.int64)
            shape, parts = self._pools(pools, blocks, order)
            self.table = self._table(f"{name}.table", blocks)
        else:
            blocks, shape = None, (q.shape[0], heads.kv_heads, context, heads.head_dim)
            parts = tuple(
                self._part(pair, span, (span.start, span.stop), heads.head_dim) for pair, span in self._spans()
            )
        content = normal(shape, 1.0, q.dtype)
        self.k, self.v = (
            Value(name=f"{name}.{each}", shape=shape, dtype=q.dtype, parts=parts, content=content, role="cache")
            for each in "kv"
        )
        self.new_k, self.new_v = (
            self._new(f"{name}.new_{each}", cache, q.shape[0], blocks) for each, cache in (("k", self.k), ("v", self.v))
        )

    @property
    def reads(self) -> tuple[Value, ...]:
        """The values that an attention to the cache reads."""
        return (self.k, self.v) if self.table is None else (self.k, self.v, self.table)

    @property
    def most_spans(self) -> int:
        """The most PEs that share the keys of a sequence and a head."""
        return max(len(pair.spans) for pair in self.pairs)

    def of_programs(self) -> list[list[tuple[Pair, Span]]]:
        """The spans that each program reads, in order, each with its pair."""
        found: list[list[tuple[Pair, Span]]] = [[] for _ in self.mesh.pes]
        for pair, span in self._spans():
            found[span.program].append((pair, span))
        return found

    def rows_of(self, read: Read, value: Value, sequence: int, head: int) -> Array:
        """The keys, or the values, of a sequence and a head in the content of *value*: (context, d)."""
        found: Array
        if self.table is None:
            found = read(value)[sequence, head]
        else:
            blocks = read(self.table)[sequence, head] + self._first_blocks[sequence, head]
            found = read(value)[blocks].reshape(-1, self.heads.head_dim)[: self.context]
        return found

    def _spans(self) -> Iterator[tuple[Pair, Span]]:
        return ((pair, span) for pair in self.pairs for span in pair.spans)

    def _blocks_of(self, span: Span) -> tuple[int, int]:
        return span.start // self.page, -(-span.stop // self.page)

    def _part(self, pair: Pair, span: Span, along: tuple[int, int], width: int) -> Part:
        """The part of an array of (sequences, key heads, *along*, *width*) for *span*, near its PE; of three dimensions
        without a *width*."""
        bounds = ((pair.sequence, pair.sequence + 1), (pair.head, pair.head + 1), along, (0, width))
        return Part(bounds if width else bounds[:3], span.cube, self.mesh.pes[span.program])

    def _pools(self, cubes: list[int], blocks: Array, order: int) -> tuple[tuple[int, ...], tuple[Part, ...]]:
        """The shape and the parts of the pools of *cubes*; fills *blocks* with places in them.

        A pool has a multiple of as many blocks as the cube has PEs, so some may be free.
        """
        used = Counter[int]()
        for _, span in self._spans():
            first, end = self._blocks_of(span)
            used[span.part] += end - first
        pes, width = self.mesh.pes_per_cube, self.page * self.heads.head_dim
        sizes = [-(-used[number] // pes) * pes for number in range(len(cubes))]
        bounds = np.cumsum([0, *sizes]).tolist()
        free = [np.random.default_rng([order, cube]).permutation(n) for cube, n in zip(cubes, sizes, strict=True)]
        taken = Counter[int]()
        for pair, span in self._spans():
            first, end = self._blocks_of(span)
            at, taken[span.part] = taken[span.part], taken[span.part] + end - first
            blocks[pair.sequence, pair.head, first:end] = free[span.part][at : taken[span.part]]
            self._first_blocks[pair.sequence, pair.head, first:end] = bounds[span.part]
        parts = (Part(((bounds[n], bounds[n + 1]), (0, width)), cube, by_rows=True) for n, cube in enumerate(cubes))
        return (bounds[-1], width), tuple(parts)

    def _table(self, name: str, blocks: Array) -> Value:
        parts = tuple(self._part(pair, span, self._blocks_of(span), 0) for pair, span in self._spans())
        return Value(
            name=name,
            shape=blocks.shape,
            dtype=DType.I32,
            parts=parts,
            content=lambda _: blocks,
            is_looked_at=True,
            role="table",
        )

    def _new(self, name: str, cache: Value, sequences: int, blocks: Array | None) -> Value:
        """The rows of the new key in *cache*."""
        d, last = self.heads.head_dim, self.context - 1
        parts = tuple(self._part(pair, pair.spans[-1], (0, d), 0) for pair in self.pairs)
        places = []
        for pair in self.pairs:
            span = pair.spans[-1]
            row = last - span.start
            if blocks is not None:
                row = int(blocks[pair.sequence, pair.head, -1]) * self.page + last % self.page
            places.append(Place(span.part, row * d))
        shape = (sequences, self.heads.kv_heads, d)
        return Value(
            name=name, shape=shape, dtype=cache.dtype, parts=parts, role="cache", source=cache, places=tuple(places)
        )
