import gc

import pytest

from kb_engine.timing.collector import lasting_objects


@pytest.fixture
def _enabled():
    gc.enable()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("_enabled")
def test_what_was_made_is_old_and_still_collected():
    with lasting_objects():
        assert not gc.isenabled()
        made = [[]]
        made.append(made)
    assert gc.isenabled()
    assert any(each is made for each in gc.get_objects(generation=2))
    del made
    assert gc.collect() >= 1


@pytest.mark.usefixtures("_enabled")
def test_objects_that_somebody_keeps_out_of_sight_stay_there():
    gc.freeze()
    frozen = gc.get_freeze_count()
    with lasting_objects():
        pass
    assert gc.get_freeze_count() == frozen > 0
