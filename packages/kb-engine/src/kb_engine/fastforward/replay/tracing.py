"""TracingPort: the port of a program whose steps are recorded while it runs.

Design: docs/design/replay-and-purity.md
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple, cast

import numpy.typing as npt

from kb_engine.fastforward.replay.placeholders import GivenAddress, Placeholders
from kb_engine.fastforward.replay.steps import (
    Allocation,
    Constant,
    KeptTile,
    LoadCheck,
    PendingMark,
    RegisterRange,
    RegisterReturn,
    Release,
    Step,
    StoreLoaded,
    Submission,
    Wait,
    maker,
)
from kb_engine.memory.allocator import Allocator, OutOfMemoryError
from kb_engine.memory.pending import Producer
from kb_engine.memory.tiles import MadeTile, TilePart
from kb_engine.program.pe_port import PePort
from kb_engine.program.port import Completion, Deferring, MessagePort
from kb_engine.program.tcm_holder import HeldBytes, TcmHolder
from kb_engine.program.values.symbols import Peers, plain
from kb_messages import AtomicCommand, Command, Matrix

_MOST_STEPS: Final = 100_000


class Tape:
    """The steps of a traced program. `held` has the TCM that it holds, by the numbers of the given addresses.

    `keeps_bytes` says that commands keep TCM that the program has given up.
    """

    def __init__(self, peers: Peers) -> None:
        self.peers = peers
        self.placeholders = Placeholders(peers)
        self.steps: list[Step] = []
        self.held: dict[int, HeldBytes] = {}
        self.keeps_bytes = False
        self._given = 0

    def note(self, step: Step) -> None:
        """Records *step*."""
        if len(self.steps) < _MOST_STEPS:
            self.steps.append(step)
        else:
            self.peers.leave("does too many steps")

    def alone(self, matrix: Matrix, why: str) -> Matrix:
        """Returns *matrix* for this program. No other program can repeat what follows, because it *why*."""
        self.peers.leave(why)
        fixed: Matrix = self.placeholders.parametrize(matrix)[0]
        return fixed

    def keep_loaded(self, at: int, kept: KeptTile) -> None:
        """Notes that a later step stores the values of the load in step number *at*."""
        if at < len(self.steps):
            check = self.steps[at]
            assert isinstance(check, LoadCheck), "the step of a load"
            self.steps[at] = check._replace(kept=kept)

    def give(self, value: int) -> GivenAddress:
        """Gives the program the address *value*."""
        self._given += 1
        return GivenAddress(self.peers, self._given - 1, 0, value)

    def keep(self, kept: Sequence[object]) -> tuple[int, ...]:
        """Returns the numbers of the TCM that the holders among *kept* hold."""
        addresses = [cast(GivenAddress, each.matrix.address) for each in kept if isinstance(each, TcmHolder)]
        self.keeps_bytes = self.keeps_bytes or bool(addresses)
        return tuple(each.slot for each in addresses)


class TracingLease:
    """The TCM of a traced program."""

    def __init__(self, port: PePort, tape: Tape) -> None:
        self._lease = port.tcm
        self._tape = tape

    @property
    def has_ended(self) -> bool:
        """Whether the program has ended."""
        return self._lease.has_ended

    def allocate(self, nbytes: int, holder: str = "") -> GivenAddress:
        """Allocates TCM, and records that."""
        tape, nbytes = self._tape, plain(nbytes)
        try:
            start = self._lease.allocate(nbytes, holder)
        except OutOfMemoryError:
            tape.peers.leave("fills the TCM")
            raise
        given = tape.give(start)
        tape.note(Allocation(nbytes, holder))
        tape.held[given.slot] = HeldBytes(self._lease, start)
        return given

    @property
    def allocator(self) -> Allocator:
        """The TCM's allocator. No other program can repeat what depends on it."""
        self._tape.peers.leave("fills the TCM")
        return self._lease.allocator

    def take(self, start: int, nbytes: int, holder: str = "") -> GivenAddress:
        """Allocates TCM at *start*. No other program can repeat that."""
        self._tape.peers.leave("fills the TCM")
        given = self._tape.give(self._lease.take(start, nbytes, holder))
        self._tape.held[given.slot] = HeldBytes(self._lease, start)
        return given

    def release(self, start: GivenAddress) -> None:
        """Records that the last value at *start* is given up."""
        self._tape.note(Release(start.slot))
        del self._tape.held[start.slot]


class _LoadTraced(NamedTuple):
    """A load: the number of its step, the place of its tile, and the producer of pending elements."""

    at: int
    kept: KeptTile
    producer: Producer | None


