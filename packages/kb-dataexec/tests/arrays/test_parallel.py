import os
import signal
import threading
import warnings
from contextvars import ContextVar

import numpy as np
import pytest

from kb_dataexec.arrays import parallel
from kb_dataexec.arrays.parallel import in_chunks, in_parallel, parts

asked: ContextVar[str] = ContextVar("asked", default="nobody")


@pytest.fixture(params=[1, 3])
def workers(request, monkeypatch):
    parallel._pool.cache_clear()
    monkeypatch.setattr(parallel, "WORKERS", request.param)
    yield request.param
    parallel._pool.cache_clear()


def test_every_item_is_done_in_the_callers_context(workers):
    asked.set("me")
    found = []
    in_parallel(lambda item: found.append((item, asked.get())), range(20))
    assert sorted(found) == [(item, "me") for item in range(20)]


def test_it_takes_as_many_threads_as_there_are_workers(monkeypatch):
    monkeypatch.setattr(parallel, "WORKERS", 3)
    parallel._pool.cache_clear()
    meet = threading.Barrier(3, timeout=10)
    in_parallel(lambda _: meet.wait(), range(3))  # a thread too few, and the barrier breaks
    parallel._pool.cache_clear()


def test_a_task_that_splits_its_work_does_it_on_its_own_thread(workers):
    found = []

    def outer(item):
        here = threading.get_ident()
        in_parallel(lambda inner: found.append((item, inner, threading.get_ident() == here)), range(3))

    in_parallel(outer, range(6))
    assert sorted(found) == [(item, inner, True) for item in range(6) for inner in range(3)]


def test_the_first_item_that_fails_says_so_once_all_are_done(workers):
    done = []

    def task(item):
        if item in (2, 3):
            raise ValueError(f"item {item}")
        done.append(item)

    with pytest.raises(ValueError, match=r"^item 2$"):
        in_parallel(task, range(6))
    assert sorted(done) == ([0, 1] if workers == 1 else [0, 1, 4, 5])


def test_floating_point_errors_are_ignored(workers):
    def overflow(_):
        assert np.isinf(np.float32(1e38) * np.float32(1e38))

    in_parallel(overflow, range(4))


@pytest.mark.parametrize("length", [0, 1, 2, 10, 101])
def test_parts_and_chunks_make_up_the_whole(workers, length, monkeypatch):
    monkeypatch.setattr(parallel, "_CHUNK", 4)
    whole = list(range(length))
    assert [each for some in parts(length) for each in whole[some]] == whole
    assert len(parts(length)) == workers
    chunks = []
    in_chunks(chunks.append, length)
    assert sorted(each for chunk in chunks for each in whole[chunk]) == whole
    assert all(0 < chunk.stop - chunk.start <= 4 for chunk in chunks)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_copy_of_the_process_has_threads_of_its_own(monkeypatch):
    monkeypatch.setattr(parallel, "WORKERS", 3)
    parallel._pool.cache_clear()
    in_parallel(lambda _: None, range(20))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of threads in the process
        child = os.fork()
    if not child:
        signal.alarm(10)  # work on threads that are not there never ends
        found = []
        in_parallel(found.append, range(20))
        os._exit(sorted(found) != list(range(20)))
    assert os.waitpid(child, 0)[1] == 0
    parallel._pool.cache_clear()
