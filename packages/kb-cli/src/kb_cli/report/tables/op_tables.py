"""Tables of the ops of a workload, and of the parts of its model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import UnsetType
from rich.table import Table

from kb_cli.report.elements.op_cells import (
    KIND_HEADERS,
    OP_HEADERS,
    PART_HEADERS,
    WORK_HEADERS,
    kind_rows,
    op_rows,
    part_rows,
    work_rows,
)
from kb_cli.run.base.workload_result import ModelTimes, OpResult
from kb_cli.terminal.output import new_table


def op_tables(ops: list[OpResult] | UnsetType, model: ModelTimes | UnsetType, whole_ps: int) -> list[Table]:
    """Returns the tables of *ops*: times, work, kinds, and the parts of *model*. None for a run without ops.

    *whole_ps* is the time of the run from the first call to the last answer.
    """
    if isinstance(ops, UnsetType) or not ops:
        return []
    tables = [
        _table(OP_HEADERS, op_rows(ops, whole_ps), text=("bound",)),
        _table(WORK_HEADERS, work_rows(ops), text=("first lever",), wrapped=(5,)),
    ]
    if len({op.kind for op in ops}) > 1:
        tables.append(_table(KIND_HEADERS, kind_rows(ops)))
    if isinstance(model, ModelTimes):
        tables.append(_table(PART_HEADERS, part_rows(model)))
    return tables


def _table(
    headers: Sequence[str], rows: Iterable[Sequence[str]], text: tuple[str, ...] = (), wrapped: tuple[int, ...] = ()
) -> Table:
    table = new_table(*headers, left=1, text=text, wrapped=wrapped)
    for row in rows:
        table.add_row(*row)
    return table
