"""CommandInFlight: a command's plan and the places of its buffers. TileToken: carries a tile from block to block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count, repeat
from operator import attrgetter
from typing import Any, Final, TypeAlias

from kb_engine.block.buffers import Placement
from kb_engine.block.state_visitor import NotPeriodic, StateVisitor, moment_or_none
from kb_messages import (
    CallCause,
    KbError,
    Matrix,
    PipelinePlan,
    Place,
    StageType,
    SubmittedCommand,
    TilePlan,
    WaitReason,
)

Issued: TypeAlias = tuple[SubmittedCommand, tuple[int, ...] | None]
"""The submitted command, and its addresses if it shares its plan."""
_COMMAND_TIMES: Final = (
    "t_call_ps", "t_issued_ps", "t_submitted_ps", "t_taken_ps", "t_decoded_ps", "t_fed_ps", "t_done_ps",
)  # fmt: skip
_times_of: Final = attrgetter(*_COMMAND_TIMES)
_NO_CLAIMS: Final[tuple[None, ...]] = (None,) * len(StageType)
_NO_FREES: Final[tuple[None, ...]] = (None,) * len(StageType)


def _is_over(_: CommandInFlight) -> None:
    """Stands in the place of `done` of a command that is done."""


_START: Final = CallCause.START  # Python 3.11 looks a member of an enumeration up by a call


class PipelineError(KbError):
    """A block broke the pipeline's contract: it lost a tile, or completed a tile twice."""

    exit_code = 3


