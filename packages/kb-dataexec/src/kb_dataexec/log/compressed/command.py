"""What the rows of a command follow from: its plan, its addresses, its buffer slots and its times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from kb_messages import PipelinePlan, Place


class SlotRing(Protocol):
    """Slots that pieces take in turn: piece i of a command takes slot `(first + i) % count`."""

    @property
    def base(self) -> int:
        """The offset of the first slot, in bytes."""

    @property
    def nbytes(self) -> int:
        """The bytes of a slot."""

    @property
    def count(self) -> int:
        """The number of slots."""

    @property
    def first(self) -> int:
        """The slot of piece 0."""


class PlacementLike(Protocol):
    """The slots of each place that a command's tiles take in turn, None where its plan needs none.

    `moved` has the offsets of pieces that lie in no slot: by place, and by the number of the piece.
    """

    @property
    def input(self) -> SlotRing | None:
        """Of input buffers."""

    @property
    def panel(self) -> SlotRing | None:
        """Of panels."""

    @property
    def output(self) -> SlotRing | None:
        """Of output buffers."""

    @property
    def registers(self) -> SlotRing | None:
        """Of operands in registers."""

    @property
    def accumulators(self) -> SlotRing | None:
        """Of sums in registers."""

    @property
    def moved(self) -> Mapping[Place, Mapping[int, int]]:
        """The pieces elsewhere."""


class IssueLike(Protocol):
    """The place of a command in the global order, the PE that issued it, and its kernel line."""

    @property
    def command_seq(self) -> int:
        """The place in the global order."""

    @property
    def pe(self) -> str:
        """The id of the PE."""

    @property
    def line(self) -> str:
        """The kernel line, `file:line`."""


class CommandLike(Protocol):
    """A command whose ops are numbered from `first_op` on. `addresses` are None where those of its plan hold.

    The times are in picoseconds, -1 for one that is not known. The further tables of the op log say what they mean.
    """

    @property
    def submitted(self) -> IssueLike:
        """How the command was issued."""

    @property
    def shared_plan(self) -> PipelinePlan:
        """The plan, which commands at other addresses may share."""

    @property
    def addresses(self) -> tuple[int, ...] | None:
        """The addresses of its operands in memory, in the order of the plan."""

    @property
    def placement(self) -> PlacementLike:
        """The slots of its tiles."""

    @property
    def first_op(self) -> int:
        """The id of the first op."""

    @property
    def t_done_ps(self) -> int:
        """When the last tile was done."""


class LoggedIssue(Struct, gc=False):
    """The place of a command in the global order, the PE that issued it, and its kernel line."""

    command_seq: int
    pe: str
    line: str


class LoggedCommand(Struct, gc=False):
    """A CommandLike, with the columns of its row of `commands`.

    A log may have hundreds of thousands of commands, so Python's garbage collector does not go through them.
    """

    first_op: int
    submitted: LoggedIssue
    shared_plan: PipelinePlan
    addresses: tuple[int, ...]
    placement: PlacementLike
    t_call_ps: int
    t_issued_ps: int
    t_submitted_ps: int
    t_taken_ps: int
    t_decoded_ps: int
    t_fed_ps: int
    t_done_ps: int
    after_seq: int
    after: int
    operand_seq: int
    operand_ps: int
