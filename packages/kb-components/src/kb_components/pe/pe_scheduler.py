"""PE_SCHEDULER: takes commands in order, plans them, and has their tiles fed to the pipeline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from kb_components.cost_fields import time_ns
from kb_components.pe.scheduling.plan_checks import PlanChecks
from kb_components.pe.scheduling.plan_forms import PLAN_FORMS
from kb_components.pe.scheduling.shared_plans import SharedPlans
from kb_components.pe.scheduling.submission_queue import SubmissionQueue, dispatch_waits
from kb_components.pe.scheduling.tile_buffers import TileBuffers
from kb_components.pe.scheduling.tile_choice import TileChoice
from kb_components.pe.scheduling.tile_feeder import TileFeeder
from kb_engine.block import (
    KIB,
    PART,
    CommandInFlight,
    CommandScheduler,
    Context,
    ExclusivePort,
    FeederWait,
    IsolableWork,
    RegisterFileOwner,
    State,
    TileToken,
    ps_from_ns,
)
from kb_messages import (
    Command,
    DispatchWait,
    GemmCommand,
    PipelinePlan,
    StageType,
    SubmittedCommand,
    WaitReason,
)
from kb_plans import TileCosts, TileRoom, generate_plan


class PeSchedulerSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Submission queue depth, nanoseconds to take a command, and KiB of TCM for tile input and output buffers.

    `compute_slots`: GEMM and MATH of the PE take turns (`shared`), or run at once (`independent`).

    Source: assumed, unless the topology says.
    """

    submission_depth: Annotated[int, Meta(ge=1)] = 8
    command_ns: Annotated[float, time_ns(("pe_scheduler: decode",), "decoding time")] = 0.0
    input_kib: Annotated[int, Meta(ge=1)]
    output_kib: Annotated[int, Meta(ge=1)]
    compute_slots: Literal["shared", "independent"] = "shared"


