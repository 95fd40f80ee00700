"""`export`: writes a log as Parquet files."""

from __future__ import annotations

import argparse

from kb_dataexec.cli.output import Progress, counted, emit, emit_json
from kb_dataexec.log.parquet import export_parquet
from kb_dataexec.logfile import open_log


def export(options: argparse.Namespace) -> int:
    """Runs `export`. Returns exit code 0."""
    found = export_parquet(open_log(options.log, prefix=True), options.out, Progress())
    if options.json:
        emit_json(found)
    else:
        rows = f"{counted(found.records, 'record')}, {counted(found.operands, 'operand')}"
        emit([f"{found.out}: {rows} in {counted(found.parts, 'part')}"])
    return 0
