"""Results whose rows take much room are dropped, those first that were used longest ago."""

import numpy as np

from kb_dataexec.log.compressed import DISPATCHES, RECORDS, TRANSFERS, WAITS, CompressedRows, CompressedTables
from kb_engine.fastforward.isolated.result_cache import IsolatedResult, ResultCache


def result(n_stages):
    """One whose records take 40 bytes a stage; None has no log."""
    if n_stages is None:
        return IsolatedResult(1, (), (), (), (), (), {}, (), None)
    records = CompressedRows(RECORDS, [np.zeros((n_stages, 5), np.int64)])
    others = [CompressedRows(form, []) for form in (WAITS, DISPATCHES, TRANSFERS)]
    return IsolatedResult(1, (), (), (), (), (), {}, (), CompressedTables(records, *others))


def test_those_that_were_used_longest_ago_go_when_all_are_too_large():
    cache = ResultCache(most_nbytes=100 * 40)
    first, second, third = (cache.of(key) for key in ("first", "second", "third"))
    for each in (first, second):
        cache.keep(each, result(40))
    cache.use(first)
    cache.keep(third, result(40))
    assert [len(each.results) for each in (first, second, third)] == [1, 0, 1]
    cache.keep(second, result(20))
    assert [len(each.results) for each in (first, second, third)] == [1, 1, 1]


def test_the_last_one_is_kept_however_large_it_is():
    cache = ResultCache(most_nbytes=40)
    large, small = cache.of("large"), cache.of("small")
    cache.keep(large, result(100))
    assert len(large.results) == 1
    cache.keep(small, result(1))
    assert (len(large.results), len(small.results)) == (0, 1)


def test_results_without_a_log_take_no_room():
    cache = ResultCache(most_nbytes=1)
    for number in range(100):
        cache.keep(cache.of(number), result(None))
    assert all(len(cache.of(number).results) == 1 for number in range(100))
