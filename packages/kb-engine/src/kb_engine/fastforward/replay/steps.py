"""What a program asks of its port, step by step, so that another program can ask for the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy.typing as npt

from kb_engine.block.state_visitor import StateVisitor
from kb_engine.fastforward.replay.placeholders import Build, Numbers
from kb_engine.memory.pending import Producer
from kb_engine.memory.tiles import MadeTile, TilePart
from kb_engine.program.author.kernel_lines import at_line
from kb_engine.program.pe_port import PePort
from kb_engine.program.port import Completion
from kb_engine.program.tcm_holder import HeldBytes
from kb_messages import Command, KbError, Matrix


class Loaded(NamedTuple):
    """What a load brought to TCM: the elements of the tile, or who has yet to produce them."""

    producer: Producer | None
    known: npt.NDArray[Any] | None


class Repetition:
    """A program that repeats the steps of another. `numbers` follow from its own number.

    `given` are the addresses that it was given, and `held` the TCM that it holds, by the same numbers, as `loaded` is
    what loads brought there that the program stores. `completions` are those of its commands, in their order. `at` is
    the number of the step that it is at, and `number` its own.
    """

    __slots__ = ("at", "completions", "given", "held", "loaded", "number", "numbers", "on_issue", "port")

    def __init__(
        self,
        port: PePort,
        numbers: Numbers,
        on_issue: Callable[[Repetition], None] | None = None,
        loaded: dict[int, Loaded] | None = None,
    ) -> None:
        """*on_issue* is called before the program issues a command. *loaded* is filled."""
        self.port = port
        self.number = port.program_id
        self.at = 0
        self.on_issue = on_issue
        self.numbers = numbers
        self.given: list[int] = []
        self.held: dict[int, HeldBytes] = {}
        self.loaded: dict[int, Loaded] = {} if loaded is None else loaded
        self.completions: list[Completion] = []

    def visit_state(self, over: StateVisitor) -> None:
        """As StateVisitor says, but for the numbers and what is loaded, which `become` replaces."""
        over.same(self.at, tuple(self.given), tuple(self.held), tuple([each.done for each in self.completions]))

    def do(self, repeats: Sequence[Callable[[Repetition], None]]) -> None:
        """Do the steps, each of which *repeats* has the call of."""
        for number, repeat in enumerate(repeats):
            self.at = number
            repeat(self)

    def become(self, number: int, numbers: Numbers, loaded: Mapping[int, Loaded]) -> None:
        """Go on as another program, which has *loaded* that much."""
        self.number, self.numbers = number, numbers
        self.loaded = {slot: each for slot, each in loaded.items() if slot in self.held}


class Step(Protocol):
    """One call of the port."""

    def repeat(self, run: Repetition) -> None:
        """Make the call for another program."""


class Allocation(NamedTuple):
    """Takes *nbytes* of TCM."""

    nbytes: int
    line: str

    def repeat(self, run: Repetition) -> None:
        """As `Step.repeat`."""
        lease, given = run.port.tcm, run.given
        start = lease.allocate(self.nbytes, self.line)
        run.held[len(given)] = HeldBytes(lease, start)
        given.append(start)


class Release(NamedTuple):
    """The last value goes that lies in the TCM given as number `slot`. A command may still keep it."""

    slot: int

    def repeat(self, run: Repetition) -> None:
        """As `Step.repeat`."""
        del run.held[self.slot]
        run.loaded.pop(self.slot, None)


class RegisterRange(NamedTuple):
    """Takes *nbytes* of registers for a sum."""

    nbytes: int

    def repeat(self, run: Repetition) -> None:
        """As `Step.repeat`."""
        start = run.port.registers.take(self.nbytes)
        assert start is not None, "each program has the same registers"
        run.given.append(start)


class RegisterReturn(NamedTuple):
    """Gives back the registers given as number `slot`."""

    slot: int

    def repeat(self, run: Repetition) -> None:
        """As `Step.repeat`."""
        run.port.registers.give_back(run.given[self.slot])


class Constant(NamedTuple):
    """Asks for a constant of the op log."""

    element: bytes
    n_elements: int

    def repeat(self, run: Repetition) -> None:
        """As `Step.repeat`."""
        run.given.append(run.port.constant(self.element, self.n_elements))


class PendingMark(NamedTuple):
    """A command is about to produce the bytes of a matrix."""

    matrix: Callable[[Numbers, Numbers], Matrix]
    producer: Producer

    def repeat(self, run: Repetition) -> None:
        """As `Step.repeat`."""
        run.port.memory.pending.mark(self.matrix(run.numbers, run.given), self.producer)


class KeptTile(NamedTuple):
    """Where a load brings what is stored later: the TCM given as number `slot`. `made` is that of the load."""

    slot: int
    made: MadeTile | None


class LoadLook(NamedTuple):
    """A load finds out whether the bytes of matrices are known. Known ones have been written.

    Their elements are read if they are `kept`.
    """

    matrices: tuple[Callable[[Numbers, Numbers], Matrix], ...]
    line: str
    kept: KeptTile | None = None

    def repeat(self, run: Repetition) -> None:
        """As `Step.repeat`."""
        memory, kept = run.port.memory, self.kept
        matrices = [make(run.numbers, run.given) for make in self.matrices]
        try:
            if kept is not None:
                run.loaded[kept.slot] = Loaded(*memory.load(matrices, None, kept.made))
            elif all(memory.pending.producer(each) is None for each in matrices):
                for each in matrices:
                    memory.check_known(each)
        except KbError as error:
            raise at_line(error, self.line) from None


class StoreLoaded(NamedTuple):
    """A store of what a load brought to the TCM given as number `slot`: of `part` of the tile, or of all of it."""

    matrix: Callable[[Numbers, Numbers], Matrix]
    slot: int
    part: TilePart | None

    def repeat(self, run: Repetition) -> None:
        """As `Step.repeat`."""
        producer, known = run.loaded[self.slot]
        matrix = self.matrix(run.numbers, run.given)
        run.port.memory.put(matrix, matrix, known, producer, self.part)


class Submission(NamedTuple):
    """Issues a command. `keeps` are the numbers of the TCM that the command keeps until it is done."""

    command: Callable[[Numbers, Numbers], Command]
    line: str
    waits: bool
    keeps: tuple[int, ...]

    def repeat(self, run: Repetition) -> None:
        """As `Step.repeat`."""
        completion = Completion()
        if run.on_issue is not None:
            run.on_issue(run)
        run.completions.append(completion)
        if self.keeps:
            completion.keep(tuple([run.held[slot] for slot in self.keeps]))
        run.port.submit(self.command(run.numbers, run.given), self.line, completion, self.waits)


class Wait(NamedTuple):
    """Waits for the command that was issued as number `number`."""

    number: int
    line: str

    def repeat(self, run: Repetition) -> None:
        """As `Step.repeat`."""
        run.port.wait(run.completions[self.number], self.line)


def maker(part: tuple[Any, Build | None]) -> Build:
    """How to make an object of which the traced program's and the difference are known."""
    fixed, build = part
    return build or (lambda *_: fixed)
