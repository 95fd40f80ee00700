"""The register file of a PE, and the role of the block that owns it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final

from kb_engine.block.buffers import Region, Ring, Slots
from kb_engine.block.component import ComponentBase, SpecT
from kb_engine.block.gates import Gate
from kb_engine.block.in_flight import CommandInFlight, PipelineError, TileToken
from kb_engine.block.state_visitor import BY_HAND, PART, SAME, State, StateVisitor
from kb_messages import HeldSum, PipelinePlan, Place, PlanError, StageType, WaitReason, tile_kind

_REGISTERS: Final = Place.REGISTERS  # Python 3.11 looks a member of an enumeration up by a call
_ACCUMULATOR: Final = Place.ACCUMULATOR
_READERS: Final = frozenset((StageType.GEMM, StageType.MATH, StageType.STORE))


class RegisterFile(Gate):
    """Hands out registers: accumulators at the bottom, up to two a command, and operand slots above them.

    A command holds at most the operand slots and accumulators that it has cut. Where the next slot is not free, its
    tile takes other registers, so a tile waits for no certain place.

    A sum that is held between commands lies above all slots of tiles. It begins when the command that writes it first
    is placed, and ends when the command that takes it away is placed. Its registers are claimed and free later, with
    the tiles of these two commands.

    A tile claims its operand slot at the first stage that writes registers, and the first tile over K claims the
    accumulator with it. The plan's lifetimes say at which stages the slot and the accumulator are free again.
    """

    __slots__ = ("_accumulators", "_held", "_nbytes", "_node_id", "_operands", "_region")
    state: ClassVar[State] = {"_held": SAME, "_operands": BY_HAND, "_accumulators": BY_HAND, "_region": BY_HAND}

    reason = WaitReason.REGISTER_FILE

    def __init__(self, node_id: str, nbytes: int) -> None:
        super().__init__()
        self._node_id = node_id
        self._nbytes = nbytes
        self._region = Region(0, nbytes)
        self._operands = Ring()
        self._accumulators = Ring()
        self._held: dict[int, int] = {}

    @property
    def nbytes(self) -> int:
        """The size of the file."""
        return self._nbytes

    def check(self, plan: PipelinePlan) -> None:
        """Raises PlanError when not even one tile of *plan* fits."""
        needs = plan.buffers.accumulator_nbytes + plan.buffers.register_nbytes
        if plan.held is not None:
            needs += plan.held.nbytes
        if needs > self._nbytes:
            raise PlanError(
                self._node_id,
                f"a tile of {needs} bytes (operands and accumulator)",
                f"at most the register file's {self._nbytes}",
                "use a smaller tile",
            )

    def place(self, command: CommandInFlight) -> None:
        """Cuts the file for the tiles of *command*, and adds the calls by which the tiles claim and free registers.

        Commands are placed in the order in which their tiles are fed. A command without operands in registers, such as
        a transfer, needs nothing.
        """
        plan = command.shared_plan
        if plan.held is not None and plan.held.ends:
            command.frees_by(StageType.STORE, self._free_held)
        self.cut(command)
        operands, sums = plan.lifetimes.get(_REGISTERS), plan.lifetimes.get(_ACCUMULATOR)
        if operands is None:
            return
        if sums is not None:
            free_sum = self._free_accumulator if sums.last is None else self._free_accumulator_if_last
            for stage_type in sums.freed:
                command.frees_by(stage_type, free_sum)
        command.placement.claimed_by = operands.first
        command.claims_by(operands.claimed, self)
        free = self._free_operands if operands.last is None else self._free_operands_if_last
        for stage_type in operands.freed:
            earlier = command.frees[stage_type] if sums is not None and stage_type in sums.freed else None
            command.frees_by(stage_type, free if earlier is None else _both(earlier, free))

    def cut(self, command: CommandInFlight) -> None:
        """Cuts the file for *command*, and notes the begin or the end of its held sum. Its tiles claim nothing."""
        plan, placement = command.shared_plan, command.placement
        if plan.held is not None:
            self._place_held(command, plan.held)
        lifetimes, buffers = plan.lifetimes, plan.buffers
        if _REGISTERS not in lifetimes:
            return
        accumulator, slot = buffers.accumulator_nbytes, buffers.register_nbytes
        nbytes = placement.register_room = self._room(command)
        above = 0
        if _ACCUMULATOR in lifetimes:
            n_accumulators = 2 if 2 * accumulator + slot <= nbytes else 1
            above = n_accumulators * accumulator
            m, n, _ = plan.grid
            placement.accumulators = self._accumulators.cut(0, accumulator, n_accumulators, m * n)
        placement.registers = self._operands.cut(above, slot, (nbytes - above) // slot, plan.n_tiles)
        placement.register_cut = above, accumulator, slot

    def cuts(self) -> tuple[Any, Any]:
        """The present cuts, for `put_back`."""
        return self._operands.state(), self._accumulators.state()

    def put_back(self, cuts: tuple[Any, Any]) -> None:
        """Restores *cuts*. No tile of a later command is in the registers."""
        self._operands.put_back(cuts[0])
        self._accumulators.put_back(cuts[1])

    def _place_held(self, command: CommandInFlight, held: HeldSum) -> None:
        """Notes the begin or the end of *held*. A sum that begins where another is held replaces that one."""
        if held.ends:
            del self._held[held.offset]
        elif held.begins and held.offset not in self._held:
            self._held[held.offset] = held.nbytes
            command.placement.held = held

    def _room(self, command: CommandInFlight) -> int:
        """The bytes below all sums that are held. Raises PipelineError where a tile of *command* does not fit there."""
        room = min(self._held) if self._held else self._nbytes
        needs = command.shared_plan.buffers.accumulator_nbytes + command.shared_plan.buffers.register_nbytes
        if needs > room:
            got = f"a tile of {needs} bytes beside sums that are held from byte {room} of the registers on"
            fix = (
                "let the front end drain sums (ProgramPort.deferred_calls) before a command that needs their registers"
            )
            raise PipelineError(f"{self._node_id}: {command.submitted.line}", got, "registers for the tile", fix)
        return room

    def admit(self, token: TileToken) -> bool:
        """Claims the tile's operand slot and, for the first tile over K, its accumulator: both or none.

        A stage before the one that claims passes.
        """
        if not self.wants(token):
            return True
        context = token.context
        placement = context.placement
        operands = placement.registers
        assert operands is not None
        tile, region = token.tile, self._region
        cut = placement.register_cut
        at = operands.offset(tile.tile_id)
        is_moved = not region.claim(cut, at, operands.nbytes)
        if is_moved:
            elsewhere = self._elsewhere(token, operands.nbytes) if placement.operands_held < operands.count else None
            if elsewhere is None:
                return False
            at = elsewhere
        if tile.k == 0 and not self._claim_sum(token):
            region.free(at)
            return False
        if is_moved:
            placement.move(Place.REGISTERS, tile.tile_id, at)
        placement.operands_held += 1
        token.registers_at = at
        return True

    def _claim_sum(self, token: TileToken) -> bool:
        """Claims the registers of the sum that begins with *token*, if one does."""
        placement = token.context.placement
        if placement.accumulators is not None:
            return self._claim_accumulator(token, placement.accumulators)
        held = placement.held
        return held is None or self._region.claim_at(held.offset, held.nbytes)

    def _claim_accumulator(self, token: TileToken, slots: Slots) -> bool:
        """Claims the accumulator of the tile's output, in its slot or elsewhere.

        The operands of this tile lie on one side of the accumulator. So one side always has room for the operands of
        later tiles of the output, when all other tiles have left.
        """
        placement, mn = token.context.placement, _output_of(token)
        if not self._region.claim(placement.register_cut, slots.offset(mn), slots.nbytes):
            elsewhere = self._elsewhere(token, slots.nbytes) if placement.sums_held < slots.count else None
            if elsewhere is None:
                return False
            placement.move(Place.ACCUMULATOR, mn, elsewhere)
        placement.sums_held += 1
        return True

    def _elsewhere(self, token: TileToken, nbytes: int) -> int | None:
        """Claims *nbytes* outside of the slots, below the sums that were held when the command was placed.

        A later command may take such a sum away before this tile has its registers. In the order of commands, in which
        the data are computed, the sum is there while this tile works.
        """
        return self._region.claim_elsewhere(nbytes, end=token.context.placement.register_room)

    def wants(self, token: TileToken) -> bool:
        """Whether *token* is at the stage that claims its registers."""
        claimed_by = token.context.placement.claimed_by
        return claimed_by is None or _is_at(token, claimed_by)

    def visit_state(self, over: StateVisitor) -> None:
        """Hands the registers of the tiles of one command to *over*, or those of the programs of a grid."""
        super().visit_state(over)
        if over.command is None:
            pe_id = self._node_id.rpartition(".")[0]
            rings = [ring.visit_state(over, pe_id) for ring in (self._operands, self._accumulators)]
            self._region.visit_programs(over, rings)
            return
        placement = over.command.placement
        self._region.visit_state(
            over, [(Place.ACCUMULATOR, placement.accumulators), (Place.REGISTERS, placement.registers)]
        )

    def holds(self, token: TileToken, ahead: frozenset[StageType]) -> bool:
        """Whether *token* has registers, and has yet to be computed or stored."""
        return hasattr(token, "registers_at") and not ahead.isdisjoint(_READERS)

    def change(self, token: TileToken) -> str:
        """Room for one more operand slot, if *token* has none, or for a second accumulator."""
        placement = token.context.placement
        operands, accumulators = placement.registers, placement.accumulators or Slots(0, 0, 0)
        if operands is None:
            return ""
        needs = accumulators.count * accumulators.nbytes + (operands.count + 1) * operands.nbytes
        if placement.operands_held < operands.count and self._region.room_for(operands.nbytes) is not None:
            needs = 2 * accumulators.nbytes + operands.nbytes
        elif accumulators.count == 1 and needs >= 2 * accumulators.nbytes + operands.nbytes:
            needs += accumulators.nbytes  # a file of that size is cut into two accumulators
        if needs <= self._nbytes:
            return ""
        return f"the register file of {self._node_id} from {self._nbytes} to {needs} bytes may break it"

    def _free_operands(self, token: TileToken) -> None:
        self._region.free(token.registers_at)
        token.context.placement.operands_held -= 1
        if self.waiting:
            self.reopen()

    def _free_operands_if_last(self, token: TileToken) -> None:
        last = token.context.shared_plan.lifetimes[Place.REGISTERS].last
        if last is None or _is_at(token, last):
            self._free_operands(token)

    def _free_accumulator(self, token: TileToken) -> None:
        placement, mn = token.context.placement, _output_of(token)
        slots, moved = placement.accumulators, placement.moved.get(Place.ACCUMULATOR)
        assert slots is not None
        at = slots.offset(mn)
        self._region.free(at if moved is None else moved.get(mn, at))
        placement.sums_held -= 1
        if self.waiting:
            self.reopen()

    def _free_accumulator_if_last(self, token: TileToken) -> None:
        last = token.context.shared_plan.lifetimes[Place.ACCUMULATOR].last
        if last is None or _is_at(token, last):
            self._free_accumulator(token)

    def _free_held(self, token: TileToken) -> None:
        held = token.context.shared_plan.held
        assert held is not None
        self._region.free(held.offset)
        if self.waiting:
            self.reopen()


class RegisterFileOwner(ComponentBase[SpecT]):
    """PE_FETCH_STORE: moves tiles between TCM and registers. Its node's `memory` is the size of the register file.

    Every block of a PE_FETCH_STORE has this role, because the op log names each tile's registers: PE_SCHEDULER calls
    `registers.place(command)` before the first tile of a command is fed, and that call writes `command.placement`. A
    topology with another block at that node, and a command that was never placed, are refused.

    Tiles claim registers at the stage that their plan says, which need not be a FETCH. A block of this role declares no
    gate for registers: `registers` stands before that stage by itself.
    """

    __slots__ = ("registers",)
    state: ClassVar[State] = {"registers": PART}

    def __init__(self, spec: SpecT, context: Any) -> None:
        super().__init__(spec, context)
        self.registers = RegisterFile(self.node_id, context.memory_nbytes)

    def check_plan(self, plan: PipelinePlan) -> None:
        """Raises PlanError when not even one tile fits the register file."""
        self.registers.check(plan)


def _output_of(token: TileToken) -> int:
    """The number of the output tile that *token* is summed up in."""
    return token.tile.tile_id // token.context.shared_plan.grid[2]


def _is_at(token: TileToken, indices: tuple[int, ...]) -> bool:
    plan, tile = token.context.shared_plan, token.tile
    is_later = plan.has_panels and plan.is_later(tile)
    return token.index == indices[tile_kind(tile.k, plan.grid[2], is_later)]


def _both(first: Callable[[TileToken], None], second: Callable[[TileToken], None]) -> Callable[[TileToken], None]:
    def free(token: TileToken) -> None:
        first(token)
        second(token)

    return free
