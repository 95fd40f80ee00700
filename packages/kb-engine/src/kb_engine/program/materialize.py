"""Materializer: computes one value while the kernel runs, by the part of the op log that the value depends on.

The log stays as it is, and pass 2 executes the whole log again. This takes no simulated time.

Design: docs/design/kernel-language.md.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kb_engine.block.in_flight import CommandInFlight
from kb_engine.memory.device_memory import DeviceMemory
from kb_engine.observe.recorder import Recorder
from kb_engine.program.pe import ProcessingElement
from kb_messages import KernelError, Matrix, accesses_of, split_address

if TYPE_CHECKING:
    from kb_dataexec.execute import PartialExecution

Materialize = Callable[[Matrix, str, str], npt.NDArray[Any]]
"""Computes the elements of a matrix from the commands issued so far. The arguments are the matrix, the kernel line, and
the id of the PE."""


class Materializer:
    """Computes values from the records of *recorder*. It costs nothing until a kernel reads a value.

    The functions in `before` are called first. They write the records, up to now, of work whose times were computed
    ahead.
    """

    def __init__(
        self,
        recorder: Recorder,
        pes: Sequence[ProcessingElement],
        memory: DeviceMemory,
    ) -> None:
        self.before: list[Callable[[], None]] = []
        self._recorder = recorder
        self._buffers = {pe.tcm_owner: pe.scheduler.reserved_nbytes for pe in pes}
        self._memory = memory
        self._execution: PartialExecution | None = None
        self._n_chunks = self._n_immediates = 0
        self._slots = array("q")

    def slot_freed(self, slot: Matrix, free_seq: int) -> None:
        """Notes that *slot*, of a message, has no bytes from command *free_seq* on."""
        self._slots.extend((free_seq, *split_address(slot.address), slot.nbytes))

    def restart(self) -> None:
        """Computes from now on with the log that the recorder writes now, and with the present contents of memory."""
        self._execution = None
        self._n_chunks = self._n_immediates = 0
        self._slots = array("q")

    def __call__(self, matrix: Matrix, line: str, pe: str) -> npt.NDArray[Any]:
        """The elements of *matrix*, read-only. Raises KernelError when they depend on a command that is not done."""
        from kb_dataexec.execute import Unfinished, UnfinishedError

        execution = self._up_to_date()
        unfinished = self._recorder.unfinished
        submitted = [context.submitted for context in unfinished]
        listed = [Unfinished(each.command_seq, *accesses_of(each.command)) for each in submitted]
        try:
            return execution.value(matrix.rectangle, matrix.dtype, self._recorder.writer.strings, listed)
        except UnfinishedError as error:
            missing = {context.submitted.command_seq: context for context in unfinished}[error.command_seqs[0]]
            raise _not_done(missing, line, pe) from None

    def _up_to_date(self) -> PartialExecution:
        """The execution, after it has received all records so far."""
        from kb_dataexec.execute import PartialExecution

        writer = self._recorder.writer
        for make_records in self.before:
            make_records()
        self._recorder.flush_rows()
        if self._execution is None:
            assert self._memory.initial is not None, "a kernel runs"
            self._execution = PartialExecution(self._memory.initial, self._buffers)
        for ops, operands in writer.written_chunks(self._n_chunks):
            immediates = writer.written_immediates(self._n_immediates)
            self._execution.add(ops, operands, immediates)
            self._n_chunks += 1
            self._n_immediates += len(immediates)
        if self._slots:
            self._execution.release(np.array(self._slots, np.int64).reshape(-1, 4))
            self._slots = array("q")
        return self._execution


def without_log(matrix: Matrix, line: str, pe: str) -> npt.NDArray[Any]:
    """Stands for a Materializer in a run without an op log. Raises KernelError."""
    raise KernelError(
        line,
        "a look at a computed value in a run without an op log",
        "the log, from which the value is computed",
        "leave out --no-log, or give the Engine a LogWriter",
    )


def _not_done(context: CommandInFlight, line: str, pe: str) -> KernelError:
    submitted = context.submitted
    where, fix = f"{context.plan.kind} of {submitted.line}", "tl.wait for its handle first"
    if submitted.pe != pe:
        where += f" on {submitted.pe}"
        fix = "launch the code that reads it as a kernel of its own, after this one"
    got = f"a look at a value that depends on the {where}, which is not done"
    return KernelError(line, got, "finished commands", fix)
