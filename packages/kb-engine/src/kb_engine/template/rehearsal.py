"""A rehearsal: a kernel runs to its end before its launch, and nothing of the chip hears of that.

Where a PE waits for each command, or its PE_CPU knows what bytes are in use, and nobody looks at values, what a kernel
calls does not depend on times. So the calls of a whole program are known before the first of its commands is simulated.
"""

from __future__ import annotations

from typing import Any, Final

import numpy.typing as npt

from kb_engine.memory.device_memory import DeviceMemory
from kb_engine.memory.pending import PendingBytes, Producer
from kb_engine.memory.tiles import MadeTile
from kb_engine.program.grid import Program
from kb_engine.program.held_registers import HeldRegisters
from kb_engine.program.kernel_lines import kernel_lines
from kb_engine.program.pe import ProcessingElement
from kb_engine.program.port import Completion
from kb_engine.program.runner import KernelCall
from kb_engine.program.session import Session
from kb_engine.program.symbols import Peers
from kb_engine.template.alone import OTHER_WAYS
from kb_engine.template.holes import Holes
from kb_messages import Command, Matrix, PlanError, SubmittedCommand


class NotRehearsed(Exception):
    """The kernel does what has to be simulated, or what its peers do not: the argument says what."""


class RehearsedLease:
    """TCM from *base* on that is never full. Whether a program has room is found out when all of it is known."""

    has_ended = False

    def __init__(self, base: int, nbytes: int) -> None:
        self._base = base
        self._nbytes = nbytes
        self._at = 0

    def allocate(self, nbytes: int, _: str = "") -> int:
        """Some address."""
        self._at = 0 if self._at + nbytes > self._nbytes else self._at
        start = self._base + self._at
        self._at += -(-nbytes // _ALIGNMENT) * _ALIGNMENT
        return start

    def release(self, start: int) -> None:
        """Nothing."""


class RehearsedPending(PendingBytes):
    """Bytes of memories that the rehearsal makes pending. Nobody loads those of TCM."""

    def mark(self, matrix: Matrix, producer: Producer) -> None:
        """As `PendingBytes.mark`."""
        if type(matrix.address) is int:
            super().mark(matrix, producer)


class RehearsedMemory:
    """The bytes of all memories as the launch finds them, with those that the rehearsal makes pending."""

    def __init__(self, memory: DeviceMemory) -> None:
        self._memory = memory
        self.burst_nbytes = memory.burst_nbytes
        self.pending = RehearsedPending()

    def load(
        self, matrices: list[Matrix], tile: Matrix, made: MadeTile | None = None
    ) -> tuple[Producer | None, npt.NDArray[Any] | None]:
        """As `DeviceMemory.load`."""
        for each in matrices:
            producer = self.pending.producer(each)
            if producer is not None:
                return producer, None
        return self._memory.load(matrices, tile, made)

    def put(self, matrix: Matrix, *_: object) -> None:
        """As `DeviceMemory.put`, but nothing is written: the bytes are pending."""
        self.pending.mark(matrix, _STORED)


class RehearsedPort:
    """What a rehearsal calls in place of the `PePort` of *program* on *pe*, for programs that are *peers*.

    Each command is done as soon as it is issued.
    """

    def __init__(
        self, session: Session, pe: ProcessingElement, program: Program, call: KernelCall, peers: Peers
    ) -> None:
        self.program_id, self.num_programs, self.grid = program
        self.pe_id = pe.pe_id
        self.issues_ahead = pe.cpu.issues_ahead
        self.on_wrapped_index = _refuse if session.listeners.on_wrapped_index is not None else None
        self.on_capture = _refuse if session.listeners.on_capture is not None else None
        self.keeps_log = session.recorder is not None
        self.memory = RehearsedMemory(session.memory)
        self.max_pieces = pe.max_pieces
        self.fitting = pe.fitting
        self.tcm = RehearsedLease(pe.tcm.base, pe.tcm.nbytes)
        self.registers = HeldRegisters(pe.reg_owner, pe.register_nbytes)
        self.line = kernel_lines(call.root).here
        self._pe = pe
        self._peers = peers

    def submit(self, _: Command, __: str, completion: Completion, wait_until_done: bool) -> None:
        """As `ProgramPort.submit`. Raises NotRehearsed where other programs do other things."""
        if not (wait_until_done or self.issues_ahead):
            raise NotRehearsed(_RETURNS_EARLY)
        if self._peers.why_alone or not self._peers.agree.all():
            raise NotRehearsed(self._peers.why_alone or OTHER_WAYS)
        completion.finish()

    def fits(self, command: Command) -> bool:
        """As `ProgramPort.fits`."""
        fixed, _ = Holes(self._peers).cut(command)
        submitted = SubmittedCommand(command_seq=-1, pe=self.pe_id, line="", command=fixed)
        try:
            self._pe.scheduler.shared_plan(submitted)
        except PlanError:
            return False
        return True

    def __getattr__(self, name: str) -> Any:
        raise NotRehearsed(self._peers.why_alone or _DOES.get(name, f"asks for `{name}`"))


_STORED: Final = Producer("a store", "a rehearsal")
"""Produces what the rehearsal stores. Whether it would be known makes no difference to what programs share."""
_ALIGNMENT: Final = 64
"""Bytes; some of which an address in TCM is a multiple, as that of an Allocator."""
_RETURNS_EARLY: Final = "goes on before its command is done, on PEs with `issue: blocking`"
_DOES: Final = {
    "constant": "makes values of a constant, as `tl.zeros` does",
    "materialize": "looks at a computed value",
    "waits_for_value": "looks at a computed value",
    "wait_for_all": "waits for all commands",
    "commands_issued": "counts its commands",
}
"""What a kernel does that asks for something that a rehearsal has not."""


def _refuse(*_: object) -> None:
    raise NotRehearsed("captures, or wraps an index")
