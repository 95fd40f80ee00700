"""LogLines: reads op logs of JSON lines, one op or one row a line, chunk by chunk. README.md specifies the format."""

from __future__ import annotations

import binascii
import mmap
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
import numpy as np
from msgspec import UNSET

from kb_dataexec.files import DistinctKeys, UnreadableJsonError, open_regular
from kb_dataexec.log.auxiliary import joined, missing_tables
from kb_dataexec.log.lines.line_schema import (
    DTYPES,
    KINDS,
    ROLES,
    SPACES,
    OperandLine,
    OpLine,
    decode_op,
    is_torn,
    refusal,
)
from kb_dataexec.log.lines.line_tables import TableLines
from kb_dataexec.log.row_checks import TIMES_NEED, OpIds
from kb_dataexec.log.table_dtypes import OPERAND_DTYPE, OPS_DTYPE
from kb_dataexec.log.tables import OpLog
from kb_messages import (
    LOG_FORMAT_VERSION,
    OPERAND_COLUMNS,
    OPS_COLUMNS,
    SPACE_BY_CODE,
    LogError,
    MemorySpace,
    space_code_of,
)

LINES_SUFFIX: Final = ".jsonl"
_CHUNK_NBYTES: Final = 1 << 22
"""Bytes of text that are read at a time. Their rows take about as many bytes."""

_LONGEST: Final = 1 << 28
"""The longest line that is read, in bytes. Source: assumed; a constant of 128 MiB has as many hexadecimal digits."""

_CODES: Final = {"<i8": "q", "<i4": "i", "<i2": "h", "|i1": "b"}
_pack_op = struct.Struct("<" + "".join(_CODES[kind] for _, kind in OPS_COLUMNS)).pack
_pack_operand = struct.Struct("<" + "".join(_CODES[kind] for _, kind in OPERAND_COLUMNS)).pack
_IMMEDIATE: Final = MemorySpace.IMMEDIATE.code
_MEMORIES: Final = SPACE_BY_CODE.keys() - {_IMMEDIATE}


