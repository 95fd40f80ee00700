"""The program port: everything that a front end, such as the language `tl`, may ask of the PE its kernel runs on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

import numpy.typing as npt

from kb_engine.block.state_visitor import StateVisitor
from kb_engine.memory.allocator import Lease
from kb_engine.memory.device_memory import DeviceMemory
from kb_engine.observe.capture import Capture
from kb_engine.program.accumulator_registers import AccumulatorRegisters
from kb_engine.program.grid import Grid
from kb_messages import Command, Matrix, VectorProgram


class Completion:
    """Whether a command is done in simulated time, and the one callback that runs when the command ends."""

    __slots__ = ("_kept", "_waiter", "done")

    def __init__(self) -> None:
        self.done = False
        self._kept: tuple[object, ...] = ()
        self._waiter: Callable[[object], None] | None = None

    def fold(self, over: StateVisitor) -> None:
        """As FoldPass says."""
        over.same(self.done, self._waiter is None, tuple([getattr(each, "start", None) for each in self._kept]))
        if self._waiter is not None:
            over.call(self._waiter)

    @property
    def kept(self) -> tuple[object, ...]:
        """What `keep` refers to."""
        return self._kept

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for the end of the command."""
        return self._waiter is not None

    def when_done(self, waiter: Callable[[object], None]) -> None:
        """Have *waiter* called once, with any argument, after the command has ended. A second call replaces it."""
        self._waiter = waiter

    def keep(self, objects: tuple[object, ...]) -> None:
        """Refer to *objects* until the command ends."""
        self._kept = objects

    def finish(self) -> Callable[[object], None] | None:
        """Mark the command as done. Returns the waiter, which the caller has to call, or None."""
        self.done = True
        self._kept = ()
        waiter, self._waiter = self._waiter, None
        return waiter


class Deferring(Protocol):
    """What a front end has yet to do for calls that the kernel made: commands that it issues later than it was asked.

    It may issue commands in both methods, for which `before` is not called again.
    """

    @property
    def holds(self) -> bool:
        """Whether there is such a command now."""

    def before(self, command: Command | None, line: str) -> None:
        """The kernel is about to issue *command* at *line*, or, with None, to wait."""

    def end(self) -> None:
        """The kernel has returned."""


class ProgramPort(Protocol):
    """One program of a launch: a kernel that runs on one PE. A front end turns the calls of the kernel into commands.

    All methods are called while the kernel runs. `submit` and `wait` let simulated time pass; nothing else does.
    """

    pe_id: str
    """The PE, like `sip0.cube0.pe5`: it takes its own copy of a replicated tensor (`TensorRef.matrix`)."""
    program_id: int
    num_programs: int
    grid: Grid | None
    """The axes along which the programs are numbered; None for a launch that has one program on each PE."""
    max_pieces: int
    """The pieces that one DMA transfer of the PE may have."""
    keeps_log: bool
    """Whether the run has an op log, from which values can be computed while kernels run."""
    on_capture: Callable[[Capture], None] | None
    """Tells the observers of a value that the kernel captured; None when nobody listens."""
    on_wrapped_index: Callable[[str, str, str], None] | None
    """Tells the observers of an index that wrapped, as `Observer.on_wrapped_index`; None when nobody listens."""
    tcm: Lease
    """Allocates the PE's TCM. The program's allocations are given back when the program ends."""
    fitting: set[VectorProgram]
    """Vector programs that the PE has a plan for, as a front end has found out by `fits`. Its programs share it."""
    memory: DeviceMemory
    """The bytes of all memories as far as they are known, and the bytes that commands have yet to produce."""

    registers: AccumulatorRegisters
    """The registers of sums that stay in the register file between commands. They have to be drained before the end."""
    deferred_calls: Deferring | None
    """What is called before commands, waits and the end of the kernel; the front end sets it."""

    @property
    def issues_ahead(self) -> bool:
        """Whether the PE_CPU has a scoreboard: `submit` then returns when the command is issued, in all cases."""

    @property
    def commands_issued(self) -> int:
        """The commands of all programs so far: those that come have this `command_seq` or a higher one."""

    def submit(self, command: Command, line: str, completion: Completion, wait_until_done: bool) -> None:
        """Issue *command*, which *line* of the kernel asked for, and return when the command is in the queue of its PE.

        *completion* is marked when the command is done; with *wait_until_done* the call returns only then. Raises
        KernelError, at *line*, for a command that the PE cannot do.
        """

    def register_nbytes(self, command: Command, line: str) -> int:
        """The bytes of registers without which no tile of *command* can be served. Raises KernelError as `submit`."""

    def fits(self, command: Command) -> bool:
        """Whether the PE has a plan for *command*."""

    def wait(self, completion: Completion) -> None:
        """Return when the command of *completion* is done."""

    def wait_for_all(self, line: str) -> None:
        """Return when all commands that the program has issued are done. The kernel waits at *line*."""

    def line(self, skip_file_prefixes: tuple[str, ...] = ()) -> str:
        """`file:line` of the statement that the kernel stands at, the file relative to the kernel's folder.

        The statement is that of the innermost frame outside kernbench. A front end of another package passes over its
        own frames by *skip_file_prefixes*, the prefixes of its files' paths.
        """

    def leave(self, why: str) -> None:
        """The program does something that does not follow from its calls of this port: it looks at values, or prints.

        *why* is what it does, as `prints`. No other program is taken to do the same.
        """

    def translate(self, matrix: Matrix) -> Matrix:
        """*matrix*, at a virtual address, as it lies in physical memory.

        Raises AddressError when the PE has no MMU, or its page table does not map the bytes.
        """

    def waits_for_value(self, line: str) -> AbstractContextManager[None]:
        """What happens within is a wait for a value that the kernel looks at, at *line*: the observers are told."""

    def materialize(self, matrix: Matrix, line: str) -> npt.NDArray[Any]:
        """The elements of *matrix* after all commands issued so far, `rows x cols`, read-only.

        Raises KernelError, at *line*, when the elements depend on a command that is not done, and in a run without an
        op log.
        """

    def constant(self, element: bytes, count: int) -> int:
        """The offset in the op log's immediates of *count* times the bytes *element*; 0 in a run without an op log."""


FrontEnd: TypeAlias = Callable[[ProgramPort], Any]
"""Makes the object that a kernel gets as its first argument."""
