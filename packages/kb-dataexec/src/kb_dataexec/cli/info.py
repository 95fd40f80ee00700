"""`info`: counts the contents of a log, chunk by chunk."""

from __future__ import annotations

import argparse
from collections import Counter

import numpy as np
from msgspec import Struct

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.cli.output import Progress, counted, emit, emit_json, refuse
from kb_dataexec.log.folder_files import ManifestError
from kb_dataexec.logfile import LogFolder, LogLines, open_log
from kb_dataexec.memory.names import memory_name
from kb_messages import OpKind, Role

_WRITES = tuple(role for role in Role if role.is_write)


class MemoryUse(Struct, kw_only=True):
    """A memory that operands name: the range of its bytes in use, and the bytes that were read and written."""

    owner: int
    name: str
    low: int
    high: int
    read_nbytes: int = 0
    written_nbytes: int = 0


class Info(Struct, kw_only=True):
    """The counts of a log, as `--json` prints them. `problem` is the error about a wrong digest.

    `digest` and `digest_ok` are None for a log that was cut off and for lines of JSON. `tables` has the number of
    rows of each auxiliary table, and `missing` the names of the tables that the log lacks.
    """

    log: str
    complete: bool
    digest: str | None
    digest_ok: bool | None = None
    problem: str | None = None
    chunks: int
    records: int = 0
    operands: int = 0
    tables: dict[str, int]
    missing: tuple[str, ...] = ()
    start_ps: int | None = None
    end_ps: int | None = None
    kinds: dict[str, int]
    ops: dict[str, int]
    components: dict[str, int]
    memories: list[MemoryUse]


def info(options: argparse.Namespace) -> int:
    """Runs `info`. Returns exit code 0, or 2 when the files do not agree with the manifest."""
    found = _collect(str(options.log), open_log(options.log, prefix=True))
    if options.json:
        emit_json(found)
    else:
        emit(_lines(found))
    if found.problem is None:
        return 0
    refuse(found.problem)
    return 2


def _collect(log: str, source: LogFolder | LogLines) -> Info:
    found = Info(
        log=log, complete=source.is_complete, digest=source.digest, chunks=source.n_chunks,
        tables={}, kinds={}, ops={}, components={}, memories=[],
    )  # fmt: skip
    counts = {"kind": Counter[int](), "name": Counter[int](), "component": Counter[int]()}
    memories: dict[int, MemoryUse] = {}
    progress = Progress()
    try:
        for number, chunk in enumerate(source.chunks(), start=1):
            found.records, found.operands = found.records + chunk.n_ops, found.operands + chunk.n_operands
            for name, rows in chunk.tables.items():
                found.tables[name] = found.tables.get(name, 0) + len(rows)
            for column, counter in counts.items():
                counter.update(_counted(chunk.ops[column]))
            _add_times(found, chunk.ops)
            _add_memories(memories, chunk.operands)
            progress(number, source.n_chunks)
        found.digest = source.digest  # a log with compressed rows has a digest once its rows were made
        found.digest_ok = None if source.digest is None else True
    except ManifestError as error:
        found.digest_ok, found.problem = False, str(error)
    found.missing = source.missing
    found.kinds = {OpKind(kind).name.lower(): n for kind, n in sorted(counts["kind"].items())}
    found.ops, found.components = (_named(counts[column], source.strings) for column in ("name", "component"))
    found.memories = [memory for _, memory in sorted(memories.items())]
    return found


def _counted(column: Array) -> dict[int, int]:
    values, counts = np.unique(column, return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def _named(counter: Counter[int], strings: list[str]) -> dict[str, int]:
    """The counts by name, the most frequent first and equal counts by name."""
    named = {strings[index]: n for index, n in counter.items()}
    return dict(sorted(named.items(), key=lambda each: (-each[1], each[0])))


def _add_times(found: Info, ops: Array) -> None:
    if not len(ops):
        return
    start, end = int(ops["t_ready_ps"].min()), int(ops["t_out_ps"].max())
    found.start_ps = start if found.start_ps is None else min(start, found.start_ps)
    found.end_ps = end if found.end_ps is None else max(end, found.end_ps)


def _add_memories(memories: dict[int, MemoryUse], operands: Array) -> None:
    stops = operands["offset"] + (operands["rows"] - 1) * operands["stride"] + operands["row_nbytes"]
    nbytes, writes = operands["rows"] * operands["row_nbytes"], np.isin(operands["role"], _WRITES)
    for owner in np.unique(operands["owner"]).tolist():
        mine = operands["owner"] == owner
        low, high = int(operands["offset"][mine].min()), int(stops[mine].max())
        memory = memories.setdefault(owner, MemoryUse(owner=owner, name=memory_name(owner), low=low, high=high))
        memory.low, memory.high = min(memory.low, low), max(memory.high, high)
        memory.written_nbytes += int(nbytes[mine & writes].sum())
        memory.read_nbytes += int(nbytes[mine & ~writes].sum())


def _lines(found: Info) -> list[str]:
    state = "complete" if found.complete else "cut off: it was never closed"
    rows = f"{counted(found.records, 'record')}, {counted(found.operands, 'operand')}"
    lines = [f"{found.log}: {state}, {rows}, {counted(found.chunks, 'chunk')}"]
    if found.digest is not None:
        lines.append(f"digest   {found.digest} ({'ok' if found.digest_ok else 'WRONG'})")
    if found.problem is not None:
        lines.append(f"         {found.problem}")
    if found.start_ps is not None:
        lines.append(f"time     {found.start_ps} ps to {found.end_ps} ps")
    rows = ", ".join(f"{count} {name}" for name, count in found.tables.items())
    lines += [f"tables   {rows}"] if rows else []
    lines += [f"without  {', '.join(found.missing)}"] if found.missing else []
    for title, counts in (("kind", found.kinds), ("op", found.ops), ("component", found.components)):
        lines += [title, *(f"  {n:>10}  {name or '(none)'}" for name, n in counts.items())]
    lines.append("memory")
    for each in found.memories:
        span = f"{each.low:#x} to {each.high:#x}"
        lines.append(f"  {each.name}: {span}, {each.read_nbytes} bytes read, {each.written_nbytes} written")
    return lines
