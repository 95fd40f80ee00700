"""A memory with a cache in front of it. All requests of the memory share the cache."""

from __future__ import annotations

from typing import Final

import numpy as np

from kb_components.memory.cache.spec import MOST_LINES, CachedMemorySpec
from kb_components.memory.cache.tags import Lines, Tags
from kb_engine.block import Context, MemoryComponent, MemoryPart, Rate, ps_from_ns
from kb_messages import OFFSET_MASK, CountedPieces, Rectangle, TopologyError

_MOST_OPEN: Final = 1 << 12
_MOST_SHAPES: Final = 1 << 10
_MOST_WARMED_NBYTES: Final = 1 << 24
"""The bytes of the rows that `warm` brings in at a time, because each line takes memory meanwhile. Source: assumed."""
_MOST_NBYTES: Final = 16 << 30
"""The largest cache. Source: assumed (the 16 GiB of MCDRAM that Intel's Knights Landing uses as a cache)."""


class CachedMemory(MemoryComponent[CachedMemorySpec]):
    """One port serves requests in order of arrival.

    Missing lines come from the memory behind the cache, in order too.

    A read's last byte leaves when the port has moved its bytes and all its lines are there: the lines that it had to
    fetch, and the lines that an earlier request is still fetching. Other reads overtake it. A write allocates lines
    without fetching them, like a cache that keeps a mask of valid bytes.

    A write takes the port as a whole, when its last byte has come: a buffer collects bytes that come slowly.

    Source: assumed (first in, first out; no limit to the number of misses under way; rows and banks of the memory
    behind are not modelled).
    """

    spec_type = CachedMemorySpec
    state = (
        "_joined_nbytes",
        "_lines_fetched",
        "_lines_written",
        "_memory_free_ps",
        "_port_free_ps",
        "_reads",
        "_tags",
        "line_hits",
        "line_misses",
        "lines_written_back",
    )
    caches = ("_finder",)
    buffers_writes = True
    counters = ("line_hits", "line_misses", "lines_written_back")

    def __init__(self, spec: CachedMemorySpec, context: Context) -> None:
        super().__init__(spec, context)
        self._check_size()
        self._port = Rate.from_gbs(spec.cache_bw_gbs)
        self._behind = Rate.from_gbs(spec.bw_gbs)
        self._hit_ps = ps_from_ns(spec.cache_latency_ns)
        self._miss_ps = ps_from_ns(spec.latency_ns)
        self._finder = LineFinder(spec.line_nbytes)
        self._tags = Tags(spec.sets, spec.ways, spec.index == "hashed")
        self._reads = SharedReads(spec.multicast)
        self._port_free_ps = self._memory_free_ps = 0
        self.line_hits = self.line_misses = self.lines_written_back = 0
        self._joined_nbytes = self._lines_fetched = self._lines_written = 0

    def _check_size(self) -> None:
        """Raises TopologyError for a cache whose tables would fill the memory of the machine."""
        lines, nbytes = self.spec.sets * self.spec.ways, self.cache_nbytes
        if lines > MOST_LINES:
            got, needs = f"{lines:,} lines in {self.spec.ways} ways", f"sets * ways of at most {MOST_LINES:,}"
            raise TopologyError(f"{self.node_id}.sets", got, needs, "use fewer sets or ways")
        if nbytes > _MOST_NBYTES:
            got, needs = f"a cache of {nbytes:,} bytes", f"sets * ways * line_nbytes of at most {_MOST_NBYTES:,}"
            raise TopologyError(f"{self.node_id}.sets", got, needs, "use fewer sets or ways, or shorter lines")

    @property
    def burst_nbytes(self) -> int:
        """The bytes of a burst, from the Spec."""
        return self.spec.burst_nbytes

    @property
    def cache_nbytes(self) -> int:
        """The bytes of all lines."""
        return self.spec.sets * self.spec.ways * self.spec.line_nbytes

    def warm(self, memory: Rectangle, written: bool) -> None:
        """Takes the lines of *memory*, and marks them as written if *written*. Lines that they push out count nowhere.

        With `write: through`, a write brings no line in.
        """
        if written and self.spec.write == "through":
            return
        step = max(1, _MOST_WARMED_NBYTES // memory.row_nbytes)
        for row in range(0, memory.rows, step):
            base, rows = memory.base + row * memory.stride, min(step, memory.rows - row)
            lines = self._finder.lines(Rectangle(base, rows, memory.row_nbytes, memory.stride))
            self._tags.take(self._tags.look(lines).missing, 0)
            if written:
                self._tags.soil(lines)

    @property
    def parts(self) -> tuple[MemoryPart, ...]:
        """The memory behind, which moves lines, and the port of the cache, which moves the bytes of requests.

        Reads that go together take the port once. The memory behind still writes lines back at the moment `free_ps`
        after requests that are over.
        """
        line = self.spec.line_nbytes
        behind = self._lines_fetched * line, self._lines_written * line, self._behind.ps_each, self._memory_free_ps
        asked = self.read_nbytes - self._joined_nbytes, self.written_nbytes
        return MemoryPart("", *behind), MemoryPart("cache", *asked, self._port.ps_each)

    @property
    def unwritten_nbytes(self) -> int:
        """The bytes of dirty lines."""
        return self._tags.n_dirty * self.spec.line_nbytes

    def idle_ps(self, memory: Rectangle, write: bool) -> tuple[int, int]:
        """Returns (latency, time of the bytes) of a request that finds all its bytes in the cache."""
        return self._hit_ps, self._port.ps(memory.nbytes)

    def reserve(self, t_ps: int, memory: Rectangle, last_byte_ps: int, write: bool) -> tuple[int, int]:
        """Takes the port for the request's bytes, and the memory behind for the lines that the cache lacks."""
        nbytes = memory.rows * memory.row_nbytes
        if not nbytes:
            return t_ps + self._hit_ps, max(t_ps, last_byte_ps) + self._hit_ps
        if write:
            self.written_nbytes += nbytes
        else:
            self.read_nbytes += nbytes
            joined = self._reads.join(memory, t_ps)
            if joined is not None:
                self._joined_nbytes += nbytes
                return joined
        start = max(t_ps, self._port_free_ps)
        occupied = self._port.ps(nbytes)
        self._port_free_ps = end = start + occupied
        self.busy_ps += occupied
        lines = self._finder.lines(memory)
        if write:
            committed = self._write(lines, start, max(end, last_byte_ps)) + self._hit_ps
            return committed, committed
        first, last = self._read(lines, start, end)
        served = first + self._hit_ps, last + self._hit_ps
        self._reads.begin(memory, served)
        return served

    def _read(self, lines: Lines, start_ps: int, end_ps: int) -> tuple[int, int]:
        """The times at which the first and the last byte of *lines* are at the port.

        The port moves the lines from *start_ps* to *end_ps*.
        """
        missing, ready_ps = self._tags.look(lines)
        self.line_misses += len(missing)
        self.line_hits += len(lines) - len(missing)
        if not len(missing):
            return start_ps, max(end_ps, ready_ps)
        self._lines_fetched += len(missing)
        begin = max(start_ps, self._memory_free_ps)
        self._memory_free_ps = begin + self._behind.ps(len(missing) * self.spec.line_nbytes)
        fetched = self._memory_free_ps + self._miss_ps
        self._write_back(self._tags.take(missing, fetched))
        first = start_ps if len(missing) < len(lines) else begin + self._miss_ps
        return first, max(end_ps, ready_ps, fetched)

    def _write(self, lines: Lines, start_ps: int, end_ps: int) -> int:
        """The time at which *lines* are written. The port moves them from *start_ps* to *end_ps*."""
        missing, _ = self._tags.look(lines)
        self.line_misses += len(missing)
        self.line_hits += len(lines) - len(missing)
        if self.spec.write == "through":
            self._lines_written += len(lines)
            self._memory_free_ps = max(start_ps, self._memory_free_ps)
            self._memory_free_ps += self._behind.ps(len(lines) * self.spec.line_nbytes)
            return max(end_ps, self._memory_free_ps + self._miss_ps)
        if len(missing):
            self._memory_free_ps = max(start_ps, self._memory_free_ps)
            self._write_back(self._tags.take(missing, end_ps))
        self._tags.soil(lines)
        return end_ps

    def _write_back(self, n_lines: int) -> None:
        self.lines_written_back += n_lines
        self._lines_written += n_lines
        self._memory_free_ps += self._behind.ps(n_lines * self.spec.line_nbytes)


class SharedReads:
    """Serves up to *receivers* reads of the same bytes as one, while the first of them is under way."""

    def __init__(self, receivers: int) -> None:
        self._more = receivers - 1
        self._open: dict[Rectangle, tuple[int, tuple[int, int]]] = {}

    def begin(self, memory: Rectangle, served: tuple[int, int]) -> None:
        """Notes that a read of *memory* has begun. Its first and last byte leave at *served*, in picoseconds."""
        if not self._more:
            return
        if len(self._open) >= _MOST_OPEN:
            self._open.pop(next(iter(self._open)))
        self._open[memory] = self._more, served

    def join(self, memory: Rectangle, t_ps: int) -> tuple[int, int] | None:
        """The times of the first and the last byte of a read of *memory* that arrives at *t_ps* and joins another read.

        None where it can join no read.
        """
        found = self._open.get(memory)
        if found is None:
            return None
        more, (first, last) = found
        if last < t_ps:
            del self._open[memory]
            return None
        if more > 1:
            self._open[memory] = more - 1, (first, last)
        else:
            del self._open[memory]
        return max(first, t_ps), last


class LineFinder:
    """Finds the lines of *line_nbytes* bytes that requests touch.

    The lines of one shape of request are computed once.
    """

    def __init__(self, line_nbytes: int) -> None:
        self._line_nbytes = line_nbytes
        self._known: dict[tuple[int, int, int, int], Lines] = {}

    def lines(self, memory: Rectangle) -> Lines:
        """The numbers of all lines that bytes of *memory* lie in, each once and in ascending order."""
        pieces = memory.pieces if isinstance(memory, CountedPieces) else (memory,)
        if len(pieces) == 1:
            return self._of_rectangle(pieces[0])
        return np.unique(np.concatenate([self._of_rectangle(piece) for piece in pieces]))

    def _of_rectangle(self, memory: Rectangle) -> Lines:
        first, within = divmod(memory.base & OFFSET_MASK, self._line_nbytes)
        key = within, memory.rows, memory.row_nbytes, memory.stride
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST_SHAPES:
                self._known.clear()
            found = self._known[key] = self._of_shape(*key)
        return found + first

    def _of_shape(self, within: int, rows: int, row_nbytes: int, stride: int) -> Lines:
        begins = within + stride * np.arange(rows, dtype=np.int64)
        first, last = begins // self._line_nbytes, (begins + row_nbytes - 1) // self._line_nbytes
        each = np.arange(int((last - first).max()) + 1)
        lines = first[:, None] + each
        return np.unique(lines[lines <= last[:, None]])
