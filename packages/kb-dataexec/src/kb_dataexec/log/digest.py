"""The digest of a log, and the summary of a closed log: its digest and the lengths of its tables."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any, Final

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.auxiliary import Tables
from kb_messages import LOG_FORMAT, LOG_FORMAT_VERSION, LOG_TABLES, OPTIONAL_TABLES


class LogSummary:
    """The digest (sha256, hex) of a log and the lengths of its tables.

    `n_rows` has the length of each auxiliary table.
    """

    def __init__(self, digest: str, n_ops: int, n_operands: int, n_rows: Mapping[str, int]) -> None:
        self.digest = digest
        self.n_ops = n_ops
        self.n_operands = n_operands
        self.n_rows = n_rows

    def __eq__(self, other: object) -> bool:
        """Whether *other* is a summary with the same digest and counts."""
        return isinstance(other, LogSummary) and self._all == other._all

    __hash__ = None  # type: ignore[assignment]  # the counts of tables are no key

    def __repr__(self) -> str:
        """The digest and the counts."""
        return f"LogSummary{self._all}"

    @property
    def _all(self) -> tuple[str, int, int, dict[str, int]]:
        return self.digest, self.n_ops, self.n_operands, dict(self.n_rows)


class LazyLogSummary(LogSummary):
    """Makes a LogSummary when an attribute is first read: *make* returns it, and is called once."""

    def __init__(self, make: Callable[[], LogSummary]) -> None:
        self._make = make

    def __getattr__(self, name: str) -> Any:
        """Makes the summary. Python calls this for an attribute that is not set yet."""
        if name not in ("digest", "n_ops", "n_operands", "n_rows"):
            raise AttributeError(name)
        vars(self).update(vars(self._make()))
        return vars(self)[name]

    def __reduce__(self) -> tuple[type[LogSummary], tuple[str, int, int, dict[str, int]]]:
        """A copy or pickle is a plain LogSummary."""
        return LogSummary, self._all


_NEWEST_ROWS: Final = 2
"""The last version of the format that changed the rows of a log. Version 3 packs the rows of version 2."""

_IF_FED: Final = (*OPTIONAL_TABLES, "formulas")

_WORTH_A_THREAD: Final = 1 << 16
"""Bytes from which a thread hashes. Source: measured: hashing so many takes about 40 us, as does handing them over."""

_MOST_WAITING: Final = 1 << 26
"""The most bytes that wait to be hashed, so that a writer faster than the thread does not fill the memory."""


@cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="kb-digest")


def _finish_pieces() -> None:
    """Waits until all pieces are hashed: a forked process does not have the thread that would go on."""
    if _thread.cache_info().currsize:
        _thread().submit(int).result()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_finish_pieces, after_in_child=_thread.cache_clear)


class Digest:
    """Computes the digest of a log piece by piece. The digest does not depend on how the rows were cut into chunks.

    The digest is the sha256 over the line `kernbench-oplog 2` and then one line for each part, the hex sha256 of that
    part: rows of ops, of operands and of each auxiliary table, strings (JSON, one a line, ASCII), immediates. Versions
    2 and 3 have the same rows, and so the same digest. The digest of *version* 1 has no auxiliary tables. A thread
    hashes large pieces in order while the caller goes on, so the caller must not change the pieces.
    """

    def __init__(self, version: int = LOG_FORMAT_VERSION) -> None:
        tables = () if version == 1 else tuple(name for name in LOG_TABLES if name not in OPTIONAL_TABLES)
        self._version = min(version, _NEWEST_ROWS)
        self._parts = {part: hashlib.sha256() for part in ("ops", "operands", *tables, "strings", "immediates")}
        self._last: Future[None] | None = None
        self._waiting_nbytes = 0

    def feed(self, part: str, data: bytes | memoryview) -> None:
        """Adds bytes to *part*: `ops`, `operands`, `strings`, `immediates`, an auxiliary table, or `formulas`.

        `formulas` takes the chunks of compressed rows. The lines of OPTIONAL_TABLES and of `formulas` come last, and
        are there only if they were fed.
        """
        if part not in self._parts:
            if not data:
                return
            self._parts[part] = hashlib.sha256()
        if self._last is None and len(data) < _WORTH_A_THREAD:
            self._parts[part].update(data)
            return
        self._waiting_nbytes += len(data)
        if self._last is not None and self._waiting_nbytes > _MOST_WAITING:
            self._last.result()
            self._waiting_nbytes = len(data)
        self._last = _thread().submit(self._parts[part].update, data)

    def part_hexdigest(self, part: str) -> str:
        """The sha256 (hex) of all bytes fed to *part* so far."""
        if self._last is not None:
            self._last.result()
        return self._parts[part].hexdigest()

    def hexdigest(self) -> str:
        """The digest (sha256, hex) of all bytes fed so far."""
        if self._last is not None:
            self._last.result()
            self._last = None
        # The digest covers the rows, so versions with equal rows have the same first line.
        late = [part for part in _IF_FED if part in self._parts]
        parts = [part for part in self._parts if part not in late] + late
        lines = [f"{LOG_FORMAT} {self._version}", *(self._parts[part].hexdigest() for part in parts)]
        return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


class RunningDigest:
    """Computes the digest of a log of format *version* from arrays, chunk by chunk."""

    def __init__(self, version: int = LOG_FORMAT_VERSION) -> None:
        self._digest = Digest(version)

    def feed_rows(self, ops: Array, operands: Array, tables: Tables) -> None:
        """Adds the rows of one chunk. The caller must not change them afterwards."""
        for part, table in (("ops", ops), ("operands", operands), *tables.items()):
            self._digest.feed(part, np.ascontiguousarray(table).view(np.uint8).data)

    def feed_compressed(self, data: bytes) -> None:
        """Adds a chunk of compressed rows."""
        self._digest.feed("formulas", data)

    def feed_operands(self, operands: Array) -> None:
        """Adds rows of `operands` alone. The caller must not change them afterwards."""
        self._digest.feed("operands", np.ascontiguousarray(operands).view(np.uint8).data)

    def of_operands(self) -> str:
        """The sha256 (hex) of all rows of `operands` fed so far."""
        return self._digest.part_hexdigest("operands")

    def of(self, strings: list[str], immediates: bytes) -> str:
        """The digest (sha256, hex) of all rows fed so far, *strings* and *immediates*. Call it once, at the end."""
        self._digest.feed("strings", b"".join(map(string_line, strings)))
        self._digest.feed("immediates", immediates)
        return self._digest.hexdigest()


def string_line(text: str) -> bytes:
    """Returns *text* as a line of `strings.jsonl`: JSON in ASCII."""
    return f"{json.dumps(text)}\n".encode()
