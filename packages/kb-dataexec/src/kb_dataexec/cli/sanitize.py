"""`sanitize`: prints the hazards of a log."""

from __future__ import annotations

import argparse
from typing import Final

from msgspec import Struct

from kb_dataexec.analysis.findings import Finding
from kb_dataexec.analysis.sanitize import search
from kb_dataexec.cli.output import UsageError, counted, emit, emit_json
from kb_dataexec.logfile import read_log

_LATEST_PS: Final = 2**63 - 1


class SanitizeReport(Struct, frozen=True, kw_only=True):
    """The findings in a log, and sentences on what is not decided, as `--json` prints them."""

    log: str
    complete: bool
    records: int
    findings: list[Finding]
    notes: list[str]


def sanitize_log(options: argparse.Namespace) -> int:
    """Runs `sanitize`. Returns exit code 0 when there are no hazards, else 1."""
    launches = [_window(text) for text in options.launch]
    log = read_log(options.log, prefix=True)
    searched = search(log, launches)
    findings, notes = searched.findings, searched.notes
    if options.json:
        emit_json(
            SanitizeReport(
                log=str(options.log), complete=log.is_complete, records=log.n_ops, findings=findings, notes=notes
            )
        )
    else:
        cut = "" if log.is_complete else " of a log that was cut off"
        found = f"{len(findings)} found in {counted(log.n_ops, 'record')}{cut}"
        emit([f"{options.log}: {found}", *(f"  {each}" for each in (*findings, *notes))])
    return 1 if findings else 0


def _window(text: str) -> tuple[int, int]:
    start, _, end = text.partition(":")
    is_number = start.isdecimal() and end.isdecimal() and max(len(start), len(end)) <= len(str(_LATEST_PS))
    if not (is_number and int(start) <= int(end) <= _LATEST_PS):
        raise UsageError("--launch", text[:80], "START:END in picoseconds", "write it like 0:1250000")
    return int(start), int(end)
