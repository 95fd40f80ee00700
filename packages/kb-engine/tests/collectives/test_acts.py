"""The acts of all ranks belong together: what one rank sends, another one receives, in the same order and size."""

from collections import defaultdict

import pytest

from kb_engine.collectives import Group, Sizes, algorithms_of
from kb_engine.collectives.acts import ActKind, chunk_of, parts_of
from kb_engine.collectives.algorithms import CALLS, acts_of
from kb_messages import DType

EVERY = [(call, algorithm) for call in CALLS for algorithm in algorithms_of(call)]


def group_of(cubes: list[int], slot_nbytes: int, depth: int) -> Group:
    """A group of ranks in cubes of so many ranks. Nobody asks it to choose."""
    count = sum(cubes)
    starts = [sum(cubes[:number]) for number in range(len(cubes))]
    ranks = tuple(tuple(range(start, start + size)) for start, size in zip(starts, cubes, strict=True))
    return Group(tuple(range(count)), tuple(range(count)), ranks, slot_nbytes, depth, chooser=None)  # type: ignore[arg-type]


@pytest.mark.parametrize(("call", "algorithm"), EVERY)
@pytest.mark.parametrize("cubes", [[1], [2], [3, 3], [4, 2], [5, 1, 1], [4, 4, 4]])
@pytest.mark.parametrize(("n", "slot_nbytes"), [(0, 4096), (1, 4096), (12 * 17, 1024), (12 * 5000, 1 << 16)])
def test_every_message_is_received(call: str, algorithm: str, cubes: list[int], n: int, slot_nbytes: int) -> None:
    group = group_of(cubes, slot_nbytes, 3)
    n -= n % len(group) if call == "all_to_all" else 0  # all other sizes are refused
    sizes = Sizes(n, DType.F16, "sum" if call in ("all_reduce", "reduce_scatter") else "")
    sent, received, done = defaultdict(list), defaultdict(list), defaultdict(int)
    for rank in range(len(group)):
        for act in acts_of(call, algorithm, group, rank, sizes, root=len(group) - 1):
            assert act.size > 0
            message = act.start, act.stop, act.is_wide
            if act.kind is ActKind.SEND:
                sent[rank, act.peer].append(message)
            elif act.kind in (ActKind.REDUCE, ActKind.TAKE):
                received[act.peer, rank].append(message)
            elif act.kind is ActKind.DONE:
                done[rank] += act.size
    if call == "all_to_all":  # a chunk has other numbers at its receiver
        sent, received = ({way: len(each) for way, each in found.items()} for found in (sent, received))
    assert sent == received
    for rank in range(len(group)):
        start, stop = chunk_of(n, len(group), rank)
        assert done[rank] == (stop - start if call == "reduce_scatter" else n)


def test_chunks_and_parts_by_hand() -> None:
    """Ten elements in four chunks of three, three, three and one; of two elements, two chunks are empty."""
    assert [chunk_of(10, 4, number) for number in range(4)] == [(0, 3), (3, 6), (6, 9), (9, 10)]
    assert [chunk_of(2, 4, number) for number in range(4)] == [(0, 1), (1, 2), (2, 2), (2, 2)]
    assert parts_of(3, 10, 3) == [(3, 6), (6, 9), (9, 10)]


def test_sums_of_short_values_are_wide() -> None:
    """f32 for floats and i32 for integers; a maximum has the dtype of its elements."""
    assert Sizes(1, DType.F16, "sum").wide is DType.F32
    assert Sizes(1, DType.I8, "sum").wide is DType.I32
    assert Sizes(1, DType.I64, "sum").wide is DType.I64
    assert Sizes(1, DType.F16, "max").wide is DType.F16
