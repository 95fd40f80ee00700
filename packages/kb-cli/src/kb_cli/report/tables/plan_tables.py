"""Tables of `kb plan`: the details of one tiling, or a row for each of several."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from kb_cli.report.data.plan import PlanResult
from kb_cli.terminal.output import new_table
from kb_cli.terminal.units import duration, percent, quantity
from kb_messages import LoopOrder


def plan_tables(results: list[PlanResult]) -> list[Any]:
    """Returns title, figures and refusals of *results*, which differ in their tile alone."""
    first = results[0]
    params = " ".join(f"{name}={value}" for name, value in first.params.items())
    how = f", {' and '.join(first.pinned)} pinned" if first.pinned else ""
    how += f", {' and '.join(first.transposed)} transposed" if first.transposed else ""
    how += ", b past TCM" if first.b_stream else ""
    how += f", loops in the order {first.loop_order}" if first.loop_order != LoopOrder.MNK else ""
    then = f", then {', '.join(first.epilogue)}" if first.epilogue else ""
    lines: list[Any] = [f"gemm on {first.pe} of {first.topology}: {params}{how}{then}", ""]
    lines += [_comparison(results)] if len(results) > 1 else _details(first)
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
        *_time(result),
    ]


def _comparison(results: list[PlanResult]) -> Table:
    table = new_table(
        "tile", "tiles", "services", "DMA read", "DMA write", "fetch", "flops/B", "estimate", "bound by", left=1
    )
    for each in results:
        moved = (quantity(each.bytes.get(kind, 0), "B") for kind in ("DMA_READ", "DMA_WRITE", "FETCH"))
        services = f"{sum(each.stages.values()):,}"
        table.add_row(each.tile, f"{each.tiles:,}", services, *moved, _intensity(each), *_bound(each))
    return table


def _time(result: PlanResult) -> list[Any]:
    """Returns the estimate, and the time of each resource."""
    if result.estimated_ps is None:
        return ["no estimate: no tile fits, or the chip states no costs"]
    table = new_table("resource", "time", "of the estimate", left=1)
    for name, busy_ps in sorted((result.busy_ps or {}).items(), key=lambda each: -each[1]):
        table.add_row(name.lower(), duration(busy_ps), percent(busy_ps / max(1, result.estimated_ps)))
    estimate, bound_by = _bound(result)
    return [f"estimate: {estimate} with all operands in {result.memory}, bound by {bound_by}", "", table]


def _bound(result: PlanResult) -> tuple[str, str]:
    if result.estimated_ps is None or result.bound_by is None:
        return "-", "-"
    return duration(result.estimated_ps), result.bound_by.lower()


def _intensity(result: PlanResult) -> str:
    return "-" if result.arithmetic_intensity is None else f"{result.arithmetic_intensity:.4g}"


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
