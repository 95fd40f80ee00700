"""What was looked at once is old, and is found when it is garbage; where the collector is off, nothing is looked at."""

import gc
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
