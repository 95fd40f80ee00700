"""The figures of `kb plan` for one tiling: stages, bytes, multiply-adds, tiles that fit, and the estimated time."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from kb_engine import Engine
from kb_engine.program import ProcessingElement
from kb_messages import GemmCommand, MemorySpace, PipelinePlan, PlanError, StageType, SubmittedCommand, TopologyError
from kb_plans import TileCosts, TileRoom, TilesAtOnce, count, estimate, generate_gemm_plan, suggest_tile
from kb_topology import MemoryRegion


class Buffer(Struct, frozen=True, kw_only=True):
    """The bytes that one tile takes of `room`, and how many tiles fit at once; `fits` is None where a tile takes none.

    A panel is shared by tiles, and counts once; input buffers have the room beside it.
    """

    nbytes: int
    room: int
    fits: int | None


class PlanResult(Struct, frozen=True, kw_only=True):
    """The figures of one tiling. `stages` and `bytes` are by stage type, `grid` counts tiles along M, N and K.

    `refused` is the error of the PE's scheduler, or None when the scheduler takes the tiling. `estimated_ps` is the
    time on the PE alone, with the operands in `memory`, `bound_by` the resource with the longest time, and `busy_ps`
    the time of each resource. All three are None where no tile fits, and where the scheduler has no `tile_costs`.
    """

    topology: str
    pe: str
    params: dict[str, int | str]
    pinned: list[str]
    transposed: list[str]
    b_stream: bool
    loop_order: str
    epilogue: list[str]
    tile: str
    grid: tuple[int, int, int]
    tiles: int
    stages: dict[str, int]
    bytes: dict[str, int]
    macs: int
    arithmetic_intensity: float | None
    buffers: dict[str, Buffer]
    tiles_that_fit: int | None
    refused: str | None
    memory: str | None
    estimated_ps: int | None
    bound_by: str | None
    busy_ps: dict[str, int] | None


def plan_gemm(chip: str, pe: ProcessingElement, command: GemmCommand, memory: MemoryRegion | None) -> PlanResult:
    """Returns the figures of *command* on *pe* of the topology named *chip*, with its operands in *memory*.

    A command without a tile gets the tile that the scheduler would choose. Raises PlanError when the command is not
    valid, or the PE's scheduler has no `tile_room`.
    """
    a, out, room = command.a, command.out, _room(pe)
    costs: TileCosts | None = getattr(pe.scheduler, "tile_costs", None) if memory is not None else None
    if memory is not None:
        command = _at(command, memory.base)
    tile = command.tile or suggest_tile(command, room, costs)
    command = replace(command, tile=tile)
    plan = generate_gemm_plan(command, pe.pe_id)
    counts = count(plan)
    moved = sum(counts.nbytes.get(each, 0) for each in (StageType.DMA_READ, StageType.DMA_WRITE))
    fit = room.at_once(plan.buffers)
    holds = room.holds(plan.buffers, 1)
    estimated = estimate(plan, room, costs) if costs is not None and holds else None
    k = a.rows if command.transpose_a else a.cols
    return PlanResult(
        topology=chip,
        pe=pe.pe_id,
        params={"M": out.rows, "N": out.cols, "K": k, "dtype": str(a.dtype)},
        pinned=["a"] * command.a_pinned + ["b"] * command.b_pinned,
        transposed=["a"] * command.transpose_a + ["b"] * command.transpose_b,
        b_stream=command.b_stream,
        loop_order=str(command.loop_order),
        epilogue=[f"{op.op}@{op.scope}" for op in command.epilogue],
        tile=str(tile),
        grid=plan.grid,
        tiles=counts.tiles,
        stages={kind.name: number for kind, number in sorted(counts.stages.items())},
        bytes={kind.name: nbytes for kind, nbytes in sorted(counts.nbytes.items())},
        macs=counts.macs,
        arithmetic_intensity=2 * counts.macs / moved if moved else None,
        buffers=_buffers(plan, room, fit),
        tiles_that_fit=min(each for each in (fit.input, fit.registers) if each is not None) if holds else 0,
        refused=_refusal(pe, command),
        memory=memory.node_id if memory is not None else None,
        estimated_ps=None if estimated is None else estimated.latency_ps,
        bound_by=None if estimated is None else estimated.bound_by,
        busy_ps=None if estimated is None else estimated.busy_ps,
    )


def nearest_memory(engine: Engine, pe: ProcessingElement) -> MemoryRegion | None:
    """Returns the HBM that the DMA of *pe* reaches with the shortest latency, on its own cube if there is one, or
    None.
    """
    cube = f"{pe.pe_id.rpartition('.')[0]}."
    every = [region for region in engine.topology.address_map.regions if region.space is MemorySpace.HBM]
    near = []
    for region in [each for each in every if each.node_id.startswith(cube)] or every:
        try:
            path = engine.fabric.path(f"{pe.pe_id}.pe_dma", region.owner)
        except TopologyError:  # no links lead there
            continue
        near.append((path.request_ps + path.response_ps, region.owner, region))
    return min(near)[2] if near else None


def _at(command: GemmCommand, address: int) -> GemmCommand:
    """Returns *command* with all operands at *address*. An estimate only asks which memory holds the operands."""
    ops = (replace(op, operand=op.operand and replace(op.operand, address=address)) for op in command.epilogue)
    a, b, out = (replace(each, address=address) for each in (command.a, command.b, command.out))
    return replace(command, a=a, b=b, out=out, epilogue=tuple(ops))


def _room(pe: ProcessingElement) -> TileRoom:
    room = getattr(pe.scheduler, "tile_room", None)
    if not isinstance(room, TileRoom):
        kind = type(pe.scheduler).__name__
        raise PlanError(pe.scheduler.node_id, f"a {kind} without tile_room", "a scheduler that states its buffers")
    return room


def _buffers(plan: PipelinePlan, room: TileRoom, fit: TilesAtOnce) -> dict[str, Buffer]:
    needs = plan.buffers
    beside = max(0, room.register_nbytes - (fit.accumulators or 1) * needs.accumulator_nbytes)
    shared = {}
    if needs.panel_nbytes:
        fits = int(needs.least_input_nbytes <= room.input_nbytes)
        shared["panel"] = Buffer(nbytes=needs.panel_nbytes, room=room.input_nbytes, fits=fits)
    return {
        **shared,
        "input": Buffer(nbytes=needs.input_nbytes, room=max(0, room.input_nbytes - needs.panel_nbytes), fits=fit.input),
        "output": Buffer(nbytes=needs.output_nbytes, room=room.output_nbytes, fits=fit.output),
        "accumulators": Buffer(nbytes=needs.accumulator_nbytes, room=room.register_nbytes, fits=fit.accumulators),
        "registers": Buffer(nbytes=needs.register_nbytes, room=beside, fits=fit.registers),
    }


def _refusal(pe: ProcessingElement, command: GemmCommand) -> str | None:
    """Returns the sentence with which `kb run` would refuse *command* on *pe*, or None."""
    pinned = sum(each.nbytes for each, pin in ((command.a, command.a_pinned), (command.b, command.b_pinned)) if pin)
    room = pe.tcm_nbytes - pe.scheduler.reserved_nbytes
    if pinned > room:
        return str(PlanError(f"{pe.pe_id}.pe_tcm", f"{pinned} bytes to pin", f"at most the {room} beside the tiles"))
    try:
        pe.scheduler.plan(SubmittedCommand(command_seq=0, pe=pe.pe_id, line="kb plan", command=command))
    except PlanError as error:
        return str(error)
    return None
