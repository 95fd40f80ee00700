"""NotedPort: a program port that keeps what its program did, as long as that is issuing commands and waiting."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from kb_engine.memory.device_memory import DeviceMemory
from kb_engine.memory.pending import PendingBytes, Producer
from kb_engine.program.pe_port import PePort
from kb_engine.program.port import Completion, HeldBack
from kb_messages import Command, Matrix


class NotedMark(NamedTuple):
    """The bytes of *matrix* became pending."""

    matrix: Matrix
    producer: Producer


_OF_VALUES: Final = frozenset(("tcm", "registers", "load", "put", "fits", "fitting"))
"""What programs ask a PePort and its memory for, to load values and to compute with them."""


class Notes:
    """What the programs of a launch did: the bytes that became pending, in their order, and how many commands they
    issued. `left` says that they did more than that, and `left_by` has the names of what they asked for then, or "" for
    what has no name."""

    def __init__(self) -> None:
        self.marks: list[NotedMark] = []
        self.n_commands = 0
        self.left_by: set[str] = set()

    def count(self) -> None:
        """A program issued a command."""
        self.n_commands += 1

    @property
    def left(self) -> bool:
        """Whether programs did something else."""
        return bool(self.left_by)

    @property
    def left_for_values(self) -> bool:
        """Whether all that programs did else was to hold values in TCM."""
        return self.left and self.left_by <= _OF_VALUES

    def leave(self, name: str = "") -> None:
        """A program did something else, for which it asked by *name*."""
        self.left_by.add(name)


class NotedPort:
    """As *port*, which does all that is asked; *notes* has what a launch that does the same does again.

    Whatever is not defined here tells a program of more than its arguments, or changes more than commands do.
    """

    def __init__(self, port: PePort, memory: NotedMemory, notes: Notes) -> None:
        self._port = port
        self._notes = notes
        self.program_id, self.num_programs, self.grid = port.program_id, port.num_programs, port.grid
        self.pe_id, self.issues_ahead = port.pe_id, port.issues_ahead
        self.keeps_log, self.wait = port.keeps_log, port.wait
        self.memory = memory

    def line(self, skip_file_prefixes: tuple[str, ...] = ()) -> str:
        """As `ProgramPort.line`."""
        return self._port.line(skip_file_prefixes)

    def submit(self, command: Command, line: str, completion: Completion, wait_until_done: bool) -> None:
        """As `ProgramPort.submit`."""
        self._notes.count()
        self._port.submit(command, line, completion, wait_until_done)

    @property
    def commands_issued(self) -> int:
        """As `ProgramPort.commands_issued`."""
        self._notes.leave()
        return self._port.commands_issued

    @property
    def held_back(self) -> HeldBack | None:
        """As `ProgramPort.held_back`."""
        return self._port.held_back

    @held_back.setter
    def held_back(self, held_back: HeldBack | None) -> None:
        self._notes.leave()
        self._port.held_back = held_back

    def __getattr__(self, name: str) -> Any:
        return _taken_from(self._port, name, self, self._notes)


class NotedMemory:
    """As *memory*, of which a program does nothing but make bytes pending."""

    def __init__(self, memory: DeviceMemory, notes: Notes) -> None:
        self._memory = memory
        self._notes = notes
        self.pending = NotedPending(memory.pending, notes)

    def __getattr__(self, name: str) -> Any:
        return _taken_from(self._memory, name, self, self._notes)


class NotedPending:
    """As *pending*."""

    def __init__(self, pending: PendingBytes, notes: Notes) -> None:
        self._pending = pending
        self._notes = notes

    def mark(self, matrix: Matrix, producer: Producer) -> None:
        """As `PendingBytes.mark`."""
        self._notes.marks.append(NotedMark(matrix, producer))
        self._pending.mark(matrix, producer)

    def __getattr__(self, name: str) -> Any:
        return _taken_from(self._pending, name, self, self._notes)


def _taken_from(of: object, name: str, by: object, notes: Notes) -> Any:
    """What *of* has by *name*. *by* has it from now on, too, because the programs do more than is noted."""
    notes.leave(name)
    found = getattr(of, name)
    vars(by)[name] = found
    return found
