"""Templates: the templates of one launch, the programs that are traced, and the programs that are replayed.

Design: docs/design/replay-and-purity.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

import numpy as np

from kb_engine.block.state_visitor import NotPeriodic, StateVisitor
from kb_engine.fastforward.replay.placeholders import Numbers
from kb_engine.fastforward.replay.places_used import PlaceUsed, places_used
from kb_engine.fastforward.replay.purity import impurity_of
from kb_engine.fastforward.replay.steps import Loaded, Repetition
from kb_engine.fastforward.replay.template import Template
from kb_engine.fastforward.replay.tracing import Tape, TracingPort
from kb_engine.observe.slow_path import NO_REMEDY, SkipRefusal
from kb_engine.program.pe_port import PePort
from kb_engine.program.port import ProgramPort
from kb_engine.program.runner import KernelCall, run_kernel
from kb_engine.program.values.symbols import Ints, Peers
from kb_engine.program.values.tensors import Tensor, TensorRef

OTHER_PATH: Final = "takes another path in other programs, by a comparison with the program's number"
_CHANGES: Final = {
    "looks at a computed value": "decide by `tl.where`, or read the value after the loop",
    "looks at a value": "decide by `tl.where`, or read the value after the loop",
    "reads memory": "load with `tl.load`, and decide by `tl.where`",
    "prints": "print after the loop, or not at all",
    "captures": "leave the capture out",
    "frees a value": "leave `tl.free` out, because a value without a reference is freed anyway",
    "stores known values": "store values that commands compute or load",
    "waits for all commands": "wait for one command by its handle",
    "waits for a command of an earlier turn": "wait in the turn that issues the command",
    "uses virtual addresses": "map nothing, and pass the tensors themselves",
    OTHER_PATH: "decide by arguments of the launch, and make a launch for each kind of program",
}
"""The remedies for authors, by the cause."""


def _refusal(why: str, line: str = "") -> SkipRefusal:
    """Returns the refusal of a kernel that no other program can repeat, because of *why* at *line*."""
    return SkipRefusal(f"the kernel {why}", _CHANGES.get(why, NO_REMEDY), line)


class IssuedByRun(NamedTuple):
    """Program `program` issued its command number `which`."""

    program: int
    which: int


class ReplayedPrograms:
    """The programs of a launch that are replayed. `runs` has the programs since `forget`, by number.

    `issues` has their commands since then, in order.
    """

    def __init__(self) -> None:
        self.runs: dict[int, tuple[Template, Repetition]] = {}
        self.issues: list[IssuedByRun] = []

    def begin(self, template: Template, run: Repetition) -> None:
        """Notes that *run* is about to do the steps of *template*."""
        self.runs[run.number] = template, run

    def issue(self, run: Repetition) -> None:
        """Notes that *run* is about to issue a command."""
        self.issues.append(IssuedByRun(run.number, len(run.completions)))

    def visit_state(self, over: StateVisitor, running: Iterable[int]) -> None:
        """Hands the programs *running* to *over*. Raises NotPeriodic for a program without a template."""
        for number in running:
            if number not in self.runs:
                raise NotPeriodic
            template, run = self.runs[number]
            over.identical(template)
            run.visit_state(over)

    def go_on(self, number: int, later: int, numbers: Numbers, loaded: Mapping[int, Loaded]) -> None:
        """Makes program *number* program *later*, which has *numbers* and *loaded* its own values."""
        template, run = self.runs[number]
        run.become(later, numbers, loaded)
        self.runs[later] = template, run

    def forget(self, running: Iterable[int]) -> None:
        """Forgets all commands, and the programs that are not *running*."""
        self.issues.clear()
        self.runs = {number: self.runs[number] for number in running if number in self.runs}


NEAR: Final = SkipRefusal("a tensor has a copy near each PE", "shard the tensor, or pass one copy of it")
_MOST_FAILED: Final = 3
"""The failed traces in a row after which no program of the launch is traced any more."""


def templates_of(call: KernelCall, count: int, n_pes: int) -> Templates | SkipRefusal | None:
    """Returns the templates for the *count* programs of a grid on *n_pes* PEs, or why the programs are not replayed.

    The result is None where each PE runs one program at most.
    """
    if count <= n_pes:
        return None
    impurity = impurity_of(call.kernel, call.arguments, call.front_end)
    return Templates(call, count) if impurity is None else impurity.why(call.root)


class Templates:
    """Runs the *count* programs of a grid: from a template, by a trace that may become one, or by the kernel.

    One program is traced at a time. Programs on PEs that use other copies of tensors have templates of their own.
    `why_not` is the reason why the last traced program has no template.
    """

    def __init__(self, call: KernelCall, count: int) -> None:
        self._count = count
        self._is_near = any(each.near for each in tensors_among(call.arguments))
        self._found: dict[tuple[str, int], tuple[Template, int]] = {}
        self._room: dict[str, tuple[int, int]] = {}
        self._is_tracing = False
        self._n_failed = 0
        self.why_not: SkipRefusal | None = None
        self._replayed: ReplayedPrograms | None = None

    def play(self, call: KernelCall, port: PePort) -> None:
        """Runs the program of *port*."""
        copies = port.pe_id if self._is_near else ""
        found = self._found.get((copies, port.program_id))
        if found is not None:
            template, row = found
            if self._has_room(port, template.needs_nbytes):
                self._repeat(template, row, port)
                return
        elif not self._is_tracing and self._n_failed < _MOST_FAILED:
            self._trace(call, port, copies)
            return
        run_kernel(call, port)

    def watch(self) -> ReplayedPrograms:
        """Returns the programs that are replayed from now on."""
        if self._replayed is None:
            self._replayed = ReplayedPrograms()
        return self._replayed

    @property
    def is_near(self) -> bool:
        """Whether programs differ by their PE too, because a tensor has copies."""
        return self._is_near

    def visit_state(self, over: StateVisitor) -> None:
        """Hands the state to *over*. Raises NotPeriodic while a program is traced."""
        if self._is_tracing:
            raise NotPeriodic
        over.same(self._n_failed, tuple(self._room.items()))

    def of(self, number: int) -> tuple[Template, list[int]] | None:
        """Returns the template of program *number* and the program's numbers, or None without a template."""
        found = self._found.get(("", number))
        return None if found is None else (found[0], found[0].row(found[1]))

    def numbers_of(self, programs: Sequence[int]) -> list[list[int]]:
        """Returns the numbers of each of *programs*, which have one template."""
        template, rows = self._one_template(programs)
        numbers: list[list[int]] = template.table[rows].tolist()
        return numbers

    def places_used(self, numbers: Sequence[int]) -> list[PlaceUsed]:
        """Returns the places of memory that the programs *numbers*, which have one template, use."""
        return places_used(*self._one_template(numbers))

    def kinds(self, kinds_of: Callable[[Ints], Ints]) -> Ints:
        """Returns a kind for each program: programs of one kind do the same, and -1 is for programs without a template.

        *kinds_of* gives, for addresses, the properties that decide times.
        """
        kinds = np.full(self._count, -1, dtype=np.int64)
        n_kinds = 0
        for template in dict.fromkeys(template for template, _ in self._found.values()):
            if template.ends_with_an_issue:
                _, which = np.unique(kinds_of(template.table), axis=0, return_inverse=True)
                mine = [self._found["", number][0] is template for number in template.numbers.tolist()]
                kinds[template.numbers[mine]] = n_kinds + which.reshape(-1)[mine]
                n_kinds += len(template.numbers)
        return kinds

    def _one_template(self, programs: Sequence[int]) -> tuple[Template, Ints]:
        found = [self._found["", number] for number in programs]
        return found[0][0], np.array([row for _, row in found])

    def _repeat(self, template: Template, row: int, port: PePort) -> None:
        replayed = self._replayed
        run = Repetition(port, template.row(row), None if replayed is None else replayed.issue)
        if replayed is not None:
            replayed.begin(template, run)
        template.repeat(run)

    def _trace(self, call: KernelCall, port: PePort, copies: str) -> None:
        peers = Peers(port.program_id, self._count, port.line)
        tape = Tape(peers)
        tracing = TracingPort(port, tape)
        self._is_tracing = True
        try:
            run_kernel(call, cast(ProgramPort, tracing))  # its addresses take the place of integers
            tracing.end()
        finally:
            self._is_tracing = False
        peers.close()
        if tape.held:
            peers.leave("holds TCM at its end")
        if peers.why_alone or int(peers.agree.sum()) < 2:
            self._n_failed += 1
            self.why_not = _refusal(peers.why_alone or OTHER_PATH, peers.alone_at)
            return
        self._n_failed = 0
        template = Template(tape, port.tcm.allocator)
        for row, number in enumerate(template.numbers.tolist()):
            self._found.setdefault((copies, number), (template, row))

    def _has_room(self, port: PePort, nbytes: int) -> bool:
        """Whether *nbytes* of TCM are free in one piece for certain."""
        allocator = port.tcm.allocator
        free, largest = self._room.get(port.pe_id, (-1, 0))
        if allocator.free_nbytes != free:
            largest = allocator.largest_nbytes()
            if allocator.free_nbytes > free:
                self._room[port.pe_id] = allocator.free_nbytes, largest
        return nbytes <= largest


def tensors_among(arguments: Sequence[Any]) -> list[Tensor]:
    """Returns the tensors of *arguments*, and of lists and tuples among them."""
    found: list[Tensor] = []
    for each in arguments:
        if isinstance(each, TensorRef):
            found.append(each.tensor)
        elif isinstance(each, (list, tuple)):
            found += tensors_among(each)
    return found
