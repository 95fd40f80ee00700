"""The program port: all requests that a front end, such as the language `tl`, may make of the PE of its kernel.

Design: docs/design/kernel-language.md.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

import numpy.typing as npt

from kb_engine.block.state_visitor import StateVisitor
from kb_engine.memory.allocator import Lease
from kb_engine.memory.device_memory import DeviceMemory
from kb_engine.observe.capture import Capture
from kb_engine.program.grid import Grid
from kb_engine.sync.channel import Channel, Message, Payload
from kb_engine.sync.exchange import Tag
from kb_messages import Command, Matrix, VectorProgram, join_address


class Completion:
    """Completion of a command: whether it is done in simulated time, and the one callback that runs at its end.

    `kept` are the objects of `keep`.
    """

    __slots__ = ("_waiter", "done", "kept")

    def __init__(self) -> None:
        self.done = False
        self.kept: tuple[object, ...] = ()
        self._waiter: Callable[[object], None] | None = None

    def visit_state(self, over: StateVisitor) -> None:
        """Hands the state to *over*."""
        over.same(self.done, self._waiter is None, tuple([getattr(each, "start", None) for each in self.kept]))
        if self._waiter is not None:
            over.call(self._waiter)

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for the end of the command."""
        return self._waiter is not None

    def when_done(self, waiter: Callable[[object], None]) -> None:
        """Has *waiter* called once, with any argument, after the command has ended. A second call replaces *waiter*."""
        self._waiter = waiter

    def keep(self, objects: tuple[object, ...]) -> None:
        """Keeps references to *objects* until the command ends."""
        self.kept = objects

    def finish(self) -> Callable[[object], None] | None:
        """Marks the command as done. Returns the waiter, which the caller has to call, or None."""
        self.done = True
        self.kept = ()
        waiter, self._waiter = self._waiter, None
        return waiter


class AccumulatorRegisters:
    """Hands out ranges of the register file *owner* of *nbytes* bytes, the highest free one first.

    The bytes below all ranges, `room_nbytes`, are free for the tiles of other commands.
    """

    ALIGNMENT = 64
    """Alignment of a range in bytes; operands of tiles have the same."""

    def __init__(self, owner: int, nbytes: int) -> None:
        self.nbytes = nbytes
        self._owner = owner
        self._ranges: dict[int, int] = {}

    @property
    def ranges(self) -> dict[int, int]:
        """The bytes of each range, by its offset in the register file."""
        return dict(self._ranges)

    @property
    def room_nbytes(self) -> int:
        """The bytes below all ranges."""
        return min(self._ranges, default=self.nbytes)

    def take(self, nbytes: int) -> int | None:
        """Allocates *nbytes* of registers and returns their physical address; None where no range is free."""
        end = self.nbytes
        for start, size in sorted(self._ranges.items(), reverse=True):
            at = self._below(end, nbytes)
            if at >= start + size:
                break
            end = start
        at = self._below(end, nbytes)
        if at < 0:
            return None
        self._ranges[at] = nbytes
        return join_address(self._owner, at)

    def give_back(self, address: int) -> None:
        """Frees the range that `take` allocated at *address*."""
        del self._ranges[address - join_address(self._owner, 0)]

    def _below(self, end: int, nbytes: int) -> int:
        return (end - nbytes) // self.ALIGNMENT * self.ALIGNMENT


class Deferring(Protocol):
    """A part of a front end that defers commands: it issues them later than the kernel made the calls.

    Both methods may issue commands; `before` is not called for these.
    """

    @property
    def holds(self) -> bool:
        """Whether a command is deferred now."""

    def before(self, command: Command | None, line: str) -> None:
        """Called before the kernel issues *command* at *line*, or, with None, before it waits."""

    def end(self) -> None:
        """Called when the kernel has returned."""


class MessagePort(Protocol):
    """The messages and signals between one program and the other programs of its launch.

    All methods but `free` and `begin_barrier` let simulated time pass. All but `free` raise KernelError at *line* on a
    PE without a message queue, in a launch with more programs than PEs, and for a program that is not there.
    """

    def send(self, src: Matrix, payload: Payload, to: int, tag: Tag, line: str, completion: Completion) -> None:
        """Sends the value at *src* to program *to*, after a wait for a credit, and returns when the command is queued.

        Raises KernelError at *line* for a message larger than the slots of its channel, and for a full TCM.
        """

    def receive(self, source: int, tag: Tag, line: str) -> tuple[Message, Channel]:
        """Waits for the next message of *tag* from program *source*, and takes it."""

    def free(self, message: Message, channel: Channel) -> None:
        """Gives the slot of *message* back, when no command of the program reads the slot any more."""

    def begin_barrier(self, members: tuple[int, ...], line: str) -> int:
        """The number of barriers of *members* that this program has begun, this one among them."""

    def signal(self, to: int, flag: Tag, n: int, line: str) -> None:
        """Adds *n* to the counter *flag* of program *to* when all earlier commands of this program are done."""

    def wait_for(self, flag: Tag, n: int, line: str, at_barrier: int | None = None) -> None:
        """Returns when the counter *flag* of this program is *n* or more.

        *at_barrier* is the program whose signal a barrier waits for; None for a counter of the kernel's own.
        """


