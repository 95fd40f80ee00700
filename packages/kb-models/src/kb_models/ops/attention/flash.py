"""Flash attention: the work of one program on its queries and keys, and the merge of the findings of programs.

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
FEW_ROWS: Final = 16
"""Queries up to which two steps of keys have their scores made before their values are loaded. Source: measured; 4
queries of 2048 keys take 13.5 us on a PE of one_sip, and 13.6 us with a step at a time. For more, steps are longer."""


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
    x = product(tl, queries, keys.T)
    return x if mask is None else tl.where(mask, x, float("-inf"))


def weighted(tl: Any, scores: Sequence[Any], shift: Any, loads: Iterator[Any], scale: float) -> tuple[Any, Any]:
    """The sum of the powers of *scores*, and the sum of the values of *loads* that these powers weight."""
    total: Any = None
    sums = []
    for each in scores:
        values = next(loads)
        powers = tl.exp(tl.fma(each, scale, shift)).to(values.dtype)
        sums.append(product(tl, powers, values))
        # of the rounded powers, which lie in TCM: a sum of the powers themselves would compute them again
        here = tl.sum(powers.to("f32"), axis=1)
        total = here if total is None else total + here
    return total, sum(sums[1:], start=sums[0])


def product(tl: Any, a: Any, b: Any) -> Any:
    """*a* times *b* in f32. A composite's fetches overlap with the command before, and the fetches of a dot do not."""
    return tl.composite("gemm", a, b, epilogue=[] if a.dtype is DType.F32 else [tl.cast("f32")])


def joined(tl: Any, one: Found, other: Found, scale: float) -> Found:
    """The merge of *one* and *other*, of which *one* has no larger scores."""
    decay = tl.exp((one.largest - other.largest) * scale)
    return Found(other.largest, one.total * decay + other.total, one.values * decay + other.values)


def merged(tl: Any, found: Found, programs: Sequence[int], scale: float) -> Found | None:
    """The merged findings of all *programs*, for the first of them, and None for the others.

    The programs merge in a tree: one sends its findings to the one that is a power of 2 before it, as one message.
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


def rows_for(host: Host, most: int, head_dim: int, dtype: DType) -> int:
    """The rows of queries that a program takes at a time, up to *most*: those for which queries, sums and results take
    a quarter of TCM at most."""

    def need(rows_of_queries: int) -> int:
        return 4 * rows_of_queries * head_dim * (2 * dtype.nbytes + 20)

    return host.fitted(need, rows_of_queries=(None, most))["rows_of_queries"]


def steps_for(host: Host, rows: int, keys: int, head_dim: int, dtype: DType) -> int:
    """The keys of a step, for *rows* queries: as many as fit, up to 512 and to *keys*."""

    def need(keys_of_a_step: int) -> int:
        # steps on the way, in use, and the one before; scores and powers; sums of steps; half of TCM stays free,
        # because values of different sizes leave gaps
        loaded = (AHEAD + 2) * keys_of_a_step * head_dim * dtype.nbytes
        weights = steps_of_chunk(rows) * rows * (keys_of_a_step * (4 + dtype.nbytes) + 4 * head_dim)
        return 2 * (loaded + weights + 16 * rows * head_dim)

    return host.fitted(need, keys_of_a_step=(None, max(1, min(BLOCK, keys))))["keys_of_a_step"]


def chunks_of(steps: Sequence[Any], rows: int) -> list[Sequence[Any]]:
    """*steps* in chunks for *rows* queries."""
    most = steps_of_chunk(rows)
    return [steps[at : at + most] for at in range(0, len(steps), most)]


def steps_of_chunk(rows: int) -> int:
    """The steps of a chunk for *rows* queries."""
    return 2 if rows <= FEW_ROWS else 1
