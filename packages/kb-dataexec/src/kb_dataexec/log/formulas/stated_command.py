"""StatedCommand: a command as the op log states it, without what a simulator knows of a command."""

from __future__ import annotations

from msgspec import Struct

from kb_dataexec.log.formulas.command import PlacementOf
from kb_messages import PipelinePlan


class StatedIssue(Struct, gc=False):
    """The place of a command in the global order, the PE that issued it, and its kernel line."""

    command_seq: int
    pe: str
    line: str


class StatedCommand(Struct, gc=False):
    """A LoggedCommand, with the columns of its row of `commands`.

    A log may have hundreds of thousands of commands, so Python's garbage collector does not go through them.
    """

    first_op: int
    submitted: StatedIssue
    shared_plan: PipelinePlan
    addresses: tuple[int, ...]
    placement: PlacementOf
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
