"""Outcomes whose rows take much room are dropped, those first that were used longest ago."""

import numpy as np

from kb_dataexec.log.compressed.compressed_rows import (
    DISPATCHES,
    RECORDS,
    TRANSFERS,
    WAITS,
    CompressedRows,
    CompressedTables,
)
from kb_engine.fastforward.isolated.isolated_result import IsolatedResult
from kb_engine.fastforward.isolated.result_cache import ResultCache


def outcome(n_stages):
    """One whose records take 40 bytes a stage; None has no log."""
    if n_stages is None:
        return IsolatedResult(1, (), (), (), (), (), {}, (), None)
    records = CompressedRows(RECORDS, [np.zeros((n_stages, 5), np.int64)])
    others = [CompressedRows(form, []) for form in (WAITS, DISPATCHES, TRANSFERS)]
    return IsolatedResult(1, (), (), (), (), (), {}, (), CompressedTables(records, *others))


def test_those_that_were_used_longest_ago_go_when_all_are_too_large():
    known = ResultCache(most_nbytes=100 * 40)
    first, second, third = (known.of(key) for key in ("first", "second", "third"))
    for each in (first, second):
        known.keep(each, outcome(40))
    known.use(first)
    known.keep(third, outcome(40))
    assert [len(each.outcomes) for each in (first, second, third)] == [1, 0, 1]
    known.keep(second, outcome(20))
    assert [len(each.outcomes) for each in (first, second, third)] == [1, 1, 1]


def test_the_last_one_is_kept_however_large_it_is():
    known = ResultCache(most_nbytes=40)
    large, small = known.of("large"), known.of("small")
    known.keep(large, outcome(100))
    assert len(large.outcomes) == 1
    known.keep(small, outcome(1))
    assert (len(large.outcomes), len(small.outcomes)) == (0, 1)


def test_outcomes_without_a_log_take_no_room():
    known = ResultCache(most_nbytes=1)
    for number in range(100):
        known.keep(known.of(number), outcome(None))
    assert all(len(known.of(number).outcomes) == 1 for number in range(100))
