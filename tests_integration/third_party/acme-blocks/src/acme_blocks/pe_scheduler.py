"""A PE_SCHEDULER of another make: one command at a time, and no tile before the tile before it is in registers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Annotated, Any

from msgspec import Meta, Struct

from kb_engine.block import (
    KIB,
    CommandInFlight,
    CommandScheduler,
    ComponentBase,
    Context,
    RegisterFileOwner,
    Slots,
    StageServer,
    TileToken,
)
from kb_messages import PipelinePlan, Place, PlanError, StageType, SubmittedCommand, TilePlan
from kb_plans import TileRoom, generate_plan


class AcmeSchedulerSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Commands that may wait, and KiB of TCM for the input of one tile and for the outputs of some."""

    commands: Annotated[int, Meta(ge=1)]
    input_kib: Annotated[int, Meta(ge=1)]
    output_kib: Annotated[int, Meta(ge=1)]


class AcmeScheduler(CommandScheduler[AcmeSchedulerSpec]):
    """Feeds a tile when the tile before is fetched. So one input buffer, at offset 0, is enough for all tiles.

    The output buffers are behind it. An output buffer is claimed by the last tile over K, and free when it is written.
    """

    spec_type = AcmeSchedulerSpec
    state = ("_command", "_op_id", "_outputs", "_queue", "_submitters", "_tiles", "_token", "_unfetched")

    def __init__(self, spec: AcmeSchedulerSpec, context: Context) -> None:
        super().__init__(spec, context)
        self._queue: deque[CommandInFlight] = deque()
        self._submitters: deque[Callable[[], None]] = deque()
        self._command: CommandInFlight | None = None
        self._tiles: Iterator[TilePlan] = iter(())
        self._op_id = 0
        self._token: TileToken | None = None
        self._unfetched = False
        self._outputs: set[int] = set()

    def connect(self) -> None:
        """Find the blocks where tiles can start, and the owner of the register file."""
        self._blocks: dict[str, ComponentBase[Any]] = {block.node_id: block for block in self.context.downstream}
        self._fetch_store: RegisterFileOwner[Any] = self.context.neighbour("pe_fetch_store", RegisterFileOwner)

    @property
    def reserved_nbytes(self) -> int:
        """Input and outputs together."""
        return (self.spec.input_kib + self.spec.output_kib) * KIB

    @property
    def tile_room(self) -> TileRoom:
        """The bytes that a tile has to fit in."""
        return TileRoom(
            input_nbytes=self.spec.input_kib * KIB,
            output_nbytes=self.spec.output_kib * KIB,
            register_nbytes=self._fetch_store.context.memory_nbytes,
        )

    def plan(self, submitted: SubmittedCommand) -> PipelinePlan:
        """The plan of kernbench's own planner, if one tile fits."""
        plan = generate_plan(submitted.command, submitted.pe, self.tile_room)
        for needs, kib in (
            (plan.buffers.input_nbytes, self.spec.input_kib),
            (plan.buffers.output_nbytes, self.spec.output_kib),
        ):
            if needs > kib * KIB:
                raise PlanError(self.node_id, f"a tile of {needs} bytes", f"at most {kib} KiB", "use a smaller tile")
        for block in self._blocks.values():
            block.check_plan(plan)
        return plan

    @property
    def has_room(self) -> bool:
        """Whether fewer than `commands` commands wait."""
        return len(self._queue) < self.spec.commands

    def when_room(self, call: Callable[[], None]) -> None:
        """Call *call* when the next command has begun."""
        self._submitters.append(call)

    def submit(self, context: CommandInFlight) -> None:
        """Queue a command, and begin with it when all commands before are done."""
        self._queue.append(context)
        if self._command is None:
            self._begin_next()

    def complete(self, context: CommandInFlight) -> None:
        """Publish the record, and begin with the next command."""
        super().complete(context)
        self._command = None
        if self._queue:
            self._begin_next()

    def _begin_next(self) -> None:
        self._command = command = self._queue.popleft()
        plan, placement = command.plan, command.placement
        needs = plan.buffers
        if needs.input_nbytes:
            placement.input = Slots(0, needs.input_nbytes, 1)
        if needs.output_nbytes:
            region = self.spec.output_kib * KIB
            placement.output = Slots(self.spec.input_kib * KIB, needs.output_nbytes, region // needs.output_nbytes)
        self._fetch_store.registers.place(command)
        command.frees_by(StageType.FETCH, self._fetched)
        if Place.OUTPUT_BUFFER in plan.lifetimes:
            command.frees_by(StageType.DMA_WRITE, self._written)
        self._tiles, self._op_id = iter(plan.tiles), command.first_op
        if self._submitters:
            self._submitters.popleft()()
        self._feed()

    def _feed(self) -> None:
        while self._command is not None and not self._unfetched:
            token = self._token or self._next_token(self._command)
            if token is None or not self._claims_output(token):
                return
            self._token = None
            self._unfetched = any(stage.stage_type is StageType.FETCH for stage in token.stages)
            server = self._server(token)
            if server.has_room:
                server.put(token)
            else:
                server.wait_for_room(server.put, token)

    def _next_token(self, command: CommandInFlight) -> TileToken | None:
        tile = next(self._tiles, None)
        if tile is None:
            return None
        self._token = token = TileToken(command, tile, self._op_id)
        self._op_id += len(tile.stages)
        return token

    def _claims_output(self, token: TileToken) -> bool:
        slots = token.context.placement.output
        last = token.context.plan.grid[2] - 1
        if slots is None or token.tile.k != last:
            return True
        at = slots.offset(token.tile.tile_id // (last + 1))
        if at in self._outputs:
            return False
        self._outputs.add(at)
        token.output_at = at
        return True

    def _fetched(self, token: TileToken) -> None:
        self._unfetched = False
        self._feed()

    def _written(self, token: TileToken) -> None:
        self._outputs.discard(token.output_at)
        self._feed()

    def _server(self, token: TileToken) -> StageServer:
        first = token.stages[0]
        return self._blocks[first.component].servers[first.stage_type]