class CommandInFlight:
    """One command's state while its tiles are in the pipeline.

    Each block looks up by stage type which calls the command adds to a stage, beyond the block's own gates: a tile
    passes the gate `claims[stage_type]` before its service, and `frees[stage_type](token)` is called at the end of the
    service. Both follow from the lifetimes in the plan, and are complete before the first tile is fed.

    `shared_plan` serves all commands that differ in addresses alone, and `addresses` are the addresses of this
    command's operands in memory, in the order of `PipelinePlan.addresses`; None where the plan has them. `plan` is the
    plan at these addresses, and `tiles` are its tiles.

    `mapped` are the operands that the kernel named by virtual addresses.

    `is_isolated` says that the result of the command is known, and that the command only waits for its end
    (`kb_engine.fastforward.isolated`).

    The command carries its times in picoseconds, -1 for an unknown time: the kernel called it (`t_call_ps`), PE_CPU had
    issued it, it entered the submission queue, PE_SCHEDULER took it, had decoded it and began to feed it, and it was
    done. `after` and `after_seq` give the cause of the kernel's call. `operand_ps` is the wait for operands, and
    `operand_seq` the command whose operands were waited for last. Where commands wait in the queue of their engine,
    `turn_ps` is the part of that wait for earlier commands; without other operands, `operand_seq` is the command
    before.

    `on_commit` is called with the picosecond at which a memory commits the bytes that the command writes, once that
    time is known; None where nobody asks.
    """

    __slots__ = (
        *_COMMAND_TIMES,
        "_completion",
        "_plan",
        "addresses",
        "after",
        "after_seq",
        "claims",
        "done",
        "first_op",
        "frees",
        "is_isolated",
        "mapped",
        "on_commit",
        "operand_ps",
        "operand_seq",
        "placement",
        "remaining",
        "shared_plan",
        "submitted",
        "turn_ps",
    )

    def __init__(
        self,
        submitted: SubmittedCommand,
        plan: PipelinePlan,
        first_op: int,
        done: Callable[[CommandInFlight], None],
        mapped: tuple[Matrix, ...] = (),
        addresses: tuple[int, ...] | None = None,
        completion: Any = None,
    ) -> None:
        """Makes the state of a command with the `shared_plan` *plan*.

        *completion* is the program's Completion of the command.
        """
        self.submitted = submitted
        self.shared_plan = plan
        self.addresses = addresses
        self._plan = plan if addresses is None else None
        self.first_op = first_op
        self.done = done
        self.t_call_ps = self.t_issued_ps = self.t_submitted_ps = -1
        self.t_taken_ps = self.t_decoded_ps = self.t_fed_ps = self.t_done_ps = -1
        self.after, self.after_seq = _START, -1
        self.operand_ps, self.operand_seq, self.turn_ps = 0, -1, 0
        self.mapped = mapped
        self._completion = completion
        self.on_commit: Callable[[int], None] | None = None
        self.begin_anew()

    def begin_anew(self) -> None:
        """Resets the command to its state before any tile was fed."""
        self.is_isolated = False
        self.remaining = self.shared_plan.n_tiles
        self.t_fed_ps = -1
        self.placement = Placement()
        self.claims: Sequence[Any] = _NO_CLAIMS  # Gates, which know of tokens and so of commands
        self.frees: Sequence[Callable[[TileToken], None] | None] = _NO_FREES

    def claims_by(self, stage_type: StageType, gate: Any) -> None:
        """Tiles pass *gate* before a service of *stage_type*."""
        claims = [*self.claims]
        claims[stage_type] = gate
        self.claims = claims

    def frees_by(self, stage_type: StageType, free: Callable[[TileToken], None]) -> None:
        """*free* is called with the tile at the end of each service of *stage_type*. It replaces an earlier one."""
        frees = [*self.frees]
        frees[stage_type] = free
        self.frees = frees

    @property
    def is_awaited(self) -> bool:
        """Whether the kernel waits for the command, and so does nothing before it is done."""
        return self._completion is not None and self._completion.is_awaited

    @contextmanager
    def apart(self, done: Callable[[CommandInFlight], None]) -> Iterator[None]:
        """Within the block, *done* is called in place of `done`."""
        before, self.done = self.done, done
        try:
            yield
        finally:
            self.done = before

    def isolate(self, moved: Mapping[Place, Mapping[int, int]], begin_ps: int) -> None:
        """Isolates the command, which began at *begin_ps*: its result is known.

        *moved* are the pieces that lie in no slot.
        """
        self.is_isolated = True
        self.t_fed_ps = begin_ps
        for place, pieces in moved.items():
            for number, offset in pieces.items():
                self.placement.move(place, number, offset)

    def end_isolated(self) -> None:
        """Ends the isolated command: all its tiles are done now."""
        self.is_isolated = False
        self.remaining = 0

    def end(self, now_ps: int) -> None:
        """Ends the command at *now_ps*, and drops its references to whoever waited for it.

        A log may keep the command for long, and Python's garbage collector traverses all kept objects.
        """
        self.t_done_ps = now_ps
        self.done, self._completion, self.on_commit = _is_over, None, None

    @property
    def plan(self) -> PipelinePlan:
        """The plan, at the addresses of the command."""
        if self._plan is None:
            assert self.addresses is not None
            self._plan = self.shared_plan.at(self.addresses)
        return self._plan

    @property
    def tiles(self) -> Sequence[TilePlan]:
        """The tiles of the plan."""
        return self.shared_plan.tiles_at(self.addresses)

    def check_placed(self, scheduler: str) -> None:
        """Raises PipelineError when the plan uses buffers or registers that *scheduler* has cut no slots from.

        The op log names the places of tiles by these slots.
        """
        needs, placement = self.shared_plan.buffers, self.placement
        unplaced = placement.registers is None or (needs.accumulator_nbytes and placement.accumulators is None)
        if needs.register_nbytes and unplaced:
            fix = "call `registers.place(command)` of the PE's RegisterFileOwner before the first tile is fed"
            raise self._not_placed(scheduler, "registers", fix)
        if needs.input_nbytes and placement.input is None:
            raise self._not_placed(scheduler, "input buffers", "set `command.placement.input`")
        if needs.panel_nbytes and placement.panel is None:
            raise self._not_placed(scheduler, "panels", "set `command.placement.panel`")
        if needs.output_nbytes and placement.output is None:
            raise self._not_placed(scheduler, "output buffers", "set `command.placement.output`")

    def _not_placed(self, scheduler: str, places: str, fix: str) -> PipelineError:
        got = f"a command of {self.submitted.line} whose tiles use {places} without a place"
        return PipelineError(scheduler, got, "slots for the op log to name", fix)

    def visit_state(self, over: StateVisitor) -> None:
        """Hands the tiles to go and the places outside of slots to *over*."""
        placement = self.placement
        self.remaining = over.tiles_to_go(self.remaining)
        over.same(placement.operands_held, placement.sums_held)
        over.moved(placement.moved)

    def visit_alone(self, over: StateVisitor) -> None:
        """Hands a command of a program to *over*. Raises NotPeriodic for one of several tiles, or with buffers."""
        placement = self.placement
        if self.shared_plan.n_tiles > 1 or placement.input or placement.panel or placement.output:
            raise NotPeriodic
        self.submitted, self.addresses = over.issued(self)
        if self.addresses is not None:
            self._plan = None
        self.first_op = over.op(self.first_op)
        over.identical(self.shared_plan)
        over.same(self.is_isolated, self.after, self.operand_ps, self.turn_ps)
        for name in _COMMAND_TIMES:
            setattr(self, name, moment_or_none(over, getattr(self, name)))
        self.after_seq, self.operand_seq = over.seq(self.after_seq), over.seq(self.operand_seq)
        over.same(placement.held is None, placement.register_room)
        pe_id, registers, accumulators = self.submitted.pe, placement.registers, placement.accumulators
        over.same(registers is None, accumulators is None)
        if registers is not None:
            placement.registers = over.ring(registers, 0, pe_id)
        if accumulators is not None:
            placement.accumulators = over.ring(accumulators, 0, pe_id)
        self.visit_state(over)

    def again(
        self, issued: Sequence[Issued], shift: tuple[int, int, int], turns: tuple[int, int]
    ) -> list[CommandInFlight]:
        """Commands that were *issued* later, one a period, and went like this one, which is done.

        *shift* has the picoseconds, ops and commands from each command to the next, beginning with this one. *turns*
        has the slots by which its operands and its sum move on in the register file.
        """
        ps, ops, seqs = shift
        columns = [
            *[_later(each, ps) for each in _times_of(self)],
            *[_later(each, seqs) for each in (self.after_seq, self.operand_seq)],
            _later(self.first_op, ops),
            count(1),
        ]
        found, placement, takes_turns = [], self.placement, any(turns)
        for each, *numbers in zip(issued, *columns, strict=False):  # the columns have no end
            i = numbers.pop()
            again = CommandInFlight.__new__(CommandInFlight)
            again._repeat(
                self, each, numbers, placement.turned(i * turns[0], i * turns[1]) if takes_turns else placement
            )
            found.append(again)
        return found

    def _repeat(self, like: CommandInFlight, issued: Issued, numbers: Sequence[int], placement: Placement) -> None:
        """In place of `__init__`: be done as *like* is, with other times, ops and commands in *numbers*."""
        self.submitted, self.addresses = issued
        self.shared_plan, self.done, self.mapped = like.shared_plan, like.done, like.mapped
        self._plan = like.shared_plan if self.addresses is None else None
        self._completion, self.on_commit, self.is_isolated, self.remaining = None, None, False, 0
        self.claims, self.frees = _NO_CLAIMS, _NO_FREES
        self.after, self.operand_ps, self.turn_ps = like.after, like.operand_ps, like.turn_ps
        self.t_call_ps, self.t_issued_ps, self.t_submitted_ps, self.t_taken_ps = numbers[:4]
        self.t_decoded_ps, self.t_fed_ps, self.t_done_ps, self.after_seq, self.operand_seq, self.first_op = numbers[4:]
        self.placement = placement

    def complete_tile(self, token: TileToken, component: str) -> None:
        """Counts *token*'s tile as done. Raises PipelineError when the tile was counted before."""
        if token.completed:
            raise PipelineError(
                f"{component}: tile {token.tile.tile_id} of {self.submitted.line}",
                "a second completion",
                "exactly one",
                "the block must pass a token on or complete it, not both",
            )
        token.completed = True
        self.remaining -= 1
        if not self.remaining:
            self.done(self)


