"""Value: an array of a model, and the parts in which it lies on the chip."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from kb_messages import DType

Array: TypeAlias = npt.NDArray[Any]
Bounds: TypeAlias = tuple[tuple[int, int], ...]
"""The first index and the index behind the last, for each dimension."""
Content: TypeAlias = Callable[[np.random.Generator], Array]
"""Makes the whole array of a value, in its shape and dtype, from a random generator."""

Role: TypeAlias = Literal["weight", "cache", "table", "activation"]
"""A weight is a parameter of the model, a table a constant such as the angles of positions or the blocks of a cache."""


class Blocks(NamedTuple):
    """The blocks of a matrix, `down` along the rows and `along` the columns, and the PE near which each block lies, row
    by row of blocks."""

    down: int
    along: int
    pes: tuple[int, ...]


class Part(Struct, frozen=True):
    """A block of a value in the memory of one cube.

    `bounds` is the place of the block in the whole array. `cube` is the number of the cube in the order of `Mesh`. With
    `pe`, the number of a PE of the chip, the part lies near that PE; without, over all HBM slices of the cube. With
    `by_rows`, each row of a part over all slices lies whole in one slice. With `blocks`, each block lies near a PE.
    """

    bounds: Bounds
    cube: int
    pe: int | None = None
    by_rows: bool = False
    blocks: Blocks | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the block."""
        return tuple(stop - start for start, stop in self.bounds)

    @property
    def slices(self) -> tuple[slice, ...]:
        """The block as an index of the whole array."""
        return tuple(slice(start, stop) for start, stop in self.bounds)


class Place(NamedTuple):
    """A place in a value: the number of a part, and of an element of the part, row by row."""

    part: int
    element: int


class Value(Struct, frozen=True, kw_only=True, eq=False):
    """An array of a model: a weight, an activation, a cache or a table.

    `parts` cover the whole array; parts with equal bounds are copies. An activation has one part for each cube, in the
    order of the cubes. `axes` names the axis of the model for each dimension, and "" for a dimension without one.

    `content` makes the array at first; a value without `content` is written by an op. Kernels look at the values of a
    table with `is_looked_at`, such as one of indices, so the table has its content in runs for times alone too. An
    input or a weight that several values hold in different layouts has one `seed_name`, from which its random numbers
    follow. `role` says what the memory is for; by default a value with `content` is a weight.

    A value with a `source` has no memory of its own: an op writes it into the value that is its source. Part n lies
    there from place `places[n]` on, in elements that follow each other.
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    parts: tuple[Part, ...]
    axes: tuple[str, ...] = ()
    content: Content | None = None
    is_looked_at: bool = False
    seed_name: str = ""
    role: Role | None = None
    source: Value | None = None
    places: tuple[Place, ...] = ()

    @property
    def purpose(self) -> Role:
        """What the memory of the value is for."""
        return self.role or ("activation" if self.content is None else "weight")

    @property
    def nbytes(self) -> int:
        """The bytes of the whole array, once."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.nbytes

    @property
    def held_nbytes(self) -> int:
        """The bytes that a run holds in this machine: parts of equal content share one array. 0 for a value in the
        memory of another."""
        if self.source is not None:
            return 0
        shapes = [part.shape for part in self.parts]
        if self.content is not None:
            shapes = list({part.bounds: part.shape for part in self.parts}.values())
        return sum(int(np.prod(shape, dtype=np.int64)) for shape in shapes) * self.dtype.nbytes


def whole(shape: Sequence[int]) -> Bounds:
    """The bounds of a whole array of *shape*."""
    return tuple((0, size) for size in shape)


def cut(size: int, count: int, number: int) -> tuple[int, int]:
    """Part *number* of *size* in *count* parts, whose sizes differ by at most one."""
    return number * size // count, (number + 1) * size // count
