"""Loops: what each program of a launch without a grid does before a loop, in each turn of it, and after it."""

from __future__ import annotations

import dis
import warnings
from collections.abc import Callable, Sequence
from contextvars import Context
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Final, NamedTuple, cast

import numpy as np

from kb_engine.block.fold_pass import FoldPass
from kb_engine.memory.allocator import Allocator
from kb_engine.observe.by_event import WhyNot
from kb_engine.program.author_errors import authors_line
from kb_engine.program.grid import Program
from kb_engine.program.kernel_lines import kernel_lines
from kb_engine.program.pe import ProcessingElement
from kb_engine.program.pe_port import PePort
from kb_engine.program.port import ProgramPort
from kb_engine.program.runner import KernelCall, run_kernel
from kb_engine.program.session import Session
from kb_engine.program.symbols import Ints, Peers
from kb_engine.template.alone import OTHER_WAYS, alone
from kb_engine.template.period import LEAST_TURNS, longest_stretch
from kb_engine.template.places_used import PlaceUsed, places_used
from kb_engine.template.played import Played
from kb_engine.template.purity import impurity_of
from kb_engine.template.raw_steps import RawHoles, RawStep, ends_of_turns, raw_steps, tape_of
from kb_engine.template.rehearsal import NotRehearsed, RehearsedPort
from kb_engine.template.rehearsed_range import rehearsed_kernel
from kb_engine.template.steps import Allocation, HeldFrom, Loaded, Submission, Wait, carried
from kb_engine.template.template import Template
from kb_engine.template.templates import tensors_among
from kb_engine.template.tracing import Tape, TracingPort

_LEAST_PES: Final = 4
"""PEs from which on one rehearsal for all of them pays. Source: benchmarks/speed/commands.py."""
_MOST_CODES: Final = 1 << 8
"""Kernels of which it is kept whether they have a loop. Source: assumed."""
NEAR: Final = WhyNot("a tensor has a copy near each PE", "shard the tensor, or pass one copy of it")
_PES: Final = "launch on 4 PEs or more"
_RAISES: Final = "compute with the number of the program by `+`, `-`, `*`, `//` and `%` alone"
_TURNS: Final = "make the same calls, on blocks of the same shape, in each of 16 turns or more"
NO_LOOP: Final = WhyNot(
    "the kernel has no loop of its own: those of functions that it calls are not looked for",
    "write the loop in the kernel itself",
)


class LoopParts(NamedTuple):
    """What programs do before a loop, in each turn of it, and after it."""

    before: Template
    turn: Template
    after: Template


class LoopTemplates:
    """The programs of a launch do *parts*. Turn t of program p, on n PEs, has the number `t * n + p`."""

    is_near: Final = False
    """No program differs by its PE."""
    why_alone: Final = None
    """Every turn has a template."""

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


def loops_of(
    call: KernelCall, session: Session, pes: Sequence[ProcessingElement], refused: WhyNot | None
) -> LoopTemplates | WhyNot | None:
    """The loop that the programs of *call* have on *pes*, one on each, if they do the same whatever time it takes.

    The kernel is rehearsed once for all of them. Else why that is not known beforehand, or that TCM may become scarce.
    *refused* is why no loop is to be looked for, if there is a reason. None for a kernel that a front end has made.
    """
    kernel, arguments = call.kernel, call.arguments
    if not isinstance(kernel, FunctionType):
        return None
    if not _has_loop(kernel.__code__):
        return NO_LOOP
    if refused is not None:
        return refused
    if len(pes) < _LEAST_PES:
        there = "1 PE" if len(pes) == 1 else f"{len(pes)} PEs"
        return WhyNot(f"the launch is on {there}, and loops are folded on {_LEAST_PES} or more", _PES)
    if any(pe.mmu is not None for pe in pes):
        return WhyNot("the PEs translate addresses by an MMU", "take a chip without MMUs, if no tensor is mapped")
    if any(each.near for each in tensors_among(arguments)):
        return NEAR
    impurity = impurity_of(kernel, arguments, call.front_end)
    if impurity is not None:
        return impurity.why(call.root)
    found = _rehearsed(call._replace(kernel=rehearsed_kernel(kernel)), session, pes)
    if isinstance(found, LoopTemplates):
        needs = max(each.needs_nbytes for each in found.parts)
        if any(pe.tcm.largest_nbytes() < needs for pe in pes):
            return WhyNot(f"{needs} bytes of TCM would have to be free in one piece", "keep fewer or smaller tiles")
    return found


