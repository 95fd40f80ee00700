"""Perfetto's packets, of which a trace file consists.

Each track with slices or values is a sequence of its own. The first packet of a sequence states its track, its names
and its clock, so the others need not. Times are the differences to the packet before, so they are small. Source:
https://perfetto.dev/docs/reference/trace-packet-proto and /docs/reference/synthetic-track-event.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from kb_cli.trace.protobuf import Ints, Part, doubles, fixed64s, integer, integers, message, messages, text
from kb_cli.trace.tracks import Track

_PACKET = 1
"""The only field of a trace: one packet after the other."""
_CLEARED, _NEEDS_STATE = 1, 2
"""Values of `sequence_flags`: a sequence begins anew; a packet refers to names that its sequence stated before."""
_EXPLICIT = 3
"""A `child_ordering`: children stand in the order of their `sibling_order_rank`."""
_BOOT_TIME, _DIFFERENCES = 6, 64
"""Clocks: the clock of the trace, and the first clock that belongs to one sequence."""


class _Packet(IntEnum):
    """Fields of TracePacket."""

    CLOCK_SNAPSHOT = 6
    TIMESTAMP = 8
    SEQUENCE_ID = 10
    TRACK_EVENT = 11
    INTERNED_DATA = 12
    SEQUENCE_FLAGS = 13
    TIMESTAMP_CLOCK_ID = 58
    DEFAULTS = 59
    TRACK_DESCRIPTOR = 60


class _Descriptor(IntEnum):
    """Fields of TrackDescriptor."""

    UUID = 1
    NAME = 2
    PARENT_UUID = 5
    COUNTER = 8
    CHILD_ORDERING = 11
    SIBLING_ORDER_RANK = 12


class _Event(IntEnum):
    """Fields of TrackEvent."""

    DEBUG_ANNOTATIONS = 4
    TYPE = 9
    NAME_IID = 10
    TRACK_UUID = 11
    DOUBLE_COUNTER_VALUE = 44
    FLOW_IDS = 47
    TERMINATING_FLOW_IDS = 48


class _Type(IntEnum):
    """Values of TrackEvent.Type."""

    SLICE_BEGIN = 1
    SLICE_END = 2
    COUNTER = 4


_COUNTER_UNIT_NAME = 6
_EVENT_NAMES, _ARGUMENT_NAMES = 2, 3
"""Fields of InternedData; each of their messages has a number (1) and a name (2)."""
_ANNOTATION_NAME_IID, _ANNOTATION_UINT = 1, 3


def track_packet(track: Track, sequence: int) -> bytes:
    """Returns the packet that names *track* and places it below its parent."""
    fields = [integer(_Descriptor.UUID, track.uuid), text(_Descriptor.NAME, track.name)]
    if track.parent:
        fields.append(integer(_Descriptor.PARENT_UUID, track.parent))
    if track.unit:
        fields.append(message(_Descriptor.COUNTER, text(_COUNTER_UNIT_NAME, track.unit)))
    fields += [integer(_Descriptor.CHILD_ORDERING, _EXPLICIT), integer(_Descriptor.SIBLING_ORDER_RANK, track.rank)]
    return message(_PACKET, integer(_Packet.SEQUENCE_ID, sequence), message(_Packet.TRACK_DESCRIPTOR, *fields))


def opening_packet(
    sequence: int, track: int, t: int, names: Iterable[tuple[int, str]], arguments: Sequence[str]
) -> bytes:
    """Returns the first packet of *sequence*, whose events belong to *track* and whose times count from *t* on.

    *names* are the numbered names of its slices. *arguments* are numbered from 1 on.
    """
    clocks = (
        message(1, integer(1, _DIFFERENCES), integer(2, t), integer(3, 1)),  # id, time, whether it counts differences
        message(1, integer(1, _BOOT_TIME), integer(2, t)),
    )
    interned = [message(_EVENT_NAMES, integer(1, number), text(2, name)) for number, name in names]
    interned += [message(_ARGUMENT_NAMES, integer(1, n), text(2, name)) for n, name in enumerate(arguments, start=1)]
    return message(
        _PACKET,
        integer(_Packet.SEQUENCE_ID, sequence),
        integer(_Packet.SEQUENCE_FLAGS, _CLEARED),
        message(
            _Packet.DEFAULTS,
            integer(_Packet.TIMESTAMP_CLOCK_ID, _DIFFERENCES),
            message(_Packet.TRACK_EVENT, integer(_Event.TRACK_UUID, track)),
        ),
        message(_Packet.INTERNED_DATA, *interned),
        message(_Packet.CLOCK_SNAPSHOT, *clocks),
    )


def slice_packets(
    sequence: Ints, times: tuple[Ints, Ints], name: Ints, arguments: Sequence[Ints], flow: Ints
) -> list[Part]:
    """Returns for each slice the packets of its begin and its end. *times* are the differences to the event before
    each. *flow* has the flows of the slices, as `Slices` has them, and their signs are equal.

    The end names nothing, so it needs no `sequence_flags`: its track and its clock are defaults of the sequence.
    """
    begin = [integer(_Event.TYPE, _Type.SLICE_BEGIN), *integers(_Event.NAME_IID, name)]
    for number, values in enumerate(arguments, start=1):
        argument = [integer(_ANNOTATION_NAME_IID, number), *integers(_ANNOTATION_UINT, values)]
        begin += messages(_Event.DEBUG_ANNOTATIONS, argument)
    if flow[0]:
        begin += fixed64s(_Event.FLOW_IDS if flow[0] > 0 else _Event.TERMINATING_FLOW_IDS, np.abs(flow))
    end = [integer(_Event.TYPE, _Type.SLICE_END)]
    flags = integer(_Packet.SEQUENCE_FLAGS, _NEEDS_STATE)
    return [*_event_packets(sequence, times[0], begin, flags), *_event_packets(sequence, times[1], end)]


def counter_packets(sequence: Ints, times: Ints, value: npt.NDArray[np.float64]) -> list[Part]:
    """Returns for each value of a counter a packet. *times* are the differences to the value before each."""
    event = [integer(_Event.TYPE, _Type.COUNTER), *doubles(_Event.DOUBLE_COUNTER_VALUE, value)]
    return _event_packets(sequence, times, event)


def _event_packets(sequence: Ints, times: Ints, event: Sequence[Part], flags: bytes = b"") -> list[Part]:
    packet = [
        *integers(_Packet.TIMESTAMP, times),
        *integers(_Packet.SEQUENCE_ID, sequence),
        flags,
        *messages(_Packet.TRACK_EVENT, event),
    ]
    return messages(_PACKET, packet)
