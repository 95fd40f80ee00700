"""The `.pftrace` file of a trace: its bytes in blocks, and writing them, plain or packed."""

from __future__ import annotations

import gzip
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kb_cli.terminal.output_file import check_ending, check_folder
from kb_cli.trace.packets import counter_packets, opening_packet, slice_packets, track_packet
from kb_cli.trace.pairs import number_pairs
from kb_cli.trace.protobuf import Ints, encode
from kb_cli.trace.tracks import Counters, Slices, Trace
from kb_dataexec.files import writing

_BLOCK = 1 << 14
"""The number of slices that are encoded at once, some megabytes."""
_THREADS, _AHEAD = 2, 4
"""The threads that encode blocks, and the most blocks that they are ahead of the writing."""


class Unit(StrEnum):
    """The time that a nanosecond of the trace stands for. The format has no smaller unit of time."""

    NS = "ns"
    PS = "ps"

    @property
    def ps(self) -> int:
        """Picoseconds of the run in a nanosecond of the trace."""
        return 1000 if self is Unit.NS else 1


def trace_blocks(trace: Trace, unit: Unit) -> Iterator[bytes]:
    """Yields the file, block by block. Equal traces give equal bytes.

    Times are rounded down to whole units, so the order of times and nesting of slices stay the same.
    """
    yield b"".join(track_packet(track, track.uuid) for track in trace.tracks)
    for slices in trace.slices:
        yield from _slice_blocks(slices, unit.ps)
    for counters in trace.counters:
        yield from _counter_blocks(counters, unit.ps)


def _slice_blocks(slices: Slices, unit_ps: int) -> Iterator[bytes]:
    track = slices.track
    first = _first_of_each_track(track)
    names: dict[int, list[tuple[int, str]]] = {}
    for place, number in number_pairs(track, slices.name).found:
        names.setdefault(place, []).append((number + 1, slices.names[number]))  # a number of 0 means no name
    arguments = list(slices.arguments)
    yield b"".join(
        opening_packet(place, place, t, names[place], arguments)
        for place, t in zip(track[first].tolist(), (slices.start_ps[first] // unit_ps).tolist(), strict=True)
    )

    def encoded(block: slice) -> bytes:
        start, end = slices.start_ps[block] // unit_ps, slices.end_ps[block] // unit_ps
        before = np.append(slices.end_ps[max(block.start - 1, 0)] // unit_ps, end[:-1])
        since = np.where(_is_first(track, block), 0, start - before)
        arguments = [values[block] for values in slices.arguments.values()]
        flow = np.zeros(len(start), np.int64) if slices.flow is None else slices.flow[block]
        columns = [track[block], since, end - start, slices.name[block] + 1, flow, *arguments]
        return _encoded_by_flow(columns, np.sign(flow))

    yield from _ahead(encoded, _blocks(len(track)))


def _encoded_by_flow(columns: list[Ints], sign: Ints) -> bytes:
    """Returns the packets of the slices of *columns*. Those of one *sign* of flows have one length."""
    found = [b""] * len(sign)
    for each in np.unique(sign).tolist():
        rows = np.flatnonzero(sign == each)
        track, since, lasted, name, flow, *arguments = (column[rows] for column in columns)
        packets = encode(slice_packets(track, (since, lasted), name, arguments, flow))
        if len(rows) == len(sign):
            return packets
        width = len(packets) // len(rows)
        for at, row in enumerate(rows.tolist()):
            found[row] = packets[at * width : (at + 1) * width]
    return b"".join(found)


def _counter_blocks(counters: Counters, unit_ps: int) -> Iterator[bytes]:
    t, track = counters.t_ps // unit_ps, counters.track
    first = _first_of_each_track(track)
    yield b"".join(
        opening_packet(place, place, at, (), ())
        for place, at in zip(track[first].tolist(), t[first].tolist(), strict=True)
    )
    since = np.diff(t, prepend=0)
    since[first] = 0
    for block in _blocks(len(track)):
        yield encode(counter_packets(track[block], since[block], counters.value[block]))


def _ahead(task: Callable[[slice], bytes], blocks: Iterable[slice]) -> Iterator[bytes]:
    """Yields the result of *task* for each of *blocks*, in their order. Threads are some blocks ahead of the caller."""
    with ThreadPoolExecutor(_THREADS) as threads:
        begun: deque[Future[bytes]] = deque()
        for block in blocks:
            begun.append(threads.submit(task, block))
            if len(begun) > _AHEAD:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()


def _blocks(length: int) -> list[slice]:
    """Returns the rows of columns of *length* in blocks. Each block has numbers of its own widths."""
    return [slice(low, min(low + _BLOCK, length)) for low in range(0, length, _BLOCK)]


def _first_of_each_track(track: Ints) -> Ints:
    """Returns the indices at which a track begins in *track*, whose equal elements stand together."""
    return np.flatnonzero(_is_first(track, slice(0, len(track))))


def _is_first(track: Ints, block: slice) -> npt.NDArray[np.bool_]:
    """Returns for each element of *block* of *track* whether a track begins there."""
    before = track[block.start - 1] if block.start else -1
    begins: npt.NDArray[np.bool_] = np.diff(track[block], prepend=before) != 0
    return begins


_PLAIN, _PACKED = ".pftrace", ".pftrace.gz"
_LEVEL = 6
"""The level of gzip. Source: measured; 9 takes three times as long and saves a twentieth."""


def check_trace_file(path: Path) -> None:
    """Raises KbError unless *path* is the name of a trace file in a folder that can be written."""
    check_ending("-o", path, _PLAIN, _PACKED)
    check_folder("-o", path)


def write_trace(trace: Trace, unit: Unit, path: Path) -> int:
    """Writes *trace* to *path*, packed where the name says so. Returns the number of bytes in the file.

    The file appears when it is whole. Equal traces give equal bytes. Raises OSError, which names the file, for one that
    cannot be written.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with writing(path), _opened(part, path) as write:
            for block in trace_blocks(trace, unit):
                write(block)
        with writing(path):
            os.replace(part, path)
            return path.stat().st_size
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _opened(part: Path, path: Path) -> Iterator[Callable[[bytes], int]]:
    """Yields the function that writes to *part*, the future *path*, packed where the name of *path* says so."""
    with part.open("wb") as file:
        if path.name.endswith(_PACKED):
            with gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=file, mtime=0) as packed:
                yield packed.write
        else:
            yield file.write