class LogLines:
    """Reads a log in the file *path*. One chunk at a time is in memory, together with the strings and the immediates.

    `is_complete` is True if the last line is whole. A file that was cut off between two lines counts as complete. A
    torn last line is refused, or left out if *prefix* is set. A last line that no ending could make whole is
    always refused, and so is a file without an op. A whole file lacks no op between its first and its last op, unless a
    line has its number for an id. Chunks are cut by bytes, so a chunk may be empty. Every read raises
    LogError, which names file and line, when something is missing or wrong.
    """

    digest: Final = None
    """Lines of JSON carry no digest."""
    version: Final = LOG_FORMAT_VERSION
    """Lines of JSON carry no version, and are read as logs of the present version."""

    def __init__(self, path: Path, prefix: bool = False) -> None:
        self.path = path
        self.prefix = prefix
        with open_regular(path, LogError) as file:
            self.is_complete = not _is_last_line_torn(file)
            self.n_chunks = -(-os.fstat(file.fileno()).st_size // _CHUNK_NBYTES)
        self._keys = DistinctKeys()
        self._forget()

    def _forget(self) -> None:
        self.strings: list[str] = []
        self._indices: dict[str, int] = {}
        self._blob = bytearray()
        self._tables = TableLines(self._intern)
        self._begun: set[str] = set()
        self._has_default_ids = False

    @property
    def missing(self) -> tuple[str, ...]:
        """The names of the auxiliary tables without a row in the chunks read so far."""
        return missing_tables(self._begun)

    @property
    def immediates(self) -> bytes:
        """The blob of immediates of the chunks read so far."""
        return bytes(self._blob)

    def chunks(self) -> Iterator[OpLog]:
        """Yields every chunk, checked, with the strings so far. `immediates` is complete once all chunks are read."""
        self._forget()
        n_lines, n_ops, ids = 0, 0, OpIds()
        with open_regular(self.path, LogError) as file:
            for chunk in range(1, self.n_chunks + 1):
                lines = self._lines(file, chunk * _CHUNK_NBYTES, n_lines + 1)
                rows = self._chunk(lines, n_lines + 1)
                n_lines, n_ops = n_lines + len(lines), n_ops + rows.n_ops
                ids.add(rows.ops, rows.tables.get("commands"))
                yield rows
        if not n_ops and self.is_complete:
            raise LogError(str(self.path), "no op", "one op a line, and at least one")
        if self.is_complete and not self._has_default_ids:
            ids.check(str(self.path))

    def whole(self) -> OpLog:
        """Reads all chunks, checked, as one log."""
        chunks = list(self.chunks())
        ops = np.concatenate([np.empty(0, OPS_DTYPE), *(chunk.ops for chunk in chunks)])
        operands = np.concatenate([np.empty(0, OPERAND_DTYPE), *(chunk.operands for chunk in chunks)])
        tables = joined([chunk.tables for chunk in chunks])
        log = OpLog(ops, operands, self.strings, self.immediates, self.is_complete, tables, self.version)
        log.is_numbered_by_line = self._has_default_ids
        return log

    def _lines(self, file: BinaryIO, stop: int, number: int) -> list[bytes]:
        """Reads the lines of *file* that begin before byte *stop*. The first line has number *number*."""
        lines: list[bytes] = []
        at = file.tell()
        while at < stop and (line := file.readline(_LONGEST)):
            if len(line) == _LONGEST:
                raise LogError(self._line(number + len(lines)), f"a line of {_LONGEST} bytes or more", "a shorter one")
            lines.append(line)
            at += len(line)
        return lines

    def _chunk(self, lines: list[bytes], first: int) -> OpLog:
        """Decodes *lines*. The first line has number *first*."""
        ops, operands, knows = bytearray(), bytearray(), self._keys.knows
        for number, text in enumerate(lines, start=first):
            if text.isspace():
                continue
            if not self.is_complete and not text.endswith(b"\n"):
                self._check_torn(number, text)
                continue
            where = self._line(number)
            try:
                is_row = b'"table"' in text and self._tables.add_line(where, text)
                op = None if is_row else decode_op(text)
                if not knows(text):
                    self._keys.check(text, where, LogError)
                if op is not None:
                    self._add(number, op, ops, operands)
            except (UnreadableJsonError, KeyError):
                raise refusal(where, text) from None
        rows, tables = (np.frombuffer(ops, OPS_DTYPE), np.frombuffer(operands, OPERAND_DTYPE)), self._tables.take()
        self._begun.update(tables)
        return OpLog(*rows, self.strings, is_complete=self.is_complete, tables=tables)

    def _check_torn(self, number: int, text: bytes) -> None:
        if not self.prefix:
            error = refusal(self._line(number), text)
            fix = "a torn last line is left out with --prefix, or read_log(file, prefix=True)"
            raise LogError(error.where, error.got, error.needs, fix)

    def _line(self, number: int) -> str:
        return f"{self.path}: line {number}"

    def _add(self, number: int, op: OpLine, ops: bytearray, operands: bytearray) -> None:
        """Adds the rows of line *number*. Raises KeyError for a name that is no code."""
        self._has_default_ids |= op.op_id is UNSET
        op_id = number - 1 if op.op_id is UNSET else op.op_id
        tile_id = number - 1 if op.tile_id is UNSET else op.tile_id
        times = ready, start, end, out = op.times
        if not ready <= start <= end <= out:
            raise LogError(self._line(number), f"the times {', '.join(map(str, times))}", TIMES_NEED)
        params = msgspec.json.encode(op.params).decode() if op.params else ""
        texts = map(self._intern, (op.kind if op.name is UNSET else op.name, op.component, op.line, params))
        ops += _pack_op(op_id, op.command_seq, tile_id, op.stage_index, KINDS[op.kind], *texts, *times, *op.waits)
        for each in op.depends_on:
            self._tables.add(self._line(number), "dependencies", {"op_id": op_id, "depends_on": each})
        for at, operand in enumerate(op.operands):
            row_nbytes, stride = operand.row_nbytes, operand.stride
            stride = row_nbytes if stride is UNSET else stride
            role, dtype = ROLES[operand.role], DTYPES[operand.dtype]
            try:
                space, owner, offset = self._place(operand, stride)
            except _Misplaced as error:
                raise LogError(f"{self._line(number)}: operands[{at}]", error.got, error.needs) from None
            bytes_of = owner, offset, operand.rows, row_nbytes, stride
            operands += _pack_operand(op_id, role, space, dtype, operand.release, *bytes_of)

    def _intern(self, text: str) -> int:
        index = self._indices.get(text)
        if index is None:
            index = self._indices[text] = len(self.strings)
            self.strings.append(text)
        return index

    def _place(self, operand: OperandLine, stride: int) -> tuple[int, int, int]:
        """Returns (code of the space, owner, offset)."""
        owner, offset = operand.owner, operand.offset
        if operand.immediate is not UNSET:
            if owner is not UNSET or offset is not UNSET:
                raise _Misplaced("an immediate and an owner or offset", "one or the other")
            space, owner = _IMMEDIATE, 0
            offset = self._keep(operand.immediate, (operand.rows - 1) * stride + operand.row_nbytes)
        elif owner is UNSET or offset is UNSET:
            raise _Misplaced("no place", "owner and offset, or the bytes themselves as immediate")
        else:
            space = space_code_of(owner)
            if space not in _MEMORIES:
                raise _Misplaced(
                    f"owner {owner:#x}, which is in no memory", "sip << 22 | die << 14 | space << 10 | unit"
                )
        if operand.space is not UNSET and SPACES[operand.space] != space:
            raise _Misplaced(
                f"space {operand.space} with an owner in {SPACE_BY_CODE[space]}", "the owner's space, or none"
            )
        return space, owner, offset

    def _keep(self, digits: str, nbytes: int) -> int:
        """Adds a constant to the immediates. Returns its offset in bytes."""
        try:
            data = binascii.unhexlify(digits)
        except ValueError:
            raise _Misplaced("an immediate that is no hexadecimal number", "two digits a byte") from None
        if len(data) != nbytes:
            raise _Misplaced(
                f"an immediate of {len(data)} bytes", f"{nbytes}, from the first row to the last one's end"
            )
        offset = len(self._blob)
        self._blob += data + bytes(-nbytes % 8)
        return offset


class _Misplaced(Exception):
    """An operand has an invalid place."""

    def __init__(self, got: str, needs: str) -> None:
        super().__init__(got, needs)
        self.got, self.needs = got, needs


def _is_last_line_torn(file: BinaryIO) -> bool:
    """Whether the last line has no newline and is the beginning of a JSON object."""
    if not file.seek(0, os.SEEK_END):
        return False
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        start = text.rfind(b"\n", max(0, len(text) - _LONGEST)) + 1
        return is_torn(text[start : start + _LONGEST])
