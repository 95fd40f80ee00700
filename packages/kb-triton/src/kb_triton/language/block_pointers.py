"""Block pointers and tensor descriptors: blocks of a tensor of any strides, with bounds."""

from __future__ import annotations

from typing import Any

from kb_engine.program import Affine, IndexBox, Symbol
from kb_triton.language.memory import change, load, load_elements, store, store_elements
from kb_triton.language.shapes import reshape, shape_of
from kb_triton.language.tensors.arithmetic import as_tensor, plain_number
from kb_triton.language.tensors.dtypes import block_type, int32, pointer_type
from kb_triton.language.tensors.dtypes import dtype as ElementType
from kb_triton.language.tensors.pointers import AnyAddress, element_type
from kb_triton.language.tensors.program import refuse
from kb_triton.language.tensors.tensor import describe, tensor


def known_integer(value: Any, what: str) -> int:
    """Returns *value* as an integer, which is computed now if it is pending. Raises KernelError, with *what*."""
    if isinstance(value, tensor):
        given: Any = value.value
        return given if type(given) is Symbol else int(value)  # type: ignore[return-value]  # it stands for an integer
    number = plain_number(value)
    if not isinstance(number, int):
        refuse(f"{what} of {describe(value)}", "integers")
    return int(number)


def _integers(values: Any, what: str) -> tuple[int, ...]:
    return tuple(known_integer(each, what) for each in values)


class StridedTensor:
    """A tensor of `shape` and `strides` in elements, from `base` on. *what* is its name in errors."""

    __slots__ = ("base", "element_ty", "shape", "strides")

    def __init__(self, base: tensor, shape: Any, strides: Any, what: str) -> None:
        self.element_ty = element_type(base, what)
        if base.shape:
            refuse(f"{what} at {describe(base)}", "a pointer, not a block of them")
        self.base: AnyAddress = base.value
        self.shape = _integers(shape, f"the shape of {what}")
        self.strides = _integers(strides, f"the strides of {what}")

    def block(self, offsets: tuple[int, ...], sizes: tuple[int, ...]) -> AnyAddress:
        """Returns the places of the block of *sizes* at *offsets*."""
        at = sum(offset * stride for offset, stride in zip(offsets, self.strides, strict=True))
        steps = tuple(stride if n > 1 else 0 for n, stride in zip(sizes, self.strides, strict=True))
        return self.base.plus(Affine(sizes, at, steps), ())

    def inside(self, offsets: tuple[int, ...], sizes: tuple[int, ...], axes: Any) -> IndexBox | None:
        """Returns a mask of the elements of a block that lie inside the tensor along *axes*; None for all elements."""
        intervals = [(0, n) for n in sizes]
        for axis in axes:
            offset, n = offsets[axis], self.shape[axis]
            intervals[axis] = (max(0, -offset), min(sizes[axis], n - offset))
        box = IndexBox(sizes, tuple(intervals))
        return None if box.is_everywhere else box


class BlockPointer:
    """A block of `shape` elements at `offsets` of a region, from `tl.make_block_ptr`."""

    __slots__ = ("offsets", "region", "shape")

    def __init__(self, region: StridedTensor, offsets: tuple[int, ...], shape: tuple[int, ...]) -> None:
        self.region = region
        self.offsets = offsets
        self.shape = shape

    @property
    def element_ty(self) -> ElementType:
        """The type of the elements."""
        return self.region.element_ty

    @property
    def dtype(self) -> ElementType:
        """The type of the pointer."""
        return pointer_type(block_type(self.element_ty, self.shape))

    @property
    def type(self) -> ElementType:
        """The type of the pointer."""
        return self.dtype

    def elements(self, boundary_check: Any) -> tuple[AnyAddress, IndexBox | None]:
        """Returns the places of the elements, and a mask of the elements inside the bounds.

        *boundary_check* has the axes with bounds. Without such axes, the mask is None.
        """
        axes = () if boundary_check is None or boundary_check == "" else boundary_check
        checked = axes if isinstance(axes, (tuple, list)) else (axes,)
        address = self.region.block(self.offsets, self.shape)
        return address, self.region.inside(self.offsets, self.shape, [int(each) for each in checked])

    def store(self, value: Any, *arguments: Any, **named: Any) -> None:
        """Stores *value* to the block, with the other arguments of `tl.store`."""
        store(self, value, *arguments, **named)

    def advance(self, offsets: Any) -> BlockPointer:
        """Returns the block *offsets* further."""
        return advance(self, offsets)


