"""What was looked at once is old, and is found when it is garbage; where the collector is off, nothing is looked at."""

import gc
from threading import Event, Thread
from weakref import ref

import pytest

from kb_engine.timing.collector import collect_once, collect_youngest, collector_off


class Part:
    def __init__(self):
        self.itself = self


@pytest.fixture(autouse=True)
def as_python_starts():
    """A collector with Python's own thresholds and nothing frozen, unlike that of the other tests."""
    thresholds = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    gc.unfreeze()
    yield
    gc.freeze()
    gc.set_threshold(*thresholds)


@pytest.fixture
def looks():
    """The generations that the collector looked at."""
    found = []

    def note(phase, info):
        if phase == "start":
            found.append(info["generation"])

    gc.callbacks.append(note)
    yield found
    gc.callbacks.remove(note)


def is_in(generation, part):
    return any(each is part for each in gc.get_objects(generation))


def test_what_was_looked_at_once_is_old_and_is_found_when_it_is_garbage():
    part = Part()
    collect_once()
    assert is_in(2, part)
    dropped = ref(part)
    del part
    gc.collect()
    assert dropped() is None


def test_dropped_objects_are_found_where_few_are_young_each_time(looks):
    """A program that makes one small chip after another never has so many young objects that Python looks itself."""
    part = Part()
    collect_once()
    dropped = ref(part)
    del part
    kept = []
    while not looks.count(2) and len(kept) < 1 << 12:
        with collector_off():
            kept.append([[] for _ in range(300)])
        collect_once()
    assert looks.count(2) == 1
    assert dropped() is None


def test_nothing_is_looked_at_where_the_collector_is_off():
    with collector_off():
        part = Part()
        collect_once()
        assert not is_in(2, part)


@pytest.fixture(params=["disable", "set_threshold"])
def turned_off(request):
    threshold = gc.get_threshold()
    if request.param == "disable":
        gc.disable()
    else:
        gc.set_threshold(0)
    yield
    gc.set_threshold(*threshold)
    gc.enable()


def test_nobody_looks_where_a_program_has_turned_the_collector_off(turned_off, looks):
    is_on = gc.isenabled()
    for _ in range(20):  # 2^15 objects each, so all would be due
        collect_once()
        with collector_off():
            parts = [Part() for _ in range(1 << 15)]
            collect_youngest()
    assert not looks
    assert not is_in(2, parts[0])
    assert gc.isenabled() == is_on


def test_the_youngest_are_looked_at_within_the_block(looks):
    with collector_off():
        collect_youngest()
    assert looks == [0]


def test_many_objects_are_old_after_the_block_without_a_look(looks):
    with collector_off():
        parts = [Part() for _ in range(1 << 15)]
    assert is_in(2, parts[0])
    assert is_in(2, parts[-1])
    assert not looks
    assert not gc.get_freeze_count()


def test_few_objects_stay_young():
    with collector_off():
        part = Part()
    assert not is_in(2, part)


def test_all_are_looked_at_before_too_many_became_old_without_a_look(looks):
    gc.collect()
    part = Part()
    dropped = ref(part)
    del part
    kept = []
    for _ in range(40):  # 2^15 objects each, as those before the first look at all have no quarter
        with collector_off():
            kept.append([[] for _ in range(1 << 15)])
        if dropped() is None:
            break
    assert looks.count(2) == 2
    assert dropped() is None


def test_objects_that_somebody_froze_stay_frozen():
    frozen = Part()
    gc.freeze()
    try:
        with collector_off():
            parts = [Part() for _ in range(1 << 15)]
        assert gc.get_freeze_count()
        assert not is_in(2, frozen)
        assert not is_in(2, parts[-1])
    finally:
        gc.unfreeze()


def test_objects_that_python_froze_as_it_started_are_none_of_somebody(monkeypatch):
    monkeypatch.setattr(gc, "get_freeze_count", lambda: 375)
    with collector_off():
        parts = [Part() for _ in range(1 << 15)]
    assert is_in(2, parts[-1])


def test_the_collector_is_on_after_an_interrupt_of_its_look_at_all(monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    def make_many():
        for _ in range(40):
            with collector_off():
                kept.append([[] for _ in range(1 << 15)])

    kept = []
    gc.collect()
    monkeypatch.setattr(gc, "collect", interrupt)
    with pytest.raises(KeyboardInterrupt):
        make_many()
    is_on = gc.isenabled()
    gc.enable()
    assert is_on


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
