"""What `kb plan` says of one tiling: stages, bytes, multiply-adds, and how many tiles fit in the PE's buffers."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from kb_engine.program import ProcessingElement
from kb_messages import GemmCommand, PipelinePlan, PlanError, StageType, SubmittedCommand
from kb_plans import TileRoom, count, generate_gemm_plan, suggest_tile


class Buffer(Struct, frozen=True, kw_only=True):
    """Bytes that one tile takes of `room`, and how many tiles fit at once; `fits` is None where a tile takes none."""

    nbytes: int
    room: int
    fits: int | None


class PlanResult(Struct, frozen=True, kw_only=True):
    """One tiling. `stages` and `bytes` are by stage type, `grid` counts tiles along M, N and K.

    `refused` is the error of the PE's scheduler, or None when the scheduler takes the tiling.
    """

    topology: str
    pe: str
    params: dict[str, int | str]
    pinned: list[str]
    transposed: list[str]
    b_stream: bool
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


def plan_gemm(chip: str, pe: ProcessingElement, command: GemmCommand) -> PlanResult:
    """The figures of *command* on *pe* of the topology named *chip*. Without a tile, the scheduler's choice is taken.

    Raises PlanError when the command means nothing, or the PE's scheduler does not tell the room for tiles.
    """
    a, out, room = command.a, command.out, _room(pe)
    tile = command.tile or suggest_tile(command, room)
    command = msgspec.structs.replace(command, tile=tile)
    plan = generate_gemm_plan(command, pe.pe_id)
    counts = count(plan)
    moved = sum(counts.nbytes.get(each, 0) for each in (StageType.DMA_READ, StageType.DMA_WRITE))
    buffers = _buffers(plan, room)
    fits = [each.fits for each in buffers.values() if each.fits is not None]
    k = a.rows if command.transpose_a else a.cols
    return PlanResult(
        topology=chip,
        pe=pe.pe_id,
        params={"M": out.rows, "N": out.cols, "K": k, "dtype": str(a.dtype)},
        pinned=["a"] * command.a_pinned + ["b"] * command.b_pinned,
        transposed=["a"] * command.transpose_a + ["b"] * command.transpose_b,
        b_stream=command.b_stream,
        epilogue=[f"{op.op}@{op.scope}" for op in command.epilogue],
        tile=str(tile),
        grid=plan.grid,
        tiles=counts.tiles,
        stages={kind.name: number for kind, number in sorted(counts.stages.items())},
        bytes={kind.name: nbytes for kind, nbytes in sorted(counts.nbytes.items())},
        macs=counts.macs,
        arithmetic_intensity=2 * counts.macs / moved if moved else None,
        buffers=buffers,
        tiles_that_fit=min(fits) if fits else None,
        refused=_refusal(pe, command),
    )


def _room(pe: ProcessingElement) -> TileRoom:
    room = getattr(pe.scheduler, "tile_room", None)
    if not isinstance(room, TileRoom):
        kind = type(pe.scheduler).__name__
        raise PlanError(pe.scheduler.node_id, f"a {kind} without tile_room", "a scheduler that tells its buffers")
    return room


def _buffers(plan: PipelinePlan, room: TileRoom) -> dict[str, Buffer]:
    needs = plan.buffers
    takes = {
        "input": (needs.input_nbytes, room.input_nbytes),
        "output": (needs.output_nbytes, room.output_nbytes),
        "registers": (needs.register_nbytes + needs.accumulator_nbytes, room.register_nbytes),
    }
    return {
        name: Buffer(nbytes=nbytes, room=there, fits=there // nbytes if nbytes else None)
        for name, (nbytes, there) in takes.items()
    }


def _refusal(pe: ProcessingElement, command: GemmCommand) -> str | None:
    """The sentence with which `kb run` would refuse *command* on *pe*, or None."""
    pinned = sum(each.nbytes for each, pin in ((command.a, command.a_pinned), (command.b, command.b_pinned)) if pin)
    room = pe.tcm_nbytes - pe.scheduler.reserved_nbytes
    if pinned > room:
        return str(PlanError(f"{pe.pe_id}.pe_tcm", f"{pinned} bytes to pin", f"at most the {room} beside the tiles"))
    try:
        pe.scheduler.plan(SubmittedCommand(command_seq=0, pe=pe.pe_id, line="kb plan", command=command))
    except PlanError as error:
        return str(error)
    return None
