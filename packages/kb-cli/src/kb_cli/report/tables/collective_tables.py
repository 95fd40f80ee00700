"""Tables of `kb plan collective`: a row for each algorithm."""

from __future__ import annotations

from typing import Any

from kb_cli.report.data.collective_plan import CollectivePlan
from kb_cli.terminal.output import new_table
from kb_cli.terminal.units import duration, quantity


def collective_tables(plan: CollectivePlan) -> list[Any]:
    """Returns title, algorithms, and what the times leave out."""
    ranks = "1 PE" if plan.ranks == 1 else f"{plan.ranks} PEs in {plan.cubes} {'cube' if plan.cubes == 1 else 'cubes'}"
    whose = "in the result" if plan.collective == "all_gather" else "a rank"
    op = f", {plan.op}" if plan.op else ""
    title = f"{plan.collective} on {ranks} of {plan.topology}: {plan.elements:,} {plan.dtype} {whose}{op}"
    table = new_table("algorithm", "estimate", "messages", "bytes sent", "auto", left=1)
    for each in plan.algorithms:
        sent = quantity(each.message_bytes, "B")
        table.add_row(each.algorithm, duration(each.estimated_ps), f"{each.messages:,}", sent, "*" if each.auto else "")
    return [title, "", table, "", "Estimates take links and memories as free of others. auto takes the row with *."]
