"""Rows that repeat others: what is made of them is what would have been written row by row."""

import random

import numpy as np
import pytest

from kb_dataexec.log.compressed.compressed_rows import CompressedRows, PendingRows, RowForm, joined
from kb_dataexec.log.compressed.expected_rows import RowStream
from kb_messages import LogError

FORM = RowForm(3, ops=(0,), times=(2,), came=2, absent=-1)
PAIRS = RowForm(2, ops=(0,), times=(1,), came=1)


def test_rows_repeat_those_since_a_mark_and_ops_and_times_grow():
    rows = PendingRows(FORM)
    rows.tail.extend((1, 7, -1))
    mark = rows.mark()
    rows.tail.extend((2, 8, 5))
    rows.tail.extend((3, 9, -1))
    rows.repeat(mark, 2, ops=10, ps=3)
    rows.tail.extend((4, 0, 16))
    assert rows.n_kept == 4
    assert rows.has_repeats
    expected = [(1, 7, -1), (2, 8, 5), (3, 9, -1), (12, 8, 8), (13, 9, -1), (22, 8, 11), (23, 9, -1), (4, 0, 16)]
    formula = rows.cut()
    assert formula.n_rows == 8
    assert formula.rows.tolist() == [list(row) for row in expected]
    assert rows.cut().n_rows == 0
    assert not rows.has_repeats


def test_rows_since_a_mark_are_counted_with_rows_that_repeat_them():
    rows = PendingRows(PAIRS)
    rows.tail.extend((1, 1))
    outer = rows.mark()
    rows.tail.extend((2, 2, 3, 3))
    inner = rows.mark()
    rows.tail.extend((4, 4))
    rows.repeat(inner, 5, ops=1, ps=1)
    assert (rows.n_since(outer), rows.n_since(inner)) == (2 + 1 + 5, 1 + 5)
    rows.tail.extend((20, 20))
    assert rows.n_since(outer) == 9
    rows.repeat(outer, 3, ops=100, ps=100)
    assert rows.n_since(outer) == 9 * 4 == rows.n_rows - 1
    assert rows.n_since(inner) == -1, "the last repetition has rows of before the mark"


def test_nothing_is_repeated_where_nothing_came_since_the_mark():
    rows = PendingRows(PAIRS)
    rows.repeat(rows.mark(), 5, ops=1, ps=0)
    rows.tail.extend((1, 2))
    rows.repeat(rows.mark(), 5, ops=1, ps=0)
    assert rows.cut().rows.tolist() == [[1, 2]]


def test_rows_that_are_put_back_come_before_those_that_come_later():
    rows = PendingRows(PAIRS)
    rows.tail.extend((1, 2, 3, 4))
    table = rows.cut().rows
    rows.put_back(table[1:])
    rows.tail.extend((5, 6))
    assert rows.n_kept == 2
    assert rows.cut().rows.tolist() == [[3, 4], [5, 6]]


def test_a_time_beyond_64_bits_is_refused():
    rows = PendingRows(PAIRS)
    rows.tail.extend((1, 1 << 63))
    with pytest.raises(LogError, match="a time that does not fit 64 bits"):
        rows.cut()


@pytest.mark.parametrize("seed", range(40))
def test_nested_repeats_are_those_of_a_plain_list(seed):
    """Marks are kept and used in any order, and before and behind other repeats, as several searches do."""
    rng, rows, plain, marks = random.Random(seed), PendingRows(PAIRS), [], []
    for _ in range(30):
        choice = rng.randrange(4)
        if choice == 0:
            row = [rng.randrange(100), rng.randrange(-1, 100)]
            rows.tail.extend(row)
            plain.append(row)
        elif choice == 1:
            marks.append((rows.mark(), len(plain)))
        elif choice == 2 and marks and len(plain) < 2000:
            mark, at = rng.choice(marks)
            n = rng.randint(1, 3)
            rows.repeat(mark, n, ops=7, ps=0)
            again = plain[at:]
            plain += [[first + 7 * i, second] for i in range(1, n + 1) for first, second in again]
    formula = rows.cut()
    assert formula.n_rows == len(plain)
    assert joined(formula._made(rng.choice((1, 5, 1000))), 2).tolist() == plain
    assert formula.rows.tolist() == plain
    by_time = sorted(plain, key=lambda row: row[1])
    assert formula.in_order().rows.tolist() == by_time


def test_what_is_left_after_a_cut_is_what_came_before_the_mark():
    rows = PendingRows(PAIRS)
    rows.tail.extend((1, 1, 2, 2))
    rows.repeat((2, 0), 1, ops=1, ps=1)
    mark = rows.mark()
    rows.tail.extend((4, 4))
    rows.repeat(mark, 2, ops=1, ps=1)
    assert rows.cut(mark).rows.tolist() == [[4, 4], [5, 5], [6, 6]]
    assert rows.mark() == mark
    rows.tail.extend((7, 7))
    assert rows.cut().rows.tolist() == [[1, 1], [2, 2], [3, 3], [7, 7]]


@pytest.mark.parametrize("shared", [1 << 18, 4])
def test_a_stream_gives_rows_up_to_a_time_once_each(shared, monkeypatch):
    monkeypatch.setattr("kb_dataexec.log.compressed.compressed_rows._SHARED_ROWS", shared)
    monkeypatch.setattr("kb_dataexec.log.compressed.expected_rows._CHUNK_ROWS", 3)
    rows = PendingRows(PAIRS)
    rows.tail.extend((0, 0, 1, 4))
    rows.repeat((0, 0), 4, ops=2, ps=5)
    stream = RowStream(rows.cut(), ops=100, ps=1000)
    assert stream.time_of(3) == 1009
    assert stream.take(1005).tolist() == [[100, 1000], [101, 1004]]
    assert stream.take(1005).tolist() == []
    assert stream.take(1006).tolist() == [[102, 1005]]
    assert stream.time_of(0) == 1009
    assert stream.take(2000)[:, 1].tolist() == [1009, 1010, 1014, 1015, 1019, 1020, 1024]
    assert stream.time_of(0) is None


def test_rows_in_order_are_not_made_anew():
    formula = CompressedRows(PAIRS, [np.array([[0, 1], [1, 1]], np.int64)])
    assert formula.in_order() is formula


@pytest.mark.parametrize("seed", range(20))
def test_a_formula_is_split_at_any_time(seed):
    rng, rows, ps = random.Random(seed), PendingRows(PAIRS), 0
    marks = [(rows.mark(), 0)]
    for _ in range(8):
        for _ in range(rng.randint(1, 3)):
            ps += rng.randint(0, 3)
            rows.tail.extend((rng.randrange(100), ps))
        mark, since_ps = rng.choice(marks)
        n, step = rng.randint(1, 3), ps - since_ps + rng.randint(0, 2)
        rows.repeat(mark, n, ops=7, ps=step)
        ps += n * step
        marks.append((rows.mark(), ps))
    formula = rows.cut()
    assert formula.is_in_order
    for before_ps in rng.sample(range(ps + 2), k=min(50, ps + 2)):
        before, later = formula.split(before_ps)
        assert before.last_ps < before_ps
        assert (later[:, 1] >= before_ps).all()
        assert np.concatenate([before.rows, later]).tolist() == formula.rows.tolist()


def test_a_formula_without_rows_is_split():
    before, later = CompressedRows(PAIRS, []).split(5)
    assert (before.n_rows, later.shape) == (0, (0, 2))
