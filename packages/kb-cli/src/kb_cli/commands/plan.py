"""`kb plan`: counts the bytes and operations of a tiling, and times collectives. Nothing is simulated."""

from __future__ import annotations

from collections.abc import Collection
from math import prod
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
from kb_engine.collectives import CALLS
from kb_messages import DType, EpilogueOp, EpilogueScope, GemmCommand, LoopOrder, Matrix, PlanError, TileShape
from kb_topology import load_topology, parse_nbytes

OPS = ("sum", "mean", "max", "min")
DTYPES = [dtype.value for dtype in DType if dtype is not DType.BOOL]
_MOST_PES = 1 << 20
"""A number of PEs that no chip has, so that a larger one is refused without a list of it."""
LARGEST_SIDE = 1 << 20
"""The longest side to plan. The counts of a cube of this side still fit the 64-bit integers of JSON readers."""

Size = Annotated[int, Meta(ge=1, le=LARGEST_SIDE)]


class GemmShape(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of `-p`: sizes in elements, and the dtype of both operands."""

    M: Size
    N: Size
    K: Size
    dtype: DType = DType.F16


class PlanGroup(click.Group):
    """The commands of `kb plan`. `kb plan --collective CALL` is another way to write `kb plan collective CALL`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses *args*."""
        words = [word for each in args for word in (each.split("=", 1) if each.startswith("--collective=") else [each])]
        if "--collective" in words:
            at = words.index("--collective")
            args = ["collective", *words[at + 1 : at + 2], *words[:at], *words[at + 2 :]]
        return super().parse_args(ctx, args)


@click.group("plan", cls=PlanGroup)
def command() -> None:
    """Count the work of a tiling, or the time of a collective, without running it."""


@command.command("collective", cls=CheckedCommand)
@click.argument("call", type=click.Choice(CALLS), metavar="CALL")
@click.option("--shape", metavar="MxN", help="The shape of a rank's operand, e.g. 64x32; of all_gather, the result's.")
@click.option("--nbytes", metavar="SIZE", help="Its bytes instead, e.g. 64KiB, a multiple of the dtype's bytes.")
@click.option("--dtype", default="f32", show_default=True, type=click.Choice(DTYPES), help="The dtype of elements.")
@click.option("--op", default="sum", show_default=True, type=click.Choice(OPS), help="How all_reduce combines.")
@click.option("--pes", metavar="N|FIRST:END|A,B,...", help="The PEs of the ranks. Left out, all PEs of the chip.")
@click.option("--topology", default="one_cube", show_default=True, help="A bundled chip's name, or a YAML file.")
@click.option("--json", "as_json", is_flag=True, help="Print one object, nothing else.")
def collective_command(
    call: str,
    shape: str | None,
    nbytes: str | None,
    dtype: str,
    op: str,
    pes: str | None,
    topology: str,
    as_json: bool,
) -> None:
    """Time every algorithm of a collective: all_reduce, reduce_scatter, all_gather, broadcast or all_to_all."""
    from kb_cli.report.data.collective_plan import plan_collective

    of = DType(dtype)
    elements = _elements(shape, nbytes, of)
    engine = Engine(load_topology(bundled.find("topologies", topology)))
    if op == "mean" and not of.is_float:
        raise PlanError("--op", f"the mean of {of}", "floats")
    combines = op if call in ("all_reduce", "reduce_scatter") else ""
    found = plan_collective(engine, call, elements, of, combines, None if pes is None else _pes(pes))
    if as_json:
        emit_json(found)
    else:
        from kb_cli.report.tables.collective_tables import collective_tables

        emit_tables(*collective_tables(found))


def _elements(shape: str | None, nbytes: str | None, dtype: DType) -> int:
    """The number of elements that `--shape` or `--nbytes` gives. Raises PlanError unless one of them is given."""
    if (shape is None) == (nbytes is None):
        raise PlanError("kb plan collective", "no size" if shape is None else "two sizes", "--shape or --nbytes")
    if shape is not None:
        sides = shape.lower().split("x")
        if not all(side.isdecimal() and int(side) <= LARGEST_SIDE for side in sides):
            raise PlanError("--shape", repr(shape), f"lengths of at most {LARGEST_SIDE:,}", "write it like 4096x64")
        return prod(map(int, sides))
    found = parse_nbytes(int(nbytes) if nbytes and nbytes.isdecimal() else str(nbytes))
    if found is None or found % dtype.nbytes or found > LARGEST_SIDE**2:
        raise PlanError("--nbytes", repr(nbytes), f"a multiple of {dtype.nbytes} bytes, up to 1 TiB", "such as 64KiB")
    return found // dtype.nbytes


def _pes(text: str) -> list[int]:
    """PE numbers from a number of PEs, from the range `FIRST:END`, or from a list with commas."""
    begin, colon, end = text.partition(":")
    if colon and begin.isdecimal() and end.isdecimal():
        return list(range(int(begin), min(int(end), _MOST_PES)))
    numbers = text.split(",")
    if not all(number.isdecimal() for number in numbers):
        raise PlanError("--pes", repr(text), "a number of PEs, a range, or a list", "write 128, 0:128 or 0,8,16")
    return list(map(int, numbers)) if len(numbers) > 1 else list(range(min(int(text), _MOST_PES)))


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