class TracingPending:
    """The pending bytes. `loaded` has a producer of its own for each load of pending bytes."""

    def __init__(self, port: PePort, tape: Tape) -> None:
        self.loaded: list[Producer] = []
        self._pending = port.memory.pending
        self._tape = tape

    def producer(self, matrix: Matrix) -> Producer | None:
        """Returns the producer of pending bytes. No other program can repeat that."""
        return self._pending.producer(self._tape.alone(matrix, "asks what is pending"))

    def clear(self, matrix: Matrix) -> None:
        """Marks bytes as known. No other program can repeat that."""
        self._pending.clear(self._tape.alone(matrix, "makes known what is pending"))

    def mark(self, matrix: Matrix, producer: Producer) -> None:
        """Marks bytes as pending, and records that."""
        if any(each is producer for each in self.loaded):
            self._tape.peers.leave("stores what it loaded, but not as a tile")
        part = self._tape.placeholders.parametrize(matrix)
        self._tape.note(PendingMark(maker(part), producer))
        self._pending.mark(part[0], producer)


class TracingMemory:
    """The bytes of all memories, for a traced program."""

    def __init__(self, port: PePort, tape: Tape) -> None:
        self._port = port
        self._tape = tape
        self._loaded: dict[int, _LoadTraced] = {}
        self.burst_nbytes = port.memory.burst_nbytes
        self.pending = TracingPending(port, tape)

    def load(
        self, matrices: list[Matrix], tile: Matrix, made: MadeTile | None = None
    ) -> tuple[Producer | None, npt.NDArray[Any] | None]:
        """Loads a tile, and records that. The producer of pending bytes is an object of this trace only."""
        tape = self._tape
        parts = [tape.placeholders.parametrize(each) for each in matrices]
        at = len(tape.steps)
        tape.note(LoadCheck(tuple(maker(part) for part in parts), self._port.line()))
        producer, known = self._port.memory.load([fixed for fixed, _ in parts], tile, made)
        if producer is not None:
            producer = Producer(producer.op, producer.line)
            self.pending.loaded.append(producer)
        slot = cast(GivenAddress, tile.address).slot
        self._loaded[slot] = _LoadTraced(at, KeptTile(slot, made), producer)
        return producer, known

    def put(
        self,
        matrix: Matrix,
        tile: Matrix,
        known: npt.NDArray[Any] | None,
        producer: Producer | None,
        part: TilePart | None = None,
    ) -> None:
        """Stores a tile, and records that."""
        tape, address, to = self._tape, cast(GivenAddress, tile.address), self._tape.placeholders.parametrize(matrix)
        load = self._loaded.get(address.slot)
        if load is not None and not address.offset and (known is not None or producer is load.producer):
            tape.keep_loaded(load.at, load.kept)
            tape.note(StoreLoaded(maker(to), address.slot, part))
        elif producer is not None:
            tape.note(PendingMark(maker(to), producer))
        else:
            tape.peers.leave("stores known values")
        self._port.memory.put(to[0], tile, known, producer, part)

    def read(self, matrix: Matrix) -> npt.NDArray[Any]:
        """Reads bytes. No other program can repeat that."""
        return self._port.memory.read(self._tape.alone(matrix, "reads memory"))

    def read_copy(self, matrix: Matrix) -> npt.NDArray[Any]:
        """Reads a copy of bytes. No other program can repeat that."""
        return self._port.memory.read_copy(self._tape.alone(matrix, "reads memory"))

    def write(self, matrix: Matrix, data: npt.NDArray[Any]) -> None:
        """Writes known values. No other program can repeat that."""
        self._port.memory.write(self._tape.alone(matrix, "stores known values"), data)


class TracingRegisters:
    """The accumulator registers, for a traced program."""

    def __init__(self, port: PePort, tape: Tape) -> None:
        self._registers = port.registers
        self._tape = tape

    @property
    def nbytes(self) -> int:
        """The bytes of the registers."""
        return self._registers.nbytes

    @property
    def room_nbytes(self) -> int:
        """The bytes of the free registers."""
        return self._registers.room_nbytes

    def take(self, nbytes: int) -> GivenAddress | None:
        """Takes registers, and records that."""
        start = self._registers.take(nbytes)
        if start is None:
            return None
        self._tape.note(RegisterRange(nbytes))
        return self._tape.give(start)

    def give_back(self, address: GivenAddress) -> None:
        """Gives registers back, and records that."""
        self._tape.note(RegisterReturn(address.slot))
        self._registers.give_back(address.value)


