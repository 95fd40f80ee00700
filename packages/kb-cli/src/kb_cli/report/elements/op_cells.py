"""The ops of a workload and the time of its model, as cells of tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct, UnsetType

from kb_cli.run.base.model_text import TIME_NAMES, rate_text
from kb_cli.run.base.workload_result import ModelTimes, OpLever, OpResult
from kb_cli.terminal.units import duration, percent, quantity, signed_percent

MOST_OPS: Final = 40
"""The most ops that have a row of their own in the terminal; `--json`, pages and `kb web` have all."""

OP_HEADERS: Final = ("op", "time", "share", "x", "of compute", "of HBM", "bound")
WORK_HEADERS: Final = ("op", "launches", "FLOPs", "bytes", "weights", "first lever")
KIND_HEADERS: Final = ("kind of op", "ops", "time", "in the model", "share")
PART_HEADERS: Final = ("part of the model", "ops", "kernels", "gaps", "x", "in the model", "share")
GAPS: Final = "gaps between launches"
OVERLAPS: Final = "launches at the same time"
OPS_TEXT: Final = (
    "Times of the kernels of each op, as a share of the whole run, and how often the model has the op. The shares of "
    "compute and HBM are those of the operations and the bytes that the algorithm needs. The bound is the largest part "
    "of the critical path."
)

WORK_TEXT: Final = (
    "What the algorithm needs: operations, operands and results once, and the weights and caches among them. The first "
    "lever is the change of the chip that gains most for the op."
)
PARTS_TEXT: Final = (
    "The kernels of each part and the gaps in front of its launches, once, and as often as they stand in the model."
)


class CellTable(Struct, frozen=True, kw_only=True):
    """A table of cells with its title and the sentence below it. Columns of the numbers in `wide` hold text, too."""

    title: str
    text: str
    headers: tuple[str, ...]
    rows: list[tuple[str, ...]]
    wide: tuple[int, ...] = ()


def cell_tables(
    ops: list[OpResult] | UnsetType, model: ModelTimes | UnsetType, whole_ps: int, most: int
) -> list[CellTable]:
    """Returns the tables of *ops*, with rows of their own for *most* of them: times, work, kinds, and the parts of
    *model*. None for a run without ops. *whole_ps* is the time of the run from the first call to the last answer.
    """
    if isinstance(ops, UnsetType) or not ops:
        return []
    times, work = list(op_rows(ops, whole_ps, most)), list(work_rows(ops, most))
    found = [
        CellTable(title="Ops", text=OPS_TEXT, headers=OP_HEADERS, rows=times, wide=(6,)),
        CellTable(title="Work of the ops", text=WORK_TEXT, headers=WORK_HEADERS, rows=work, wide=(5,)),
    ]
    if len({op.kind for op in ops}) > 1:
        found.append(CellTable(title="Kinds of ops", text="", headers=KIND_HEADERS, rows=list(kind_rows(ops))))
    if isinstance(model, ModelTimes):
        rows = list(part_rows(model))
        found.append(CellTable(title="The model", text=PARTS_TEXT, headers=PART_HEADERS, rows=rows))
    return found


class ShownOps(Struct, frozen=True, kw_only=True):
    """The ops with rows of their own, in their order, and the ops `rest`, which share one row."""

    ops: list[OpResult]
    rest: list[OpResult]


def shown_ops(ops: Sequence[OpResult], most: int = MOST_OPS) -> ShownOps:
    """Returns *ops* as ops with rows of their own, and others; where there are more than *most*, the costliest
    have rows.
    """
    if len(ops) <= most:
        return ShownOps(ops=list(ops), rest=[])
    dear = sorted(ops, key=lambda op: -op.latency_ps * op.repeats)[:most]
    names = {op.name for op in dear}
    return ShownOps(ops=[op for op in ops if op.name in names], rest=[op for op in ops if op.name not in names])


def op_rows(ops: Sequence[OpResult], whole_ps: int, most: int = MOST_OPS) -> Iterator[tuple[str, ...]]:
    """Yields the rows under `OP_HEADERS`, with the gaps last. Shares are parts of *whole_ps*, and add up to 100 %.

    Where more launches overlap than there are gaps, the last row takes time away.
    """
    shown = shown_ops(ops, most)
    for op in shown.ops:
        yield (
            op.name,
            duration(op.latency_ps),
            _share(op.latency_ps, whole_ps),
            str(op.repeats),
            _part(op.compute_share),
            _part(op.memory_share),
            bound_text(op),
        )
    if shown.rest:
        ps = sum(op.latency_ps for op in shown.rest)
        yield (f"{len(shown.rest)} more: see --json", duration(ps), _share(ps, whole_ps), "", "", "", "")
    gaps_ps = whole_ps - sum(op.latency_ps for op in ops)
    yield (GAPS if gaps_ps >= 0 else OVERLAPS, duration(gaps_ps), _share(gaps_ps, whole_ps), "", "", "", "")


def work_rows(ops: Sequence[OpResult], most: int = MOST_OPS) -> Iterator[tuple[str, ...]]:
    """Yields the rows under `WORK_HEADERS`."""
    shown = shown_ops(ops, most)
    for op in shown.ops:
        numbers = (quantity(op.flops, "FLOP"), quantity(op.nbytes, "B"), quantity(op.floor_nbytes, "B"))
        yield (op.name, str(op.n_launches), *numbers, lever_text(op.lever))
    if shown.rest:
        sums = (sum(getattr(op, name) for op in shown.rest) for name in ("n_launches", "flops", "nbytes"))
        launches, flops, nbytes = sums
        floor = quantity(sum(op.floor_nbytes for op in shown.rest), "B")
        yield f"{len(shown.rest)} more", str(launches), quantity(flops, "FLOP"), quantity(nbytes, "B"), floor, ""


def kind_rows(ops: Sequence[OpResult]) -> Iterator[tuple[str, ...]]:
    """Yields the rows under `KIND_HEADERS`, the kind with most time in the model first. Shares are parts of all
    kernels.
    """
    kinds: dict[str, list[OpResult]] = {}
    for op in ops:
        kinds.setdefault(op.kind, []).append(op)
    of_model = {kind: sum(op.repeats * op.latency_ps for op in mine) for kind, mine in kinds.items()}
    total = sum(of_model.values())
    for kind, mine in sorted(kinds.items(), key=lambda each: -of_model[each[0]]):
        ps = sum(op.latency_ps for op in mine)
        yield kind, str(len(mine)), duration(ps), duration(of_model[kind]), _share(of_model[kind], total)


def part_rows(model: ModelTimes) -> Iterator[tuple[str, ...]]:
    """Yields the rows under `PART_HEADERS`, in the order of the model, then the answer to the host, and the sum."""
    for part in model.parts:
        x = "" if part.repeats is None else str(part.repeats)
        times = (duration(part.kernels_ps), duration(part.gaps_ps), x, duration(part.model_ps))
        yield part.name, str(part.ops), *times, _share(part.model_ps, model.total_ps)
    left_ps = model.total_ps - sum(part.model_ps for part in model.parts)
    yield "answers to the host", "", "", "", "", duration(left_ps), _share(left_ps, model.total_ps)
    sums = (duration(model.kernels_ps), duration(model.gaps_ps), "", duration(model.total_ps))
    yield "the model", "", *sums, _share(model.total_ps, model.total_ps)


def model_figures(model: ModelTimes) -> Iterator[tuple[str, str]]:
    """Yields the figures of *model* for the head of a page: its time, its rate, and the floor."""
    yield TIME_NAMES[model.phase], duration(model.total_ps)
    if model.items_per_s is not None:
        yield "rate", rate_text(model.items_per_s, model.unit)
    if model.floor_ps:
        yield "over the floor", f"{model.total_ps / model.floor_ps:.2f}x of {duration(model.floor_ps)}"


def bound_text(op: OpResult) -> str:
    """Returns the largest part of the path of *op*: `hbm bytes 71.2 %`; `-` without a log."""
    bound = op.bound
    return "-" if bound is None else f"{bound.block} {bound.what} {percent(bound.share)}"


def lever_text(lever: OpLever | UnsetType) -> str:
    """Returns *lever* with its gain: `HBM bandwidth x2: -38.0 %`; `-` for none."""
    if isinstance(lever, UnsetType):
        return "-"
    basis = "" if lever.basis == "measured" else " at best"
    return f"{lever.change}: {signed_percent(-lever.gain)}{basis}"


def _share(ps: int, total_ps: int) -> str:
    return percent(ps / total_ps) if total_ps else "-"


def _part(share: float | None) -> str:
    return "-" if share is None else percent(share)
