"""Commands as the op log needs them: plan, addresses, buffer slots and times, from which their rows are made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from kb_messages import PipelinePlan, Place


class SlotRing(Protocol):
    """A ring of slots in a buffer: piece i of a command lies in slot `(first + i) % count`."""

    @property
    def base(self) -> int:
        """The offset of slot 0 in its memory, in bytes."""

    @property
    def nbytes(self) -> int:
        """The size of a slot, in bytes."""

    @property
    def count(self) -> int:
        """The number of slots."""

    @property
    def first(self) -> int:
        """The number of the slot of piece 0."""


class PlacementLike(Protocol):
    """The slots that the tiles of a command use in each place. None where the plan needs no slots there."""

    @property
    def input(self) -> SlotRing | None:
        """The slots of input buffers."""

    @property
    def panel(self) -> SlotRing | None:
        """The slots of panels."""

    @property
    def output(self) -> SlotRing | None:
        """The slots of output buffers."""

    @property
    def registers(self) -> SlotRing | None:
        """The slots of operands in registers."""

    @property
    def accumulators(self) -> SlotRing | None:
        """The slots of sums in registers."""

    @property
    def moved(self) -> Mapping[Place, Mapping[int, int]]:
        """The offsets, in bytes, of pieces that lie in no slot: by place and number of the piece."""


class IssueLike(Protocol):
    """How a command was issued: its number in the order of all commands, its PE, and its kernel line."""

    @property
    def command_seq(self) -> int:
        """The number of the command in the order of all commands."""

    @property
    def pe(self) -> str:
        """The id of the PE."""

    @property
    def line(self) -> str:
        """The kernel line, `file:line`."""


class CommandLike(Protocol):
    """A command of a simulator or of a log. Its ops are numbered from `first_op` on.

    It also has the columns `t_call_ps` to `t_done_ps` and `after_seq` to `operand_ps` of its row of `commands`. Times
    are in picoseconds; -1 is an unknown time.
    """

    @property
    def submitted(self) -> IssueLike:
        """How the command was issued."""

    @property
    def shared_plan(self) -> PipelinePlan:
        """The plan, which commands at other addresses may share."""

    @property
    def addresses(self) -> tuple[int, ...] | None:
        """The addresses of the operands in memory, in the order of the plan; None for the addresses of the plan."""

    @property
    def placement(self) -> PlacementLike:
        """The buffer slots of the tiles."""

    @property
    def first_op(self) -> int:
        """The id of the first op."""

    @property
    def t_done_ps(self) -> int:
        """The time at which the last tile was done, in picoseconds; -1 before."""


class LoggedIssue(Struct, gc=False):
    """How a command was issued: its number in the order of all commands, its PE, and its kernel line."""

    command_seq: int
    pe: str
    line: str


class LoggedCommand(Struct, gc=False):
    """A command read from a log, with the columns of its row of `commands`.

    A log may have hundreds of thousands of commands, so the garbage collector does not track them (`gc=False`).
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
