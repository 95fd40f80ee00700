"""PE_FETCH_STORE: moves tiles between TCM and the register file, and owns the register file's bytes.

A fetch waits until its registers are free, then for the TCM port. Where DMA brings an operand to registers, its read
waits for them instead, and the fetch has them already. Operand registers are free again when the tile's last GEMM or
MATH has read them; an accumulator lives from its first tile's claim to its store.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from kb_components.pe.pe_tcm import PeTcm
from kb_engine.block import CommandInFlight, ComponentBase, Context, Gate, Region, Ring, TileToken
from kb_messages import DmaParams, PipelinePlan, PlanError, StageParams, StageType, TransferParams, WaitReason

_READERS: Final = frozenset((StageType.GEMM, StageType.MATH, StageType.STORE))


class PeFetchStoreSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Depth of the FETCH and of the STORE queue. The register file's size is the node's `memory`."""

    queue_depth: Annotated[int, Meta(ge=1)] = 2


class RegisterFile(Gate):
    """Hands out registers: accumulators at the bottom, one or two a command, operand slots above them."""

    __slots__ = ("_accumulators", "_nbytes", "_node_id", "_operands", "_region", "for_reads")

    reason = WaitReason.REGISTER_FILE

    def __init__(self, node_id: str, nbytes: int) -> None:
        super().__init__()
        self._node_id = node_id
        self._nbytes = nbytes
        self._region = Region(0, nbytes)
        self._operands = Ring()
        self._accumulators = Ring()
        self.for_reads = ReadGate(self)

    def check(self, plan: PipelinePlan) -> None:
        """Raise PlanError when not even one tile of *plan* fits."""
        needs = plan.buffers.accumulator_nbytes + plan.buffers.register_nbytes
        if needs > self._nbytes:
            raise PlanError(
                self._node_id,
                f"a tile of {needs} bytes (operands and accumulator)",
                f"at most the register file's {self._nbytes}",
                "use a smaller tile",
            )

    def admit(self, token: TileToken) -> bool:
        """Claim the tile's operand slot and, for the first tile over K, its accumulator, unless its read has."""
        context = token.context
        placement = context.placement
        if placement.registers is None:
            self._place(context)
        if placement.claimed_by_reads and token.stages[token.index].stage_type is StageType.FETCH:
            return True
        operands, accumulators = placement.registers, placement.accumulators
        assert operands is not None
        assert accumulators is not None
        tile = token.tile
        cut = placement.register_cut
        at = operands.offset(tile.tile_id)
        if not self._region.claim(cut, at, operands.nbytes):
            return False
        if tile.k == 0:
            mn = tile.tile_id // context.plan.grid[2]
            if not self._region.claim(cut, accumulators.offset(mn), accumulators.nbytes):
                self._region.free(at)
                return False
        token.registers_at = at
        return True

    def holds(self, token: TileToken, ahead: frozenset[StageType]) -> bool:
        """Whether *token* has been fetched, and has yet to be computed or stored."""
        return hasattr(token, "registers_at") and not ahead.isdisjoint(_READERS)

    def change(self, token: TileToken) -> str:
        """Room for one more operand slot, if *token* has none, or for a second accumulator."""
        operands, accumulators = token.context.placement.registers, token.context.placement.accumulators
        if operands is None or accumulators is None:
            return ""
        needs = accumulators.count * accumulators.nbytes + (operands.count + 1) * operands.nbytes
        if self._region.is_free(operands.offset(token.tile.tile_id), operands.nbytes):
            needs = 2 * accumulators.nbytes + operands.nbytes
        elif accumulators.count == 1 and needs >= 2 * accumulators.nbytes + operands.nbytes:
            needs += accumulators.nbytes  # which a file of that size gives to a second accumulator
        if needs <= self._nbytes:
            return ""
        return f"the register file of {self._node_id} from {self._nbytes} to {needs} bytes may break it"

    def _place(self, context: CommandInFlight) -> None:
        plan = context.plan
        accumulator, operands = plan.buffers.accumulator_nbytes, plan.buffers.register_nbytes
        n_accumulators = 2 if 2 * accumulator + operands <= self._nbytes else 1
        above = n_accumulators * accumulator
        n_operands = (self._nbytes - above) // operands
        m, n, _ = plan.grid
        context.placement.accumulators = self._accumulators.cut(0, accumulator, n_accumulators, m * n)
        context.placement.registers = self._operands.cut(above, operands, n_operands, plan.n_tiles)
        context.placement.register_cut = above, accumulator, operands
        context.placement.claimed_by_reads = plan.streams
        if any(stage.stage_type is StageType.MATH for stage in plan.stages):
            context.after[StageType.GEMM] = context.after[StageType.MATH] = self._free_operands_if_last
        else:
            context.after[StageType.GEMM] = self._free_operands
        context.after[StageType.STORE] = self._free_accumulator

    def _free_operands(self, token: TileToken) -> None:
        self._region.free(token.registers_at)
        if self.waiting or self.for_reads.waiting:
            self._let_in()

    def _free_operands_if_last(self, token: TileToken) -> None:
        """A MATH that follows may still read them."""
        following = token.stages[token.index + 1 : token.index + 2]
        if not following or following[0].stage_type is not StageType.MATH:
            self._free_operands(token)

    def _free_accumulator(self, token: TileToken) -> None:
        slots = token.context.placement.accumulators
        assert slots is not None
        self._region.free(slots.offset(token.tile.tile_id // token.context.plan.grid[2]))
        self._let_in()

    def _let_in(self) -> None:
        """Registers are free. Reads and fetches never wait for them at once: see PE_SCHEDULER."""
        self.reopen()
        self.for_reads.reopen()


class ReadGate(Gate):
    """Where a DMA_READ into registers waits for them; reads into TCM pass."""

    __slots__ = ("_registers",)

    reason = WaitReason.REGISTER_FILE

    def __init__(self, registers: RegisterFile) -> None:
        super().__init__()
        self._registers = registers

    def admit(self, token: TileToken) -> bool:
        """Claim what the read's tile needs."""
        params = token.stages[token.index].params
        return not (isinstance(params, DmaParams) and params.to_registers) or self._registers.admit(token)


class PeFetchStore(ComponentBase[PeFetchStoreSpec]):
    """Two queues, FETCH and STORE, that share the TCM's port."""

    __slots__ = ("_tcm", "registers")

    spec_type = PeFetchStoreSpec
    serves = (StageType.FETCH, StageType.STORE)

    def __init__(self, spec: PeFetchStoreSpec, context: Context) -> None:
        super().__init__(spec, context)
        self.registers = RegisterFile(self.node_id, context.memory_nbytes)

    def connect(self) -> None:
        """Find the TCM."""
        self._tcm = self.context.neighbour("pe_tcm", PeTcm)

    def check_plan(self, plan: PipelinePlan) -> None:
        """Raise PlanError when not even one tile fits the register file."""
        self.registers.check(plan)

    def gates(self, stage_type: StageType) -> tuple[Gate, ...]:
        """A fetch needs registers and the port; a store the port alone."""
        return (self.registers, self._tcm.port) if stage_type is StageType.FETCH else (self._tcm.port,)

    def service_ps(self, params: StageParams) -> int:
        """The TCM's access time for the tile's bytes."""
        assert isinstance(params, TransferParams)
        return self._tcm.access_ps(params.nbytes)
