"""`kb plan`: what a tiling moves and computes, from closed forms; nothing is run."""

from __future__ import annotations

from typing import Annotated, Any

import click
import msgspec
from msgspec import Meta, Struct

from kb_cli.benchmark import bundled
from kb_cli.benchmark.params import build_params, parse_assignments
from kb_cli.terminal.output import emit_json, emit_tables, new_table
from kb_cli.terminal.units import quantity
from kb_engine import Engine
from kb_engine.program import ProcessingElement
from kb_messages import (
    DType,
    EpilogueOp,
    EpilogueScope,
    GemmCommand,
    Matrix,
    PipelinePlan,
    PlanError,
    StageType,
    SubmittedCommand,
    TileShape,
)
from kb_plans import GemmOptions, TileRoom, count, gemm_options, generate_gemm_plan, suggest_tile
from kb_topology import load_topology

LARGEST_SIDE = 1 << 20
"""Longest side that is planned: the counts of its cube still fit the 64 bits of a JSON reader."""

Size = Annotated[int, Meta(ge=1, le=LARGEST_SIDE)]


class GemmShape(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `-p` sets: sizes in elements, and the type of both operands."""

    M: Size
    N: Size
    K: Size
    dtype: DType = DType.F16


class Buffer(Struct, frozen=True, kw_only=True):
    """Bytes one tile takes of `room`, and how many tiles fit at once; None where a tile takes none."""

    nbytes: int
    room: int
    fits: int | None


class PlanResult(Struct, frozen=True, kw_only=True):
    """One tiling. `stages` and `bytes` by stage type, `grid` in tiles along M, N and K.

    `refused` is what the chip's scheduler would say to it, None when it would take it.
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


@click.group("plan")
def command() -> None:
    """Count what a tiling moves and computes, without running it."""


@command.command("gemm")
@click.argument("rest", nargs=-1, metavar="")
@click.option(
    "-p", "assignments", multiple=True, metavar="KEY=VALUE", help="Set M, N, K or dtype; one -p for each, M N K needed."
)
@click.option(
    "--tile", "tiles", multiple=True, metavar="MxNxK", help="A tile, e.g. 128x128x128; several are compared. "
    "Left out, it is the one that the PE's scheduler would choose.",
)  # fmt: skip
@click.option("--pin", "pins", multiple=True, type=click.Choice(["a", "b"]), help="This operand lies in TCM already.")
@click.option(
    "--transpose",
    "transposed",
    multiple=True,
    type=click.Choice(["a", "b"]),
    help="This operand is stored the other way round: a as K x M, b as N x K.",
)
@click.option("--b-stream", is_flag=True, help="B goes from memory to registers and takes no TCM.")
@click.option(
    "--epilogue", "epilogue", multiple=True, metavar="OP@SCOPE", help="An op on the result in registers, e.g. "
    "relu@output_tile or dequant@k_tile; several run in their order.",
)  # fmt: skip
@click.option("--topology", default="one_cube", show_default=True, help="A bundled chip's name, or a YAML file.")
@click.option("--json", "as_json", is_flag=True, help="Print one object (an array with several tiles), nothing else.")
def gemm_command(
    rest: tuple[str, ...],
    assignments: tuple[str, ...],
    tiles: tuple[str, ...],
    pins: tuple[str, ...],
    transposed: tuple[str, ...],
    b_stream: bool,
    epilogue: tuple[str, ...],
    topology: str,
    as_json: bool,
) -> None:
    """Plan a matrix product, M x K times K x N, on one PE of a chip."""
    if rest:
        fix = f"write it like -p {rest[0]}" if "=" in rest[0] else "see kb plan gemm --help"
        raise PlanError("kb plan gemm", repr(rest[0]), "options alone", fix)
    shape = build_params(GemmShape, parse_assignments(_single(assignments)))
    wanted: list[TileShape | None] = [*map(TileShape.parse, tiles)] or [None]
    chip = load_topology(bundled.find("topologies", topology))
    pe = next(iter(Engine(chip).pes.values()))
    options = GemmOptions(
        a_pinned="a" in pins,
        b_pinned="b" in pins,
        transpose_a="a" in transposed,
        transpose_b="b" in transposed,
        b_stream=b_stream,
        epilogue=tuple(_epilogue_op(text, shape) for text in epilogue),
    )
    results = [_plan(chip.name, pe, shape, _command(shape, tile, options)) for tile in wanted]
    if as_json:
        emit_json(results if len(results) > 1 else results[0])
    else:
        emit_tables(*_tables(results))


def _single(assignments: tuple[str, ...]) -> tuple[str, ...]:
    """*assignments* as they are. Raises PlanError for one that holds several."""
    for text in assignments:
        parts = text.replace(",", " ").split()
        if len(parts) > 1:
            fix = " ".join(f"-p {part}" for part in parts)
            raise PlanError("-p", repr(text), "one KEY=VALUE, without comma or space", f"write it like {fix}")
    return assignments


def _epilogue_op(text: str, shape: GemmShape) -> EpilogueOp:
    """`relu@output_tile` as an op; one that takes an operand gets it in the shape it has, one with a scalar gets 1."""
    name, at, scope = text.partition("@")
    if not at or scope not in list(EpilogueScope):
        raise PlanError("--epilogue", repr(text), "OP@SCOPE", f"SCOPE is {' or '.join(EpilogueScope)}")
    rows = {"bias": 1, "residual": shape.M}.get(name)
    dtype = _out_dtype(shape)
    return EpilogueOp(
        op=name,
        scope=EpilogueScope(scope),
        operand=None if rows is None else Matrix.packed(rows, shape.N, dtype),
        scalars=(1.0,) if name in ("scale", "dequant") else (),
        dtype=dtype if name == "cast" else None,
    )


def _out_dtype(shape: GemmShape) -> DType:
    return shape.dtype if shape.dtype.is_float else shape.dtype.accumulator


def _command(shape: GemmShape, tile: TileShape | None, options: GemmOptions) -> GemmCommand:
    a, b = (shape.M, shape.K), (shape.K, shape.N)
    return GemmCommand(
        a=Matrix.packed(*(a[::-1] if options["transpose_a"] else a), shape.dtype),
        b=Matrix.packed(*(b[::-1] if options["transpose_b"] else b), shape.dtype),
        out=Matrix.packed(shape.M, shape.N, _out_dtype(shape)),
        tile=tile,
        **options,
    )


def _plan(chip: str, pe: ProcessingElement, shape: GemmShape, command: GemmCommand) -> PlanResult:
    a, b, out, options = command.a, command.b, command.out, gemm_options(command)
    room = _room(pe)
    tile = command.tile or suggest_tile(a, b, out, room, **options)
    plan = generate_gemm_plan(a, b, out, tile, pe.pe_id, **options)
    counts = count(plan)
    moved = sum(counts.nbytes.get(each, 0) for each in (StageType.DMA_READ, StageType.DMA_WRITE))
    buffers = _buffers(plan, room)
    fits = [each.fits for each in buffers.values() if each.fits is not None]
    return PlanResult(
        topology=chip,
        pe=pe.pe_id,
        params={"M": shape.M, "N": shape.N, "K": shape.K, "dtype": str(shape.dtype)},
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
        refused=_refusal(pe, msgspec.structs.replace(command, tile=tile)),
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
    pinned = [each.nbytes for each, pin in ((command.a, command.a_pinned), (command.b, command.b_pinned)) if pin]
    room = pe.tcm_nbytes - pe.scheduler.reserved_nbytes
    if sum(pinned) > room:
        return str(
            PlanError(f"{pe.pe_id}.pe_tcm", f"{sum(pinned)} bytes to pin", f"at most the {room} beside the tiles")
        )
    try:
        pe.scheduler.plan(SubmittedCommand(command_seq=0, pe=pe.pe_id, line="kb plan", command=command))
    except PlanError as error:
        return str(error)
    return None


def _tables(results: list[PlanResult]) -> list[Any]:
    first = results[0]
    params = " ".join(f"{name}={value}" for name, value in first.params.items())
    how = f", {' and '.join(first.pinned)} pinned" if first.pinned else ""
    how += f", {' and '.join(first.transposed)} transposed" if first.transposed else ""
    how += ", b past TCM" if first.b_stream else ""
    then = f", then {', '.join(first.epilogue)}" if first.epilogue else ""
    lines: list[Any] = [f"gemm on {first.pe} of {first.topology}: {params}{how}{then}", ""]
    lines += _comparison(results) if len(results) > 1 else _details(first)
    return lines + [f"kb run would refuse {each.tile}: {each.refused}" for each in results if each.refused]


def _details(result: PlanResult) -> list[Any]:
    stages = new_table("stage", "services", "bytes", left=1)
    for kind, services in result.stages.items():
        nbytes = result.bytes.get(kind)
        stages.add_row(kind.lower(), f"{services:,}", "-" if nbytes is None else f"{nbytes:,}")
    buffers = new_table("a tile needs", "bytes", "of", "tiles that fit", left=1)
    for name, each in result.buffers.items():
        buffers.add_row(name, f"{each.nbytes:,}", f"{each.room:,}", _number(each.fits))
    grid = " x ".join(map(str, result.grid))
    return [
        f"{result.tiles:,} {'tile' if result.tiles == 1 else 'tiles'} of {result.tile}, a grid of {grid}",
        f"{result.macs:,} multiply-adds, {_intensity(result)} flops for each byte of DMA",
        "",
        *(part for table in (stages, buffers) for part in (table, "")),
        f"tiles that fit at once: {_number(result.tiles_that_fit)}",
    ]


def _comparison(results: list[PlanResult]) -> list[Any]:
    table = new_table("tile", "tiles", "services", "DMA read", "DMA write", "fetch", "flops/B", "fit at once", left=1)
    for each in results:
        moved = (quantity(each.bytes.get(kind, 0), "B") for kind in ("DMA_READ", "DMA_WRITE", "FETCH"))
        services = f"{sum(each.stages.values()):,}"
        fits = _number(each.tiles_that_fit)
        table.add_row(each.tile, f"{each.tiles:,}", services, *moved, _intensity(each), fits)
    return [table]


def _intensity(result: PlanResult) -> str:
    return "-" if result.arithmetic_intensity is None else f"{result.arithmetic_intensity:.4g}"


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
