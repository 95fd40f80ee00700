"""Writes an op log as Parquet files, one for each table and chunk, a chunk at a time. Needs the extra `parquet`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec import Struct

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.lines.log_lines import LogLines
from kb_dataexec.log.reader import LogFolder
from kb_dataexec.log.tables import OpLog
from kb_messages import DTYPE_BY_CODE, LOG_TABLES, OPERAND_COLUMNS, OPS_COLUMNS, SPACE_BY_CODE, KbError, OpKind, Role

_TEXTS: Final = ("name", "component", "line", "params")
_CODES: Final[dict[str, dict[int, str]]] = {
    "kind": {kind.value: kind.name.lower() for kind in OpKind},
    "role": {role.value: role.name for role in Role},
    "space": {code: str(space) for code, space in SPACE_BY_CODE.items()},
    "dtype": {code: str(dtype) for code, dtype in DTYPE_BY_CODE.items()},
}


class ParquetError(KbError):
    """The export cannot be written."""


class Exported(Struct, frozen=True, kw_only=True):
    """The counts of an export to the folder `out`: records, operands and parts (chunks)."""

    out: str
    records: int
    operands: int
    parts: int


def export_parquet(
    source: LogFolder | LogLines, out: Path, progress: Callable[[int, int], None] | None = None
) -> Exported:
    """Writes `ops-NNNNNN.parquet` and `operands-NNNNNN.parquet` into *out*, a new or empty folder.

    A chunk with rows of an auxiliary table also has a file of that name. The columns are those of the log. Strings and
    codes are spelled out, and `release` is a boolean. *progress* is called with (chunks written, chunks). Raises
    ParquetError without duckdb or with files in *out*, and LogError for a damaged log.
    """
    try:
        duckdb: Any = import_module("duckdb")
    except ImportError:
        fix = "pip install 'kb-dataexec[parquet]'"
        raise ParquetError("export", "no module duckdb", "the extra parquet", fix) from None
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()):
        raise ParquetError(str(out), "a folder with files in it", "a new or empty folder")
    records = operands = parts = 0
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1; SET preserve_insertion_order = true")
        strings = np.empty(0, np.object_)
        for parts, chunk in enumerate(source.chunks(), start=1):
            if len(strings) <= len(chunk.strings):
                strings = np.array([*chunk.strings, ""], np.object_)
            auxiliary = {name: _auxiliary(name, rows, strings) for name, rows in chunk.tables.items() if len(rows)}
            for name, table in {
                "ops": _ops(chunk, strings),
                "operands": _operands(chunk.operands),
                **auxiliary,
            }.items():
                _write(connection, table, out / f"{name}-{parts - 1:06d}.parquet")
            records, operands = records + chunk.n_ops, operands + chunk.n_operands
            if progress is not None:
                progress(parts, source.n_chunks)
    return Exported(out=str(out), records=records, operands=operands, parts=parts)


def _ops(chunk: OpLog, strings: Array) -> dict[str, Array]:
    table = {name: np.ascontiguousarray(chunk.ops[name]) for name, _ in OPS_COLUMNS}
    table |= {name: strings[table[name]] for name in _TEXTS}
    return table | {"kind": _spelled("kind", table["kind"])}


def _operands(rows: Array) -> dict[str, Array]:
    table = {name: np.ascontiguousarray(rows[name]) for name, _ in OPERAND_COLUMNS}
    table |= {name: _spelled(name, table[name]) for name in ("role", "space", "dtype")}
    return table | {"release": table["release"] != 0}


def _auxiliary(name: str, rows: Array, strings: Array) -> dict[str, Array]:
    schema = LOG_TABLES[name]
    table = {column: np.ascontiguousarray(rows[column]) for column, _ in schema.columns}
    table |= {column: strings[table[column]] for column in schema.texts}
    for column, code in schema.codes.items():
        table[column] = np.array([member.name.lower() for member in code], np.object_)[table[column]]
    return table


def _spelled(column: str, codes: Array) -> Array:
    names = _CODES[column]
    table = np.array([names.get(code, "") for code in range(max(names) + 1)], np.object_)
    spelled: Array = table[codes]
    return spelled


def _write(connection: Any, table: dict[str, Array], path: Path) -> None:
    connection.register("chunk", table)
    quoted = str(path).replace("'", "''")
    connection.execute(f"COPY (SELECT * FROM chunk) TO '{quoted}' (FORMAT parquet, COMPRESSION zstd)")
    connection.unregister("chunk")
