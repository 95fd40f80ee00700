"""Deferred calls: calls that are issued later than the kernel made them, in the order of the calls.

An atomic is issued with the next call. Then it is known whether the kernel keeps a reference to the old values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import ref

import numpy.typing as npt
from msgspec.structs import replace

from kb_engine.memory.pending import Producer
from kb_engine.program.port import Completion, Deferring, ProgramPort
from kb_engine.program.tcm_holder import TcmHolder
from kb_engine.program.values.handles import Handle, LoadedTensor, Operators
from kb_messages import AtomicCommand, Command, DType, LoadCommand, Matrix, Piece


class DeferredCalls:
    """The `Deferring` of a program: the parts of the language that defer calls. At most one part has a deferred
    call."""

    def __init__(self, port: ProgramPort) -> None:
        self._port = port
        self._parts: list[Deferring] = []

    def add(self, part: Deferring) -> None:
        """Has *part* called before commands, waits and the end of the kernel, from now on."""
        if part not in self._parts:
            self._parts.append(part)
        self._port.deferred_calls = self

    @property
    def holds(self) -> bool:
        """Whether a part has a deferred call."""
        return any(part.holds for part in self._parts)

    def issue(self) -> None:
        """Issues the deferred call, because another call is to be deferred now."""
        self.before(None, "")

    def before(self, command: Command | None, line: str) -> None:
        """Has all parts issue their deferred calls, before *command* at *line*, or before a wait (None)."""
        for part in self._parts:
            part.before(command, line)

    def end(self) -> None:
        """Has all parts issue their deferred calls. The kernel has returned."""
        for part in self._parts:
            part.end()


Allocate = Callable[[int, int, DType, str], TcmHolder]


class OldValue(LoadedTensor):
    """The old values of an atomic. They come to TCM if the kernel has a reference to them when the atomic is issued."""

    def __init__(
        self, place: Matrix, shape: tuple[int, ...], known: npt.NDArray[Any] | None, producer: Producer | None,
        operators: Operators, atomic: DeferredAtomics,
    ) -> None:  # fmt: skip
        super().__init__(place, shape, known, producer, operators)
        self._atomic = atomic

    @property
    def matrix(self) -> Matrix:
        """The place of the old values in TCM. Issues the atomic first."""
        self._atomic.issue()
        return self.place

    def arrive(self, holder: TcmHolder) -> None:
        """Notes that the atomic, which is issued now, brings the old values to the TCM of *holder*."""
        self.place, self.holder = holder.matrix, holder


class AtomicPart(NamedTuple):
    """A command of an atomic. Its old values begin `place` bytes after the begin of all old values of the atomic, in
    rows `stride` bytes apart."""

    command: AtomicCommand
    place: int
    stride: int


class AtomicCall(NamedTuple):
    """A call of an atomic: its commands, one for each rectangle of memory.

    `left_out` are the places of the old values that the mask leaves out, with constants of the op log. `values` keep
    the TCM of the operands.
    """

    parts: tuple[AtomicPart, ...]
    left_out: tuple[Piece, ...]
    values: tuple[Handle, ...]
    old: ref[OldValue]
    completion: Completion
    order: str
    line: str


class DeferredAtomics:
    """Defers the atomic of one program that was called last. *allocate* allocates TCM for the old values."""

    def __init__(self, port: ProgramPort, allocate: Allocate) -> None:
        self._port = port
        self._allocate = allocate
        self._deferred: AtomicCall | None = None

    @property
    def holds(self) -> bool:
        """Whether an atomic is deferred."""
        return self._deferred is not None

    def defer(self, atomic: AtomicCall) -> None:
        """Defers *atomic*. The atomic before has been issued."""
        self._deferred = atomic

    def issue(self) -> None:
        """Issues the deferred atomic."""
        deferred, self._deferred = self._deferred, None
        if deferred is None:
            return
        port, old, line = self._port, deferred.old(), deferred.line
        if deferred.order in ("acq_rel", "release"):
            port.wait_for_all(line)
        commands = [part.command for part in deferred.parts]
        if old is not None:
            holder = self._allocate(old.place.rows, old.place.cols, old.place.dtype, line)
            old.arrive(holder)
            if old.producer is not None:
                port.memory.pending.mark(holder.matrix, old.producer)
            if deferred.left_out:
                fill = _filled(deferred.left_out, holder.matrix)
                port.submit(fill, line, Completion() if deferred.parts else deferred.completion, True)
            commands = [replace(part.command, old=_old_part(part, holder.matrix)) for part in deferred.parts]
        waits = deferred.order in ("acq_rel", "acquire")
        if not commands:
            if old is None:  # the mask chose nothing, and nobody reads the old values
                deferred.completion.finish()
            return
        completions = [*(Completion() for _ in commands[1:]), deferred.completion]
        for command, completion in zip(commands, completions, strict=True):
            port.submit(command, line, completion, waits)
        if waits:
            for completion in completions:
                port.wait(completion)

    def before(self, command: Command | None, line: str) -> None:
        """Issues the deferred atomic."""
        self.issue()

    def end(self) -> None:
        """Issues the deferred atomic."""
        self.issue()


def _old_part(part: AtomicPart, old: Matrix) -> Matrix:
    """The place of the old values of *part* in *old*."""
    target = part.command.target
    return Matrix(
        address=old.address + part.place, rows=target.rows, cols=target.cols, stride=part.stride, dtype=target.dtype
    )


def _filled(left_out: tuple[Piece, ...], old: Matrix) -> LoadCommand:
    """The command that fills the places *left_out* of *old*."""
    fills = tuple(
        Piece(each.address, each.stride, old.address + each.place, each.place_stride, each.rows, each.cols)
        for each in left_out
    )
    first = fills[0]
    nbytes = first.cols * old.dtype.nbytes
    src = Matrix(address=first.address, rows=1, cols=first.cols, stride=nbytes, dtype=old.dtype)
    return LoadCommand(src=src, dst=old, fills=fills)
