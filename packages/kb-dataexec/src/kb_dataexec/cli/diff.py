"""`diff`: finds the records and the auxiliary tables in which two logs differ. Records are matched by id."""

from __future__ import annotations

import argparse
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import Struct

from kb_dataexec.analysis.provenance import describe, position_of
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.cli.output import counted, emit, emit_json
from kb_dataexec.logfile import OpLog, read_log
from kb_messages import LOG_TABLES, OPERAND_COLUMNS, OPS_COLUMNS, OpRecord

_TEXTS: Final = ("name", "component", "line", "params")
_TIMES: Final = tuple(name for name, _ in OPS_COLUMNS if name.endswith("_ps"))
_NUMBERS: Final = tuple(name for name, _ in OPS_COLUMNS if name not in (*_TEXTS, *_TIMES))
_OPERAND: Final = tuple(name for name, _ in OPERAND_COLUMNS)


class FirstDifference(Struct, frozen=True, kw_only=True):
    """The first record, in the order of pass 2, that differs. `fields` has (value in a, value in b)."""

    op_id: int
    found_in: str
    record: str
    fields: dict[str, tuple[Any, Any]]


class Difference(Struct, frozen=True, kw_only=True):
    """The differences of two logs, as `--json` prints them."""

    a: str
    b: str
    same: bool
    records: tuple[int, int]
    only_in_a: int
    only_in_b: int
    changed: int
    immediates_differ: bool
    tables_differ: tuple[str, ...]
    complete: tuple[bool, bool]
    first: FirstDifference | None


def diff(options: argparse.Namespace) -> int:
    """Runs `diff`. Returns exit code 0 when the logs agree, else 1.

    The order of chunks, rows and strings is ignored.
    """
    a, b = read_log(options.a, prefix=True), read_log(options.b, prefix=True)
    found = compare_logs((str(options.a), str(options.b)), a, b, options.ignore_times)
    if options.json:
        emit_json(found)
    else:
        emit(_lines(found))
    return 0 if found.same else 1


def compare_logs(names: tuple[str, str], a: OpLog, b: OpLog, ignore_times: bool = False) -> Difference:
    """Compares the logs *a* and *b* record by record. *ignore_times* leaves out their times."""
    common, at_a, at_b = np.intersect1d(a.ops["op_id"], b.ops["op_id"], return_indices=True)
    changed = _ops_differ(a, b, at_a, at_b, ignore_times) | _operands_differ(a, b, common)
    only_a, only_b = (np.flatnonzero(~np.isin(log.ops["op_id"], common)) for log in (a, b))
    differing = [*(_place(a, only_a, "a")), *(_place(b, only_b, "b")), *(_place(a, at_a[changed], "both"))]
    immediates = a.immediates != b.immediates
    tables = _tables_differ(a, b, ignore_times)
    complete = a.is_complete, b.is_complete
    return Difference(
        a=names[0],
        b=names[1],
        same=not differing and not immediates and not tables and complete[0] == complete[1],
        records=(a.n_ops, b.n_ops),
        only_in_a=len(only_a),
        only_in_b=len(only_b),
        changed=int(changed.sum()),
        immediates_differ=immediates,
        tables_differ=tables,
        complete=complete,
        first=_first(a, b, min(differing), ignore_times) if differing else None,
    )


def _ops_differ(a: OpLog, b: OpLog, at_a: Array, at_b: Array, ignore_times: bool) -> Array:
    differ = np.zeros(len(at_a), np.bool_)
    for column in _NUMBERS if ignore_times else (*_NUMBERS, *_TIMES):
        differ |= a.ops[column][at_a] != b.ops[column][at_b]
    in_a = _texts_in(a, b)
    for column in _TEXTS:
        differ |= a.ops[column][at_a] != in_a[b.ops[column][at_b]]
    return differ


def _tables_differ(a: OpLog, b: OpLog, ignore_times: bool) -> tuple[str, ...]:
    """The auxiliary tables that one log alone has, or whose rows differ, in any order.

    *ignore_times* leaves out all tables but `dependencies`, because the others consist of times.
    """
    looked_at = ("dependencies",) if ignore_times else tuple(LOG_TABLES)
    in_a = _texts_in(a, b)
    found = []
    for name in looked_at:
        mine, other = a.tables.get(name), b.tables.get(name)
        if mine is None or other is None:
            differ = mine is not other
        else:
            other = other.copy()
            for column in LOG_TABLES[name].texts:
                other[column] = in_a[other[column]]
            differ = len(mine) != len(other) or bool((np.sort(mine) != np.sort(other)).any())
        found += [name] if differ else []
    return tuple(found)


