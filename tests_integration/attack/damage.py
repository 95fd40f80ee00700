"""Ways to damage a file: flipped bits, cuts, and JSON values of other types."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

STRANGE: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1 << 63,
    1 << 70,
    1.5,
    -0.0,
    1e308,
    "",
    "x",
    "\0",
    "../../x",
    "/etc/passwd",
    "\x1b[31m",
    [],
    [0],
    {},
    {"a": 1},
    "9" * 5000,
)
RAW = (b"NaN", b"Infinity", b"1e999", b"9" * 5000, b"[" * 60_000, b'"\xff"', b"", b'{"a": 1, "a": 2}')
"""Texts that some decoders take for JSON, or fall over."""


def flipped(data: bytes, rng: random.Random, most: int) -> Iterator[bytes]:
    """*data* with one bit flipped: at every bit when there are no more than *most*, else at *most* random ones."""
    n_bits = 8 * len(data)
    for bit in range(n_bits) if n_bits <= most else rng.sample(range(n_bits), most):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        yield bytes(changed)


def cut(data: bytes, rng: random.Random, most: int) -> Iterator[bytes]:
    """*data* cut off at up to *most* boundaries, the ends of lines and of 64 bytes, and at as many other lengths."""
    boundaries = {0, 1, len(data) - 1, *range(64, len(data), 64)}
    boundaries |= {at + 1 for at, byte in enumerate(data) if byte == ord("\n")}
    found = sorted(length for length in boundaries if 0 <= length < len(data))
    others = sorted(set(range(len(data))) - boundaries)
    for lengths in (found, others):
        for length in lengths if len(lengths) <= most else rng.sample(lengths, most):
            yield data[:length]


def exchanged(data: bytes, rng: random.Random, most: int) -> Iterator[bytes]:
    """The JSON text *data* with one value replaced by one of another type, or taken away; at most *most* texts."""
    places = list(_places(json.loads(data)))
    changes = [(place, strange) for place in places for strange in (*STRANGE, _GONE, *map(_Raw, RAW))]
    for place, strange in changes if len(changes) <= most else rng.sample(changes, most):
        changed = _put(json.loads(data), place, strange)
        if changed != data:
            yield changed


class _Raw:
    def __init__(self, text: bytes) -> None:
        self.text = text


def says_the_same(one: bytes, other: bytes) -> bool:
    """Whether both are JSON of the same values and types, so that they differ in blanks alone."""
    try:
        return json.dumps(json.loads(one)) == json.dumps(json.loads(other))
    except (ValueError, RecursionError):
        return False


_GONE = object()
_MARK = "kb-attack-mark"


def _places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from _places(inner, (*at, key))


def _put(value: Any, place: tuple[Any, ...], strange: Any) -> bytes:
    raw = strange.text if isinstance(strange, _Raw) else None
    new = _MARK if raw is not None else strange
    if not place:
        value = [] if new is _GONE else new
    else:
        holder = value
        for key in place[:-1]:
            holder = holder[key]
        if new is _GONE:
            del holder[place[-1]]
        else:
            holder[place[-1]] = new
    text = json.dumps(value).encode()
    return text if raw is None else text.replace(f'"{_MARK}"'.encode(), raw)