@lru_cache(maxsize=_MOST_CODES)
def _has_loop(code: CodeType) -> bool:
    return any(each.opname == "FOR_ITER" or "JUMP_BACKWARD" in each.opname for each in dis.get_instructions(code))


def _rehearsed(call: KernelCall, session: Session, pes: Sequence[ProcessingElement]) -> LoopTemplates | WhyNot:
    peers = Peers(0, len(pes), kernel_lines(call.root).here)
    tape = Tape(peers)
    tape.holes = RawHoles(peers, tape.held)
    port = RehearsedPort(session, pes[0], Program(0, len(pes)), call, peers)
    tracing = TracingPort(cast(PePort, port), tape)
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            Context().run(run_kernel, call, cast(ProgramPort, tracing))  # a program begins with an empty one, too
            tracing.end()
        steps = raw_steps(tape)
    except NotRehearsed as error:
        return alone(str(error), peers.alone_at or authors_line(error, call.root))
    except Exception as error:  # noqa: BLE001  # whatever it is, the launch meets it again in its time
        return WhyNot(f"the kernel raises {type(error).__name__}", _RAISES, authors_line(error, call.root))
    finally:
        peers.close()
    if peers.why_alone:
        return alone(peers.why_alone, peers.alone_at)
    if warned:
        return WhyNot("the kernel warns", "compute without what is warned of, such as an overflow")
    if steps is None:
        return alone("holds sums in registers, or makes values of a constant")
    if tape.held:
        return alone("holds TCM at its end")
    if not peers.agree.all():
        return alone(OTHER_WAYS)
    return _loop_of(steps, len(pes), pes[0].tcm)


def _loop_of(steps: Sequence[RawStep], n_pes: int, allocator: Allocator) -> LoopTemplates | WhyNot:
    stretch = longest_stretch([each.kind for each in steps], ends_of_turns(steps))
    if stretch is None:
        return _why_no_turns(steps)
    begin, length = stretch.begin, stretch.length
    turns = [steps[at : at + length] for at in range(begin, stretch.end, length)]
    sizes = {each.given: each.step.nbytes for each in steps if isinstance(each.step, Allocation)}
    tapes = [tape_of(each, sizes, n_pes) for each in ([steps[:begin]], turns, [steps[stretch.end :]])]
    for tape in tapes:
        if tape.peers.why_alone:
            return alone(tape.peers.why_alone)
    return LoopTemplates(LoopParts(*[Template(each, allocator) for each in tapes]), n_pes)


def _why_no_turns(steps: Sequence[RawStep]) -> WhyNot:
    """Why *steps* have no turns that are alike.

    What a turn computes is issued where it is needed. So a sum over turns is one command behind the loop, for which the
    program keeps what each turn has loaded. Its turns differ in what is held.
    """
    stretch = longest_stretch([each.kind for each in steps], [True] * len(steps))
    turn = steps[stretch.begin : stretch.begin + stretch.length] if stretch is not None else ()
    waits = [each.step for each in turn if isinstance(each.step, Wait)]
    if waits:
        return alone("waits for a command of an earlier turn", waits[0].line)
    middle = [each for each in steps[len(steps) // 4 : -len(steps) // 4] if isinstance(each.step, Submission)]
    held = [len(each.holds) for each in middle]
    if len(middle) >= LEAST_TURNS // 2 and held == sorted(held) and held[-1] - held[0] >= LEAST_TURNS // 4:
        cause = f"each turn keeps TCM up to the end of the loop, up to {max(len(each.holds) for each in steps)} values"
        line = cast(Submission, middle[-1].step).line
        return WhyNot(cause, "`tl.wait` for a sum in each turn, which issues it", line)
    return WhyNot(f"the kernel's calls have no {LEAST_TURNS} equal turns that are half of all of them", _TURNS)
