"""`kb plan`: counts the bytes and operations of a tiling, from closed forms. Nothing is simulated."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

import click
from msgspec import Meta, Struct
from msgspec.structs import replace

from kb_cli.benchmark import bundled
from kb_cli.benchmark.values.params import build_params, parse_assignments
from kb_cli.report.data.plan import nearest_memory, plan_gemm
from kb_cli.terminal.checked_command import CheckedCommand
from kb_cli.terminal.output import emit_json, emit_tables
from kb_engine import Engine
from kb_messages import DType, EpilogueOp, EpilogueScope, GemmCommand, LoopOrder, Matrix, PlanError, TileShape
from kb_topology import load_topology

LARGEST_SIDE = 1 << 20
"""The longest side to plan. The counts of a cube of this side still fit the 64-bit integers of JSON readers."""

Size = Annotated[int, Meta(ge=1, le=LARGEST_SIDE)]


class GemmShape(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of `-p`: sizes in elements, and the dtype of both operands."""

    M: Size
    N: Size
    K: Size
    dtype: DType = DType.F16


@click.group("plan")
def command() -> None:
    """Count the bytes and operations of a tiling, without running it."""


@command.command("gemm", cls=CheckedCommand)
@click.argument("rest", nargs=-1, metavar="")
@click.option(
    "-p", "assignments", multiple=True, metavar="KEY=VALUE", help="Set M, N, K or dtype; one -p for each, M N K needed."
)
@click.option(
    "--tile", "tiles", multiple=True, metavar="MxNxK", help="A tile, e.g. 128x128x128; several are compared. "
    "Left out, the tile that the PE's scheduler would choose.",
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
@click.option(
    "--loop-order",
    default="mnk",
    metavar="ORDER",
    help="The order of tiles: mnk (rows of tiles) or nmk (columns); "
    "weight_stationary or input_stationary, which keep a panel of b or a in TCM.",
)
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
    loop_order: str,
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
    engine = Engine(chip)
    pe = engine.pes[chip.usual_pe]
    memory = nearest_memory(engine, pe)
    ops = tuple(_epilogue_op(text, shape) for text in epilogue)
    product = replace(_command(shape, pins, transposed, b_stream, ops), loop_order=LoopOrder.parse(loop_order))
    results = [plan_gemm(chip.name, pe, replace(product, tile=tile), memory) for tile in wanted]
    if as_json:
        emit_json(results if len(results) > 1 else results[0])
    else:
        from kb_cli.report.tables.plan_tables import plan_tables

        emit_tables(*plan_tables(results))


def _single(assignments: tuple[str, ...]) -> tuple[str, ...]:
    """Returns *assignments*, unchanged. Raises PlanError when one text holds several assignments."""
    for text in assignments:
        parts = text.replace(",", " ").split()
        if len(parts) > 1:
            fix = " ".join(f"-p {part}" for part in parts)
            raise PlanError("-p", repr(text), "one KEY=VALUE, without comma or space", f"write it like {fix}")
    return assignments


def _epilogue_op(text: str, shape: GemmShape) -> EpilogueOp:
    """Returns an op from a text such as `relu@output_tile`. An operand gets the shape that the op needs, a scalar is 1.

    Raises PlanError for a text of another form.
    """
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


def _command(
    shape: GemmShape,
    pins: Collection[str],
    transposed: Collection[str],
    b_stream: bool,
    epilogue: tuple[EpilogueOp, ...],
) -> GemmCommand:
    a, b = (shape.M, shape.K), (shape.K, shape.N)
    return GemmCommand(
        a=Matrix.packed(*(a[::-1] if "a" in transposed else a), shape.dtype),
        b=Matrix.packed(*(b[::-1] if "b" in transposed else b), shape.dtype),
        out=Matrix.packed(shape.M, shape.N, _out_dtype(shape)),
        a_pinned="a" in pins,
        b_pinned="b" in pins,
        transpose_a="a" in transposed,
        transpose_b="b" in transposed,
        b_stream=b_stream,
        epilogue=epilogue,
    )
