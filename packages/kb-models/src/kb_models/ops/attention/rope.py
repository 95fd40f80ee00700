"""Rope: rotary positions of the queries and keys of whole sequences.

Source of the rotation: Su et al., "RoFormer", arXiv 2104.09864, with the pairs of Hugging Face's Llama: element i of a
head turns with element i + d / 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct

from kb_engine import Host, TensorRef
from kb_messages import DType
from kb_models.layout import Mesh, Tensors, Value, cut
from kb_models.layout.value import Array
from kb_models.ops.attention.heads import Heads
from kb_models.ops.op import Op, Read

STEP: Final = 64
"""The most rows of a step. Source: assumed; more rows than a PE of one_sip has of 512 tokens."""
_ROUNDOFF: Final = 2.0**-24
"""The unit roundoff of f32."""


class Turn(Struct, frozen=True):
    """A step of one program: `rows` of the part of its cube, whose positions have the rows `angles` of the table."""

    rows: slice
    angles: slice


def kernel(
    tl: Any,
    given: Sequence[Sequence[TensorRef]],
    results: Sequence[Sequence[TensorRef]],
    table: Sequence[TensorRef],
    turns: Sequence[Sequence[Turn]],
    d: int,
) -> None:
    """Program p turns its rows of the queries and keys of its cube."""
    cube = tl.program_id() // (tl.num_programs() // len(table))
    mine = turns[tl.program_id()]
    refs = ([table[cube][turn.angles, :], *(each[cube][turn.rows, :] for each in given)] for turn in mine)
    loads = ([tl.load_async(each) for each in refs_of_turn] for refs_of_turn in refs)
    stores: list[Any] = []
    for turn, (angles, *parts) in zip(mine, tl.ahead(loads), strict=True):
        found = [rotated(tl, x, angles, d) for x in parts]
        begun = [tl.store_async(each[cube][turn.rows, :], x) for each, x in zip(results, found, strict=True)]
        wait_for(tl, stores)
        stores = begun
    wait_for(tl, stores)


def rotated(tl: Any, x: Any, angles: Any, d: int) -> Any:
    """The heads of *x*, (rows, heads * d), turned by *angles*, whose rows have the cosines and then the sines."""
    rows, half = x.shape[0], d // 2
    heads, table = x.to("f32").reshape(rows, -1, d), angles.reshape(rows, 1, d)
    a, b = heads[:, :, :half], heads[:, :, half:]
    cos, sin = table[:, :, :half], table[:, :, half:]
    turned = tl.cat(a * cos - b * sin, b * cos + a * sin, axis=2)
    return turned.to(x.dtype).reshape(*x.shape)


def wait_for(tl: Any, stores: Sequence[Any]) -> None:
    """Waits for all of *stores*."""
    for each in stores:
        tl.wait(each)


def angles_of(frequencies: Array, positions: Array) -> Array:
    """The table of *positions*: a row of cosines and then sines for each, in f32."""
    angles = positions[:, None] * frequencies
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def turned(x: Array, table: Array) -> tuple[Array, Array]:
    """The rotation of *x*, (rows, heads, d), by the rows of *table*, in float64; and the sizes of its terms."""
    half = table.shape[1] // 2
    wide = x.astype(np.float64)
    a, b = wide[:, :, :half], wide[:, :, half:]
    cos, sin = (each[:, None, :].astype(np.float64) for each in (table[:, :half], table[:, half:]))
    found = np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=2)
    sizes = np.concatenate([abs(a * cos) + abs(b * sin), abs(b * cos) + abs(a * sin)], axis=2)
    return found, sizes


def rotation_tolerance(expected: Array, sizes: Array, dtype: DType) -> Array:
    """Two products and their sum in f32, rounded once."""
    info = dtype.info
    allowed: Array = 3 * _ROUNDOFF * sizes + 2 * info.unit_roundoff * np.abs(expected) + info.smallest_subnormal
    return allowed


class Rope(Op):
    """Rotary positions of *q* and *k*, activations of *sequences* sequences, from position 0 on.

    Each cube turns its own rows and heads, so nothing crosses cubes. The turned keys are the cache.
    """

    kind = "rope"

    def __init__(
        self, name: str, mesh: Mesh, q: Value, k: Value, heads: Heads, frequencies: Array, sequences: int
    ) -> None:
        rows = q.shape[0]
        self.tokens = rows // sequences
        shape = (self.tokens, heads.head_dim)
        self.table = Value(
            name=f"{name}.table",
            shape=shape,
            dtype=DType.F32,
            parts=mesh.parts(shape, ("", "")),
            content=lambda _: angles_of(frequencies, np.arange(self.tokens)),
            role="table",
        )
        self.given, self.mesh, self.heads = (q, k), mesh, heads
        writes = tuple(
            Value(name=f"{name}.{each}", shape=x.shape, dtype=x.dtype, parts=x.parts, axes=x.axes)
            for each, x in (("q", q), ("k", k))
        )
        self.flops = 3 * rows * (heads.heads + heads.kv_heads) * heads.head_dim
        super().__init__(name, (q, k, self.table), writes)

    def launch(self, host: Host, tensors: Tensors) -> None:
        """Launches one program on each PE. A step is as many rows as fit, up to 64."""
        widths = max(sum(x.parts[cube.number].shape[1] for x in self.given) for cube in self.mesh.cubes)
        nbytes = self.given[0].dtype.nbytes
        # TCM holds two steps as they come and two as they go, and halves, products and results in f32
        step = host.fitted(
            lambda rows: rows * (widths * (4 * nbytes + 24) + 24 * self.heads.head_dim), rows=(None, STEP)
        )
        given, results = ([tensors[value] for value in group] for group in (self.given, self.writes))
        turns = [self._turns(program, step["rows"]) for program in range(len(self.mesh.pes))]
        host.launch(kernel, given, results, tensors[self.table], turns, self.heads.head_dim, pes=self.mesh.pes)

    def _turns(self, program: int, step: int) -> tuple[Turn, ...]:
        """The steps of *program*, each within a sequence."""
        cube, place = divmod(program, self.mesh.pes_per_cube)
        (first, last), _ = self.given[0].parts[cube].bounds
        start, stop = cut(last - first, self.mesh.pes_per_cube, place)
        found, at = [], first + start
        while at < first + stop:
            position = at % self.tokens
            count = min(step, first + stop - at, self.tokens - position)
            found.append(Turn(slice(at - first, at - first + count), slice(position, position + count)))
            at += count
        return tuple(found)

    def reference(self, read: Read) -> dict[str, Array]:
        """The rotation by the table, in float64."""
        return {y.name: self._turned(read, x)[0] for x, y in zip(self.given, self.writes, strict=True)}

    def tolerance(self, read: Read, expected: Mapping[str, Array]) -> dict[str, Array]:
        """The rounding of products and of their sum, by their sizes."""
        return {
            y.name: rotation_tolerance(expected[y.name], self._turned(read, x)[1], y.dtype)
            for x, y in zip(self.given, self.writes, strict=True)
        }

    def _turned(self, read: Read, x: Value) -> tuple[Array, Array]:
        rows, width = x.shape
        table = np.tile(read(self.table), (rows // self.tokens, 1))
        found, sizes = turned(read(x).reshape(rows, -1, self.heads.head_dim), table)
        return found.reshape(rows, width), sizes.reshape(rows, width)
