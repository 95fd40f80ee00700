import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_cases import examples

from kb_engine.memory.pending import PendingBytes, Producer
from kb_messages import OFFSET_BITS, DType, Matrix, overlaps

OWNER = 5 << OFFSET_BITS


def matrix(offset, rows, cols, stride=None, owner=OWNER):
    return Matrix(address=owner + offset, rows=rows, cols=cols, stride=stride or cols, dtype=DType.U8)


def bytes_of(m):
    return {m.address + row * m.stride + col for row in range(m.rows) for col in range(m.row_nbytes)}


@st.composite
def matrices(draw):
    cols = draw(st.integers(1, 12))
    stride = cols + draw(st.sampled_from([0, 0, 1, 3, 7, 20]))
    return matrix(draw(st.integers(0, 60)), draw(st.integers(1, 6)), cols, stride)


@st.composite
def tiles(draw):
    """Rectangles of one row-major array, as slices of one tensor are."""
    row, col = draw(st.integers(0, 5)), draw(st.integers(0, 11))
    rows, cols = draw(st.integers(1, 6 - row)), draw(st.integers(1, 12 - col))
    return matrix(row * 12 + col, rows, cols, 12)


either = st.one_of(matrices(), tiles())


class Bytewise:
    """The plain model: the number of the last write, and what it was, for every byte."""

    def __init__(self):
        self.last = {}

    def put(self, number, m, producer):
        self.last.update(dict.fromkeys(bytes_of(m), (number, producer)))

    def producers(self, m):
        return {found[1] for byte in bytes_of(m) if (found := self.last.get(byte)) and found[1] is not None}


@settings(max_examples=examples(300))
@given(st.lists(st.tuples(either, st.booleans()), max_size=12), either)
def test_pending_bytes_agree_with_a_byte_by_byte_model(steps, asked):
    pending, model = PendingBytes(), Bytewise()
    for number, (m, is_concrete) in enumerate(steps):
        producer = None if is_concrete else Producer("op", str(number))
        if producer is None:
            pending.clear(m)
        else:
            pending.mark(m, producer)
        model.put(number, m, producer)
    found = pending.producer(asked)
    # Bytes of several producers name one of them. Where rows do not line up, replaced bytes may still be said to be
    # pending: that refuses to look, and never looks at stale bytes.
    if model.producers(asked):
        assert found in model.producers(asked) | {Producer("op", str(n)) for n in range(len(steps))}
        assert found is not None
    elif found is not None:
        assert any(overlaps(m.rectangle, asked.rectangle) for m, is_concrete in steps if not is_concrete)


def test_nothing_is_pending_at_first():
    assert PendingBytes().producer(matrix(0, 4, 4)) is None


def test_the_last_issue_wins():
    pending = PendingBytes()
    first, second = Producer("a", "k.py:1"), Producer("b", "k.py:2")
    pending.mark(matrix(0, 4, 4, 8), first)
    pending.mark(matrix(8, 1, 4), second)
    assert pending.producer(matrix(0, 1, 4)) is first
    assert pending.producer(matrix(0, 4, 4, 8)) is second
    pending.clear(matrix(0, 4, 4, 8))
    assert pending.producer(matrix(0, 4, 4, 8)) is None


def test_a_concrete_store_of_a_part_leaves_the_rest_pending():
    pending, producer = PendingBytes(), Producer("a", "k.py:1")
    pending.mark(matrix(0, 4, 4), producer)
    pending.clear(matrix(4, 1, 4))
    assert pending.producer(matrix(4, 1, 4)) is None
    assert pending.producer(matrix(0, 2, 4)) is producer


def test_the_error_names_the_op_the_line_the_touch_and_the_remedy():
    error = Producer("composite gemm", "gemm.py:12").error("`float()`")
    assert str(error) == (
        "composite gemm of gemm.py:12: got `float()` of its pending result, needs a value that exists while the kernel "
        "runs; results of compute ops are known only after the run, or where a kernel "
        "looks at them in a run with an op log"
    )


@pytest.mark.parametrize("count", [100])
def test_rectangles_that_are_replaced_are_forgotten(count):
    pending = PendingBytes()
    for number in range(count):
        pending.mark(matrix(0, 4, 4), Producer("a", str(number)))
    assert pending.producer(matrix(0, 1, 1)) == Producer("a", str(count - 1))
    assert len(pending._index) == 1


def test_several_concrete_stores_together_clear_what_they_cover():
    pending = PendingBytes()
    pending.mark(matrix(0, 4, 4), Producer("a", "k.py:1"))
    pending.clear(matrix(0, 2, 4))
    pending.clear(matrix(8, 2, 4))
    assert pending.producer(matrix(0, 4, 4)) is None
