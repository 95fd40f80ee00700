"""Protobuf without a schema: fields of bytes, and a million messages of one width at once.

A field is a tag (number and wire type), then a varint, eight bytes, or a length and that many bytes. A varint holds
seven bits a byte, and the top bit of a byte says that another one follows. So a small number may be written with more
bytes than it needs, the upper ones without bits. A column of numbers of one width makes every message equally long, and
numpy writes them all at once. Source: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
_VARINT, _FIXED64, _BYTES = 0, 1, 2
"""Wire types."""


class VarintColumn(NamedTuple):
    """A varint of *width* bytes in each message. *values* has one value of 0 or more for each message."""

    values: Ints
    width: int


class FixedColumn(NamedTuple):
    """Eight bytes in each message: a float64, or an integer."""

    values: npt.NDArray[np.float64] | Ints


Part: TypeAlias = bytes | VarintColumn | FixedColumn
"""Bytes that all messages share, or a column that differs from message to message."""


def varint(value: int) -> bytes:
    """Returns *value*, which is 0 or more, in as few bytes as possible."""
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes((*found, value))


def integer(field: int, value: int) -> bytes:
    """Returns the field number *field* with the integer *value*."""
    return varint(field << 3 | _VARINT) + varint(value)


def text(field: int, value: str) -> bytes:
    """Returns the field number *field* with the string *value*. Half of a surrogate pair, which UTF-8 lacks, is
    escaped.
    """
    data = value.encode("utf-8", "backslashreplace")
    return varint(field << 3 | _BYTES) + varint(len(data)) + data


def message(field: int, *fields: bytes) -> bytes:
    """Returns the field number *field* with a message of *fields*."""
    data = b"".join(fields)
    return varint(field << 3 | _BYTES) + varint(len(data)) + data


def integers(field: int, values: Ints) -> list[Part]:
    """Returns the field number *field*, with one of *values* (0 or more) in each message."""
    return [varint(field << 3 | _VARINT), VarintColumn(values, width_of(values))]


def doubles(field: int, values: npt.NDArray[np.float64]) -> list[Part]:
    """Returns the field number *field*, with one of *values* in each message."""
    return [varint(field << 3 | _FIXED64), FixedColumn(values)]


def fixed64s(field: int, values: Ints) -> list[Part]:
    """Returns the field number *field*, with one of *values* in the eight bytes of an integer, in each message."""
    return [varint(field << 3 | _FIXED64), FixedColumn(values)]


def messages(field: int, parts: Sequence[Part]) -> list[Part]:
    """Returns the field number *field*, with a message of *parts* in each message."""
    return [varint(field << 3 | _BYTES) + varint(nbytes_of(parts)), *parts]


def width_of(values: Ints) -> int:
    """Returns the bytes that a varint takes for the largest of *values*."""
    return max(1, -(-int(values.max(initial=0)).bit_length() // 7))


def nbytes_of(parts: Sequence[Part]) -> int:
    """Returns the length of one message of *parts*, in bytes."""
    return sum(map(_nbytes, parts))


def encode(parts: Sequence[Part]) -> bytes:
    """Returns the messages of *parts*, one after the other, all of one length."""
    columns = [part for part in parts if not isinstance(part, bytes)]
    fixed = b"".join(part if isinstance(part, bytes) else bytes(_nbytes(part)) for part in parts)
    table = np.tile(np.frombuffer(fixed, np.uint8), (len(columns[0].values), 1))
    at = 0
    for part in parts:
        if isinstance(part, FixedColumn):
            little = part.values.astype(part.values.dtype.newbyteorder("<"))
            table[:, at : at + 8] = little[:, None].view(np.uint8)
        elif isinstance(part, VarintColumn):
            _put(table[:, at : at + part.width], part.values)
        at += _nbytes(part)
    return table.tobytes()


def _put(table: npt.NDArray[np.uint8], values: Ints) -> None:
    """Writes *values* as varints as wide as *table*."""
    last = table.shape[1] - 1
    for byte in range(last + 1):
        table[:, byte] = (values >> 7 * byte & 127) | (128 if byte < last else 0)


def _nbytes(part: Part) -> int:
    if isinstance(part, bytes):
        return len(part)
    return 8 if isinstance(part, FixedColumn) else part.width
