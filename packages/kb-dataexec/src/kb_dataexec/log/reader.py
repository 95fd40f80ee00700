"""Reads and checks op logs from disk: whole, or chunk by chunk in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.files import decode_json, file_in, read_array, read_bytes
from kb_dataexec.log.digest import RunningDigest
from kb_dataexec.log.further import joined, missing_tables
from kb_dataexec.log.jsonl import LINES_SUFFIX, LogLines
from kb_dataexec.log.late_operands import LateOperandsLog
from kb_dataexec.log.packed import PACKED_SUFFIX, packed_path, unpack
from kb_dataexec.log.row_room import RowRoom
from kb_dataexec.log.table_dtypes import OPERAND_DTYPE, OPS_DTYPE, TABLE_DTYPES
from kb_dataexec.log.tables import OpLog
from kb_dataexec.log.writer import IMMEDIATES, MANIFEST, STRINGS, chunk_path
from kb_messages import LOG_FORMAT, LOG_FORMAT_VERSION, LogError


def open_log(path: Path, prefix: bool = False) -> LogFolder | LogLines:
    """The log at *path*, a folder or a file of lines (`.jsonl`), opened for reading chunk by chunk.

    With *prefix*, a log that was cut off is read as far as it got. Raises LogError when there is no log at *path*.
    """
    if path.suffix == LINES_SUFFIX and not path.is_dir():
        return LogLines(path, prefix)
    if path.is_file():
        raise LogError(str(path), "a file", f"the folder of a log, or a file of lines, {LINES_SUFFIX}")
    return LogFolder(path, prefix)


def read_log(path: Path, prefix: bool = False) -> OpLog:
    """The log at *path*, a folder or a file of lines (`.jsonl`), checked.

    The check of a folder covers columns, codes, string indices, counts and digest. With *prefix*, a folder that was
    never closed is read as far as it got, without the check of counts and digest, and a file is read without a torn
    last line; `is_complete` is false for both. Raises LogError, which names the file, when something is missing or
    wrong.
    """
    return open_log(path, prefix).whole()


_LAST_UNPACKED: Final = 2
"""The last version whose further tables are `.npy` files."""


class ManifestError(LogError):
    """The files of a log do not agree with its manifest: they were changed or damaged."""


Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Stamp(Struct, frozen=True):
    """What every manifest begins with."""

    format: str
    version: int


class Manifest(Stamp, frozen=True, kw_only=True):
    """The manifest of a closed log: the number of chunks, rows, strings and bytes of immediates, and the digest.

    A further table without a number of rows was left out. A log of version 1 has none.
    """

    chunks: Annotated[int, Meta(ge=0, le=10**9)]
    ops: Count
    operands: Count
    dependencies: Count | UnsetType = UNSET
    commands: Count | UnsetType = UNSET
    dispatches: Count | UnsetType = UNSET
    transfers: Count | UnsetType = UNSET
    kernels: Count | UnsetType = UNSET
    messages: Count | UnsetType = UNSET
    strings: Count
    immediate_nbytes: Count
    digest: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]

    @property
    def n_rows(self) -> dict[str, int]:
        """The number of rows of each further table that the log has."""
        counts = {name: getattr(self, name) for name in TABLE_DTYPES} if self.version > 1 else {}
        return {name: count for name, count in counts.items() if count is not UNSET}


class LogFolder:
    """A log in *folder*. One chunk at a time is in memory, beside the strings and the immediates.

    `is_complete` says whether the log was closed. A log that was not closed is refused unless *prefix* is set.
    `version` is that of its format. Every read raises LogError, which names the file, when something is missing or
    wrong.
    """

    def __init__(self, folder: Path, prefix: bool = False) -> None:
        if prefix and not (folder / STRINGS).is_file():
            raise LogError(str(folder), "a folder without an op log" if folder.is_dir() else "no such folder", "a log")
        self.folder = folder
        self.manifest = _read_manifest(folder, prefix)
        self.is_complete = self.manifest is not None
        self.n_chunks = _count_chunks(folder) if self.manifest is None else self.manifest.chunks
        if self.manifest is None:
            self.version, self._further = _begun_tables(folder)
        else:
            self.version, self._further = self.manifest.version, tuple(self.manifest.n_rows)

    @property
    def missing(self) -> tuple[str, ...]:
        """The names of the further tables that the log does not have."""
        return missing_tables(self._further)

    @property
    def digest(self) -> str | None:
        """The digest in the manifest, or None without a manifest."""
        return None if self.manifest is None else self.manifest.digest

    @cached_property
    def strings(self) -> list[str]:
        """The table of strings. A log that was cut off has only the strings that were written whole."""
        return _read_strings(self.folder, torn=not self.is_complete)

    @cached_property
    def immediates(self) -> bytes:
        """The blob of immediates: the bytes of constants."""
        return _read_bytes(self.folder, IMMEDIATES)

    def chunks(self) -> Iterator[OpLog]:
        """Every chunk, checked, with the strings and immediates of the whole log.

        After the last chunk, counts and digest are compared with the manifest. Raises ManifestError if they differ.
        """
        return self._chunks(None, None)

    def whole(self, late_operands: bool = False) -> OpLog:
        """The whole log, checked as `chunks` checks it. Its rows are read into their places, and not joined later.

        With *late_operands*, operands are checked and not kept. They are read again when somebody asks for them, and
        LogError is raised then if they are no longer the same.
        """
        ops = self._room("ops", OPS_DTYPE)
        operands = None if late_operands else self._room("operands", OPERAND_DTYPE)
        tables = joined([chunk.tables for chunk in self._chunks(ops, operands)])
        others = self.strings, self.immediates, self.is_complete, tables, self.version
        if operands is None:
            return LateOperandsLog(ops.rows, partial(self._operands, self._operands_digest), *others)
        return OpLog(ops.rows, operands.rows, *others)

    def _operands(self, expected: str) -> Array:
        """The operands, whose digest is *expected*."""
        room, digest = self._room("operands", OPERAND_DTYPE), RunningDigest(self.version)
        for number in range(self.n_chunks):
            digest.feed_operands(_read_table(self.folder, "operands", number, self.n_chunks, OPERAND_DTYPE, room))
        if digest.of_operands() != expected:
            raise ManifestError(str(self.folder), "other operands than when the log was opened", "the same ones")
        return room.rows

    def _room(self, name: str, dtype: np.dtype[Any]) -> RowRoom:
        return RowRoom(dtype, (chunk_path(self.folder, name, number) for number in range(self.n_chunks)))

    def _chunks(self, ops_room: RowRoom | None, operands_room: RowRoom | None) -> Iterator[OpLog]:
        digest, found = RunningDigest(self.version), dict.fromkeys(("ops", "operands", *self._further), 0)
        for number in range(self.n_chunks):
            ops = _read_table(self.folder, "ops", number, self.n_chunks, OPS_DTYPE, ops_room)
            operands = _read_table(self.folder, "operands", number, self.n_chunks, OPERAND_DTYPE, operands_room)
            tables = {name: _read_further(self.folder, name, number, self.version) for name in self._further}
            chunk = OpLog(ops, operands, self.strings, self.immediates, self.is_complete, tables, self.version)
            chunk.check(str(self.folder))
            for name, table in (("ops", ops), ("operands", operands), *tables.items()):
                found[name] += len(table)
            digest.feed_rows(ops, operands, tables)
            yield chunk
        self._operands_digest = digest.of_operands()
        if self.manifest is not None:
            self._check_manifest(self.manifest, found, digest)

    def _check_manifest(self, manifest: Manifest, n_rows: dict[str, int], digest: RunningDigest) -> None:
        counts = {
            **n_rows,
            "strings": len(self.strings),
            "immediate_nbytes": len(self.immediates),
            "digest": digest.of(self.strings, self.immediates),
        }
        for field, found in counts.items():
            stated = getattr(manifest, field)
            if stated != found:
                where = f"{self.folder / MANIFEST}: {field}"
                raise ManifestError(where, f"{found} in the files", str(stated), "the log was changed or is damaged")


def _read_manifest(folder: Path, prefix: bool) -> Manifest | None:
    path = folder / MANIFEST
    if prefix and not os.path.lexists(path):
        return None
    text = _read_bytes(folder, MANIFEST)
    stamp = decode_json(text, Stamp, str(path), LogError)
    if stamp.format != LOG_FORMAT or not 1 <= stamp.version <= LOG_FORMAT_VERSION:
        got = f"{stamp.format[:80]!r} version {str(stamp.version)[:20]}"
        raise LogError(str(path), got, f"{LOG_FORMAT!r} version 1 to {LOG_FORMAT_VERSION}")
    return decode_json(text, Manifest, str(path), LogError)


def _count_chunks(folder: Path) -> int:
    chunk = 0
    while chunk_path(folder, "ops", chunk).exists() and chunk_path(folder, "operands", chunk).exists():
        chunk += 1
    return chunk


def _begun_tables(folder: Path) -> tuple[int, tuple[str, ...]]:
    """The version of a log that was cut off, and the further tables of which it has a file."""

    def begun(suffix: str) -> tuple[str, ...]:
        return tuple(name for name in TABLE_DTYPES if any(folder.glob(f"{name}-*{suffix}")))

    unpacked = begun(".npy")
    return (_LAST_UNPACKED, unpacked) if unpacked else (LOG_FORMAT_VERSION, begun(PACKED_SUFFIX))


def _read_further(folder: Path, name: str, chunk: int, version: int) -> Array:
    """The rows of a further table in one chunk. A chunk without rows of it may be without a file of it."""
    is_packed = version > _LAST_UNPACKED
    path = packed_path(folder, name, chunk) if is_packed else chunk_path(folder, name, chunk)
    if not os.path.lexists(path):
        return np.empty(0, TABLE_DTYPES[name])
    if not is_packed:
        return _read_table(folder, name, chunk, chunk + 1, TABLE_DTYPES[name])
    return unpack(_read_bytes(folder, path.name), TABLE_DTYPES[name], str(path))


def _read_table(
    folder: Path, name: str, chunk: int, chunks: int, dtype: np.dtype[Any], room: RowRoom | None = None
) -> Array:
    path = file_in(folder, chunk_path(folder, name, chunk).name, LogError)
    if not path.exists():
        raise LogError(str(path), "no such file", f"{chunks} chunks")
    table = read_array(path, LogError, kinds="biufV", ndim=1, into=None if room is None else room.free)
    if table.dtype != dtype:
        raise LogError(str(path), f"columns {str(table.dtype.descr)[:400]}", f"columns {dtype.descr}")
    if room is not None:
        room.take(table)
    return table


def _read_strings(folder: Path, torn: bool) -> list[str]:
    lines = _read_bytes(folder, STRINGS).split(b"\n")
    path = folder / STRINGS
    if lines.pop() and not torn:
        raise LogError(str(path), "a last line without end", "one JSON string a line")
    return [decode_json(line, str, f"{path}:{number}", LogError) for number, line in enumerate(lines, start=1)]


def _read_bytes(folder: Path, name: str) -> bytes:
    path = file_in(folder, name, LogError)
    if not path.exists():
        fix = "read_log(folder, prefix=True) reads one that was cut off"
        raise LogError(str(path), "no such file", "a closed log", fix)
    return read_bytes(path, LogError)
