"""Loads and stores: rectangles as one DMA transfer each, and other elements in pieces.

Design: docs/design/kernel-language.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np

from kb_engine.language.access import masks
from kb_engine.language.access.accesses import ElementAccess, flat_rectangle
from kb_engine.language.access.piece_transfers import exchanged, permuted, turned
from kb_engine.language.gemm import Epilogue
from kb_engine.language.layout_functions import ViewOps
from kb_engine.language.random_numbers import RandomNumbers
from kb_engine.memory.tiles import MadeTile
from kb_engine.program.author.arguments import describe
from kb_engine.program.values.affine import sides_of
from kb_engine.program.values.handles import Handle, LoadedTensor, PendingStore, Permuted, TransposedHandle
from kb_engine.program.values.host_values import HostValue
from kb_engine.program.values.symbols import plain
from kb_engine.program.values.tensors import TensorRef
from kb_engine.program.values.transposed import SWAP, Transposed, refuse
from kb_messages import VIRTUAL_END, Fill, KernelError, LoadCommand, Matrix, StoreCommand

ItemT = TypeVar("ItemT")
StoredValue: TypeAlias = "Handle | Transposed[Any] | Permuted | HostValue"


class Transfers(RandomNumbers, ViewOps):
    """`tl.load`, `tl.load_async` and `tl.store`, loops with loads ahead, and views of values."""

    def load(
        self, pointer: TensorRef, mask: HostValue | Handle | None = None, other: float | Handle = 0
    ) -> LoadedTensor:
        """Copies elements of memory to TCM by one DMA read, and waits for it. Elements that are no rectangle are read
        in pieces.

        The result has the shape and dtype of *pointer*. Its elements are the contents of memory at the call; they are
        known unless a compute op has yet to produce some of them. A *mask* of booleans chooses elements: the result
        then has the shape that the kernel asked for, also beyond the tensor's edge; the chosen elements alone are read,
        and the rest is *other*: a number, or a value in TCM, from which a `where` after the load takes the elements.
        Pieces beyond the DMA's `max_pieces`, and pieces in another memory, are further reads. Raises KernelError when
        TCM is full, when the bytes were never written, for an index beyond the tensor, for a mask that does not fit,
        and for *other* without a mask.
        """
        return self._load(pointer, mask, other, "load", waits=True)

    def load_async(
        self, pointer: TensorRef, mask: HostValue | Handle | None = None, other: float | Handle = 0
    ) -> LoadedTensor:
        """Loads elements of memory as `load` does, but returns at issue. The first use of the result, a read of its
        elements, or `tl.wait` waits for the load.

        A use is any call that takes the result as an operand. Nothing else waits: a store to the same memory has to
        follow the wait, because an earlier store may overwrite the bytes before they are read. Raises KernelError as
        `load` does.
        """
        return self._load(pointer, mask, other, "load_async", waits=False)

    def _load(
        self, pointer: TensorRef, mask: HostValue | Handle | None, other: float | Handle, call: str, waits: bool
    ) -> LoadedTensor:
        port, line = self._port, self._port.line()
        if isinstance(other, Handle):
            return self._load_beside(pointer, mask, other, call, waits)
        if mask is None and type(pointer) is TensorRef and other == 0:
            plain = pointer.plain_matrix(port.pe_id)
            if plain is not None:
                src = plain if plain.address >= VIRTUAL_END else self._memory_of(pointer, line)
                holder = self._programs.allocate(*sides_of(pointer.shape), src.dtype, line)
                return self._load_whole(pointer.shape, src, holder, line, waits)
        refuse(pointer, f"tl.{call} of", line, f"tl.{call} it as it is stored and pass its .T to them")
        ref = self._ref(pointer, call, line)
        chosen = masks.mask_of(mask, ref, line)
        if mask is None and other != 0:
            raise KernelError(line, f"other={other!r} without a mask", "a mask, which says where it goes")
        sideways = turned(ref)
        if sideways is not None:
            tile = self._load(sideways, None if chosen is None else chosen.T, other, call, waits)
            if len(tile) == 1:
                return tile.reshape(-1, 1)
            return cast(LoadedTensor, tile.T)  # only the tensor's layout decides, so no type can say it
        whole = flat_rectangle(ref, port.memory.burst_nbytes) if chosen is None else None
        if whole is not None:
            holder = self._allocate(*sides_of(ref.shape), whole.dtype, line)
            return self._load_whole(ref.shape, whole, holder, line, waits)
        access = masks.access_under(ref, chosen, line)
        if isinstance(access, ElementAccess):
            return self._load_pieces(access, other, line, waits)
        src = self._memory_of(access.ref, line)
        holder = self._allocate(*sides_of(access.shape), src.dtype, line)
        made = fill = None
        if not access.is_whole:
            element = masks.constant(other, src.dtype, line).tobytes()
            made = MadeTile(access.rows * access.cols, src.dtype, element, (access.part,))
            constants = port.constant(element, access.rows * access.cols - src.rows * src.cols)
            fill = Fill(row=access.down.start, col=access.along.start, immediate=constants)
        producer, known = port.memory.load([src], holder.matrix, made)
        known = None if known is None else known.reshape(access.shape)
        loaded = LoadedTensor(holder.matrix, access.shape, known, producer, self, holder)
        if not (waits or port.issues_ahead):
            loaded.completion.keep((holder,))
        port.submit(LoadCommand(src=src, dst=access.tile(holder.matrix), fill=fill), line, loaded.completion, waits)
        return loaded

    def _load_beside(
        self, pointer: TensorRef, mask: HostValue | Handle | None, other: Handle, call: str, waits: bool
    ) -> LoadedTensor:
        """Loads the elements that *mask* chooses, and takes the others from *other*."""
        line = self._port.line()
        if mask is None:
            raise KernelError(line, f"other = {describe(other)} without a mask", "a mask, which says where it goes")
        found: LoadedTensor | Transposed[Any] = self._load(pointer, mask, 0, call, waits)
        loaded = found.of.reordered((1, 0)) if isinstance(found, Transposed) else found
        chosen = self._call("where", [mask, loaded, other])
        if chosen.shape != loaded.shape:
            shapes = [" x ".join(map(str, each.shape)) for each in (other, loaded)]
            raise KernelError(line, f"other = a value of {shapes[0]}", f"one that broadcasts to {shapes[1]}")
        return chosen if chosen.dtype is loaded.dtype else self.convert(chosen, loaded.dtype)

    def store_async(
        self, pointer: TensorRef, value: StoredValue, mask: HostValue | Handle | None = None
    ) -> PendingStore:
        """Stores *value* as `store` does, but returns when the command is in the queue of the PE.

        `tl.wait` of the result waits for the store. The bytes of *value* are kept until then. Nothing else waits: a
        load of the same memory that has to see the bytes on the chip follows the wait. Raises KernelError as `store`
        does.
        """
        pending = PendingStore()
        self._store(pointer, value, mask, "store_async", pending)
        return pending

    def store(self, pointer: TensorRef, value: StoredValue, mask: HostValue | Handle | None = None) -> None:
        """Copies *value* from TCM to elements of memory of the same shape and dtype by one DMA write, and waits for it.

        Elements that are no rectangle are written in pieces; of several elements for one place, the last is written.
        Loads see the new bytes from the call on. A *mask* of booleans chooses the elements that are written; *value*
        then has the shape that the kernel asked *pointer* for, also beyond the tensor's edge. Known integers are stored
        in the dtype of *pointer*. Raises KernelError when shapes or dtypes differ, for an index beyond the tensor, for
        a value that is not in TCM, and for a mask that does not fit.
        """
        line = self._port.line()
        if mask is None and type(pointer) is TensorRef and isinstance(value, LoadedTensor):
            plain = pointer.plain_matrix(self._port.pe_id)
            if plain is not None:
                if pointer.tensor.read_only:
                    self._check_written(pointer, "store", line)
                lies = self._arrived(value, line)
                assert lies is not None, "a loaded or computed value lies in TCM"
                self._check_stored(lies, value, pointer.shape, pointer, line)
                dst = plain if plain.address >= VIRTUAL_END else self._memory_of(pointer, line)
                self._store_whole(dst, value, lies, line)
                return
        self._store(pointer, value, mask, "store", None)

    def _store(
        self,
        pointer: TensorRef,
        value: StoredValue,
        mask: HostValue | Handle | None,
        call: str,
        pending: PendingStore | None,
    ) -> None:
        """Stores *value*, and waits, or, with *pending*, adds the commands there."""
        line = self._port.line()
        refuse(pointer, f"tl.{call} of", line, SWAP)
        ref = self._ref(pointer, call, line)
        self._check_written(ref, call, line)
        chosen = masks.mask_of(mask, ref, line)
        stored: object = value
        if isinstance(value, HostValue):
            stored = self.stored(value, ref.dtype, line)
        if isinstance(value, (Permuted, TransposedHandle)) and self._is_laid_out_first(value.of):
            stored = value = value.laid_out()
        if isinstance(value, Permuted) and len(value.order) == len(ref.shape):
            order = value.inverse
            ref, stored, chosen = permuted(ref, order), value.of, None if chosen is None else chosen.transposed(order)
        if isinstance(value, Transposed):
            ref, stored, chosen = exchanged(ref), value.of, None if chosen is None else chosen.T
        whole = flat_rectangle(ref, self._port.memory.burst_nbytes) if chosen is None else None
        access = masks.access_under(ref, chosen, line) if whole is None else None
        src = self._arrived(stored, line)
        if not isinstance(stored, Handle) or src is None:
            needs = "a loaded tensor, or a composite's result in TCM (out=None)"
            raise KernelError(line, f"tl.{call} of {describe(stored)}", needs, _fix_of(stored))
        if whole is not None:
            self._check_stored(src, stored, ref.shape, ref, line)
            self._store_whole(whole, stored, src, line, pending)
            return
        assert access is not None
        if isinstance(access, ElementAccess):
            self._check_stored(src, stored, ref.shape if chosen is None else chosen.shape, ref, line)
            self._store_pieces(access, stored, src, line, pending)
            return
        self._check_stored(src, stored, access.shape, ref, line)
        dst = self._memory_of(access.ref, line)
        self._port.memory.put(dst, src, stored.known, stored.producer, access.part)
        part = access.tile(src).part(access.down.start, access.along.start, dst.rows, dst.cols)
        self._submit_store(StoreCommand(src=part, dst=dst), stored, line, pending)

    def ahead(self, items: Iterable[ItemT], n: int = 1) -> Iterator[ItemT]:
        """*items* in their order, each after the next *n* have been made. Takes no time of its own.

        With items of `load_async`, the next loads run while the loop works on an item: `for a, b in
        tl.ahead((tl.load_async(x[k]), tl.load_async(y[k])) for k in steps)`. The TCM holds *n* + 1 items, and the item
        before, to which the loop's names still refer. Raises KernelError for an *n* that is no integer of at least 0.
        """
        n = plain(n)
        if type(n) is not int or n < 0:
            raise KernelError(self._port.line(), f"tl.ahead of {n!r}", "an integer of at least 0")
        if not isinstance(items, Iterable):
            needs = "an iterable, such as (tl.load_async(x[k]) for k in steps)"
            raise KernelError(self._port.line(), f"tl.ahead of {describe(items)}", needs)
        return _delayed(items, n)

    def _is_laid_out_first(self, value: Handle) -> bool:
        """Whether a vector program puts the axes of *value* in order: *value* has no place yet, and fits the registers
        twice.

        A value in TCM is moved in pieces instead.
        """
        rows, cols = sides_of(value.shape)
        fits = 2 * rows * cols * value.dtype.nbytes <= self._port.registers.nbytes
        return self._programs.recorded(value) is not None and fits

    def _check_stored(self, src: Matrix, value: Handle, shape: tuple[int, ...], ref: TensorRef, line: str) -> None:
        """Raises KernelError unless *value*, which lies at *src*, has *shape* and the dtype of *ref*."""
        sides = shape if len(shape) == 2 else sides_of(shape)
        is_flat = max(len(shape), len(value.shape)) < 3
        if (src.rows, src.cols, src.dtype) != (*sides, ref.dtype) or not (is_flat or value.shape == shape):
            got, wanted = ((src.rows, src.cols), sides) if is_flat else (value.shape, shape)
            texts = [" x ".join(map(str, each)) for each in (got, wanted)]
            got_text = f"tl.store of {texts[0]} {src.dtype} to {ref} of {texts[1]} {ref.dtype}"
            fix = f".to({str(ref.dtype)!r}) converts the value" if texts[0] == texts[1] else ""
            if texts[0] != texts[1] and src.rows * src.cols == sides[0] * sides[1] and ref.is_column:
                fix = "keep the column's dimension, x[:, n : n + 1], or store value.ravel()"
            raise KernelError(line, got_text, "equal shapes and dtypes", fix)


def _fix_of(stored: object) -> str:
    """The fix of an error about *stored*, which is no value in TCM."""
    if isinstance(stored, (int, float)):
        return "tl.full(shape, number, dtype) makes one"
    if isinstance(stored, np.ndarray):
        return "functions of tl make values, and tl.load(x[...]) brings a part of a tensor"
    if isinstance(stored, Epilogue):
        return "it belongs to the epilogue of a tl.composite"
    return "tl.load it first" if isinstance(stored, TensorRef) else ""


def _delayed(items: Iterable[ItemT], n: int) -> Iterator[ItemT]:
    """*items*, each when *n* more of them exist. An item that was handed out is not kept."""
    made: deque[ItemT] = deque()
    for item in items:
        made.append(item)
        del item  # the name would keep the TCM of the item
        if len(made) > n:
            yield made.popleft()
    while made:
        yield made.popleft()
