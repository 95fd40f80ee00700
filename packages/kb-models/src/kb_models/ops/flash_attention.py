"""Flash attention: what one program does with its queries and keys, and how programs merge what they found.

Sources: Dao et al., arXiv 2205.14135 and 2307.08691, for keys in parts; Dao et al., "Flash-Decoding for long-context
inference", 2023, for keys that are split over programs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from kb_engine import Host
from kb_messages import DType

BLOCK: Final = 512
"""The most keys of a step. Source: measured; of 2048 keys with 128 elements a PE of one_sip takes 13.5 us in steps of
512, 13.8 us in steps of 256, and 14.9 us in steps of 1024."""
AHEAD: Final = 2
"""The steps that are loaded ahead."""
STEPS: Final = 2
"""The steps of keys whose scores are made before their values are loaded. Source: measured; with 1 a PE takes 13.6 us,
with 2 13.5 us."""


class Found(NamedTuple):
    """The largest score of each row, in units before the scale; the sum of powers; and the sum of weighted values."""

    largest: Any
    total: Any
    values: Any


def attended(tl: Any, queries: Any, chunks: Sequence[Sequence[Any]], loads: Iterator[Any], scale: float) -> Found:
    """What the rows of *queries* find in the keys of *chunks*: for each step of a chunk a mask, or None.

    *loads* gives the keys of all steps of a chunk, then the values of these steps.
    """
    found: Found | None = None
    for masks in chunks:
        scores = [score(tl, queries, next(loads), mask) for mask in masks]
        largest = found.largest if found else tl.max(scores[0], axis=1)
        for each in scores if found else scores[1:]:
            largest = tl.maximum(largest, tl.max(each, axis=1))
        here = Found(largest, *weighted(tl, scores, largest * -scale, loads, scale))
        found = here if found is None else joined(tl, found, here, scale)
    assert found is not None, "there are keys"
    return found


def score(tl: Any, queries: Any, keys: Any, mask: Any) -> Any:
    """The products of *queries* and *keys* in f32, and minus infinity where *mask* is false."""
    x = tl.composite("gemm", queries, keys.T, epilogue=in_f32(tl, keys))
    return x if mask is None else tl.where(mask, x, float("-inf"))


def weighted(tl: Any, scores: Sequence[Any], shift: Any, loads: Iterator[Any], scale: float) -> tuple[Any, Any]:
    """The sum of the powers of *scores*, and the sum of the values of *loads* that these powers weight."""
    total: Any = None
    sums = []
    for each in scores:
        powers = tl.exp(tl.fma(each, scale, shift))
        total = tl.sum(powers, axis=1) if total is None else total + tl.sum(powers, axis=1)
        values = next(loads)
        sums.append(tl.composite("gemm", powers.to(values.dtype), values, epilogue=in_f32(tl, values)))
    return total, sum(sums[1:], start=sums[0])


def in_f32(tl: Any, factor: Any) -> list[Any]:
    """The epilogue that keeps a product of *factor* in f32, in which it was summed."""
    return [] if factor.dtype is DType.F32 else [tl.cast("f32")]


def joined(tl: Any, one: Found, other: Found, scale: float) -> Found:
    """What *one* and *other* are together, of which *one* has no larger scores."""
    decay = tl.exp((one.largest - other.largest) * scale)
    return Found(other.largest, one.total * decay + other.total, one.values * decay + other.values)


def merged(tl: Any, found: Found, programs: Sequence[int], scale: float) -> Found | None:
    """What all of *programs* found, for the first of them, and None for the others.

    The programs merge in a tree: one sends what it has to the one that is a power of 2 before it, as one message.
    """
    here, step = programs.index(tl.program_id()), 1
    rows, width = found.values.shape
    while step < len(programs):
        if here % (2 * step):
            tl.send(packed(tl, found), programs[here - step], "found")
            return None
        if here + step < len(programs):
            other = unpacked(tl.recv(programs[here + step], "found"), rows, width)
            largest = tl.maximum(found.largest, other.largest)
            mine, theirs = (tl.exp((each.largest - largest) * scale) for each in (found, other))
            pairs = zip(found[1:], other[1:], strict=True)
            found = Found(largest, *(a * mine + b * theirs for a, b in pairs))
        step *= 2
    return found


def packed(tl: Any, found: Found) -> Any:
    """*found* as one vector, because each message costs its own set-up."""
    largest, total, values = (each.reshape(-1) for each in found)
    return tl.cat(values, tl.cat(total, largest))


def unpacked(message: Any, rows: int, width: int) -> Found:
    """The inverse of `packed`."""
    values, sums = message[: rows * width], message[rows * width :]
    total, largest = sums[:rows], sums[rows:]
    return Found(largest.reshape(rows, 1), total.reshape(rows, 1), values.reshape(rows, width))


def steps_for(host: Host, rows: int, keys: int, head_dim: int, dtype: DType) -> int:
    """The keys of a step, for *rows* queries: as many as fit, up to 512 and to *keys*."""

    def need(keys_of_a_step: int) -> int:
        # steps on the way, in use, and the one before; scores, powers in f32, and powers in dtype; sums of steps
        loaded = (AHEAD + 3) * keys_of_a_step * head_dim * dtype.nbytes
        return loaded + STEPS * rows * keys_of_a_step * (8 + dtype.nbytes) + 4 * rows * head_dim * (STEPS + 4)

    return host.fitted(need, keys_of_a_step=(None, max(1, min(BLOCK, keys))))["keys_of_a_step"]


def chunks_of(steps: Sequence[Any]) -> list[Sequence[Any]]:
    """*steps* in chunks of `STEPS`."""
    return [steps[at : at + STEPS] for at in range(0, len(steps), STEPS)]
