"""`tl`: what a kernel may ask of the machine. Names and meaning follow Triton where it has them."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, SupportsIndex, TypeVar

import numpy as np

from kb_engine.language import masks
from kb_engine.language.concrete import Concrete
from kb_engine.language.epilogue import Epilogue, EpilogueOps
from kb_engine.language.gemm import Factor, GemmOps
from kb_engine.language.math import Argument
from kb_engine.program.handles import CompositeHandle, Handle, LoadedTensor
from kb_engine.program.issue import describe, in_tcm
from kb_engine.program.port import Completion
from kb_engine.program.tensors import TensorRef
from kb_engine.program.transposed import SWAP, Transposed, refuse
from kb_messages import Fill, KernelError, LoadCommand, StoreCommand, TileShape

HandleT = TypeVar("HandleT", bound=Handle)


class Language(EpilogueOps, GemmOps):
    """One program's `tl`."""

    def program_id(self, axis: int = 0) -> int:
        """This program's number in the launch, 0 up to `num_programs() - 1`. Only axis 0 exists."""
        self._check_axis(axis)
        return self._port.program_id

    def num_programs(self, axis: int = 0) -> int:
        """How many programs the launch has, one for each PE. Only axis 0 exists."""
        self._check_axis(axis)
        return self._port.num_programs

    def arange(self, start: int, end: int | None = None) -> Concrete:
        """The integers from *start* to *end* - 1; with one argument, from 0. They cost nothing; see `Concrete`."""
        first, stop = (0, start) if end is None else (start, end)
        if not all(isinstance(each, SupportsIndex) for each in (first, stop)) or index(stop) <= index(first):
            needs = "integers, the second larger than the first"
            raise KernelError(self._port.line(), f"tl.arange from {first!r} to {stop!r}", needs)
        return Concrete(np.arange(index(first), index(stop)), self._port.line)

    def load(self, pointer: TensorRef, mask: Concrete | Handle | None = None, other: float = 0) -> LoadedTensor:
        """Copy a rectangle of memory into TCM and wait for it; where PE_CPU has a scoreboard, until it is issued.

        The value is that of the moment of the call, concrete unless a compute op has yet to produce some of its bytes.
        With a *mask*, which chooses a rectangle, the value has the size that *pointer* was asked for, beyond the
        tensor's edge too; what the mask chooses is read, and the rest is *other*. Raises KernelError when TCM is full,
        the bytes were never written, or the mask does not fit.
        """
        line = self._port.line()
        refuse(pointer, "tl.load of", line, "tl.load it as it is stored and pass its .T to them")
        window = masks.window(self._ref(pointer, "load", line), mask, line)
        if mask is None and other != 0:
            raise KernelError(line, f"other={other!r} without a mask", "a mask, which says where it goes")
        src = self._memory_of(window.ref, line)
        dst = self._allocate(window.rows, window.cols, src.dtype, line)
        producer = self._port.memory.pending.producer(src)
        value = None if producer is not None else self._port.memory.read_copy(src)
        fill = None
        if not window.is_whole:
            element = masks.constant(other, src.dtype, line)
            n_around = window.rows * window.cols - src.rows * src.cols
            at = self._port.constant(element.tobytes(), n_around)
            fill = Fill(row=window.down.start, col=window.along.start, immediate=at)
            value = None if value is None else masks.padded(value, window, element)
        value = None if value is None else value.reshape(window.shape)
        loaded = LoadedTensor(dst, window.shape, value, producer, self)
        self._port.submit(LoadCommand(src=src, dst=dst, fill=fill), line, loaded.completion, True)
        return loaded

    def store(self, pointer: TensorRef, value: Handle, mask: Concrete | Handle | None = None) -> None:
        """Copy a value from TCM to a rectangle of memory of the same shape and dtype, and wait for it.

        The new bytes are visible to loads from the call on. With a *mask*, which chooses a rectangle, that alone is
        written; *pointer* and the value then have the size that *pointer* was asked for, beyond the tensor's edge too.
        Raises KernelError when shapes or dtypes differ, or the mask does not fit.
        """
        line = self._port.line()
        for each in (pointer, value):
            refuse(each, "tl.store of", line, SWAP)
        window = masks.window(self._ref(pointer, "store", line), mask, line)
        dst = self._memory_of(window.ref, line)
        src = in_tcm(value, line)
        if src is None:
            raise KernelError(
                line, f"tl.store of {describe(value)}", "a loaded tensor, or a composite's result in TCM (out=None)"
            )
        rows, cols = window.rows, window.cols
        if (src.rows, src.cols, src.dtype) != (rows, cols, dst.dtype):
            raise KernelError(
                line,
                f"tl.store of {src.rows} x {src.cols} {src.dtype} to {pointer} of {rows} x {cols} {dst.dtype}",
                "equal shapes and dtypes",
            )
        if value._value is None:
            producer = value._producer
            assert producer is not None
            self._port.memory.pending.mark(dst, producer)
        else:
            self._port.memory.write(dst, value._value.reshape(rows, cols)[window.down, window.along])
        part = src.part(window.down.start, window.along.start, dst.rows, dst.cols)
        self._port.submit(StoreCommand(src=part, dst=dst), line, Completion(), True)

    def composite(
        self,
        op: str,
        a: Factor,
        b: Argument | Transposed[Any] | None = None,
        out: TensorRef | None = None,
        epilogue: Sequence[Epilogue] = (),
        tile: TileShape | tuple[int, ...] | str | None = None,
        b_stream: bool = False,
    ) -> CompositeHandle:
        """Start an op on whole tensors, tiled over the PE's engines, and return at once.

        `"gemm"` is `out = a @ b`, then the ops of *epilogue*, over DMA, fetch/store, GEMM and MATH; each of a and b may
        be transposed (`x.T`). With *b_stream*, b goes from memory to registers and takes no TCM. Any elementwise
        function (`"exp"`, `"add"`, ...) is `out = op(a)` or `op(a, b)` over DMA, fetch/store and MATH; *b* may be a
        number. A loaded operand already lies in TCM and is pinned there. With `out=None` the result stays in TCM.
        `tile` is M x N x K, or M x N for a function; without it the scheduler chooses. Raises KernelError for an op or
        epilogue this machine has not, for shapes that do not fit together, and for a tile that does not fit the PE.
        """
        line = self._port.line()
        if op != "gemm":
            if epilogue:
                raise KernelError(line, f"an epilogue of a composite {op!r}", "none: a gemm alone has one")
            if b_stream:
                raise KernelError(line, f"b_stream of a composite {op!r}", "none: a gemm alone streams its b")
            return self._math_composite(op, [a] if b is None else [a, b], out, tile, line)
        if isinstance(b, (int, float)) or b is None:
            raise KernelError(line, f"b = {describe(b)}", "a slice of a tensor argument or a loaded tensor")
        return self._gemm_composite(a, b, out, epilogue, tile, b_stream, line)

    def materialize(self, handle: HandleT) -> HandleT:
        """Have a pending value computed now, so that the kernel may look at it; the handle itself, concrete.

        It waits for the handle as `tl.wait` does, and takes no simulated time besides. The value is what the handle's
        bytes hold after all commands issued so far, in the order of their issue. Raises KernelError when one of those
        that it depends on is not done, for a handle that was freed, and in a run without an op log.
        """
        line = self._port.line()
        if not isinstance(handle, Handle):
            raise KernelError(
                line, f"tl.materialize of {describe(handle)}", "what tl.load, math or a composite returned"
            )
        in_tcm(handle, line)
        self._port.wait(handle.completion)
        if handle.is_pending:
            value = self._port.materialize(handle._matrix, line)
            if handle.matrix is None:
                self._port.memory.write(handle._matrix, value)
            handle.settle(value)
        return handle

    def free(self, handle: Handle) -> None:
        """Give a handle's TCM back before the kernel ends.

        Raises KernelError when it has none, is freed already, or is still on its way or read by a composite that is.
        Where PE_CPU has a scoreboard, the last two are no errors: what takes the bytes next waits.
        """
        line = self._port.line()
        value: object = handle
        if isinstance(value, Handle) and value.freed:
            raise KernelError(line, "a second tl.free of the same handle", "one")
        matrix = in_tcm(value, line)
        if matrix is None:
            raise KernelError(line, f"tl.free of {describe(handle)}", "a handle that holds TCM")
        if not self._port.issues_ahead and not handle.completion.done:
            raise KernelError(line, "tl.free of a result on its way", "a finished one", "call tl.wait first")
        if not self._port.issues_ahead and not all(reader.done for reader in handle.readers):
            raise KernelError(
                line, "tl.free of an operand of a composite on its way", "a finished one", "call tl.wait first"
            )
        handle.freed = True
        self._port.tcm.release(matrix.address)

    def _check_axis(self, axis: int) -> None:
        if axis != 0:
            raise KernelError(self._port.line(), f"axis {axis}", "0: a launch has one dimension")
