"""An atomic that is issued with the next call, when it is known whether anybody can ask for the bytes before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import ref

import numpy.typing as npt
from msgspec.structs import replace

from kb_engine.memory.pending import Producer
from kb_engine.program.handles import Handle, LoadedTensor, Operators
from kb_engine.program.port import Completion, ProgramPort
from kb_engine.program.tcm_holder import TcmHolder
from kb_messages import AtomicCommand, Command, DType, Matrix

Allocate = Callable[[int, int, DType, str], TcmHolder]


class OldValue(LoadedTensor):
    """The bytes before an atomic. They come to TCM only if somebody can ask for them when the atomic is issued."""

    def __init__(
        self, place: Matrix, shape: tuple[int, ...], known: npt.NDArray[Any] | None, producer: Producer | None,
        operators: Operators, atomic: HeldAtomic,
    ) -> None:  # fmt: skip
        super().__init__(place, shape, known, producer, operators)
        self._atomic = atomic

    @property
    def matrix(self) -> Matrix:
        """Where the bytes lie in TCM, after the atomic was issued."""
        self._atomic.issue()
        return self.place

    def arrive(self, holder: TcmHolder) -> None:
        """The bytes come to the TCM of *holder*, with the atomic that is issued now."""
        self.place, self.holder = holder.matrix, holder


class DeferredAtomic(NamedTuple):
    """An atomic that the kernel called and that is not issued. `values` keep the TCM of its operands."""

    command: AtomicCommand
    values: tuple[Handle, ...]
    old: ref[OldValue]
    completion: Completion
    order: str
    line: str


class HeldAtomic:
    """The atomic of one program that was called last, until it is issued. *allocate* takes TCM for the bytes before."""

    def __init__(self, port: ProgramPort, allocate: Allocate) -> None:
        self._port = port
        self._allocate = allocate
        self._deferred: DeferredAtomic | None = None

    @property
    def holds(self) -> bool:
        """As `HeldBack.holds`."""
        return self._deferred is not None

    def defer(self, atomic: DeferredAtomic) -> None:
        """Issue *atomic* later. None is deferred now."""
        self._deferred = atomic

    def issue(self) -> None:
        """Issue an atomic that was deferred."""
        deferred, self._deferred = self._deferred, None
        if deferred is None:
            return
        command, port, old, line = deferred.command, self._port, deferred.old(), deferred.line
        if deferred.order in ("acq_rel", "release"):
            port.wait_for_all(line)
        if old is not None:
            target = command.target
            holder = self._allocate(target.rows, target.cols, target.dtype, line)
            old.arrive(holder)
            command = replace(command, old=holder.matrix)
            if old.producer is not None:
                port.memory.pending.mark(holder.matrix, old.producer)
        waits = deferred.order in ("acq_rel", "acquire")
        port.submit(command, line, deferred.completion, waits)
        if waits:
            port.wait(deferred.completion)

    def before(self, command: Command | None, line: str) -> None:
        """As `HeldBack.before`."""
        self.issue()

    def end(self) -> None:
        """As `HeldBack.end`."""
        self.issue()