class PeScheduler(CommandScheduler[PeSchedulerSpec]):
    """A bounded submission queue, one feeder behind it, and TCM buffers from offset 0 on for the tiles that it feeds.

    The rest of TCM is the allocator's.
    """

    spec_type = PeSchedulerSpec
    state: ClassVar[State] = {"_queue": PART, "_feeder": PART, "_buffers": PART}
    __slots__ = (*state, "_blocks", "_fetch_store", "_plan_checks", "_shared_plans", "_shares_plans", "_tile_choice")
    caches = ("_plan_checks", "_shared_plans", "_tile_choice")

    def __init__(self, spec: PeSchedulerSpec, context: Context) -> None:
        super().__init__(spec, context)
        self._buffers = TileBuffers(spec.input_kib * KIB, spec.output_kib * KIB)
        self._tile_choice: TileChoice | None = None
        self._plan_checks: PlanChecks | None = None
        self._shared_plans = SharedPlans()
        self._shares_plans = type(self) is PeScheduler  # a subclass may plan by more than shapes
        self._queue = SubmissionQueue(
            context.clock, spec.submission_depth, ps_from_ns(spec.command_ns), self._feed_decoded, self.event_order
        )

    def connect(self) -> None:
        """Finds the blocks where tiles can start, and declares the slot that GEMM and MATH share."""
        self._blocks = {block.node_id: block for block in self.context.downstream}
        self._fetch_store = self.context.neighbour("pe_fetch_store", RegisterFileOwner)
        self._feeder = TileFeeder(
            self.node_id,
            self.clock,
            self._queue.next_decoded,
            self.tile_waited,
            self.begins_to_feed,
            self._buffers,
            self._fetch_store.registers,
            self._blocks,
        )
        if self.spec.compute_slots == "shared":
            self._share_compute_slot()

    @property
    def reserved_nbytes(self) -> int:
        """Bytes of TCM for input and output buffers together."""
        return self._buffers.inputs.nbytes + self._buffers.outputs.nbytes

    @property
    def tile_room(self) -> TileRoom:
        """The bytes that a PE has for tiles, in its buffers and in its register file."""
        return TileRoom(
            input_nbytes=self._buffers.inputs.nbytes,
            output_nbytes=self._buffers.outputs.nbytes,
            register_nbytes=self._fetch_store.context.memory_nbytes,
        )

    @property
    def tile_costs(self) -> TileCosts:
        """The times of stages on this PE, by which the scheduler chooses the tiles of GEMMs."""
        return self._choice.costs

    @property
    def _choice(self) -> TileChoice:
        """The chooser of tiles. It is made at first use, because the ports of blocks are known only after `connect`."""
        if self._tile_choice is None:
            self._tile_choice = TileChoice(self._blocks.values(), self.tile_room)
        return self._tile_choice

    def plan(self, submitted: SubmittedCommand) -> PipelinePlan:
        """The plan of the command, which fits this PE's tile buffers and every block's limits."""
        return self._checked_plan(submitted.command, submitted.pe)

    def shared_plan(self, submitted: SubmittedCommand) -> tuple[PipelinePlan, tuple[int, ...] | None]:
        """Returns (plan of the command, addresses of its operands or None).

        Commands that differ only in addresses share a plan.

        A loop issues the same commands each time, at other addresses, so each of them is planned once.
        """
        if not self._shares_plans:
            return self.plan(submitted), None
        return self._shared_plans.find(submitted, self.plan)

    def plan_of_all(self, like: Command, commands: Any) -> tuple[PipelinePlan, Sequence[Any]] | None:
        """The plan that *like* shares with all *commands*, and the addresses of their operands.

        None without such a plan.
        """
        return self._shared_plans.find_for_all(like, commands) if self._shares_plans else None

    def decode_ps(self) -> int:
        """`command_ns` in picoseconds, rounded up."""
        return ps_from_ns(self.spec.command_ns)

    @property
    def has_room(self) -> bool:
        """Whether fewer than `submission_depth` commands wait to be taken."""
        return self._queue.has_room

    def when_room(self, call: Callable[[], None]) -> None:
        """Calls *call* once, when the submission queue has room again. Callers are served first come, first served."""
        self._queue.when_room(call)

    def submit(self, context: CommandInFlight) -> None:
        """Queues a command, to be taken when its turn comes."""
        self._queue.submit(context)

    def complete(self, context: CommandInFlight) -> None:
        """Removes the command from the table of commands in flight, and publishes its record."""
        self._queue.forget(context)
        super().complete(context)

    def dispatch_waits(self, token: TileToken) -> Sequence[tuple[DispatchWait, int]]:
        """The waits from the submission queue to the first block's queue, for the tile that is fed now."""
        feeder = self._feeder
        times = feeder.turn_ps, feeder.in_order_ps, feeder.claimed_ps, self.clock.now_ps
        return dispatch_waits(token.context, *times)

    def feeder_wait(self) -> FeederWait | None:
        """The tile whose turn it is, and the resource that it waits for; None if the feeder waits for no resource."""
        return self._feeder.wait()

    def _feed_decoded(self) -> None:
        """Isolates the decoded command if no other command can meet it here; otherwise feeds it."""
        isolation = self.isolation
        if isolation is not None and type(self) is PeScheduler:
            command = self._queue.lone_command if self._feeder.is_idle else None
            if command is None:
                isolation.missed(self._queue.last_decoded)
            elif isolation.wants(command) and isolation.isolate(self._work(command)):
                return
        self._feeder.wake()

    def _work(self, command: CommandInFlight) -> FedWork:
        return FedWork(command, self._queue, self._feeder, self.complete)

    def _checked_plan(self, command: Command, pe: str) -> PipelinePlan:
        if isinstance(command, GemmCommand) and command.tile is None:
            command = replace(command, tile=self._choice.tile(command))
        takers = None
        if isinstance(command, GemmCommand):
            plan, takers = PLAN_FORMS.find(command, pe)
        else:
            plan = generate_plan(command, pe, self.tile_room)
        if self._plan_checks is None:
            self._plan_checks = PlanChecks(self, self._buffers, self._blocks.values())
        self._plan_checks.check(plan, pe, takers)
        return plan

    def _share_compute_slot(self) -> None:
        """Makes GEMM and MATH take turns. A PE without a block for one of them has nothing to share."""
        computing = [
            server
            for block in self._blocks.values()
            for server in block.servers.values()
            if server.stage_type in (StageType.GEMM, StageType.MATH)
        ]
        if len({server.stage_type for server in computing}) == 2:
            slot = ExclusivePort(WaitReason.COMPUTE_SLOT)
            for server in computing:
                server.guard((slot,))


class FedWork(IsolableWork):
    """The only command of a PE, which waits in *queue* for *feeder*. *complete* is called when the command is done."""

    __slots__ = ("_complete", "_feeder", "_queue", "command")

    def __init__(
        self,
        command: CommandInFlight,
        queue: SubmissionQueue,
        feeder: TileFeeder,
        complete: Callable[[CommandInFlight], None],
    ) -> None:
        self.command = command
        self._queue = queue
        self._feeder = feeder
        self._complete = complete

    def begin(self) -> None:
        """Feeds the command now."""
        self._feeder.wake()

    def place(self) -> None:
        """Takes the command from the queue, and cuts buffers and registers for its tiles.

        The feeder does the same before the first tile. The tiles themselves claim and free nothing.
        """
        command = self._queue.next_decoded()
        assert command is self.command
        self._feeder.place_known(command)

    def cuts(self) -> Any:
        """The present cuts of buffers and registers, and the order of fetches."""
        return self._feeder.cuts()

    def put_back(self, cuts: Any) -> None:
        """Restores *cuts*. The command is decoded again, and has yet to be fed."""
        self._feeder.put_back(cuts)
        self.command.begin_anew()
        self._queue.put_back(self.command)

    def end(self) -> None:
        """Completes the command."""
        self.command.end_isolated()
        self._complete(self.command)
