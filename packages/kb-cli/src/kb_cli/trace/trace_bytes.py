"""A trace as the bytes of a `.pftrace` file, in blocks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from kb_cli.trace.packets import counter_packets, opening_packet, slice_packets, track_packet
from kb_cli.trace.pairs import number_pairs
from kb_cli.trace.protobuf import Ints, encode
from kb_cli.trace.tracks import Counters, Slices, Trace

_BLOCK = 1 << 14
"""Slices that are encoded at once, some megabytes."""
_THREADS, _AHEAD = 2, 4
"""Threads that encode blocks, and blocks that they may be ahead of what is written."""


class Unit(StrEnum):
    """What a nanosecond of the trace stands for. The format has no smaller unit of time."""

    NS = "ns"
    PS = "ps"

    @property
    def ps(self) -> int:
        """Picoseconds of the run in a nanosecond of the trace."""
        return 1000 if self is Unit.NS else 1


def trace_blocks(trace: Trace, unit: Unit) -> Iterator[bytes]:
    """The file, block by block. Equal traces give equal bytes.

    Times are rounded down to whole units, so what came first stays first and what lay inside stays inside.
    """
    yield b"".join(track_packet(track, track.uuid) for track in trace.tracks)
    for slices in trace.slices:
        yield from _slice_blocks(slices, unit.ps)
    for counters in trace.counters:
        yield from _counter_blocks(counters, unit.ps)


def _slice_blocks(slices: Slices, unit_ps: int) -> Iterator[bytes]:
    start, end = slices.start_ps // unit_ps, slices.end_ps // unit_ps
    first = _first_of_each_track(slices.track)
    before = np.append(0, end[:-1])
    before[first] = start[first]
    names: dict[int, list[tuple[int, str]]] = {}
    for place, number in number_pairs(slices.track, slices.name).found:
        names.setdefault(place, []).append((number + 1, slices.names[number]))  # a number of 0 means no name
    arguments = list(slices.arguments)
    yield b"".join(
        opening_packet(place, place, t, names[place], arguments)
        for place, t in zip(slices.track[first].tolist(), start[first].tolist(), strict=True)
    )
    columns = slices.track, start - before, end - start, slices.name + 1, *slices.arguments.values()

    def encoded(block: list[npt.NDArray[Any]]) -> bytes:
        track, since, length, name, *values = block
        return encode(slice_packets(track, (since, length), name, values))

    yield from _ahead(encoded, _blocks(columns))


def _counter_blocks(counters: Counters, unit_ps: int) -> Iterator[bytes]:
    t = counters.t_ps // unit_ps
    first = _first_of_each_track(counters.track)
    yield b"".join(
        opening_packet(track, track, at, (), ())
        for track, at in zip(counters.track[first].tolist(), t[first].tolist(), strict=True)
    )
    since = np.diff(t, prepend=0)
    since[first] = 0
    for track, times, value in _blocks((counters.track, since, counters.value)):
        yield encode(counter_packets(track, times, value))


def _ahead(
    task: Callable[[list[npt.NDArray[Any]]], bytes], blocks: Iterator[list[npt.NDArray[Any]]]
) -> Iterator[bytes]:
    """What *task* makes of each of *blocks*, in their order. Threads are some blocks ahead of the caller."""
    with ThreadPoolExecutor(_THREADS) as threads:
        begun: deque[Future[bytes]] = deque()
        for block in blocks:
            begun.append(threads.submit(task, block))
            if len(begun) > _AHEAD:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()


def _blocks(columns: Sequence[npt.NDArray[Any]]) -> Iterator[list[npt.NDArray[Any]]]:
    """The rows of *columns* in blocks. Each block has numbers of its own widths."""
    for low in range(0, len(columns[0]), _BLOCK):
        yield [column[low : low + _BLOCK] for column in columns]


def _first_of_each_track(track: Ints) -> Ints:
    """Where each track begins in *track*, whose equal elements stand together."""
    return np.flatnonzero(np.diff(track, prepend=-1))
