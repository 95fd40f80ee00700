"""The format of a chunk of compressed rows: its tables, and its bytes on disk.

README.md of kb-dataexec specifies it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Annotated, Final

import msgspec
import numpy as np
from msgspec import Meta, Struct

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.files import decode_json
from kb_dataexec.log.compressed.int_arrays import int64s
from kb_dataexec.log.packed import pack, unpack
from kb_dataexec.log.table_dtypes import TABLE_DTYPES
from kb_messages import LOG_TABLES, MOST_NBYTES, LogError

COMMAND_TIMES: Final = LOG_TABLES["commands"].ascending
CAUSES: Final = ("after_seq", "after", "operand_seq", "operand_ps")
SLOTS: Final = ("input", "panel", "output", "registers", "accumulators")
ENDING: Final[Mapping[str, str]] = {
    "kernels": "kernels", "messages": "messages", "sends": "sends", "signals": "signals", "waits": "kernel_waits",
    "calls": "calls", "reads": "reads",
}  # fmt: skip
"""The auxiliary tables that a chunk holds row by row, each with its name in a chunk, where `waits` are waits of ops."""
KINDS: Final = ("records", "waits", "dispatches", "transfers")

_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "chunk": ("before_ps", "chunk_records"),
    "pes": ("pe", "tcm", "registers"),
    "plans": ("form",),
    "stages": ("component", "line"),
    "commands": ("first_op", "command_seq", "pe", "line", "plan", "n_moved", *COMMAND_TIMES, *CAUSES, *SLOTS),
    "addresses": ("owner", "offset"),
    "slots": ("base", "nbytes", "count", "first"),
    "moved": ("place", "number", "offset"),
    "parts": ("formula", "kind", "rows", "n", "ops", "ps"),
    "records": ("op_id", "t_ready_ps", "t_start_ps", "t_end_ps", "t_out_ps"),
    "waits": ("op_id", "reason", "waited_ps", "t_out_ps"),
    "dispatches": tuple(name for name, _ in LOG_TABLES["dispatches"].columns),
    "transfers": ("t_known_ps", *(name for name, _ in LOG_TABLES["transfers"].columns)),
    "closed": ("first_op", "begin_ps", "end_ps", "formula", "n_memories"),
    "memories": ("memory",),
}
DTYPES: Final = {
    **{name: np.dtype([(column, "<i8") for column in columns]) for name, columns in _COLUMNS.items()},
    **{stored: TABLE_DTYPES[name] for name, stored in ENDING.items()},
}
"""The columns of each table of a chunk, in the order of the file."""

_LINES: Final = "forms"
_END: Final = b"\n"
_MOST_HEADER: Final = 1 << 20
_BYTE: Final = np.dtype([("byte", "|i1")])
_SEGMENT_ROWS: Final = 1 << 20
"""The most rows of a table that are packed as one segment. Source: assumed; 100 MB."""


class _Header(Struct, frozen=True, forbid_unknown_fields=True):
    """The first line of a chunk: for each table with rows, the number of bytes of each of its segments."""

    nbytes: dict[str, list[Annotated[int, Meta(ge=0, le=MOST_NBYTES)]]]


def pack_chunk(tables: Mapping[str, Array], forms: Sequence[bytes]) -> bytes:
    """Returns the bytes of a chunk with *tables* and the JSON lines *forms*."""
    lines = b"".join(form + _END for form in forms)
    all_tables = {name: tables[name] for name in DTYPES if name in tables}
    all_tables[_LINES] = np.frombuffer(lines, np.int8).view(_BYTE)
    parts = {name: _segments(rows) for name, rows in all_tables.items() if len(rows)}
    header = msgspec.json.encode(_Header({name: [*map(len, segments)] for name, segments in parts.items()}))
    return header + _END + b"".join(map(b"".join, parts.values()))


def _segments(rows: Array) -> list[bytes]:
    return [pack(rows[at : at + _SEGMENT_ROWS], "op log") for at in range(0, len(rows), _SEGMENT_ROWS)]


def unpack_chunk(data: bytes, where: str, left_out: Collection[str] = ()) -> tuple[dict[str, Array], list[bytes]]:
    """Returns all tables of a chunk that `pack_chunk` packed, and its forms as JSON lines.

    The tables named in *left_out* are returned without rows. Raises LogError, which begins with *where*, for bytes that
    are no chunk.
    """
    end = data.find(_END, 0, _MOST_HEADER)
    if end < 0:
        raise LogError(where, "no first line", "a line of JSON with the number of bytes of each table")
    nbytes = decode_json(data[:end], _Header, where, LogError).nbytes
    unknown = sorted(nbytes.keys() - DTYPES.keys() - {_LINES})
    if unknown:
        raise LogError(where, f"a table {unknown[0][:40]!r}", f"one of {', '.join(DTYPES)}, {_LINES}")
    needs = end + 1 + sum(map(sum, nbytes.values()))
    if needs != len(data):
        raise LogError(where, f"{len(data)} bytes", f"the {needs} that its first line states")
    tables = {name: np.empty(0, dtype) for name, dtype in DTYPES.items()}
    lines, at = b"", end + 1
    for name, segments in nbytes.items():
        rows = [np.empty(0, DTYPES.get(name, _BYTE))]
        for length in segments:
            if name not in left_out:
                rows.append(unpack(data[at : at + length], rows[0].dtype, f"{where}: {name}"))
            at += length
        if name == _LINES:
            lines = np.concatenate(rows).tobytes()
        else:
            tables[name] = np.concatenate(rows)
    return tables, lines.splitlines()


def rows_of(name: str, rows: Iterable[int]) -> Array:
    """Returns rows of the table *name* from *rows*, all integers in one list. Raises LogError for more than 64 bits."""
    return int64s(rows).view(DTYPES[name])


def ints(rows: Array) -> Array:
    """Returns *rows* of a table, whose columns are all int64, as a matrix (rows, columns)."""
    return np.ascontiguousarray(rows).view(np.int64).reshape(len(rows), len(rows.dtype.names or ()))


def with_columns(name: str, matrices: Sequence[Array]) -> Array:
    """Returns the rows of *matrices*, one matrix after the other, as rows of the table *name*."""
    if not matrices:
        return np.empty(0, DTYPES[name])
    return np.ascontiguousarray(np.concatenate(matrices)).view(DTYPES[name]).reshape(-1)


Intern = Callable[[str], int]


_MOST_SUMMED: Final = 1 << 24
"""The most parts that all repetitions of a chunk name together. Source: assumed; a second."""
_MOST_ROWS_A_PS: Final = 1 << 20
"""The most repeated rows for each picosecond of their period. Source: assumed; each PE of 2000 chips ends a stage in
each picosecond. Rows of one time are made together, so this number bounds the memory."""


def part_sizes(tables: Mapping[str, Array]) -> dict[tuple[int, int], list[int]]:
    """Counts the rows of the parts of a chunk, without making a row.

    Returns, by number of compressed tables and number of kind, the number of rows of each part. Raises ValueError if
    the parts need more or fewer rows than *tables* have, and for repetitions that no run can have.
    """
    sizes: dict[tuple[int, int], list[int]] = {}
    needed, n_summed = [0] * len(KINDS), 0
    for number, kind, n_rows, n, _, ps in ints(tables["parts"]).tolist():
        mine = sizes.setdefault((number, kind), [])
        if n_rows >= 0:
            needed[kind] += n_rows
            mine.append(n_rows)
            continue
        n_summed -= n_rows
        if not (-n_rows <= len(mine) and n > 0 and ps > 0):
            raise ValueError("a repetition of nothing, or at once")
        repeated = sum(mine[n_rows:])
        if repeated > _MOST_ROWS_A_PS * ps or n_summed > _MOST_SUMMED:
            raise ValueError("repetitions of more rows than a run has in that time")
        mine.append(n * repeated)
    for name, n_needed in zip(KINDS, needed, strict=True):
        if n_needed != len(tables[name]):
            raise ValueError(f"parts of {n_needed} rows of {name}, of which there are {len(tables[name])}")
    return sizes
