"""Tables of the ops of a workload, and of the parts of its model."""

from __future__ import annotations

from msgspec import UnsetType
from rich.table import Table

from kb_cli.report.elements.op_cells import MOST_OPS, cell_tables
from kb_cli.run.base.workload_result import ModelTimes, OpResult
from kb_cli.terminal.output import new_table


def op_tables(ops: list[OpResult] | UnsetType, model: ModelTimes | UnsetType, whole_ps: int) -> list[Table]:
    """Returns the tables of *ops*: times, work, kinds, and the parts of *model*. None for a run without ops.

    *whole_ps* is the time of the run from the first call to the last answer.
    """
    tables = []
    for each in cell_tables(ops, model, whole_ps, MOST_OPS):
        texts = tuple(each.headers[at] for at in each.wide)
        table = new_table(*each.headers, left=1, text=texts, wrapped=each.wide)
        for row in each.rows:
            table.add_row(*row)
        tables.append(table)
    return tables
