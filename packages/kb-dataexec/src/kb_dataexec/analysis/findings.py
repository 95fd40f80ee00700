"""Findings: hazards and races of a log as records that print themselves, and the accesses and elements they name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from kb_dataexec.analysis.hazards import Hazard
from kb_dataexec.analysis.programs import ProgramName


class Access(Struct, frozen=True, kw_only=True):
    """One record that touched the bytes: its name, its component, its kernel line and its times.

    `program` is the program that issued the record. It is missing for hazards other than races, and where the log does
    not say it.
    """

    op_id: int
    name: str
    component: str
    line: str
    t_start_ps: int
    t_end_ps: int
    program: ProgramName | UnsetType = UNSET

    @property
    def place(self) -> str:
        """The kernel line, or the id of a record without one."""
        return self.line or f"op {self.op_id}"

    def __str__(self) -> str:
        program = self.program.number if isinstance(self.program, ProgramName) else ""
        return f"{self.place} ({', '.join(filter(None, (self.name, program, self.component)))})"


class Element(Struct, frozen=True, kw_only=True):
    """An element of a tensor: the name of the tensor, as the kernel has it, and the index."""

    tensor: str
    index: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.tensor}[{', '.join(map(str, self.index))}]"


class Finding(Struct, frozen=True, kw_only=True):
    """One hazard between two kernel lines. `first` and `second`, in command order, are the worst of `count` pairs.

    `pes` is the number of PEs on which the second records run. `done_ps` is the earliest time at which `second` may
    begin: the end of `first`, or the end of its whole command when `second` reads its result. `early_ps` is how much
    earlier `second` began, 0 if it did not. `where` names the memory, and `offset` is the lowest byte that both
    touched. `element` has this byte; it is missing where the tensors of the run are not known.

    Of a race between two programs, `first` and `second` are the first ones in command order, `count` is the number of
    programs that take part, on `pes` PEs, and `done_ps` is the end of `first`.
    """

    hazard: Hazard
    first: Access
    second: Access
    done_ps: int
    early_ps: int
    where: str
    offset: int
    element: Element | UnsetType = UNSET
    count: int
    pes: int

    def __str__(self) -> str:
        first, second = self.first, self.second
        does, did = _VERBS[self.hazard]
        element = f"{self.element}, " if isinstance(self.element, Element) else ""
        return (
            f"{self.hazard}: {second} {does} from {_ns(second.t_start_ps)} on what {first} {did} until "
            f"{_ns(self.done_ps)}, "
            f"at {element}{self.where} + {self.offset:#x}{self._others()}; {self._remedy()}"
        )

    @property
    def _is_of_programs(self) -> bool:
        return isinstance(self.first.program, ProgramName)

    def _others(self) -> str:
        pes = f" on {self.pes} PEs" if self.pes > 1 else ""
        if self._is_of_programs:
            return f"; {self.count} programs{pes} take part" if self.count > 2 else ""
        return f"; {self.count} such pairs{pes}, this one the worst" if self.count > 1 else ""

    def _remedy(self) -> str:
        launches = [each.program.launch for each in (self.first, self.second) if isinstance(each.program, ProgramName)]
        if len(set(launches)) > 1:
            one, two = ("the host" if each < 0 else f"launch {each}" for each in launches)
            remedy = "record an event behind one, and have the stream of the other wait for it, or use one stream"
            return f"nothing puts {one} and {two} in order: {remedy}"
        if self.hazard.is_race:
            who = "programs" if self._is_of_programs else "PEs"
            remedy = "let one of them do both, launch twice, or send a message or a signal, where the language has them"
            return f"nothing puts these two {who} in order: {remedy}"
        first, second = self.first.place, self.second.place
        return f"let {second} wait for {'what it issued before' if first == second else first}"


ElementNames: TypeAlias = Callable[[int, int, int], Element | None]
"""Returns the element with a byte: by the number of the launch, from 0 on, the owner number and the offset.

It returns None where no tensor has the byte. Tensors have the names of the kernel's parameters in that launch.
"""


def unnamed(launch: int, owner: int, offset: int) -> Element | None:
    """Returns None: the tensors of a log are not known."""
    return None


_VERBS: Final = {
    Hazard.READ_TOO_EARLY: ("reads", "writes"),
    Hazard.WRITTEN_OUT_OF_ORDER: ("overwrites", "writes"),
    Hazard.OVERWRITTEN_TOO_EARLY: ("overwrites", "reads"),
    Hazard.WRITE_RACE: ("overwrites", "writes"),
    Hazard.READ_RACE: ("reads", "writes"),
    Hazard.OVERWRITE_RACE: ("overwrites", "reads"),
}
"""The verbs of the second record and of the first, by hazard."""


class RaceReport(Struct, frozen=True, kw_only=True):
    """The races of a run. A finding stands for all races of two kernel lines.

    `undecided` is a sentence about accesses that atomics may put in order, and `left_out` one on why races were not
    looked for; both are "" otherwise.
    """

    races: list[Finding]
    undecided: str = ""
    left_out: str = ""

    @property
    def notes(self) -> list[str]:
        """The sentences on what is not known."""
        return [text for text in (self.undecided, self.left_out) if text]

    @property
    def texts(self) -> list[str]:
        """One sentence for each race."""
        return [*map(str, self.races)]


def _ns(ps: int) -> str:
    return f"{ps / 1000:.3f} ns"
