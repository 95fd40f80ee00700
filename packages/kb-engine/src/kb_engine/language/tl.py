"""Language: the kernel language `tl`, all requests of a kernel to its PE. Names and meanings follow Triton.

Design: docs/design/kernel-language.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, SupportsIndex, TypeVar, cast

import numpy as np
import numpy.typing as npt

from kb_engine.language.accumulators import AccumulatorTensor
from kb_engine.language.call_rules import broadcast
from kb_engine.language.gemm import Epilogue, EpilogueOps, Factor, GemmOps
from kb_engine.language.messages import MessageOps
from kb_engine.language.vector.recorded import RecordedTensor
from kb_engine.observe.capture import Capture, Recipe, shown_array
from kb_engine.program.author.arguments import describe, in_tcm
from kb_engine.program.author.assertions import failure
from kb_engine.program.values.affine import Affine
from kb_engine.program.values.handles import CompositeHandle, Handle
from kb_engine.program.values.host_values import HostValue
from kb_engine.program.values.symbols import plain, whole
from kb_engine.program.values.tensors import TensorRef
from kb_engine.program.values.transposed import Transposed, refuse
from kb_messages import KernelError, LoopOrder, Matrix, TileShape, write_out

HandleT = TypeVar("HandleT", bound=Handle)


class _Inspected(NamedTuple):
    """An inspected value: its elements, or their place, and the text that stands for pending elements."""

    shape: tuple[int, ...]
    known: npt.NDArray[Any] | None
    place: Matrix | None
    text: str
    recipe: Recipe | None = None


class Language(EpilogueOps, GemmOps, MessageOps):
    """The `tl` of one program. *port* is the PE that the program runs on.

    A call that issues a command takes the time that PE_CPU needs to issue the command, and the time that the PE's
    blocks need to execute it; on a PE whose CPU has a scoreboard the call returns when the command is issued. Every
    error of a call is a KernelError that begins with the line of the kernel.
    """

    def program_id(self, axis: int = 0) -> int:
        """This program's number along *axis* of the launch's grid, from 0 to `num_programs(axis) - 1`.

        Raises KernelError unless *axis* is 0, 1 or 2; a launch without a grid has axis 0 alone.
        """
        return self._axis(axis, "program_id")[0]

    def num_programs(self, axis: int = 0) -> int:
        """The number of programs along *axis* of the launch's grid; without a grid, one for each PE.

        Raises KernelError as `program_id` does.
        """
        return self._axis(axis, "num_programs")[1]

    def arange(self, start: int, end: int | None = None) -> HostValue:
        """The integers from *start* to *end* - 1, a vector; with one argument, from 0. Takes no time and no TCM.

        Raises KernelError for an empty range, and for anything but integers.
        """
        first, stop = (0, start) if end is None else (start, end)
        if not all(isinstance(each, SupportsIndex) for each in (first, stop)) or whole(stop) <= whole(first):
            needs = "integers, the second larger than the first"
            raise KernelError(self._port.line(), f"tl.arange from {first!r} to {stop!r}", needs)
        count = plain(whole(stop) - whole(first))
        return HostValue.of(Affine((count,), whole(first), (int(count > 1),)), self._port.line)

    def composite(
        self,
        op: str,
        a: Factor,
        b: TensorRef | Handle | float | Transposed[Any] | None = None,
        out: TensorRef | None = None,
        epilogue: Sequence[Epilogue] = (),
        tile: TileShape | tuple[int, ...] | str | None = None,
        b_stream: bool = False,
        loop_order: LoopOrder | str | None = None,
    ) -> CompositeHandle:
        """Starts an op on whole tensors, cut into tiles that pass through the PE's engines, and returns at once.

        `"gemm"` is `out = a @ b` of M x K and K x N, then the ops of *epilogue*; a and b may be transposed (`x.T`). It
        uses DMA, fetch/store, GEMM and MATH. With *b_stream*, b goes from memory to registers and takes no TCM.
        *loop_order* is `"mnk"` (the default: output tiles row by row), `"nmk"` (column by column),
        `"weight_stationary"` (column by column, and a panel of b stays in TCM for all tiles of a column) or
        `"input_stationary"` (row by row, and a panel of a stays for all tiles of a row). Every elementwise function
        (`"exp"`, `"add"`, ...) is `out = op(a)` or `op(a, b)`, over DMA, fetch/store and MATH; *b* may be a number.
        Operands are slices of tensors, or handles, whose data stays where it is in TCM.

        The result goes to *out*, with its dtype, or stays in TCM with `out=None`. *tile* is M x N x K for a GEMM and M
        x N for a function, as a tuple, a TileShape or text; without it the scheduler chooses. `tl.wait` waits for the
        result. Raises KernelError for an op or an epilogue that the machine does not have, for shapes that do not fit
        together, and for a tile that does not fit the PE.
        """
        line = self._port.line()
        if op != "gemm":
            if epilogue:
                raise KernelError(line, f"an epilogue of a composite {op!r}", "none: a gemm alone has one")
            if b_stream:
                raise KernelError(line, f"b_stream of a composite {op!r}", "none: a gemm alone streams its b")
            if loop_order is not None:
                raise KernelError(line, f"loop_order of a composite {op!r}", "none: a gemm alone has one")
            return self._math_composite(op, [a] if b is None else [a, b], out, tile, line)
        if isinstance(b, (int, float)) or b is None:
            raise KernelError(line, f"b = {describe(b)}", "a slice of a tensor argument or a loaded tensor")
        return self._gemm_composite(a, b, out, epilogue, tile, b_stream, loop_order, line)

    def materialize(self, handle: HandleT) -> HandleT:
        """Computes a pending result now. Returns *handle*, whose elements are known.

        A kernel need not call this: reading elements of a pending result, by `if`, `x[0]`, an index or a mask, does the
        same. The program waits for the result, the same as `tl.wait`, and takes no other simulated time; the report
        shows these waits by kernel line. The elements are the contents of the handle's bytes after all commands issued
        so far, in the order of their issue. Raises KernelError when the result depends on a command that is not done,
        for a handle that was freed, and in a run without an op log.
        """
        line = self._port.line()
        if not isinstance(handle, Handle):
            needs = "a result of tl.load, math or a composite"
            raise KernelError(line, f"tl.materialize of {describe(handle)}", needs)
        self.evaluate(handle, "tl.materialize")
        return handle

    def free(self, handle: Handle) -> None:
        """Frees the TCM of *handle* before its last reference goes. Takes no time.

        Raises KernelError for a handle that holds no TCM or was freed, for a result that is not there yet, and for an
        operand of a composite that is not done. A PE whose CPU has a scoreboard allows the last two: the next command
        that takes the bytes waits.
        """
        self.leave("frees a value")
        if isinstance(cast("object", handle), Handle) and handle.operators is not self:
            self._check_owner(handle, self._port.line())
        if isinstance(handle, RecordedTensor) and not (handle.is_issued or handle.freed):
            handle.forget()
            return
        given: object = handle
        self._later.issue()
        if isinstance(given, AccumulatorTensor) and given.in_registers and not given.freed:
            self._sums.forget(given)
            return
        if isinstance(given, Handle) and handle.freed:
            raise KernelError(self._port.line(), "a second tl.free of the same handle", "one")
        self._programs.close()
        holder = handle.holder if isinstance(given, Handle) else None
        if holder is None:
            raise KernelError(self._port.line(), f"tl.free of {describe(handle)}", "a handle that holds TCM")
        if not self._port.issues_ahead:
            self._check_unused(handle)
        holder.free()

    def print(self, label: str, *values: object) -> None:
        """Prints a line with *label*, the kernel line and the PE for each of *values*, or one line without values.

        Numbers, texts and known elements are printed at once. A pending value, or a slice of a tensor in memory, is
        printed after pass 2, with the elements that it had when all commands before this call had taken effect. Raises
        KernelError for a handle that was freed.
        """
        line = self._port.line()
        self.leave("prints")
        for value in values or ("",):
            text = str(value)
            if isinstance(value, (Handle, HostValue, TensorRef)):
                looked = self._inspected(value, "print", line)
                if looked.known is None and self._notify(str(label), line, looked, is_print=True):
                    continue
                text = shown_array(looked.known) if looked.known is not None else f"pending {looked.text}"
            write_out(f"{line} {self._port.pe_id}: {label} {text}".rstrip() + "\n")

    def capture(self, name: str, x: Handle | HostValue | TensorRef) -> None:
        """Keeps the value of *x* under *name*, for `kb show` and `KernelRun.captures`.

        The value holds the elements of *x* after all commands before this call, also when its TCM is used again later.
        A name may be captured many times, by many programs. Raises KernelError for a name that is no text, for anything
        but a handle, integers of `tl.arange` and a slice of a tensor, and for a handle that was freed.
        """
        line, given = self._port.line(), cast("object", name)
        self.leave("captures")
        if not isinstance(given, str) or not name.isprintable() or not 0 < len(name) <= 100:
            raise KernelError(line, f"tl.capture under {name!r:.100}", "a name of 1 to 100 characters that print")
        self._notify(name, line, self._inspected(x, "capture", line), is_print=False)

    def device_assert(
        self, condition: Handle | HostValue | bool, message: str = "", mask: Handle | HostValue | bool | None = None
    ) -> None:
        """Ends the run with an error unless *condition* holds wherever *mask* is true. Takes no simulated time.

        A condition that is known is checked at once. Pass 2 checks a pending one, with the elements that it had when
        all commands before this call had taken effect. The error has the kernel line, the program, the first element
        that fails, and *message*; the exit code is that of wrong data. A run without pass 2 does not check pending
        conditions. Raises KernelError for anything but values of the kernel, and for shapes that do not broadcast.
        """
        line = self._port.line()
        if isinstance(condition, Handle) or isinstance(mask, Handle):
            self.leave("asserts")
        holds, chosen = self._condition(condition, line), None if mask is None else self._condition(mask, line)
        left_out: npt.NDArray[np.bool_] | None = None
        if isinstance(chosen, Handle):
            idle = chosen == 0
            left_out = None if isinstance(holds, Handle) else holds
            holds = (holds != 0) | idle if isinstance(holds, Handle) else idle
        elif chosen is not None:
            left_out = ~chosen
        if not isinstance(holds, Handle):
            failed = failure(line, message, holds, left_out)
            if failed is not None:
                raise failed
            return
        if left_out is not None:
            broadcast([holds.shape, left_out.shape], "tl.device_assert", line)
        looked = self._inspected(holds, "device_assert", line)
        self._notify(str(message), line, looked, is_print=False, is_assertion=True, left_out=left_out)

    def _condition(self, given: object, line: str) -> Handle | npt.NDArray[np.bool_]:
        """*given*, a condition or a mask: a pending value, or its known elements."""
        refuse(given, "tl.device_assert of", line)
        if isinstance(given, Handle):
            if given.freed:
                in_tcm(given, line)
            return given if given.known is None else np.asarray(given.known != 0)
        if isinstance(given, HostValue):
            return np.asarray(given.data != 0)
        if isinstance(given, (bool, int, float, np.generic)):
            return np.asarray(bool(given))
        raise KernelError(line, f"tl.device_assert of {describe(given)}", "a value of the kernel")

    def _check_unused(self, handle: Handle) -> None:
        """Raises KernelError for a handle that a command has yet to write or read."""
        got, fix = "" if handle.completion.done else "a result on its way", "call tl.wait first"
        if not got and not all(reader.done for reader in handle.readers):
            got = "an operand of a composite or a message on its way"
            fix += "; what was sent is free by itself when the message is there"
        if got:
            raise KernelError(self._port.line(), f"tl.free of {got}", "a finished one", fix)

    def _axis(self, axis: int, call: str) -> tuple[int, int]:
        """This program's number along *axis*, and the number of programs along it."""
        port = self._port
        if port.grid is None and axis == 0:
            return port.program_id, port.num_programs
        if port.grid is None or axis not in (0, 1, 2):
            needs = "0, 1 or 2" if port.grid is not None else "0: a launch without a grid has one axis"
            raise KernelError(port.line(), f"tl.{call} of axis {axis!r}", needs)
        return port.grid.ids(port.program_id)[axis], port.grid.sizes[axis]

    def _notify(self, name: str, line: str, looked: _Inspected, is_print: bool, **more: Any) -> bool:
        """Notifies the observers of a capture with the fields *more*. Returns whether there is one."""
        port = self._port
        if port.on_capture is None:
            return False
        port.on_capture(
            Capture(
                name=name,
                line=line,
                pe_id=port.pe_id,
                program=port.program_id,
                shape=looked.shape,
                known=looked.known,
                place=looked.place,
                command_seq=port.commands_issued,
                is_print=is_print,
                recipe=looked.recipe,
                **more,
            )
        )
        return True

    def _inspected(self, x: object, call: str, line: str) -> _Inspected:
        refuse(x, f"tl.{call} of", line, "look at it as it is stored")
        if isinstance(x, HostValue):
            return _Inspected(x.shape, x.data, None, str(x))
        if isinstance(x, TensorRef):
            place = self._memory_of(x, line)
            return _Inspected(x.shape, None, place, f"{x} of {place.dtype}")
        if not isinstance(x, Handle):
            needs = "a value of the kernel: a handle, integers of tl.arange, or a slice of a tensor"
            raise KernelError(line, f"tl.{call} of {describe(x)}", needs)
        if x.freed:
            in_tcm(x, line)
        if x.is_pending and x.operators is not self:
            self._check_owner(x, line)
        if isinstance(x, RecordedTensor) and not x.is_issued:
            recipe = None if x.known is not None else self._programs.recipe(x.op)
            return _Inspected(x.shape, x.known, None, repr(x), recipe)
        place = x.settled_place() if isinstance(x, AccumulatorTensor) else x.place
        return _Inspected(x.shape, x.known, place, repr(x))
