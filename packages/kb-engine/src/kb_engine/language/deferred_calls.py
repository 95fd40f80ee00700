"""Deferred calls: calls that are issued later than the kernel made them, in the order of the calls.

An atomic is issued with the next call. Then it is known whether the kernel keeps a reference to the old values.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from weakref import ref

import numpy.typing as npt
from msgspec.structs import replace

from kb_engine.memory.pending import Producer
from kb_engine.memory.tiles import strided
from kb_engine.program.language_base import allocate
from kb_engine.program.port import Completion, Deferring, ProgramPort
from kb_engine.program.tcm_holder import TcmHolder
from kb_engine.program.values.handles import Handle, LoadedTensor, Operators
from kb_messages import AtomicCommand, Command, LoadCommand, Matrix, Piece


class DeferredCalls:
    """The `Deferring` of a program: the parts of the language that defer calls. At most one call is deferred."""

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


class AtomicPlace(NamedTuple):
    """A rectangle of memory that an atomic changes: `target`, whose elements begin `place` bytes after the first
    element asked for.

    Its rows are `stride` bytes apart among these elements, which lie row by row.
    """

    target: Matrix
    place: int
    stride: int

    def part(self, value: Matrix) -> Matrix:
        """The elements of *value*, which lies packed, that belong to the target."""
        rows, cols = self.target.rows, self.target.cols
        return Matrix(address=value.address + self.place, rows=rows, cols=cols, stride=self.stride, dtype=value.dtype)

    def within(self, elements: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A view of the elements that belong to the target. *elements* are all elements asked for, in one row."""
        nbytes = elements.itemsize
        strides = self.stride // self.target.dtype.nbytes * nbytes, nbytes
        first = self.place // self.target.dtype.nbytes
        shape = self.target.rows, self.target.cols
        return strided(elements[first:], shape, strides)


class AtomicCall(NamedTuple):
    """A call of an atomic: `parts` are its commands, each with the rectangle of memory that it changes.

    `left_out` are the places of the old values that the mask leaves out, with constants of the op log. `values` keep
    the TCM of the operands.
    """

    parts: tuple[tuple[AtomicCommand, AtomicPlace], ...]
    left_out: tuple[Piece, ...]
    values: tuple[Handle, ...]
    old: ref[OldValue]
    completion: Completion
    order: str
    line: str


class DeferredAtomics:
    """Defers the atomic of one program that was called last."""

    def __init__(self, port: ProgramPort) -> None:
        self._port = port
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
        commands = [command for command, _ in deferred.parts]
        if old is not None:
            holder = allocate(port, old.place.rows, old.place.cols, old.place.dtype, line)
            old.arrive(holder)
            if old.producer is not None:
                port.memory.pending.mark(holder.matrix, old.producer)
            if deferred.left_out:
                fill = _filled(deferred.left_out, holder.matrix)
                port.submit(fill, line, Completion() if deferred.parts else deferred.completion, True)
            commands = [replace(command, old=place.part(holder.matrix)) for command, place in deferred.parts]
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

    end = issue


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
