"""Loops: what each program of a launch without a grid does before a loop, in each turn of it, and after it."""

from __future__ import annotations

import dis
import warnings
from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
from typing import Final, NamedTuple, cast

import numpy as np

from kb_engine.block.fold_pass import FoldPass
from kb_engine.memory.allocator import Allocator
from kb_engine.program.grid import Program
from kb_engine.program.pe import ProcessingElement
from kb_engine.program.pe_port import PePort
from kb_engine.program.port import ProgramPort
from kb_engine.program.runner import KernelCall, run_kernel
from kb_engine.program.session import Session
from kb_engine.program.symbols import Ints, Peers
from kb_engine.template.period import longest_stretch
from kb_engine.template.places_used import PlaceUsed, places_used
from kb_engine.template.played import Played
from kb_engine.template.purity import is_repeatable
from kb_engine.template.raw_steps import RawHoles, RawStep, ends_of_turns, raw_steps, tape_of
from kb_engine.template.rehearsal import RehearsedPort
from kb_engine.template.rehearsed_range import rehearsed_kernel
from kb_engine.template.steps import Allocation, HeldFrom, Loaded, carried
from kb_engine.template.template import Template
from kb_engine.template.templates import tensors_among
from kb_engine.template.tracing import Tape, TracingPort

_LEAST_PES: Final = 4
"""PEs from which on one rehearsal for all of them pays. Source: benchmarks/speed/commands.py."""


class LoopParts(NamedTuple):
    """What programs do before a loop, in each turn of it, and after it."""

    before: Template
    turn: Template
    after: Template


class LoopTemplates:
    """The programs of a launch do *parts*. Turn t of program p, on n PEs, has the number `t * n + p`."""

    is_near: Final = False
    """No program differs by its PE."""

    def __init__(self, parts: LoopParts, n_pes: int) -> None:
        self.parts = parts
        self._n_pes = n_pes
        self._played: Played | None = None

    @property
    def total(self) -> int:
        """The turns of all programs."""
        return len(self.parts.turn.numbers)

    def watch(self) -> Played:
        """What is repeated from now on is kept there."""
        if self._played is None:
            self._played = Played()
        return self._played

    def fold(self, over: FoldPass) -> None:
        """As FoldPass says: nothing changes."""

    def of(self, number: int) -> tuple[Template, list[int]] | None:
        """The template of turn *number*, and the turn's numbers."""
        turn = self.parts.turn
        return (turn, turn.row(number)) if number < self.total else None

    def numbers_of(self, turns: Sequence[int]) -> list[list[int]]:
        """The numbers of each of *turns*."""
        numbers: list[list[int]] = self.parts.turn.table[np.array(turns)].tolist()
        return numbers

    def loaded_before(self, number: int, loaded: dict[int, dict[int, Loaded]]) -> dict[int, Loaded]:
        """What turn *number* begins with of what is *loaded*, by turn: of the last one before it that has an entry."""
        before = number - self._n_pes
        while before not in loaded:
            before -= self._n_pes
        found = loaded.pop(before)
        for _ in range(before, number, self._n_pes):
            found = carried(found, self.parts.turn.holds_last)
        return found

    def origin(self, slot: int) -> HeldFrom:
        """Where the TCM is from that a turn holds by number *slot*."""
        holds, before = self.parts.turn.holds_last, 0
        while slot < len(holds) and holds[slot] != slot and before < len(holds) * self._n_pes:
            slot, before = holds[slot], before + self._n_pes
        return HeldFrom(slot, before, holds[slot : slot + 1] == (slot,))

    def places_used(self, numbers: Sequence[int]) -> list[PlaceUsed]:
        """What the turns *numbers* use of memory."""
        return places_used(self.parts.turn, np.array(numbers))

    def kinds(self, kinds_of: Callable[[Ints], Ints]) -> Ints:
        """For each turn, a number that those have in common that do the same.

        *kinds_of* gives, for addresses, what about them matters.
        """
        _, which = np.unique(kinds_of(self.parts.turn.table), axis=0, return_inverse=True)
        return which.reshape(-1)


def loops_of(call: KernelCall, session: Session, pes: Sequence[ProcessingElement]) -> LoopTemplates | None:
    """The loop that the programs of *call* have on *pes*, one on each, if they do the same whatever time it takes.

    The kernel is rehearsed once for all of them. None where that is not known beforehand, or TCM may become scarce.
    """
    kernel, arguments = call.kernel, call.arguments
    if len(pes) < _LEAST_PES or any(pe.mmu is not None for pe in pes):
        return None
    if not isinstance(kernel, FunctionType) or not _has_loop(kernel.__code__):
        return None
    if any(each.near for each in tensors_among(arguments)) or not is_repeatable(kernel, arguments, call.front_end):
        return None
    found = _rehearsed(call._replace(kernel=rehearsed_kernel(kernel)), session, pes)
    if found is None or any(pe.tcm.largest_nbytes() < max(each.needs_nbytes for each in found.parts) for pe in pes):
        return None
    return found


def _has_loop(code: CodeType) -> bool:
    return any(each.opname == "FOR_ITER" or "JUMP_BACKWARD" in each.opname for each in dis.get_instructions(code))


def _rehearsed(call: KernelCall, session: Session, pes: Sequence[ProcessingElement]) -> LoopTemplates | None:
    peers = Peers(0, len(pes))
    tape = Tape(peers)
    tape.holes = RawHoles(peers, tape.held)
    port = RehearsedPort(session, pes[0], Program(0, len(pes)), call, peers)
    tracing = TracingPort(cast(PePort, port), tape)
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            run_kernel(call, cast(ProgramPort, tracing))
            tracing.end()
        steps = raw_steps(tape)
    except Exception:  # noqa: BLE001  # whatever it is, the launch meets it again in its time
        return None
    finally:
        peers.close()
    if warned or steps is None or tape.held or peers.why_alone or not peers.agree.all():
        return None
    return _loop_of(steps, len(pes), pes[0].tcm)


def _loop_of(steps: Sequence[RawStep], n_pes: int, allocator: Allocator) -> LoopTemplates | None:
    stretch = longest_stretch([each.kind for each in steps], ends_of_turns(steps))
    if stretch is None:
        return None
    begin, length = stretch.begin, stretch.length
    turns = [steps[at : at + length] for at in range(begin, stretch.end, length)]
    sizes = {each.given: each.step.nbytes for each in steps if isinstance(each.step, Allocation)}
    tapes = [tape_of(each, sizes, n_pes) for each in ([steps[:begin]], turns, [steps[stretch.end :]])]
    if any(each.peers.why_alone for each in tapes):
        return None
    return LoopTemplates(LoopParts(*[Template(each, allocator) for each in tapes]), n_pes)
