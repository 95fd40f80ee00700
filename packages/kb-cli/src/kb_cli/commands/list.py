"""`kb list`: the benchmarks, models and topologies that come with kb."""

from __future__ import annotations

import click

from kb_cli.benchmark.catalogue import CatalogueEntry, catalogue
from kb_cli.terminal.checked_command import CheckedCommand
from kb_cli.terminal.output import emit_json, emit_tables, new_table


@click.command("list", cls=CheckedCommand)
@click.option("--json", "as_json", is_flag=True, help="Print one object, nothing else.")
def command(as_json: bool) -> None:
    """List the bundled benchmarks, models and topologies, with a line on each."""
    found = catalogue()
    if as_json:
        emit_json(found)
        return
    benchmarks = new_table("benchmark", "computes", wrapped=(1,))
    for each in found.benchmarks:
        benchmarks.add_row(each.name, each.description)
    models = new_table("model", "is", wrapped=(1,))
    for each in found.models:
        models.add_row(each.name, each.description)
    topologies = new_table("topology", "PEs", "description", left=1, text=("description",), wrapped=(2,))
    for each in found.topologies:
        topologies.add_row(each.name, _pes(each), each.description)
    hint = "kb run BENCHMARK --params lists parameters; kb topology show TOPOLOGY draws a chip."
    shown = [table for table in (benchmarks, models, topologies) if table.rows]
    emit_tables(*(part for table in shown for part in (table, "")), hint)


def _pes(entry: CatalogueEntry) -> str:
    return "-" if entry.pes is None else str(entry.pes)
