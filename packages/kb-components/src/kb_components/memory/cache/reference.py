"""The reference model of a memory with a cache, line by line: slow and plain. `builtin.cached` has to agree with it."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

from kb_components.memory.cache.spec import CachedMemorySpec
from kb_engine.block import exact, ps_from_ns
from kb_messages import OFFSET_MASK, Rectangle

_HASH = 2654435761  # the prime next to 2^32 over the golden ratio


class ReferenceCache:
    """Has the same `reserve` as CachedMemory, without multicast. A set is a list of lines, the oldest one first."""

    def __init__(self, spec: CachedMemorySpec) -> None:
        self._spec = spec
        self._sets: list[list[int]] = [[] for _ in range(spec.sets)]
        self._since: dict[int, int] = {}
        self._dirty: set[int] = set()
        self._port_ps = self._memory_ps = 0
        self.hits = self.misses = self.written_back = 0

    def reserve(self, t_ps: int, memory: Rectangle, last_byte_ps: int, write: bool) -> tuple[int, int]:
        """Looks every line up, and then makes room for the missing lines, one by one."""
        spec, hit_ps = self._spec, ps_from_ns(self._spec.cache_latency_ns)
        lines = sorted({byte // spec.line_nbytes for byte in _bytes(memory)})
        start = max(t_ps, self._port_ps)
        self._port_ps = end = start + _ps(memory.rows * memory.row_nbytes, spec.cache_bw_gbs)
        missing = [line for line in lines if line not in self._since]
        present = [self._since[line] for line in lines if line in self._since]
        self.misses += len(missing)
        self.hits += len(present)
        if write:
            committed = self._write(lines, missing, start, max(end, last_byte_ps)) + hit_ps
            return committed, committed
        if not missing:
            return start + hit_ps, max(end, *present) + hit_ps
        begin = max(start, self._memory_ps)
        self._memory_ps = begin + _ps(len(missing) * spec.line_nbytes, spec.bw_gbs)
        fetched = self._memory_ps + ps_from_ns(spec.latency_ns)
        self._take(missing, fetched)
        first = start if present else begin + ps_from_ns(spec.latency_ns)
        return first + hit_ps, max(end, fetched, *present) + hit_ps

    def _write(self, lines: list[int], missing: list[int], start: int, end: int) -> int:
        spec = self._spec
        if spec.write == "through":
            self._memory_ps = max(start, self._memory_ps) + _ps(len(lines) * spec.line_nbytes, spec.bw_gbs)
            return max(end, self._memory_ps + ps_from_ns(spec.latency_ns))
        if missing:
            self._memory_ps = max(start, self._memory_ps)
            self._take(missing, end)
        self._dirty |= {line for line in lines if line in self._since}
        return end

    def _take(self, lines: list[int], since_ps: int) -> None:
        spec, n_written = self._spec, 0
        for line in lines:
            number = (line * _HASH % 2**32 if spec.index == "hashed" else line) % spec.sets
            held = self._sets[number]
            if len(held) == spec.ways:
                gone = held.pop(0)
                n_written += gone in self._dirty
                self._dirty.discard(gone)
                del self._since[gone]
            held.append(line)
            self._since[line] = since_ps
        self.written_back += n_written
        self._memory_ps += _ps(n_written * spec.line_nbytes, spec.bw_gbs)


def _bytes(memory: Rectangle) -> list[int]:
    base = memory.base & OFFSET_MASK
    return [base + row * memory.stride + byte for row in range(memory.rows) for byte in range(memory.row_nbytes)]


def _ps(nbytes: int, gbs: float) -> int:
    return ceil(Fraction(1000) * nbytes / exact(gbs))
