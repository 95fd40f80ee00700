"""`convert`: writes a log of JSON lines as a folder, which has a digest and is faster to read."""

from __future__ import annotations

import argparse
from pathlib import Path

from msgspec import Struct

from kb_dataexec.cli.output import Progress, UsageError, counted, emit, emit_json
from kb_dataexec.log.lines.log_lines import LINES_SUFFIX
from kb_dataexec.log.row_checks import OpIds
from kb_dataexec.logfile import FolderLogWriter, LogLines, LogSummary


class Converted(Struct, frozen=True, kw_only=True):
    """The counts and the digest of the folder `out`, as `--json` prints them."""

    out: str
    complete: bool
    records: int
    operands: int
    digest: str


def convert(options: argparse.Namespace) -> int:
    """Runs `convert`. Returns exit code 0. A log that was cut off becomes a folder without a manifest."""
    if options.log.suffix != LINES_SUFFIX:
        raise UsageError(str(options.log), "no file of that ending", f"lines of JSON, {LINES_SUFFIX}")
    source = LogLines(options.log, options.prefix)
    if options.out.exists() and (not options.out.is_dir() or any(options.out.iterdir())):
        raise UsageError(str(options.out), "a file, or a folder with files in it", "a new or empty folder")
    summary = _write(source, options.out)
    found = Converted(
        out=str(options.out), complete=source.is_complete, records=summary.n_ops, operands=summary.n_operands,
        digest=summary.digest,
    )  # fmt: skip
    if options.json:
        emit_json(found)
    else:
        cut = "" if found.complete else ", of a log that was cut off"
        rows = f"{counted(found.records, 'record')}, {counted(found.operands, 'operand')}"
        emit([f"{found.out}: {rows}{cut}"])
    return 0


def _write(source: LogLines, out: Path) -> LogSummary:
    """Writes the log to *out* chunk by chunk. If that fails, *out* is left empty.

    Raises LogError for a whole log whose ids are the numbers of its lines and leave numbers out: a folder has no lines,
    so the ops would be missing there.
    """
    writer, progress, ids = FolderLogWriter(out), Progress(), OpIds()
    try:
        n_strings = 0
        for number, chunk in enumerate(source.chunks(), start=1):
            for text in chunk.strings[n_strings:]:
                writer.intern(text)
            n_strings = len(chunk.strings)
            writer.append(chunk.ops, chunk.operands, chunk.tables)
            ids.add(chunk.ops, chunk.tables.get("commands"))
            progress(number, source.n_chunks)
        writer.immediate(source.immediates)
        if source.is_complete:
            ids.check(str(source.path), "give each op an op_id, one after the other")
            return writer.close()
    except BaseException:
        writer.abort()
        for file in out.iterdir():
            file.unlink()
        raise
    writer.abort()
    return writer.summary
