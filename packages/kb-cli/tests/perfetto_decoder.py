"""A small reader of Perfetto traces, which knows protobuf and the fields that kb writes, and shares no code with kb."""

from __future__ import annotations

import gzip
import struct
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

CLEARED, NEEDS_STATE = 1, 2
BEGIN, END, COUNTER = 1, 2, 4


def fields(data: bytes) -> dict[int, list[Any]]:
    """The values of a message by field number: ints of varints, eight bytes as they are, bytes of everything else."""
    found: dict[int, list[Any]] = defaultdict(list)
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
        elif tag & 7 == 1:
            value, at = data[at : at + 8], at + 8
        elif tag & 7 == 2:
            length, at = varint(data, at)
            assert at + length <= len(data), "a message that is cut off"
            value, at = data[at : at + length], at + length
        else:
            raise AssertionError(f"wire type {tag & 7} at byte {at}")
        found[tag >> 3].append(value)
    return found


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at byte *at*, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        assert shift <= 70, "a varint of more than ten bytes"
        if byte < 128:
            return value, at


class Shown(NamedTuple):
    """A slice: the names of its tracks from the top, its name, begin, length and arguments."""

    track: tuple[str, ...]
    name: str
    ts: int
    dur: int
    arguments: dict[str, int]
    flow: int = 0
    """The number of the flow that begins in the slice, or minus that of the flow that ends there."""


class Value(NamedTuple):
    track: tuple[str, ...]
    ts: int
    value: float


class Decoded:
    """All that a trace file says. Checks that it holds together."""

    def __init__(self, data: bytes) -> None:
        self.descriptors: dict[int, dict[int, list[Any]]] = {}
        self.slices: list[Shown] = []
        self.values: list[Value] = []
        self._state: dict[int, Any] = {}
        self._open: dict[int, tuple[str, int, dict[str, int], int]] = {}
        top = fields(data)
        assert set(top) == {1}
        self.n_packets = len(top[1])
        for packet in map(fields, top[1]):
            self._read(packet)
        assert self._open == {}, "slices without end"

    @classmethod
    def file(cls, path: Path) -> Decoded:
        data = path.read_bytes()
        return cls(gzip.decompress(data) if path.suffix == ".gz" else data)

    @property
    def tracks(self) -> list[tuple[str, ...]]:
        """The path of every track, in the order in which a viewer shows them."""
        children = defaultdict(list)
        for uuid, each in self.descriptors.items():
            children[each.get(5, [0])[0]].append((each[12][0], uuid))

        def below(uuid: int) -> list[tuple[str, ...]]:
            return [self.path(uuid)] + [path for _, child in sorted(children[uuid]) for path in below(child)]

        return [path for _, uuid in sorted(children[0]) for path in below(uuid)]

    def path(self, uuid: int) -> tuple[str, ...]:
        each = self.descriptors[uuid]
        parent = each.get(5, [0])[0]
        return (*(self.path(parent) if parent else ()), each[2][0].decode())

    def _read(self, packet: dict[int, list[Any]]) -> None:
        (sequence,) = packet[10]
        if 60 in packet:
            descriptor = fields(packet[60][0])
            (uuid,) = descriptor[1]
            assert uuid not in self.descriptors
            assert descriptor[11] == [3], "children without an order"
            self.descriptors[uuid] = descriptor
        elif packet.get(13) == [CLEARED]:
            self._begin_sequence(sequence, packet)
        else:
            self._event(sequence, packet)

    def _begin_sequence(self, sequence: int, packet: dict[int, list[Any]]) -> None:
        defaults = fields(packet[59][0])
        assert defaults[58] == [64]
        differences, boot = (fields(each) for each in fields(packet[6][0])[1])
        assert (differences[1], differences[3], boot[1]) == ([64], [1], [6])
        assert differences[2] == boot[2]
        interned = fields(packet.get(12, [b""])[0])
        names, arguments = ({each[1][0]: each[2][0].decode() for each in map(fields, interned[at])} for at in (2, 3))
        (track,) = fields(defaults[11][0])[11]
        assert track in self.descriptors
        self._state[sequence] = {"track": track, "now": boot[2][0], "names": names, "arguments": arguments}

    def _event(self, sequence: int, packet: dict[int, list[Any]]) -> None:
        state = self._state[sequence]
        state["now"] += packet[8][0]
        event, now, track = fields(packet[11][0]), state["now"], state["track"]
        (kind,) = event[9]
        assert packet.get(13) == ([NEEDS_STATE] if kind == BEGIN else None), "names that a reader need not have kept"
        if kind == COUNTER:
            self.values.append(Value(self.path(track), now, struct.unpack("<d", event[44][0])[0]))
        elif kind == BEGIN:
            assert track not in self._open, "a slice that begins before the one before it has ended"
            arguments = {state["arguments"][each[1][0]]: each[3][0] for each in map(fields, event[4])}
            self._open[track] = state["names"][event[10][0]], now, arguments, _flow(event)
        else:
            assert kind == END
            name, begin, arguments, flow = self._open.pop(track)
            self.slices.append(Shown(self.path(track), name, begin, now - begin, arguments, flow))


def _flow(event: dict[int, list[Any]]) -> int:
    begun, ended = (int.from_bytes(event[at][0], "little") if at in event else 0 for at in (47, 48))
    assert not (begun and ended)
    return begun - ended