def _texts_in(a: OpLog, b: OpLog) -> Array:
    """For each string of *b*, its number in *a*; -1 if *a* lacks it."""
    index = {text: number for number, text in enumerate(a.strings)}
    return np.array([index.get(text, -1) for text in b.strings], np.int64)


def _operands_differ(a: OpLog, b: OpLog, common: Array) -> Array:
    """Whether each of the *common* ids, which are sorted, has other operands or another order of operands."""
    tables = [_by_op(log.operands, common) for log in (a, b)]
    counts = [np.bincount(position, minlength=len(common)) for _, position in tables]
    differ: Array = counts[0] != counts[1]
    rows = [table[~differ[position]] for table, position in tables]
    position = tables[0][1][~differ[tables[0][1]]]
    other = np.zeros(len(position), np.bool_)
    for column in _OPERAND:
        other |= rows[0][column] != rows[1][column]
    differ[position[other]] = True
    return differ


def _by_op(operands: Array, ids: Array) -> tuple[Array, Array]:
    """Returns (the operands of *ids* in the order of *ids*, the index in *ids* of the op of each operand)."""
    mine = operands[np.isin(operands["op_id"], ids)]
    position = np.searchsorted(ids, mine["op_id"])
    order = np.argsort(position, kind="stable")
    return mine[order], position[order]


def _place(log: OpLog, rows: Array, where: str) -> list[tuple[tuple[int, int, int, int], str]]:
    """The first of *rows* in the order of pass 2 as a list of one position, or an empty list."""
    if not len(rows):
        return []
    keys = tuple(log.ops[key][rows] for key in ("op_id", "stage_index", "tile_id", "command_seq"))
    return [(position_of(log.record(int(rows[np.lexsort(keys)[0]]))), where)]


def _first(a: OpLog, b: OpLog, first: tuple[tuple[int, int, int, int], str], ignore_times: bool) -> FirstDifference:
    (*_, op_id), where = first
    records = [_record(log, op_id) for log in (a, b)]
    record = records[1] if where == "b" else records[0]
    assert record is not None, "it was found there"
    fields: dict[str, tuple[Any, Any]] = {}
    if records[0] is not None and records[1] is not None:
        sides = [msgspec.to_builtins(each) for each in records]
        fields = {name: (value, sides[1][name]) for name, value in sides[0].items() if value != sides[1][name]}
    if ignore_times:
        fields = {name: pair for name, pair in fields.items() if not name.endswith("_ps")}
    return FirstDifference(op_id=op_id, found_in=where, record=describe(record), fields=fields)


def _record(log: OpLog, op_id: int) -> OpRecord | None:
    rows = np.flatnonzero(log.ops["op_id"] == op_id)
    return log.record(int(rows[0])) if len(rows) else None


def _lines(found: Difference) -> list[str]:
    if found.same:
        return [f"the same: {counted(found.records[0], 'record')}"]
    lines = [f"different: {counted(found.records[0], 'record')} in {found.a}, {found.records[1]} in {found.b}"]
    lines.append(f"  only in a {found.only_in_a}, only in b {found.only_in_b}, changed {found.changed}")
    lines += ["  the immediates differ"] if found.immediates_differ else []
    lines += [f"  tables that differ: {', '.join(found.tables_differ)}"] if found.tables_differ else []
    for name, is_complete in zip((found.a, found.b), found.complete, strict=True):
        lines += [] if is_complete or all(found.complete) is any(found.complete) else [f"  {name} was cut off"]
    if found.first is not None:
        where = {"a": " is in a alone", "b": " is in b alone", "both": ":"}[found.first.found_in]
        lines.append(f"  first {found.first.record}{where}")
        for name, (left, right) in found.first.fields.items():
            lines += [f"    {name} in a: {left}", f"    {name} in b: {right}"]
    return lines
