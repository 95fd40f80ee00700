"""Reads and checks op logs from disk: whole, or chunk by chunk in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.files import decode_json, file_in, read_array
from kb_dataexec.log.auxiliary import joined, missing_tables
from kb_dataexec.log.digest import LogSummary, RunningDigest
from kb_dataexec.log.folder_files import (
    COMPRESSED_TABLES,
    IMMEDIATES,
    MANIFEST,
    STRINGS,
    VERSION_OF_ROWS,
    AnyManifest,
    Manifest,
    ManifestError,
    chunk_path,
    compressed_path,
    read_manifest,
    read_part,
)
from kb_dataexec.log.lazy import LazyOperandsLog
from kb_dataexec.log.lines.log_lines import LINES_SUFFIX, LogLines
from kb_dataexec.log.packed import PACKED_SUFFIX, packed_path, unpack
from kb_dataexec.log.row_checks import OpIds
from kb_dataexec.log.row_room import RowRoom, nbytes_of
from kb_dataexec.log.table_dtypes import OPERAND_DTYPE, OPS_DTYPE, TABLE_DTYPES, other_columns
from kb_dataexec.log.tables import LeftOut, OpLog
from kb_messages import LOG_FORMAT_VERSION, OPTIONAL_TABLES, LogError

if TYPE_CHECKING:
    from kb_dataexec.log.compressed import Chunk, CommandLog, CompressedReader

_OF_COMPRESSED: Final = (*COMPRESSED_TABLES, *OPTIONAL_TABLES)


def open_log(path: Path, prefix: bool = False) -> LogFolder | LogLines:
    """Opens the log at *path*, a folder or a file of lines (`.jsonl`), for reading chunk by chunk.

    With *prefix*, a log that was cut off is read as far as it goes. Raises LogError if there is no log at *path*.
    """
    if path.suffix == LINES_SUFFIX and not path.is_dir():
        return LogLines(path, prefix)
    if path.is_file():
        raise LogError(str(path), "a file", f"the folder of a log, or a file of lines, {LINES_SUFFIX}")
    return LogFolder(path, prefix)


def read_log(path: Path, prefix: bool = False) -> OpLog:
    """Reads and checks the log at *path*, a folder or a file of lines (`.jsonl`).

    The check of a folder covers columns, codes, string indices, counts, digest, and a row for each op. With *prefix*, a
    folder that was never closed is read as far as it goes, without the check of counts, digest and missing ops, and a
    file is read without a torn last line; `is_complete` is false for both. Raises LogError, which names the file, when
    something is missing or wrong.
    """
    return open_log(path, prefix).whole()


_LAST_UNPACKED: Final = 2
"""The last format version in which auxiliary tables are `.npy` files."""


_BY_CHUNKS: Final = "use a machine with more memory, or read the log by `LogFolder.chunks()`"


class LargeLogError(LogError):
    """The rows of a log take more than half of the memory of this machine. Nothing is wrong with the log."""


class LogFolder:
    """Reads a log in *folder*. One chunk at a time is in memory, together with the strings and the immediates.

    `is_complete` is True if the log was closed. A log that was not closed is refused unless *prefix* is set. `version`
    is the version of its format. Every read raises LogError, which names the file, when something is missing or wrong.
    """

    def __init__(self, folder: Path, prefix: bool = False) -> None:
        if prefix and not (folder / STRINGS).is_file():
            raise LogError(str(folder), "a folder without an op log" if folder.is_dir() else "no such folder", "a log")
        self.folder = folder
        self._summary: LogSummary | None = None
        self.manifest = read_manifest(folder, prefix)
        self.is_complete = self.manifest is not None
        self.n_chunks = _count_chunks(folder) if self.manifest is None else self.manifest.chunks
        if self.manifest is None:
            self.version, self._auxiliary = _begun_tables(folder)
        else:
            self.version, self._auxiliary = self.manifest.version, tuple(self.manifest.n_rows)

    @property
    def missing(self) -> tuple[str, ...]:
        """The names of the auxiliary tables that the log lacks."""
        return missing_tables(self._auxiliary)

    @property
    def digest(self) -> str | None:
        """The digest in the manifest; None without a manifest.

        The digest of a log with compressed rows is None until all its chunks have been read once.
        """
        if isinstance(self.manifest, Manifest):
            return self.manifest.digest
        return None if self.manifest is None or self._summary is None else self._summary.digest

    @property
    def summary(self) -> LogSummary:
        """The digest and the counts of all rows. Reads the log, unless all chunks were read before."""
        if self._summary is None:
            for _ in self.chunks():
                pass
        assert self._summary is not None, "the last chunk was read"
        return self._summary

    def written(self, first: int) -> Iterator[tuple[Array, Array]]:
        """Yields (ops, operands) of each chunk from number *first* on, without checks."""
        reader = self._compressed_reader()
        needs_earlier = any(compressed_path(self.folder, number).exists() for number in range(first, self.n_chunks))
        for number in range(0 if needs_earlier else first, self.n_chunks):
            if reader is not None and compressed_path(self.folder, number).exists():
                path = compressed_path(self.folder, number)
                chunks = reader.read(read_part(self.folder, path.name), str(path))
                made = [(ops, operands) for ops, operands, _ in chunks]
            elif number >= first:
                made = [(self._table("ops", number), self._table("operands", number))]
            if number >= first:
                none = np.empty(0, OPS_DTYPE), np.empty(0, OPERAND_DTYPE)
                ops, operands = zip(none, *made, strict=True)
                yield np.concatenate(ops), np.concatenate(operands)

    @cached_property
    def strings(self) -> list[str]:
        """The table of strings. A log that was cut off has the strings that were written whole."""
        return _read_strings(self.folder, torn=not self.is_complete)

    @cached_property
    def immediates(self) -> bytes:
        """The blob of immediates: the bytes of constants."""
        return read_part(self.folder, IMMEDIATES)

    def chunks(self) -> Iterator[OpLog]:
        """Yields every chunk, checked, with the strings and immediates of the whole log.

        After the last chunk, compares counts and digest with the manifest. Raises ManifestError if they differ, and
        LogError for a closed log that lacks an op.
        """
        return self._chunks(None, None)

    def some_chunks(self, is_left_out: LeftOut) -> Iterator[OpLog]:
        """Yields the chunks of a log that `chunks` has read before, without checking or hashing them again.

        Chunks of compressed rows for which *is_left_out* returns True are not made.
        """
        for ops, operands, tables in self._rows(None, None, RunningDigest(self.version), is_left_out):
            yield OpLog(ops, operands, self.strings, self.immediates, self.is_complete, tables, self.version)

    def whole(self, lazy_operands: bool = False, look: Callable[[OpLog], object] | None = None) -> OpLog:
        """Reads the whole log, with all checks of `chunks`. Rows are read into their final place, and not joined later.

        With *lazy_operands*, operands are checked and not kept. They are read or made again when they are first needed,
        and LogError is raised then if they differ. *look* is called with each chunk, which has the operands of its ops.
        Raises LargeLogError for rows that take more than half of the memory of this machine. If the stored rows and the
        records of compressed rows do, no row is made.
        """
        tables_kept = ("ops",) if lazy_operands else ("ops", "operands")
        self._check_room(sum(nbytes_of(self._paths(name)) for name in tables_kept) + self._nbytes_of_compressed())
        ops = self._room("ops", OPS_DTYPE)
        operands = None if lazy_operands else self._room("operands", OPERAND_DTYPE)
        tables = []
        for chunk in self._chunks(ops, operands):
            if look is not None:
                look(chunk)
            tables.append(chunk.tables)
        others = self.strings, self.immediates, self.is_complete, joined(tables), self.version
        if operands is None:
            return LazyOperandsLog(ops.joined(), partial(self._operands, self._operands_digest), *others)
        return OpLog(ops.joined(), operands.joined(), *others)

    def by_command(self) -> CommandLog | None:
        """Returns the records of the log in the order of pass 2. One part of them at a time is in memory.

        Returns None for a log that has chunks of plain rows, or in which a command lacks a record. Reads the whole log,
        unless all chunks were read before.
        """
        paths = [compressed_path(self.folder, number) for number in range(self.n_chunks)]
        if not self.is_complete or self.version <= VERSION_OF_ROWS or not all(map(os.path.lexists, paths)):
            return None
        from kb_dataexec.log.compressed import CommandLog

        chunks = ((read_part(self.folder, path.name), str(path)) for path in paths)
        return CommandLog.read(chunks, self.strings, self.immediates, self.summary.n_ops)

    def _operands(self, expected: str) -> Array:
        """Reads the operands again. Raises ManifestError if their digest is not *expected*."""
        room, digest = self._room("operands", OPERAND_DTYPE), RunningDigest(self.version)
        if self.version > VERSION_OF_ROWS:
            for _, operands, _ in self._rows(None, room, RunningDigest(self.version)):
                digest.feed_operands(operands)
        else:
            for number in range(self.n_chunks):
                digest.feed_operands(self._table("operands", number, room))
        if digest.of_operands() != expected:
            raise ManifestError(str(self.folder), "other operands than when the log was opened", "the same ones")
        return room.joined()

    def _nbytes_of_compressed(self) -> int:
        """The bytes of the records that compressed rows stand for, which are counted and not made."""
        if self.version <= VERSION_OF_ROWS:
            return 0
        from kb_dataexec.log.compressed import RecordCounter

        counter = RecordCounter()
        for path in (compressed_path(self.folder, number) for number in range(self.n_chunks)):
            if os.path.lexists(path):
                counter.add(read_part(self.folder, path.name), str(path))
        return counter.total * OPS_DTYPE.itemsize

    def _room(self, name: str, dtype: np.dtype[Any]) -> RowRoom:
        return RowRoom(dtype, self._paths(name))

    def _paths(self, name: str) -> Iterator[Path]:
        return (chunk_path(self.folder, name, number) for number in range(self.n_chunks))

    def _check_room(self, nbytes: int) -> None:
        memory = _memory_nbytes()
        if nbytes > memory // 2:
            needs = f"at most half of the {memory / 2**30:.1f} GiB of this machine's memory"
            raise LargeLogError(str(self.folder), f"{nbytes / 2**30:.1f} GiB of rows or more", needs, _BY_CHUNKS)

    def _chunks(self, ops_room: RowRoom | None, operands_room: RowRoom | None) -> Iterator[OpLog]:
        digest, stored, ids = RunningDigest(self.version), RunningDigest(self.version), OpIds()
        found = dict.fromkeys(("ops", "operands", *self._auxiliary), 0)
        for ops, operands, tables in self._rows(ops_room, operands_room, stored):
            chunk = OpLog(ops, operands, self.strings, self.immediates, self.is_complete, tables, self.version)
            chunk.check(str(self.folder))
            for name, table in (("ops", ops), ("operands", operands), *tables.items()):
                found[name] = found.get(name, 0) + len(table)
            digest.feed_rows(ops, operands, tables)
            ids.add(ops, tables.get("commands"))
            yield chunk
        self._operands_digest = digest.of_operands()
        total = digest.of(self.strings, self.immediates)
        summary = LogSummary(total, found.pop("ops"), found.pop("operands"), found)
        if self.manifest is not None:
            self._check_manifest(self.manifest, summary, stored)
            ids.check(str(self.folder))
        self._summary = summary

    def _rows(
        self,
        ops_room: RowRoom | None,
        operands_room: RowRoom | None,
        stored: RunningDigest,
        is_left_out: LeftOut | None = None,
    ) -> Iterator[Chunk]:
        """Yields the rows of each chunk; those of a chunk of compressed rows in parts.

        Feeds *stored* with the stored bytes of a log with compressed rows.
        """
        reader, n_taken = self._compressed_reader(), 0
        for number in range(self.n_chunks):
            if reader is not None and os.path.lexists(compressed_path(self.folder, number)):
                data = read_part(self.folder, compressed_path(self.folder, number).name)
                stored.feed_compressed(data)
                for ops, operands, tables in reader.read(data, str(compressed_path(self.folder, number)), is_left_out):
                    for room, table in ((ops_room, ops), (operands_room, operands)):
                        if room is not None:
                            room.take(table)
                            n_taken += table.nbytes
                    self._check_room(n_taken)
                    yield ops, operands, {name: tables[name] for name in _OF_COMPRESSED if name in tables}
                continue
            ops = self._table("ops", number, ops_room)
            operands = self._table("operands", number, operands_room)
            tables = {name: _read_auxiliary(self.folder, name, number, self.version) for name in self._auxiliary}
            if self.version > VERSION_OF_ROWS:  # the manifest does not say which of these tables there are
                late = {name: _read_auxiliary(self.folder, name, number, self.version) for name in OPTIONAL_TABLES}
                tables |= {name: rows for name, rows in late.items() if len(rows)}
            if self.version > VERSION_OF_ROWS:
                stored.feed_rows(ops, operands, tables)
            yield ops, operands, tables
        if reader is not None and self.is_complete:
            ends_in_rows = not os.path.lexists(compressed_path(self.folder, self.n_chunks - 1))
            reader.check_end(str(self.folder), ends_in_rows)

    def _compressed_reader(self) -> CompressedReader | None:
        """The reader of compressed rows; None for a log of plain rows, which does not load that module."""
        if self.version <= VERSION_OF_ROWS:
            return None
        from kb_dataexec.log.compressed import CompressedReader

        return CompressedReader(self.strings)

    def _table(self, name: str, number: int, room: RowRoom | None = None) -> Array:
        dtype = OPS_DTYPE if name == "ops" else OPERAND_DTYPE
        return _read_table(self.folder, name, number, self.n_chunks, dtype, room)

    def _check_manifest(self, manifest: AnyManifest, found: LogSummary, stored: RunningDigest) -> None:
        counts: dict[str, int | str] = {"strings": len(self.strings), "immediate_nbytes": len(self.immediates)}
        if isinstance(manifest, Manifest):
            rows = {"ops": found.n_ops, "operands": found.n_operands, **found.n_rows}
            counts = rows | counts | {"digest": found.digest}
        else:
            counts["stored_digest"] = stored.of(self.strings, self.immediates)
        for field, value in counts.items():
            stated = getattr(manifest, field)
            if stated != value:
                where = f"{self.folder / MANIFEST}: {field}"
                raise ManifestError(where, f"{value} in the files", str(stated), "the log was changed or is damaged")


def _count_chunks(folder: Path) -> int:
    chunk = 0
    while compressed_path(folder, chunk).exists() or (
        chunk_path(folder, "ops", chunk).exists() and chunk_path(folder, "operands", chunk).exists()
    ):
        chunk += 1
    return chunk


def _begun_tables(folder: Path) -> tuple[int, tuple[str, ...]]:
    """The format version of a log that was cut off, and the auxiliary tables that have a file."""

    def begun(suffix: str) -> tuple[str, ...]:
        return tuple(name for name in TABLE_DTYPES if any(folder.glob(f"{name}-*{suffix}")))

    if any(folder.glob(compressed_path(folder, 0).name.replace("000000", "*"))):
        return LOG_FORMAT_VERSION, COMPRESSED_TABLES
    unpacked = begun(".npy")
    return (_LAST_UNPACKED, unpacked) if unpacked else (VERSION_OF_ROWS, begun(PACKED_SUFFIX))


def _read_auxiliary(folder: Path, name: str, chunk: int, version: int) -> Array:
    """Reads the rows of an auxiliary table in one chunk. A chunk without such rows may lack the file."""
    is_packed = version > _LAST_UNPACKED
    path = packed_path(folder, name, chunk) if is_packed else chunk_path(folder, name, chunk)
    if not os.path.lexists(path):
        return np.empty(0, TABLE_DTYPES[name])
    if not is_packed:
        return _read_table(folder, name, chunk, chunk + 1, TABLE_DTYPES[name])
    return unpack(read_part(folder, path.name), TABLE_DTYPES[name], str(path))


def _read_table(
    folder: Path, name: str, chunk: int, chunks: int, dtype: np.dtype[Any], room: RowRoom | None = None
) -> Array:
    path = file_in(folder, chunk_path(folder, name, chunk).name, LogError)
    if not path.exists():
        raise LogError(str(path), "no such file", f"{chunks} chunks")
    table = read_array(path, LogError, kinds="biufV", ndim=1, into=None if room is None else room.free)
    if table.dtype != dtype:
        raise LogError(str(path), *other_columns(table.dtype, dtype))
    if room is not None:
        room.take(table)
    return table


def _read_strings(folder: Path, torn: bool) -> list[str]:
    lines = read_part(folder, STRINGS).split(b"\n")
    path = folder / STRINGS
    if lines.pop() and not torn:
        raise LogError(str(path), "a last line without a line break", "one JSON string a line")
    return [decode_json(line, str, f"{path}:{number}", LogError) for number, line in enumerate(lines, start=1)]


def _memory_nbytes() -> int:
    """The size of the memory of this machine in bytes; 2^62 if the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 1 << 62