def _later(number: int, by: int) -> Iterator[int]:
    """The values of *number* in later periods, *by* more in each; a number below 0 stays."""
    return repeat(number) if number < 0 else count(number + by, by)


_TIMES: Final = ("t_ready", "t_start", "t_end", "waits_since")


class TileToken:
    """Carries a tile through its stages. Exactly one block holds the token at a time.

    `input_at`, `output_at` and `registers_at` are the offsets of the buffers that the tile holds.
    """

    __slots__ = (
        *_TIMES,
        "completed",
        "context",
        "first_op_id",
        "index",
        "input_at",
        "output_at",
        "registers_at",
        "stages",
        "tile",
        "waits",
    )

    t_ready: int
    t_start: int
    t_end: int
    waits_since: int
    input_at: int | None
    output_at: int
    registers_at: int

    def __init__(self, context: CommandInFlight, tile: TilePlan, first_op_id: int) -> None:
        self.context = context
        self.tile = tile
        self.stages = tile.stages
        self.index = 0
        self.first_op_id = first_op_id
        self.waits: list[tuple[WaitReason, int]] | None = None
        self.completed = False

    def visit_state(self, over: StateVisitor) -> None:
        """Hands the state to *over*, without the tile and its stages, which `become` replaces."""
        over.same(self.index, self.completed, None if self.waits is None else tuple(self.waits))
        for name in _TIMES:
            t_ps = getattr(self, name, None)
            if t_ps is None:
                over.same(None)
            else:
                setattr(self, name, over.moment(t_ps))
        placement = self.context.placement
        for name, place, slots in (
            ("input_at", Place.INPUT_BUFFER, placement.input),
            ("output_at", Place.OUTPUT_BUFFER, placement.output),
            ("registers_at", Place.REGISTERS, placement.registers),
        ):
            offset = getattr(self, name, None)
            if offset is None:
                over.same(None)
            else:
                setattr(self, name, over.place(place, slots, offset))

    def become(self, tile: TilePlan, first_op_id: int) -> None:
        """Replaces the tile by *tile*, which has the same kinds of stages."""
        self.tile = tile
        self.stages = tile.stages
        self.first_op_id = first_op_id

    @property
    def op_id(self) -> int:
        """The op id of the current stage. The stages of a tile have consecutive ids."""
        return self.first_op_id + self.index
