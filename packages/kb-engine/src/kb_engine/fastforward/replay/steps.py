"""Steps: the calls of a traced program on its port, which other programs repeat.

Design: docs/design/replay-and-purity.md
"""

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
    """The values that a load brought to TCM: the elements of the tile, or the producer of pending ones."""

    producer: Producer | None
    known: npt.NDArray[Any] | None


class Repetition:
    """A program that repeats the steps of another one. `number` is its own, and `numbers` follow from it.

    `given` has the addresses that it was given. By their numbers, `held` has the TCM that it holds, and `loaded` the
    values that loads brought there for later stores. `completions` has the completions of its commands, in order. `at`
    is the number of the current step.
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
        """Hands the state to *over*, without the numbers and the loaded values, which `become` replaces."""
        over.same(self.at, tuple(self.given), tuple(self.held), tuple([each.done for each in self.completions]))

    def do(self, repeats: Sequence[Callable[[Repetition], None]]) -> None:
        """Does the steps, whose calls are in *repeats*."""
        for number, repeat in enumerate(repeats):
            self.at = number
            repeat(self)

    def become(self, number: int, numbers: Numbers, loaded: Mapping[int, Loaded]) -> None:
        """Goes on as another program, which has *loaded* its own values."""
        self.number, self.numbers = number, numbers
        self.loaded = {slot: each for slot, each in loaded.items() if slot in self.held}


class Step(Protocol):
    """One call of the port."""

    def repeat(self, run: Repetition) -> None:
        """Makes the call for another program."""


class Allocation(NamedTuple):
    """Takes *nbytes* of TCM."""

    nbytes: int
    line: str

    def repeat(self, run: Repetition) -> None:
        """Takes the bytes."""
        lease, given = run.port.tcm, run.given
        start = lease.allocate(self.nbytes, self.line)
        run.held[len(given)] = HeldBytes(lease, start)
        given.append(start)


class Release(NamedTuple):
    """Gives up the last value in the TCM given as number `slot`. A command may still keep the TCM."""

    slot: int

    def repeat(self, run: Repetition) -> None:
        """Gives up the value."""
        del run.held[self.slot]
        run.loaded.pop(self.slot, None)


class RegisterRange(NamedTuple):
    """Takes *nbytes* of registers for a sum."""

    nbytes: int

    def repeat(self, run: Repetition) -> None:
        """Takes the registers."""
        start = run.port.registers.take(self.nbytes)
        assert start is not None, "each program has the same registers"
        run.given.append(start)


class RegisterReturn(NamedTuple):
    """Gives back the registers given as number `slot`."""

    slot: int

    def repeat(self, run: Repetition) -> None:
        """Gives the registers back."""
        run.port.registers.give_back(run.given[self.slot])


class Constant(NamedTuple):
    """Asks for a constant of the op log."""

    element: bytes
    n_elements: int

    def repeat(self, run: Repetition) -> None:
        """Takes the address of the constant."""
        run.given.append(run.port.constant(self.element, self.n_elements))


class PendingMark(NamedTuple):
    """Marks the bytes of a matrix that a command is about to produce."""

    matrix: Callable[[Numbers, Numbers], Matrix]
    producer: Producer

    def repeat(self, run: Repetition) -> None:
        """Marks the bytes as pending."""
        run.port.memory.pending.mark(self.matrix(run.numbers, run.given), self.producer)


class KeptTile(NamedTuple):
    """The TCM given as number `slot`, to which a load brings values that a later step stores. `made` is for the
    load."""

    slot: int
    made: MadeTile | None


class LoadCheck(NamedTuple):
    """Checks for a load whether the bytes of matrices are known or pending. Known bytes have been written.

    The elements are read only if they are `kept`.
    """

    matrices: tuple[Callable[[Numbers, Numbers], Matrix], ...]
    line: str
    kept: KeptTile | None = None

    def repeat(self, run: Repetition) -> None:
        """Checks or loads the bytes."""
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
    """Stores the tile that a load brought to the TCM given as number `slot`, or `part` of it."""

    matrix: Callable[[Numbers, Numbers], Matrix]
    slot: int
    part: TilePart | None

    def repeat(self, run: Repetition) -> None:
        """Stores the values, or marks the bytes as pending."""
        producer, known = run.loaded[self.slot]
        matrix = self.matrix(run.numbers, run.given)
        run.port.memory.put(matrix, matrix, known, producer, self.part)


class Submission(NamedTuple):
    """Issues a command. The command keeps the TCM numbered in `keeps` until it is done."""

    command: Callable[[Numbers, Numbers], Command]
    line: str
    waits: bool
    keeps: tuple[int, ...]

    def repeat(self, run: Repetition) -> None:
        """Issues the command."""
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
        """Waits for the command."""
        run.port.wait(run.completions[self.number], self.line)


def maker(part: tuple[Any, Build | None]) -> Build:
    """Returns a function that makes an object for a program, from the result of `Placeholders.parametrize`."""
    fixed, build = part
    return build or (lambda *_: fixed)