class ProgramPort(Protocol):
    """One program of a launch: a kernel that runs on one PE. A front end turns the calls of the kernel into commands.

    All methods are called while the kernel runs. `submit` and `wait` let simulated time pass; nothing else does.
    """

    pe_id: str
    """The id of the PE, like `sip0.cube0.pe5`. It selects the PE's copy of a replicated tensor (`TensorRef.matrix`)."""
    program_id: int
    num_programs: int
    grid: Grid | None
    """The axes along which the programs are numbered; None for a launch that has one program on each PE."""
    max_pieces: int
    """The most pieces of one DMA transfer of the PE."""
    keeps_log: bool
    """Whether the run has an op log, from which values can be computed while kernels run."""
    on_capture: Callable[[Capture], None] | None
    """Notifies the observers of a value that the kernel captured; None without observers."""
    on_wrapped_index: Callable[[str, str, str], None] | None
    """Notifies the observers of an index that wrapped, by `Observer.on_wrapped_index`; None without observers."""
    tcm: Lease
    """Allocates the PE's TCM. The program's allocations are freed when the program ends."""
    fitting: set[VectorProgram]
    """Cache of vector programs for which `fits` was true. The programs of a PE share it."""
    memory: DeviceMemory
    """The known bytes of all memories, and the ranges that commands have yet to produce."""

    registers: AccumulatorRegisters
    """The registers of accumulators that stay in the register file between commands. They have to be drained before the
    program ends."""
    deferred_calls: Deferring | None
    """Called before commands, waits and the end of the kernel. The front end sets it; None without deferred
    commands."""

    @property
    def messages(self) -> MessagePort:
        """The messages and signals of the program, to and from the other programs of its launch."""

    @property
    def issues_ahead(self) -> bool:
        """Whether the PE_CPU has a scoreboard. `submit` then always returns when the command is issued."""

    @property
    def commands_issued(self) -> int:
        """The number of commands that all programs have issued so far: the `command_seq` of the next command."""

    def submit(self, command: Command, line: str, completion: Completion, wait_until_done: bool) -> None:
        """Issues *command*, which *line* of the kernel asked for, and returns when the command is in the queue of its
        PE.

        *completion* is marked when the command is done; with *wait_until_done* the call returns only then. Raises
        KernelError, at *line*, for a command that the PE cannot do.
        """

    def register_nbytes(self, command: Command, line: str) -> int:
        """The bytes of registers that the smallest tile of *command* takes. Raises KernelError as `submit` does."""

    def fits(self, command: Command) -> bool:
        """Whether the PE has a plan for *command*."""

    def reads_first(self, command: Command) -> bool:
        """Whether no tile of *command* writes bytes of memory that a later tile reads. *command* fits the PE."""

    def wait(self, completion: Completion) -> None:
        """Returns when the command of *completion* is done."""

    def wait_for_all(self, line: str) -> None:
        """Returns when all commands that the program has issued are done. The kernel waits at *line*."""

    def line(self, skip_file_prefixes: tuple[str, ...] = ()) -> str:
        """`file:line` of the statement at which the kernel stands. The file is relative to the kernel's folder.

        The statement is that of the innermost frame outside kernbench. A front end of another package skips its own
        frames by *skip_file_prefixes*, the prefixes of the paths of its files.
        """

    def leave(self, why: str) -> None:
        """Marks the program as one that no other program repeats: it reads values, or prints.

        *why* names the act, such as `prints`. Such an act does not follow from the calls of this port alone.
        """

    def translate(self, matrix: Matrix) -> Matrix:
        """Returns *matrix*, at a virtual address, at its physical address.

        Raises AddressError when the PE has no MMU, and when the page table does not map the bytes.
        """

    def waits_for_value(self, line: str) -> AbstractContextManager[None]:
        """A context manager: within, the kernel waits for a value that it reads at *line*. Notifies the observers."""

    def materialize(self, matrix: Matrix, line: str) -> npt.NDArray[Any]:
        """The elements of *matrix* after all commands issued so far, `rows x cols`, read-only.

        Raises KernelError, at *line*, when the elements depend on a command that is not done, and in a run without an
        op log.
        """

    def constant(self, element: bytes, count: int) -> int:
        """The offset in the op log's immediates of *count* times the bytes *element*; 0 in a run without an op log."""


FrontEnd: TypeAlias = Callable[[ProgramPort], Any]
"""Makes the first argument of a kernel, such as `tl`, from the port of its program."""
