"""LanguageBase: the base of kernel languages. It finds operands, allocates TCM for results, and waits.

Design: docs/design/kernel-language.md.
"""

from __future__ import annotations

from collections.abc import Iterable

from kb_engine.memory.allocator import OutOfMemoryError
from kb_engine.program.author.arguments import describe, in_tcm
from kb_engine.program.author.kernel_lines import foreign_value, value_of_ended
from kb_engine.program.grid import Program
from kb_engine.program.port import Completion, ProgramPort
from kb_engine.program.tcm_holder import TcmHolder
from kb_engine.program.values.handles import CompositeHandle, Handle, LoadedTensor, PendingStore
from kb_engine.program.values.tensors import TensorRef
from kb_engine.program.values.transposed import refuse
from kb_messages import VIRTUAL_END, AddressError, Command, DType, KernelError, Matrix


class TcmFullError(KernelError):
    """A value of `required` bytes does not fit the free TCM of a PE, which has at most `limit` bytes in one piece."""

    required = 0
    limit = 0


def allocate(port: ProgramPort, rows: int, cols: int, dtype: DType, line: str, fix: str = "") -> TcmHolder:
    """Allocates a packed matrix in TCM, which is freed with the last reference. Raises TcmFullError for a full TCM.

    *fix* ends the error: a further way to make room.
    """
    row_nbytes = cols * dtype.nbytes
    try:
        address = port.tcm.allocate(rows * row_nbytes, line)
    except OutOfMemoryError as error:
        raise _full(error, rows * row_nbytes, line, fix) from None
    matrix = Matrix(address=address, rows=rows, cols=cols, stride=row_nbytes, dtype=dtype)
    return TcmHolder(port.tcm, matrix, line)


def _full(error: OutOfMemoryError, nbytes: int, line: str, fix: str) -> TcmFullError:
    """The TcmFullError of *error*, for a value of *nbytes*.

    This function alone has a name for the new error. A name in the frame that raises it would make a cycle, which keeps
    values in TCM.
    """
    full = TcmFullError(
        f"{line}: {error.where}", error.got, error.needs, f"keep fewer values at a time, or smaller ones{fix}"
    )
    full.required, full.limit = nbytes, error.limit
    return full