class TracingPort:
    """The `ProgramPort` of a traced program. It passes calls on to *port* and records them on *tape*."""

    def __init__(self, port: PePort, tape: Tape) -> None:
        self.pe_id = port.pe_id
        self.program_id = tape.peers.own_number
        self.num_programs, self.grid = port.num_programs, port.grid
        self.max_pieces, self.fitting = port.max_pieces, port.fitting
        self.keeps_log, self.on_capture = port.keeps_log, port.on_capture
        self.on_wrapped_index = port.on_wrapped_index
        self.deferred_calls: Deferring | None = None
        self.tcm = TracingLease(port, tape)
        self.memory = TracingMemory(port, tape)
        self.registers = TracingRegisters(port, tape)
        self._port = port
        self._tape = tape
        self._issued: dict[int, tuple[int, Completion]] = {}
        self._n_issued = 0

    @property
    def line(self) -> Callable[..., str]:
        """The function that returns the kernel's current line. An abandoned program has another one."""
        return self._port.line

    @property
    def messages(self) -> MessagePort:
        """The messages of the program. A launch whose programs are traced has too many programs for messages."""
        return self._port.messages

    @property
    def issues_ahead(self) -> bool:
        """Whether calls return at issue."""
        return self._port.issues_ahead

    @property
    def commands_issued(self) -> int:
        """The number of commands that were issued so far."""
        return self._port.commands_issued

    def leave(self, why: str) -> None:
        """Notes that no other program can repeat this one, because it *why*."""
        self._tape.peers.leave(why)
        self._port.leave(why)

    def submit(self, command: Command, line: str, completion: Completion, wait_until_done: bool) -> None:
        """Issues *command*, and records that."""
        self._issue_deferred(command, line)
        if isinstance(command, AtomicCommand):
            self._tape.peers.leave("has an atomic")
        tape = self._tape
        part = tape.placeholders.parametrize(command)
        keeps = tape.keep(completion.kept)
        completion.keep(tuple(tape.held[slot] for slot in keeps))
        if not wait_until_done or self._port.issues_ahead:
            self._issued[id(completion)] = self._n_issued, completion
        self._n_issued += 1
        tape.note(Submission(maker(part), line, wait_until_done, keeps))
        self._port.submit(part[0], line, completion, wait_until_done)

    def wait(self, completion: Completion) -> None:
        """Waits for the command of *completion*, and records that."""
        line = self._port.line()
        if id(completion) not in self._issued:
            if not completion.done:
                self._tape.peers.leave("waits for what it did not issue")
                self._issue_deferred(None, line)
                self._port.wait(completion, line)
            return
        if self.deferred_calls is not None and self.deferred_calls.holds:
            self._tape.peers.leave("waits while a command is deferred")
        self._tape.note(Wait(self._issued[id(completion)][0], line))
        if not completion.done:
            self._issue_deferred(None, line)
            self._port.wait(completion, line)

    def wait_for_all(self, line: str) -> None:
        """Waits for all commands. No other program can repeat that."""
        self._tape.peers.leave("waits for all commands")
        self._port.wait_for_all(line)

    def register_nbytes(self, command: Command, line: str) -> int:
        """Returns the bytes of registers that *command* needs."""
        return self._port.register_nbytes(self._tape.placeholders.parametrize(command)[0], line)

    def fits(self, command: Command) -> bool:
        """Whether the PE has room for the tiles of *command*."""
        return self._port.fits(self._tape.placeholders.parametrize(command)[0])

    def reads_first(self, command: Command) -> bool:
        """Whether *command* reads all bytes before it writes them."""
        return self._port.reads_first(self._tape.placeholders.parametrize(command)[0])

    def translate(self, matrix: Matrix) -> Matrix:
        """Returns *matrix* at its physical address. No other program can repeat that."""
        return self._port.translate(self._tape.alone(matrix, "uses virtual addresses"))

    def waits_for_value(self, line: str) -> AbstractContextManager[None]:
        """Returns a context in which the kernel waits for a value. No other program can repeat that."""
        self._tape.peers.leave("looks at a computed value")
        return self._port.waits_for_value(line)

    def materialize(self, matrix: Matrix, line: str) -> npt.NDArray[Any]:
        """Computes a pending value. No other program can repeat that."""
        return self._port.materialize(self._tape.alone(matrix, "looks at a computed value"), line)

    def constant(self, element: bytes, count: int) -> GivenAddress:
        """Returns the address of a constant, and records that."""
        count = plain(count)
        self._tape.note(Constant(element, count))
        return self._tape.give(self._port.constant(element, count))

    def end(self) -> None:
        """Issues the deferred calls of the front end, because the kernel has returned."""
        if self.deferred_calls is not None:
            deferred_calls, self.deferred_calls = self.deferred_calls, None
            deferred_calls.end()

    def _issue_deferred(self, command: Command | None, line: str) -> None:
        if self.deferred_calls is not None:
            deferred_calls, self.deferred_calls = self.deferred_calls, None
            try:
                deferred_calls.before(command, line)
            finally:
                self.deferred_calls = deferred_calls
