"""Writes op logs: in memory (MemoryLogWriter) or chunk by chunk to a folder (FolderLogWriter).

README.md specifies the format.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.files import write_array, writing
from kb_dataexec.log.auxiliary import Tables, check_columns, joined
from kb_dataexec.log.digest import Digest, LazyLogSummary, LogSummary, string_line
from kb_dataexec.log.folder_files import IMMEDIATES, MANIFEST, STRINGS, VERSION_OF_ROWS, chunk_path, compressed_path
from kb_dataexec.log.lazy import LazyOpLog
from kb_dataexec.log.packed import pack, packed_path
from kb_dataexec.log.reader import LogFolder
from kb_dataexec.log.table_dtypes import OPERAND_DTYPE, OPS_DTYPE, other_columns
from kb_dataexec.log.tables import OpLog
from kb_messages import LOG_FORMAT, LOG_FORMAT_VERSION, LOG_TABLES, LogError


class LogWriter(ABC):
    """Takes a log chunk by chunk. Rows may refer to strings and immediates that were added before them.

    `is_lazy` is True if the last rows may be made after the log was closed (`close_lazy`). `takes_compressed` is True
    if the log may have chunks of compressed rows (`append_compressed`).
    """

    is_lazy: ClassVar[bool] = False
    takes_compressed: ClassVar[bool] = False

    def __init__(self) -> None:
        self._digest = Digest()
        self._indices: dict[str, int] = {}
        self._immediate_nbytes = 0
        self._n_ops = self._n_operands = 0
        self._n_rows: dict[str, int] = {}

    def intern(self, text: str) -> int:
        """Returns the number of *text* in the table of strings. Adds *text* if it is new."""
        index = self._indices.get(text)
        if index is None:
            index = self._indices[text] = len(self._indices)
            line = string_line(text)
            self._digest.feed("strings", line)
            self._keep_string(text, line)
        return index

    def immediate(self, data: bytes) -> int:
        """Adds *data* to the blob of immediates. Returns its offset in bytes, a multiple of 8."""
        offset = self._immediate_nbytes
        padded = data + bytes(-len(data) % 8)
        self._immediate_nbytes += len(padded)
        self._digest.feed("immediates", padded)
        self._keep_immediate(padded)
        return offset

    def append(self, ops: Array, operands: Array, tables: Tables | None = None) -> None:
        """Adds a chunk of rows: *ops* with `OPS_DTYPE`, and their operands, *operands* with `OPERAND_DTYPE`.

        *tables* has rows of auxiliary tables with `TABLE_DTYPES`, by name. The log has each table that was given once,
        even without rows. The log keeps the arrays, so do not change them afterwards. Raises LogError for other
        columns.
        """
        tables = tables or {}
        check_columns("log chunk", tables)
        for name, table, dtype in (("ops", ops, OPS_DTYPE), ("operands", operands, OPERAND_DTYPE)):
            if table.dtype != dtype:
                raise LogError(f"log chunk: {name}", *other_columns(table.dtype, dtype))
            self._digest.feed(name, np.ascontiguousarray(table).view(np.uint8).data)
        for name, table in tables.items():
            self._digest.feed(name, np.ascontiguousarray(table).view(np.uint8).data)
            self._n_rows[name] = self._n_rows.get(name, 0) + len(table)
        self._n_ops += len(ops)
        self._n_operands += len(operands)
        self._keep_rows(ops, operands, tables)

    def append_compressed(self, chunk: bytes) -> None:
        """Adds a *chunk* that a CompressedWriter packed. Raises LogError if `takes_compressed` is False."""
        raise LogError("op log", "a chunk of compressed rows", "rows", "look at `takes_compressed` first")

    @property
    def summary(self) -> LogSummary:
        """The digest and the counts of all rows written so far."""
        n_rows = {name: self._n_rows[name] for name in LOG_TABLES if name in self._n_rows}
        return LogSummary(self._digest.hexdigest(), self._n_ops, self._n_operands, n_rows)

    @property
    def strings(self) -> list[str]:
        """The table of strings so far."""
        return list(self._indices)

    @abstractmethod
    def written_chunks(self, first: int) -> Iterator[tuple[Array, Array]]:
        """Yields (ops, operands) of every chunk written so far, from chunk number *first* on."""

    @abstractmethod
    def written_immediates(self, start: int) -> bytes:
        """Returns the blob of immediates so far, from byte *start* on."""

    @abstractmethod
    def close(self) -> OpLog | LogSummary:
        """Closes the log. Returns the log, or its digest and counts; both have `digest`, `n_ops` and `n_operands`."""

    def close_lazy(self, finish: Callable[[], None]) -> OpLog | LogSummary:
        """Calls *finish*, which appends the last rows, and closes the log.

        A lazy log does both when it is first read.
        """
        finish()
        return self.close()

    @abstractmethod
    def abort(self) -> None:
        """Gives up the log of a failed run. The part that was written stays and is not complete."""

    def close_early(self) -> OpLog | LogSummary:
        """Closes the log of a run that an error has ended. The log is not complete, because it may lack ops.

        Returns the log, or its digest and counts so far.
        """
        self.abort()
        return self.summary

    @abstractmethod
    def _keep_string(self, text: str, line: bytes) -> None: ...

    @abstractmethod
    def _keep_immediate(self, data: bytes) -> None: ...

    @abstractmethod
    def _keep_rows(self, ops: Array, operands: Array, tables: Tables) -> None: ...


class MemoryLogWriter(LogWriter):
    """Keeps the log in memory. `close` returns it as an OpLog."""

    is_lazy: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self._ops: list[Array] = [np.empty(0, OPS_DTYPE)]
        self._operands: list[Array] = [np.empty(0, OPERAND_DTYPE)]
        self._tables: list[Tables] = []
        self._blob = bytearray()

    def close(self) -> OpLog:
        """Returns the whole log."""
        return self._log_so_far(is_complete=True)

    def close_lazy(self, finish: Callable[[], None]) -> OpLog:
        """Returns a log that calls *finish*, which appends the last rows, when it is first read."""

        def make() -> OpLog:
            finish()
            return self.close()

        return LazyOpLog(make)

    def abort(self) -> None:
        """Does nothing. The memory is freed with the writer."""

    def close_early(self) -> OpLog:
        """Returns the log so far, which is not complete."""
        return self._log_so_far(is_complete=False)

    def _log_so_far(self, is_complete: bool) -> OpLog:
        tables = joined(self._tables)
        ops, operands = self._ops.copy(), self._operands.copy()
        return OpLog(ops, operands, list(self._indices), bytes(self._blob), is_complete, tables)

    def written_chunks(self, first: int) -> Iterator[tuple[Array, Array]]:
        """Yields (ops, operands) of every chunk written so far, from chunk number *first* on."""
        return zip(self._ops[1 + first :], self._operands[1 + first :], strict=True)

    def written_immediates(self, start: int) -> bytes:
        """Returns the blob of immediates so far, from byte *start* on."""
        return bytes(self._blob[start:])

    def _keep_string(self, text: str, line: bytes) -> None:
        pass

    def _keep_immediate(self, data: bytes) -> None:
        self._blob += data

    def _keep_rows(self, ops: Array, operands: Array, tables: Tables) -> None:
        self._ops.append(ops)
        self._operands.append(operands)
        self._tables.append(tables)


class FolderLogWriter(LogWriter):
    """Writes the log to *folder* as it arrives. One chunk and the strings are in memory.

    The rows of a log with compressed rows are made when it is read, and so is its summary.

    Strings and immediates are on disk before the rows that refer to them, and the files of a chunk appear whole. A run
    that is killed therefore leaves a prefix that `read_log(folder, prefix=True)` reads. Raises LogError when *folder*
    already holds a log.
    """

    takes_compressed: ClassVar[bool] = True

    def __init__(self, folder: Path) -> None:
        super().__init__()
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        if (folder / STRINGS).exists():
            raise LogError(str(folder), "a folder that holds a log", "a new or empty folder")
        self._folder = folder
        self._chunks = 0
        self._has_compressed = False
        self._is_closed = False
        self._begun: set[str] = set()
        self._strings = (folder / STRINGS).open("wb")
        self._immediates = (folder / IMMEDIATES).open("wb")
        self._open_files = ((folder / STRINGS, self._strings), (folder / IMMEDIATES, self._immediates))

    def close(self) -> LogSummary:
        """Writes the manifest, which makes the log complete. Returns the digest and the counts."""
        for path, file in self._open_files:
            with writing(path):
                file.close()
        found = super().summary
        rows = {"ops": found.n_ops, "operands": found.n_operands, **found.n_rows}
        manifest = {
            "format": LOG_FORMAT,
            "version": LOG_FORMAT_VERSION if self._has_compressed else VERSION_OF_ROWS,
            "chunks": self._chunks,
            **({} if self._has_compressed else rows),
            "strings": len(self._indices),
            "immediate_nbytes": self._immediate_nbytes,
            "stored_digest" if self._has_compressed else "digest": found.digest,
        }
        with writing(self._folder / MANIFEST):
            (self._folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        self._is_closed = True
        return self.summary

    @property
    def summary(self) -> LogSummary:
        """The digest and the counts of all rows so far.

        A log with compressed rows is read for them when one is needed.
        """
        return LazyLogSummary(self._of_all_rows) if self._has_compressed else super().summary

    def _of_all_rows(self) -> LogSummary:
        return LogFolder(self._folder, prefix=not self._is_closed).summary

    def append_compressed(self, chunk: bytes) -> None:
        """Adds a *chunk* that a CompressedWriter packed."""
        self._has_compressed = True
        self._digest.feed("formulas", chunk)
        self._flush()
        with _whole(compressed_path(self._folder, self._chunks)) as partial, writing(partial):
            partial.write_bytes(chunk)
        self._chunks += 1

    def abort(self) -> None:
        """Closes the files. Without a manifest, the folder holds a prefix of a log."""
        for _, file in self._open_files:
            with suppress(OSError):  # what is still buffered may not fit on a full disk, for which the run failed
                file.close()

    def written_chunks(self, first: int) -> Iterator[tuple[Array, Array]]:
        """Yields (ops, operands) of every chunk written so far, from chunk number *first* on, read from the folder."""
        self._flush()
        return LogFolder(self._folder, prefix=True).written(first)

    def written_immediates(self, start: int) -> bytes:
        """Returns the blob of immediates so far, from byte *start* on, read from the folder."""
        self._immediates.flush()
        with (self._folder / IMMEDIATES).open("rb") as file:
            file.seek(start)
            return file.read()

    def _keep_string(self, text: str, line: bytes) -> None:
        with writing(self._folder / STRINGS):
            self._strings.write(line)

    def _keep_immediate(self, data: bytes) -> None:
        with writing(self._folder / IMMEDIATES):
            self._immediates.write(data)

    def _keep_rows(self, ops: Array, operands: Array, tables: Tables) -> None:
        self._flush()
        auxiliary = [(name, table) for name, table in tables.items() if len(table) or name not in self._begun]
        self._begun.update(tables)
        for name, table in auxiliary:
            path = packed_path(self._folder, name, self._chunks)
            data = pack(table, str(path))
            with _whole(path) as partial, writing(partial):
                partial.write_bytes(data)
        # Ops come last: a reader of a log that was cut off counts a chunk once its ops are there.
        for name, table in (("operands", operands), ("ops", ops)):
            with _whole(chunk_path(self._folder, name, self._chunks)) as partial:
                write_array(partial, table)
        self._chunks += 1

    def _flush(self) -> None:
        """Writes all strings and immediates to disk."""
        for path, file in self._open_files:
            if not file.closed:
                with writing(path):
                    file.flush()


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """Yields a path to write to. The file is renamed to *path* when the block ends, so it appears whole."""
    partial = path.with_name(f"{path.name}.partial")
    yield partial
    os.replace(partial, path)


def write_log(folder: Path, log: OpLog) -> LogSummary:
    """Writes *log* to *folder* as one chunk. Returns its digest and counts. Strings keep their numbers.

    Raises LogError for a table of strings with duplicates, and for a folder that holds a log.
    """
    writer = FolderLogWriter(folder)
    for text in log.strings:
        writer.intern(text)
    if len(writer._indices) != len(log.strings):
        raise LogError(str(folder), "a table of strings with duplicates", "each string once")
    writer._immediate_nbytes = len(log.immediates)
    writer._digest.feed("immediates", log.immediates)
    writer._keep_immediate(log.immediates)
    writer.append(log.ops, log.operands, log.tables)
    return writer.close()