def make_block_ptr(base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any) -> BlockPointer:
    """Returns a pointer to the block of *block_shape* at *offsets* of a tensor of *shape* and *strides*.

    *order* does nothing. Raises KernelError for lists of different lengths.
    """
    region = StridedTensor(base, shape, strides, "tl.make_block_ptr")
    sizes, at = shape_of((block_shape,)), _integers(offsets, "the offsets of tl.make_block_ptr")
    if not len(region.shape) == len(region.strides) == len(sizes) == len(at):
        refuse("tl.make_block_ptr of lists of different lengths", "one number for each axis in each list")
    return BlockPointer(region, at, sizes)


def advance(base: Any, offsets: Any) -> BlockPointer:
    """Returns the block pointer *base* moved by *offsets*. Raises KernelError for another object or length."""
    if not isinstance(base, BlockPointer):
        refuse(f"tl.advance of {describe(base)}", "a block pointer")
    steps = _integers(offsets, "the offsets of tl.advance")
    if len(steps) != len(base.offsets):
        refuse(f"tl.advance by {len(steps)} offsets", f"{len(base.offsets)}, one for each axis")
    return BlockPointer(base.region, tuple(a + b for a, b in zip(base.offsets, steps, strict=True)), base.shape)


class tensor_descriptor:
    """A tensor of `shape` and `strides`, loaded and stored in blocks of `block_shape`, and 0 beyond its bounds."""

    __slots__ = ("_padding", "_region", "block_shape", "shape", "strides")

    def __init__(self, region: StridedTensor, block_shape: tuple[int, ...], padding: Any) -> None:
        self._region = region
        self._padding = padding
        self.block_shape = block_shape
        self.shape = [tensor(each, (), int32) for each in region.shape]
        self.strides = [tensor(each, (), int32) for each in region.strides]

    @property
    def dtype(self) -> ElementType:
        """The type of the elements."""
        return self._region.element_ty

    @property
    def block_type(self) -> ElementType:
        """The type of a block."""
        return block_type(self.dtype, self.block_shape)

    @property
    def type(self) -> ElementType:
        """The type of a block."""
        return self.block_type

    def _block(self, offsets: Any, what: str) -> tuple[AnyAddress, IndexBox | None]:
        at = _integers(offsets, f"the offsets of {what}")
        if len(at) != len(self.block_shape):
            refuse(f"{what} at {len(at)} offsets", f"{len(self.block_shape)}, one for each axis")
        sizes = self.block_shape
        return self._region.block(at, sizes), self._region.inside(at, sizes, range(len(sizes)))

    def load(self, offsets: Any, cache_modifier: str = "", eviction_policy: str = "") -> tensor:
        """Returns the block at *offsets*."""
        address, chosen = self._block(offsets, "load")
        other = float("nan") if self._padding == "nan" and chosen is not None else None
        return load_elements(address, self.block_shape, self.dtype, chosen, other)

    def store(self, offsets: Any, value: Any) -> None:
        """Stores *value* to the block at *offsets*."""
        address, chosen = self._block(offsets, "store")
        store_elements(address, self.block_shape, self.dtype, _of_shape(value, self.block_shape), chosen)

    def _gathered(self, x_offsets: Any, y_offset: Any) -> tuple[tensor, tensor]:
        """Returns the pointers and the mask of rows *x_offsets*, from column *y_offset* on."""
        rows, columns = as_tensor(x_offsets), self.block_shape[-1]
        first = known_integer(y_offset, "the column of a gather")
        along = tensor(Affine((columns,), first, (int(columns > 1),)), (columns,), int32)[None, :]
        down = rows[:, None]
        base = tensor(self._region.base, (), pointer_type(self.dtype))
        pointers = base + down * self._region.strides[0] + along * self._region.strides[1]
        inside = (down < self._region.shape[0]) & (down >= 0) & (along < self._region.shape[1])
        return pointers, inside

    def gather(self, x_offsets: Any, y_offset: Any) -> tensor:
        """Returns the rows *x_offsets*, from column *y_offset* on."""
        pointers, inside = self._gathered(x_offsets, y_offset)
        return load(pointers, inside, 0)

    def scatter(self, value: Any, x_offsets: Any, y_offset: Any) -> None:
        """Stores *value* to the rows *x_offsets*, from column *y_offset* on."""
        pointers, inside = self._gathered(x_offsets, y_offset)
        store(pointers, value, inside)

    def atomic_add(self, offsets: Any, value: Any) -> None:
        """Adds *value* to the block at *offsets*."""
        self._changed("add", offsets, value)

    def atomic_max(self, offsets: Any, value: Any) -> None:
        """Replaces each element of the block at *offsets* by the larger one of it and *value*."""
        self._changed("max", offsets, value)

    def atomic_min(self, offsets: Any, value: Any) -> None:
        """Replaces each element of the block at *offsets* by the smaller one of it and *value*."""
        self._changed("min", offsets, value)

    def atomic_and(self, offsets: Any, value: Any) -> None:
        """Replaces the block at *offsets* by its bitwise `and` with *value*."""
        self._changed("and", offsets, value)

    def atomic_or(self, offsets: Any, value: Any) -> None:
        """Replaces the block at *offsets* by its bitwise `or` with *value*."""
        self._changed("or", offsets, value)

    def atomic_xor(self, offsets: Any, value: Any) -> None:
        """Replaces the block at *offsets* by its bitwise `xor` with *value*."""
        self._changed("xor", offsets, value)

    def _changed(self, op: str, offsets: Any, value: Any) -> None:
        address, chosen = self._block(offsets, f"atomic_{op}")
        change(op, address, self.block_shape, self.dtype, (value,), chosen, "relaxed")


