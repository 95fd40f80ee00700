"""What was looked at once is old, and is found when it is garbage; where the collector is off, nothing is looked at."""

import gc
from threading import Event, Thread
from weakref import ref

from kb_engine.timing.collector import collector_off, look_once


class Part:
    def __init__(self):
        self.itself = self


def is_in(generation, part):
    return any(each is part for each in gc.get_objects(generation))


def test_what_was_looked_at_once_is_old_and_is_found_when_it_is_garbage():
    part = Part()
    look_once()
    assert is_in(2, part)
    dropped = ref(part)
    del part
    gc.collect()
    assert dropped() is None


def test_nothing_is_looked_at_where_the_collector_is_off():
    with collector_off():
        part = Part()
        look_once()
        assert not is_in(2, part)


def test_the_collector_is_off_until_the_last_thread_wants_it_on():
    entered, leaves = Event(), Event()

    def other():
        with collector_off():
            entered.set()
            assert leaves.wait(60)

    thread = Thread(target=other)
    with collector_off():
        thread.start()
        assert entered.wait(60)
    is_on = gc.isenabled()
    leaves.set()
    thread.join()
    assert not is_on
    assert gc.isenabled()
