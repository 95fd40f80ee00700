"""Rows of auxiliary tables in a log of JSON lines: a line `{"table": "kernels", ...}` is a row."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Annotated, Any, Final, TypeAlias

import msgspec
import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.files import UnreadableJsonError, json_decoder
from kb_dataexec.log.lines.line_schema import Number, wrong_field
from kb_dataexec.log.table_dtypes import TABLE_DTYPES
from kb_messages import ID_COLUMNS, LOG_TABLES, LogError

MaybeUnknown: TypeAlias = Annotated[int, Meta(ge=-1, le=2**63 - 1)]

_CODES: Final = {"<i8": "q", "<i4": "i", "|i1": "b"}
_PACK: Final = {
    name: struct.Struct("<" + "".join(_CODES[kind] for _, kind in schema.columns)).pack
    for name, schema in LOG_TABLES.items()
}


class _Stamp(Struct):
    table: str | UnsetType = UNSET


def _line_type(name: str) -> type[Struct]:
    """Returns the Struct of a line of table *name*: every column, and no other field."""
    schema = LOG_TABLES[name]
    types: dict[str, Any] = dict.fromkeys((*schema.texts, *schema.codes), str) | dict.fromkeys(ID_COLUMNS, Number)
    fields = [(column, types.get(column, MaybeUnknown)) for column, _ in schema.columns]
    return msgspec.defstruct(
        f"{name}_line", fields, kw_only=True, forbid_unknown_fields=True, tag_field="table", tag=name
    )


_LINES: Final = {name: _line_type(name) for name in LOG_TABLES}
_DECODE: Final = {name: json_decoder(line) for name, line in _LINES.items()}
_decode_stamp: Final = json_decoder(_Stamp)
_decode_fields: Final = json_decoder(dict[str, Any])


class TableLines:
    """Collects rows of auxiliary tables from lines. *intern* returns the number of a string."""

    def __init__(self, intern: Callable[[str], int]) -> None:
        self._intern = intern
        self._rows: dict[str, bytearray] = {}

    def add_line(self, where: str, text: bytes) -> bool:
        """Adds the row in the line *text*. Returns False if the line is no row of a table.

        Raises LogError, which begins with *where*, for an invalid row.
        """
        try:
            name = _decode_stamp(text).table
        except UnreadableJsonError:
            return False
        if name is UNSET:
            return False
        if name not in _LINES:
            raise LogError(f"{where}: table", f"{name[:80]!r}", f"one of {', '.join(_LINES)}")
        try:
            row = _DECODE[name](text)
            self.add(where, name, {column: getattr(row, column) for column in _LINES[name].__struct_fields__})
        except (UnreadableJsonError, KeyError):
            fields = {key: value for key, value in _decode_fields(text).items() if key != "table"}
            error = wrong_field(where, fields, _LINES[name])
            raise error or LogError(where, "a row that cannot be read", f"a row of {name}") from None
        return True

    def add(self, where: str, name: str, row: dict[str, Any]) -> None:
        """Adds *row*, by column, to table *name*. Raises KeyError for a name that is no code."""
        schema = LOG_TABLES[name]
        known = [row[column] for column in schema.ascending if row[column] >= 0]
        if known != sorted(known):
            needs = f"times that never fall from {schema.ascending[0]} to {schema.ascending[-1]}"
            raise LogError(where, f"the times {', '.join(map(str, known))}", needs)
        values = row | {column: self._intern(row[column]) for column in schema.texts}
        for column, code in schema.codes.items():
            values[column] = code[row[column].upper()].value
        self._rows.setdefault(name, bytearray()).extend(_PACK[name](*(values[column] for column, _ in schema.columns)))

    def take(self) -> dict[str, Array]:
        """Returns the rows added since the last call, by table."""
        rows, self._rows = self._rows, {}
        return {name: np.frombuffer(rows[name], TABLE_DTYPES[name]) for name in LOG_TABLES if name in rows}