def _of_shape(value: Any, shape: tuple[int, ...]) -> tensor:
    given = as_tensor(value)
    return reshape(given, shape) if given.numel > 1 and given.shape != shape else given


def make_tensor_descriptor(
    base: Any, shape: Any, strides: Any, block_shape: Any, padding_option: Any = "zero"
) -> tensor_descriptor:
    """Returns a descriptor of the tensor of *shape* and *strides* at *base*, with blocks of *block_shape*.

    Raises KernelError for lists of different lengths.
    """
    region = StridedTensor(base, shape, strides, "tl.make_tensor_descriptor")
    sizes = shape_of((block_shape,))
    if not len(region.shape) == len(region.strides) == len(sizes):
        refuse("tl.make_tensor_descriptor of lists of different lengths", "one number for each axis in each list")
    return tensor_descriptor(region, sizes, padding_option)


def load_tensor_descriptor(desc: Any, offsets: Any) -> tensor:
    """Returns the block of *desc* at *offsets*."""
    return _descriptor(desc).load(offsets)


def store_tensor_descriptor(desc: Any, offsets: Any, value: Any) -> None:
    """Stores *value* to the block of *desc* at *offsets*."""
    _descriptor(desc).store(offsets, value)


def _experimental_descriptor_load(desc: Any, offsets: Any, block_shape: Any, dtype: Any) -> tensor:
    return _descriptor(desc).load(offsets)


def _experimental_descriptor_store(desc: Any, value: Any, offsets: Any) -> None:
    _descriptor(desc).store(offsets, value)


def _descriptor(desc: Any) -> tensor_descriptor:
    if not isinstance(desc, tensor_descriptor):
        refuse(f"a load or store by {describe(desc)}", "a tensor descriptor")
    return desc
