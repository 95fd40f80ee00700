"""Tensor and TensorRef: tensors in memory, and references to their elements, which kernels slice and pass to `tl`.

Design: docs/design/kernel-language.md.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from types import EllipsisType
from typing import Any, Final, NoReturn, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from kb_engine.program.values.handles import Handle
from kb_engine.program.values.host_values import HostValue
from kb_engine.program.values.indexing import Indices, cut_span, is_basic
from kb_engine.program.values.symbols import is_symbol, row_address
from kb_engine.program.values.transposed import Transposed
from kb_messages import DType, KernelError, Matrix, join_address

BlockAddresses: TypeAlias = "tuple[tuple[int, ...], ...]"
AxisKey: TypeAlias = "slice | SupportsIndex | HostValue | Handle | npt.NDArray[Any] | EllipsisType | None"
SliceKey: TypeAlias = "AxisKey | tuple[AxisKey, ...]"


_BOTH: Final = (0, 1)
_COLUMNS: Final = (1,)


class Tensor(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tensor in device memory, cut into a grid of blocks.

    `row_bounds` and `col_bounds` hold the first row and column of each block, and then the tensor's size. Block (i, j)
    lies packed at `addresses[i][j]`. The last dimension is along a row, and all others together are the rows: a tensor
    of one dimension is one row.

    A sharded tensor may have more copies, at the addresses in `copies`; shard n is block (i, j) of a copy, and
    `shards[n]` is (copy, i, j). `near` holds the number of the copy that each PE, by id, uses. `virtual` holds the
    virtual addresses of all blocks of every copy, the first copy included; it is empty where kernels use physical
    addresses. A kernel may not write a tensor with `read_only`, a text that says what to pass in its place.
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    row_bounds: tuple[int, ...]
    col_bounds: tuple[int, ...]
    addresses: BlockAddresses
    copies: tuple[BlockAddresses, ...] = ()
    shards: tuple[tuple[int, int, int], ...] = ()
    virtual: tuple[BlockAddresses, ...] = ()
    near: dict[str, int] = {}
    read_only: str = ""

    @property
    def rows(self) -> int:
        """Rows, 1 for a tensor of one dimension."""
        return self.row_bounds[-1]

    @property
    def cols(self) -> int:
        """Columns."""
        return self.col_bounds[-1]

    @property
    def n_copies(self) -> int:
        """Copies of the whole tensor."""
        return 1 + len(self.copies)

    def block(self, i: int, j: int, copy: int = 0) -> Matrix:
        """Block (i, j) of a copy, packed in memory."""
        rows = self.row_bounds[i + 1] - self.row_bounds[i]
        cols = self.col_bounds[j + 1] - self.col_bounds[j]
        grid = self.copies[copy - 1] if copy else self.addresses
        return Matrix.packed(rows, cols, self.dtype, grid[i][j])

    def blocks(self, copy: int = 0) -> list[tuple[tuple[slice, slice], Matrix]]:
        """Every block of a copy, each after the rows and columns of the tensor that the block holds."""
        return [
            ((slice(*self.row_bounds[i : i + 2]), slice(*self.col_bounds[j : j + 2])), self.block(i, j, copy))
            for i in range(len(self.row_bounds) - 1)
            for j in range(len(self.col_bounds) - 1)
        ]

    def every_block(self) -> Iterator[tuple[tuple[slice, slice], Matrix]]:
        """The `blocks` of all copies, one copy after the other."""
        for copy in range(self.n_copies):
            yield from self.blocks(copy)

    def index_with(self, owner: int, offset: int) -> tuple[int, ...] | None:
        """The index of the element with byte *offset* of memory *owner*; None where no block has the byte."""
        byte = join_address(owner, offset)
        for (rows, cols), matrix in self.every_block():
            if matrix.address <= byte < matrix.address + matrix.nbytes:
                row, col = divmod(byte - matrix.address, matrix.stride)
                flat = (rows.start + row) * self.cols + cols.start + col // self.dtype.nbytes
                return tuple(map(int, np.unravel_index(flat, self.shape)))
        return None

    def element_with(self, owner: int, offset: int) -> str | None:
        """`name[row, column]` of the element with byte *offset* of memory *owner*; None where no block has the byte."""
        index = self.index_with(owner, offset)
        return None if index is None else f"{self.name}[{', '.join(map(str, index))}]"

    @property
    def ref(self) -> TensorRef:
        """A reference to the whole tensor, as kernels receive it."""
        shape = self.shape
        indices = Indices.of_slices((0,) * len(shape), shape, shape) if len(shape) > 2 else None
        return TensorRef(self, (0, self.rows), (0, self.cols), indices=indices)


class TensorRef:
    """A reference to elements of a tensor. Index it like a numpy array: `a[m0:m1, k0:k1]`, `a[rows[:, None], cols]`,
    `a[::2]`.

    As in numpy, an integer drops its dimension. Slices of step 1 and integers give, for a tensor of one or two
    dimensions, a rectangle; *kept* are its dimensions that no integer dropped: 0 for the rows, 1 for the columns. All
    other keys, and tensors of more dimensions, follow numpy's indexing too: `indices` then has the index of every
    element; it is None for a rectangle. Integers and lists of integers are indices if they are known while the kernel
    runs.

    A slice that reaches beyond the tensor's edge is clipped; *asked* keeps the end row and end column that the kernel
    asked for, because masks have that size. *copy* is the copy of the tensor in which the elements lie, by default the
    copy near the PE that asks. Indexing raises KernelError for an empty slice, an index beyond the elements, too
    many indices, and anything but integers.
    """

    __slots__ = ("_asked", "_cols", "_kept", "_rows", "copy", "indices", "tensor")

    def __init__(
        self,
        tensor: Tensor,
        rows: tuple[int, int],
        cols: tuple[int, int],
        copy: int | None = None,
        asked: tuple[int, int] | None = None,
        indices: Indices | None = None,
        kept: tuple[int, ...] | None = None,
    ) -> None:
        self._asked = asked or (rows[1], cols[1])
        self._kept = (_COLUMNS if len(tensor.shape) == 1 else _BOTH) if kept is None else kept
        self.tensor = tensor
        self.indices = indices
        self._rows = rows
        self._cols = cols
        self.copy = copy

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements in each dimension."""
        if self.indices is not None:
            return self.indices.inside
        return self._of_kept(self._rows[1] - self._rows[0], self._cols[1] - self._cols[0])

    @property
    def asked_shape(self) -> tuple[int, int]:
        """Rows and columns that the kernel asked for: more than `shape` for a slice beyond the tensor's edge."""
        return self._asked[0] - self._rows[0], self._asked[1] - self._cols[0]

    @property
    def asked_dimensions(self) -> tuple[int, ...]:
        """Elements in each dimension that the kernel asked for: more than `shape` for a slice beyond the tensor's
        edge."""
        if self.indices is not None:
            return self.indices.shape
        return self._of_kept(*self.asked_shape)

    def _of_kept(self, rows: int, cols: int) -> tuple[int, ...]:
        """*rows* and *cols*, as far as the rectangle has these dimensions."""
        kept = self._kept
        if kept is _BOTH:
            return rows, cols
        return (cols,) if kept is _COLUMNS else (rows,) if kept else ()

    @property
    def is_column(self) -> bool:
        """Whether the rectangle is a column of a matrix, as a vector: an integer dropped the other dimension."""
        return self.indices is None and self._kept == (0,)

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.tensor.dtype

    @property
    def T(self) -> TransposedRef:
        """The rectangle transposed, as an operand of a GEMM. Raises KernelError for a tensor of one dimension."""
        return TransposedRef(self)

    @property
    def row_slice(self) -> slice:
        """The rows of the whole tensor that the rectangle has."""
        return slice(*self._rows)

    @property
    def col_slice(self) -> slice:
        """The columns of the whole tensor that the rectangle has."""
        return slice(*self._cols)

    @property
    def num_shards(self) -> int:
        """Shards of the tensor, one for each owner; 0 if it is not sharded."""
        return len(self.tensor.shards)

    def shard(self, number: int) -> TensorRef:
        """The part, or the copy, of the tensor that belongs to owner *number*. Slices of the shard count from its
        corner.

        Raises KernelError for a tensor that is not sharded or has fewer shards, and for a slice of a tensor.
        """
        tensor = self.tensor
        if len(tensor.shape) > 2:
            got = f"shard of {len(tensor.shape)} dimensions"
            raise KernelError(str(self), got, "one or two", "index the whole tensor, whose blocks a load may cross")
        if (self._rows, self._cols, self.shape) != ((0, tensor.rows), (0, tensor.cols), tensor.shape):
            raise KernelError(str(self), "shard of a slice", "shard of the whole tensor", "slice the shard")
        if not tensor.shards:
            fix = "allocate it with shard='row', 'column' or 'replica'"
            raise KernelError(str(self), "shard of a tensor that has none", "a sharded tensor", fix)
        if not 0 <= number < len(tensor.shards):
            raise KernelError(str(self), f"shard {number}", f"0 to {len(tensor.shards) - 1}")
        copy, i, j = tensor.shards[number]
        rows = tensor.row_bounds[i], tensor.row_bounds[i + 1]
        return TensorRef(tensor, rows, (tensor.col_bounds[j], tensor.col_bounds[j + 1]), copy)

    def __getitem__(self, key: SliceKey) -> TensorRef:
        keys = key if isinstance(key, tuple) else (key,)
        is_rectangle = self.indices is None
        for each in keys:
            if not (type(each) is slice and each.step is None):
                is_rectangle = is_rectangle and is_basic(each)
        if not is_rectangle:
            return self.indexed(self.every_index().at(key, self))
        kept = self._kept
        if len(keys) > len(kept):
            raise KernelError(str(self), f"{len(keys)} indices", f"at most {len(kept)}")
        (rows, cols), (row_asked, col_asked) = (self._rows, self._cols), self._asked
        for axis, each in zip(self._kept, keys, strict=False):
            if not isinstance(each, slice):
                kept = _COLUMNS if axis == 0 and _COLUMNS[0] in kept else kept[:-1]
            elif each.start is None and each.stop is None:
                continue
            if axis == 0:
                rows, row_asked = cut_span(rows, row_asked, each, self)
            else:
                cols, col_asked = cut_span(cols, col_asked, each, self)
        return TensorRef(self.tensor, rows, cols, self.copy, (row_asked, col_asked), kept=kept)

    def __setitem__(self, key: object, value: object) -> NoReturn:
        raise KernelError(str(self), "an assignment to elements in memory", "tl.store(x[...], value)")

    def indexed(self, indices: Indices) -> TensorRef:
        """The elements of the tensor at *indices*."""
        return TensorRef(self.tensor, self._rows, self._cols, self.copy, indices=indices)

    def every_index(self) -> Indices:
        """The index in each dimension of the tensor, of every element."""
        if self.indices is not None:
            return self.indices
        spans = ((self._rows[0], 0), (self._cols[0], 1))[2 - len(self.tensor.shape) :]
        dropped = tuple(number for number, (_, axis) in enumerate(spans) if axis not in self._kept)
        return Indices.of_slices(tuple(start for start, _ in spans), self.asked_dimensions, self.shape, dropped)

    def copy_near(self, pe_id: str) -> int:
        """The copy of the tensor that the PE *pe_id* uses."""
        return self.tensor.near.get(pe_id, 0) if self.copy is None else self.copy

    def part(self, rows: slice, cols: slice) -> TensorRef:
        """The rectangle of the given rows and columns, which count from this rectangle's corner."""
        top, left = self._rows[0], self._cols[0]
        bounds = (top + rows.start, top + rows.stop), (left + cols.start, left + cols.stop)
        return TensorRef(self.tensor, *bounds, self.copy)

    def matrix(self, pe_id: str = "") -> Matrix:
        """The matrix of the rectangle in memory, at its virtual address if the tensor has one, else at its physical
        address.

        For a tensor with copies, it lies in the copy near the PE *pe_id*, unless the rectangle is of a shard. Raises
        KernelError for elements that are no rectangle, and for a rectangle in more than one block of the tensor.
        """
        if self.indices is not None:
            return self._rectangle().matrix(pe_id)
        found = self.plain_matrix(pe_id)
        if found is None:
            tensor = self.tensor
            raise KernelError(
                str(self),
                f"a slice over several blocks (cut at rows {tensor.row_bounds}, columns {tensor.col_bounds})",
                "one inside a block",
                "split the access at the block's edge or allocate the tensor with other `blocks`",
            )
        return found

    def plain_matrix(self, pe_id: str = "") -> Matrix | None:
        """The matrix of a rectangle in one block of the tensor that was cut by slices; None for other elements."""
        if self.indices is not None:
            return None
        tensor, (top, bottom), (left, right) = self.tensor, self._rows, self._cols
        rows, cols, nbytes = tensor.row_bounds, tensor.col_bounds, tensor.dtype.nbytes
        # Rows that are computed from the program's number lie in a block that depends on the program.
        in_some_block = type(top) is not int and len(rows) > 2 and is_symbol(top)
        i, j = 0 if in_some_block else bisect_right(rows, top) - 1, bisect_right(cols, left) - 1
        if (not in_some_block and bottom > rows[i + 1]) or right > cols[j + 1]:
            return None
        copy = self.copy_near(pe_id) if tensor.copies else 0
        grid = tensor.virtual[copy] if tensor.virtual else tensor.copies[copy - 1] if copy else tensor.addresses
        stride = (cols[j + 1] - cols[j]) * nbytes
        if in_some_block:
            first = row_address(rows, [each[j] for each in grid], (top, bottom), stride)
            if first is None:
                return None
        else:
            first = grid[i][j] + (top - rows[i]) * stride
        return Matrix(
            address=first + (left - cols[j]) * nbytes,
            rows=bottom - top,
            cols=right - left,
            stride=stride,
            dtype=tensor.dtype,
        )

    @property
    def is_in_one_block(self) -> bool:
        """Whether the rectangle lies in one block of the tensor."""
        tensor = self.tensor
        if len(tensor.row_bounds) == len(tensor.col_bounds) == 2:
            return True
        for bounds, (start, end) in ((tensor.row_bounds, self._rows), (tensor.col_bounds, self._cols)):
            if len(bounds) > 2 and is_symbol(start):
                is_inside = row_address(bounds, bounds[:-1], (start, end), 1) is not None
            else:
                is_inside = end <= bounds[bisect_right(bounds, start)]
            if not is_inside:
                return False
        return True

    def _rectangle(self) -> TensorRef:
        """The elements as a rectangle. Raises KernelError where they are none."""
        assert self.indices is not None
        found = self.indices.rectangle(self.tensor.shape)
        if found is None:
            fix = "tl.load it, which takes elements anywhere"
            raise KernelError(str(self), "elements that are no rectangle", "adjacent elements of adjacent rows", fix)
        return TensorRef(self.tensor, *found, self.copy)

    def __str__(self) -> str:
        rows, cols = self._rows, self._cols
        if self.indices is not None:
            sizes = " x ".join(map(str, self.indices.inside)) or "1"
            return f"{self.tensor.name} ({sizes} of {' x '.join(map(str, self.tensor.shape))})"
        spans = zip((rows, cols)[2 - len(self.tensor.shape) :], _BOTH[2 - len(self.tensor.shape) :], strict=True)
        keys = (f"{start}:{end}" if axis in self._kept else f"{start}" for (start, end), axis in spans)
        return f"{self.tensor.name}[{', '.join(keys)}]"


class TransposedRef(Transposed[TensorRef]):
    """A rectangle of a tensor, transposed. Slices too have rows and columns exchanged: `a.T[k, m]` is `a[m, k].T`.

    An integer drops its dimension, and what it leaves is no matrix: `a.T[k]` is the vector `a[:, k]`.
    """

    __slots__ = ()

    def __getitem__(self, key: SliceKey) -> TransposedRef | TensorRef:
        keys = key if isinstance(key, tuple) else (key,)
        if len(keys) > 2:
            raise KernelError(str(self), f"{len(keys)} indices", "at most 2")
        found = self.of[keys[1] if len(keys) > 1 else slice(None), keys[0]]
        return found.T if len(found.shape) == 2 else found

    def __str__(self) -> str:
        return f"{self.of}.T"