class LanguageBase:
    """The base of a kernel language. A language reaches the machine by its program port alone."""

    def __init__(self, port: ProgramPort) -> None:
        self._port = port

    def wait(self, handle: Handle | PendingStore) -> None:
        """Returns, in simulated time, when the command of *handle* is done. Costs no time if it is done already.

        Of a `tl.store_async`, all commands are waited for.

        A pending result stays pending: `tl.materialize` makes its elements known. Raises KernelError for anything but a
        handle.
        """
        given: object = handle
        if isinstance(given, PendingStore):
            for each in given.completions:
                self._port.wait(each)
            return
        if isinstance(given, Handle) and given.operators is not self:  # type: ignore[comparison-overlap]  # it is both
            self._check_owner(given, self._port.line())
        completion = getattr(handle, "completion", None)
        if not isinstance(completion, Completion):
            got = f"tl.wait of {describe(handle)}"
            raise KernelError(self._port.line(), got, "a result of tl.composite, tl.load or tl.store_async")
        self._port.wait(completion)

    def wait_until_done(self, completion: Completion) -> None:
        """Returns, in simulated time, when the command of *completion* is done."""
        self._port.wait(completion)

    def evaluate(self, handle: Handle, touched_by: str) -> None:
        """Waits for the command of *handle* and computes its elements, which the kernel reads by *touched_by*.

        Raises KernelError for a handle that was freed, for elements that depend on a command that is not done, and for
        pending elements in a run without an op log.
        """
        line = self._line_of_look(handle)
        if handle.is_pending and handle.producer is not None and not self._port.keeps_log:
            raise handle.producer.error(touched_by)
        with self._port.waits_for_value(line):
            in_tcm(handle, line)
            self._port.wait(handle.completion)
        if handle.is_pending:
            elements = self._port.materialize(handle.place, line)
            if handle.matrix is None:
                self._port.memory.write(handle.place, elements)
            handle.settle(elements)

    def _line_of_look(self, handle: Handle) -> str:
        """The kernel line that reads *handle*. After the program's end, only results of its commands can be read."""
        try:
            return self._port.line()
        except KernelError as ended:
            if not getattr(handle, "is_issued", True):
                raise
            return ended.where

    def notify_wrapped_index(self, wrapped_at: str) -> None:
        """Notifies the observers that the kernel indexes by integers that wrapped at *wrapped_at*."""
        notify = self._port.on_wrapped_index
        if notify is not None:
            notify(self._port.pe_id, self._port.line(), wrapped_at)

    def leave(self, why: str) -> None:
        """Marks the program as one that no other program repeats, because it does *why*, such as `prints`."""
        self._port.leave(why)

    def _memory_of(self, ref: TensorRef, line: str) -> Matrix:
        """The place of *ref* in physical memory. Raises KernelError where this PE does not map its virtual address."""
        pe_id = self._port.pe_id
        matrix = ref.plain_matrix(pe_id) or ref.matrix(pe_id)
        return matrix if matrix.address >= VIRTUAL_END else self._translated(matrix, ref, line)

    def _matrix_of(self, ref: TensorRef, line: str) -> Matrix:
        """The place of *ref*, an operand of a composite. Raises KernelError as `_memory_of` does, and for a column as a
        vector, because a composite takes a vector as one row."""
        if ref.is_column:
            got, fix = f"{ref}, a vector whose elements lie in rows", "keep the dimension: x[:, n : n + 1] is a matrix"
            raise KernelError(line, got, "a matrix, or adjacent elements of a row", fix)
        return self._memory_of(ref, line)

    def _translated(self, matrix: Matrix, ref: TensorRef, line: str) -> Matrix:
        """*matrix*, a part of *ref*, in physical memory. Raises KernelError where this PE does not map its address."""
        try:
            return self._port.translate(matrix)
        except AddressError as error:
            raise KernelError(f"{line}: {ref} in {error.where}", error.got, error.needs, error.fix) from None

    def _operand(self, value: object, name: str, line: str) -> Matrix:
        """The place of an operand, in memory or in TCM. Raises KernelError for anything but a reference or a handle."""
        if isinstance(value, TensorRef):
            return self._matrix_of(value, line)
        refuse(value, f"{name} =", line)
        matrix = self._arrived(value, line)
        if matrix is None:
            raise KernelError(line, f"{name} = {describe(value)}", "a slice of a tensor argument or a loaded tensor")
        return matrix

    def _arrived(self, value: object, line: str) -> Matrix | None:
        """The place of *value* in TCM, or None, after a wait for its `load_async` on a PE without a scoreboard."""
        if isinstance(value, Handle) and value.operators is not self:  # type: ignore[comparison-overlap]  # as above
            self._check_owner(value, line)
        if type(value) is LoadedTensor and value.holder is not None and not value.holder.freed:
            matrix: Matrix | None = value.place
        else:
            matrix = in_tcm(value, line)
        if isinstance(value, LoadedTensor) and not self._port.issues_ahead:
            self._port.wait(value.completion)
        return matrix

    def _check_owner(self, value: Handle, line: str) -> None:
        """Raises KernelError unless this program made *value*, whose `operators` are not this object."""
        owner = value.operators
        if not isinstance(owner, LanguageBase) or owner._port is self._port:
            return
        if owner._port.tcm.has_ended:
            raise value_of_ended(line)
        here, there = (
            Program(each.program_id, each.num_programs, each.grid).on(each.pe_id) for each in (self._port, owner._port)
        )
        raise foreign_value(f"a value of {there} in a call of {here}", line)

    def _loaded(self, value: object, op: str, line: str) -> Matrix:
        """The place of an operand in TCM. Raises KernelError for anything but a handle."""
        if isinstance(value, LoadedTensor):
            matrix = self._arrived(value, line)
            assert matrix is not None, "a loaded or computed value lies in TCM"
            return matrix
        if isinstance(value, TensorRef):
            raise KernelError(line, f"tl.{op} of a TensorRef", "a loaded tensor", "tl.load it, or use tl.composite")
        return self._operand(value, f"an argument of tl.{op}", line)

    def _allocate(self, rows: int, cols: int, dtype: DType, line: str) -> TcmHolder:
        """Allocates a packed matrix in TCM. Raises TcmFullError for a full TCM."""
        return allocate(self._port, rows, cols, dtype, line)

    def _start(self, command: Command, operands: Iterable[object], handle: CompositeHandle, line: str) -> None:
        """Submits the *command* of a composite, whose result is *handle*, and returns while the command is in flight.

        A scoreboard knows the bytes that are in use. Without one, the command itself keeps the TCM of its result and of
        the handles among its *operands*.
        """
        kept = [handle.holder]
        for value in operands:
            if isinstance(value, Handle):
                value.readers.append(handle.completion)
                kept.append(value.holder)
        if not self._port.issues_ahead:
            handle.completion.keep(tuple(kept))
        assert handle.producer is not None
        self._port.memory.pending.mark(handle.place, handle.producer)
        self._port.submit(command, line, handle.completion, False)

    def _keep_until(self, completion: Completion, value: Handle) -> None:
        """Keeps the bytes of *value* until *completion*, because a command reads them. A scoreboard does so itself."""
        value.readers.append(completion)
        if not self._port.issues_ahead:
            completion.keep((value.holder,))

    def _check_written(self, ref: TensorRef, call: str, line: str) -> None:
        """Raises KernelError where *ref* is a part of a tensor that kernels may not write."""
        if ref.tensor.read_only:
            got, needs = f"tl.{call} to {ref}, an input of the run", "a tensor whose bytes come back"
            raise KernelError(line, got, needs, ref.tensor.read_only)

    def _ref(self, value: object, call: str, line: str) -> TensorRef:
        """Returns *value*, a reference to a tensor in memory. Raises KernelError for anything else."""
        refuse(value, f"tl.{call} of", line)
        if not isinstance(value, TensorRef):
            raise KernelError(line, f"tl.{call} of {describe(value)}", "a slice of a tensor argument")
        return value
