"""Foreseen programs: what the programs of a launch issue, found by running their kernel before the launch.

A kernel that is pure does the same whenever it runs, and one that issues a command and waits for it needs no simulation
to say which command that is. Programs are of one kind whose commands take equal times on equal PEs.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

from kb_engine.closed.closed_commands import Shape
from kb_engine.closed.pe_closer import PeCloser
from kb_engine.launch.noted_port import NotedMark
from kb_engine.memory.pending import Producer
from kb_engine.program.pe import ProcessingElement
from kb_engine.program.port import Completion
from kb_engine.program.runner import KernelCall, run_kernel
from kb_engine.program.tensors import TEXTS_MADE
from kb_messages import Command, Matrix, PipelinePlan, SubmittedCommand


class ForeseenProgram(NamedTuple):
    """What a program does: it makes the bytes of *marks* pending, issues *command* at *line*, and waits for it.

    The command has *plan*, at *addresses* if it shares the plan, and goes where *shape* says. Programs of one *kind*
    take equal times where nothing meets their commands.
    """

    marks: Sequence[NotedMark]
    command: Command
    line: str
    plan: PipelinePlan
    addresses: tuple[int, ...] | None
    shape: Shape
    kind: Hashable


class _NotForeseenError(Exception):
    """A program asks for more than its arguments, or issues other than one command for which it waits."""


Programs = list[ForeseenProgram | None]


def foreseen_programs(
    call: KernelCall, pes: Sequence[ProcessingElement], now_ps: int, keeps_log: bool
) -> Programs | None:
    """The programs of *call* on *pes*, of which no two go to one memory or link; None where they cannot be told, or one
    of them asks for the name of a tensor, which a launch that runs it has to note.

    A program that does nothing is None. The kernel is pure, and nothing is scheduled. *keeps_log* says whether the run
    has an op log.
    """
    found: Programs = []
    texts_made = TEXTS_MADE.n
    taken: set[object] = set()
    for number, pe in enumerate(pes):
        port = _ForeseenPort(call, pe, (number, len(pes)), keeps_log)
        try:
            run_kernel(call, port)  # type: ignore[arg-type]  # it refuses what it has not
            program = _program_of(port, pe)
        except (Exception, SystemExit):  # noqa: BLE001  # the launch raises what the kernel raises, in its time and place
            return None
        if TEXTS_MADE.n != texts_made:
            return None
        found.append(program)
        if program is None:
            continue
        footprint = program.shape.footprint
        if not (taken.isdisjoint(footprint.places) and footprint.is_idle(now_ps)):
            return None
        taken |= footprint.places
    return found if taken else None


def _program_of(port: _ForeseenPort, pe: ProcessingElement) -> ForeseenProgram | None:
    closer = pe.scheduler.closer
    if port.issued is None and not port.marks:
        return None
    if port.issued is None or not port.waits or not isinstance(closer, PeCloser):
        raise _NotForeseenError
    command, line = port.issued
    submitted = SubmittedCommand(command_seq=-1, pe=pe.pe_id, line=line, command=command)
    plan, addresses = pe.scheduler.shared_plan(submitted)
    shape = closer.shape_of(plan, addresses or plan.addresses)
    if shape is None:
        raise _NotForeseenError
    kind = shape.known, line, pe.cpu.issue_ps(command), type(command)
    return ForeseenProgram(port.marks, command, line, plan, addresses, shape, kind)


class _ForeseenPort:
    """The port of a program that runs before its launch. Commands are done as soon as they are waited for.

    Nothing else can be set, such as commands that are held back, for which nobody would ask here.
    """

    __slots__ = (
        "grid", "issued", "issues_ahead", "keeps_log", "line", "marks", "num_programs", "pe_id", "program_id", "waits",
    )  # fmt: skip

    def __init__(self, call: KernelCall, pe: ProcessingElement, number: tuple[int, int], keeps_log: bool) -> None:
        self.program_id, self.num_programs = number
        self.grid = None
        self.pe_id, self.issues_ahead, self.keeps_log = pe.pe_id, False, keeps_log
        self.line = call.lines.here
        self.marks: list[NotedMark] = []
        self.issued: tuple[Command, str] | None = None
        self.waits = False

    @property
    def memory(self) -> _ForeseenPort:
        """That of the chip, of which a program does nothing but make bytes pending."""
        return self

    pending = memory

    def submit(self, command: Command, line: str, _: Completion, wait_until_done: bool) -> None:
        """As `ProgramPort.submit`."""
        if wait_until_done or self.issued is not None:
            raise _NotForeseenError
        self.issued = command, line

    def wait(self, completion: Completion, _: str = "") -> None:
        """As `ProgramPort.wait`."""
        self.waits = True
        completion.finish()

    def mark(self, matrix: Matrix, producer: Producer) -> None:
        """As `PendingBytes.mark`."""
        self.marks.append(NotedMark(matrix, producer))

    def __getattr__(self, name: str) -> Any:
        raise _NotForeseenError(name)
