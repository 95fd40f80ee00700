import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_engine.block.buffers import Region, Ring, Slots


def test_pieces_take_slots_in_turn():
    slots = Slots(100, 10, 3, first=2)
    assert [slots.offset(number) for number in range(5)] == [120, 100, 110, 120, 100]


def test_an_equal_cut_goes_on_where_the_last_one_stopped():
    ring = Ring()
    first = ring.cut(0, 16, 4, pieces=3)
    second = ring.cut(0, 16, 4, pieces=2)
    third = ring.cut(0, 16, 4, pieces=1)
    assert [first.offset(n) for n in range(3)] == [0, 16, 32]
    assert [second.offset(n) for n in range(2)] == [48, 0]
    assert third.offset(0) == 16


def test_another_cut_begins_at_the_first_slot():
    ring = Ring()
    ring.cut(0, 16, 4, pieces=3)
    assert ring.cut(0, 8, 8, pieces=1) == Slots(0, 8, 8)


def test_a_slot_is_free_again_when_it_is_given_back():
    region = Region(0, 64)
    assert region.claim("cut", 0, 32)
    assert not region.claim("cut", 0, 32)
    region.free(0)
    assert region.claim("cut", 0, 32)
    assert region.live_nbytes == 32


def test_a_new_cut_waits_for_the_bytes_of_the_old_one():
    region = Region(0, 96)
    assert region.claim(32, 0, 32)
    assert region.claim(32, 32, 32)
    assert not region.claim(48, 0, 48)
    region.free(0)
    assert not region.claim(48, 0, 48)  # 32 to 48 is still live
    region.free(32)
    assert region.claim(48, 0, 48)
    assert region.claim(48, 48, 48)


def test_a_new_cut_takes_at_once_what_the_old_one_does_not_hold():
    region = Region(0, 96)
    assert region.claim(32, 0, 32)
    assert region.claim(48, 48, 48)
    assert region.live_nbytes == 80


def test_the_old_cut_still_knows_of_the_new_one():
    region = Region(0, 96)
    assert region.claim(48, 48, 48)
    assert not region.claim(32, 64, 32)
    assert not region.claim(32, 32, 32)
    assert region.claim(32, 0, 32)


def test_what_was_not_claimed_cannot_be_given_back():
    with pytest.raises(KeyError):
        Region(0, 64).free(0)


@given(
    st.lists(st.integers(8, 60), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.integers(0, 20)), max_size=60),
)
def test_live_claims_never_share_a_byte_and_a_refusal_has_a_reason(sizes, steps):
    region, live = Region(0, 128), {}
    for which, gives_back, number in steps:
        if gives_back and live:
            region.free(offset := sorted(live)[number % len(live)])
            del live[offset]
            continue
        nbytes = sizes[which % len(sizes)]
        offset = number % (128 // nbytes) * nbytes
        bytes_now = set(range(offset, offset + nbytes))
        clashes = any(bytes_now & other for other in live.values())
        assert region.claim(nbytes, offset, nbytes) == (not clashes)
        if not clashes:
            live[offset] = bytes_now
        assert region.live_nbytes == sum(map(len, live.values()))


@given(st.integers(1, 6), st.lists(st.integers(1, 12), min_size=1, max_size=8))
def test_commands_of_one_cut_take_slots_first_in_first_out(count, commands):
    ring = Ring()
    taken = [
        slots.offset(n) for pieces in commands for slots in [ring.cut(64, 8, count, pieces)] for n in range(pieces)
    ]
    assert taken == [64 + number % count * 8 for number in range(len(taken))]


def test_a_claim_elsewhere_takes_the_first_piece_that_is_large_enough():
    region = Region(1000, 100)
    assert region.claim("cut", 1010, 10)
    assert region.claim("cut", 1040, 20)
    assert [region.room_for(nbytes) for nbytes in (10, 11, 20, 21, 40, 41, 71)] == [
        1000,
        1020,
        1020,
        1060,
        1060,
        None,
        None,
    ]
    assert region.claim_elsewhere(15) == 1020
    assert region.claim_elsewhere(15) == 1060
    assert region.live_nbytes == 60
    assert not region.claim("cut", 1030, 10)
    region.free(1020)
    assert region.claim("cut", 1030, 10)
    assert region.claim_elsewhere(41) is None


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 3)), max_size=60))
def test_bytes_that_are_free_in_one_piece_are_claimed(steps):
    region, live = Region(8, 64), {}
    for nbytes, which in steps:
        if which and live:
            region.free(offset := sorted(live)[which % len(live)])
            del live[offset]
        free = "".join(".X"[any(at in taken for taken in live.values())] for at in range(8, 72))
        at = region.claim_elsewhere(nbytes)
        assert at == (8 + free.index("." * nbytes) if "." * nbytes in free else None)
        if at is not None:
            live[at] = range(at, at + nbytes)
        assert region.live_nbytes == sum(map(len, live.values()))


def test_a_claim_elsewhere_may_have_to_end_before_a_place():
    region = Region(0, 100)
    assert region.claim_at(0, 40)
    assert region.room_for(40) == 40
    assert region.room_for(40, end=79) is None
    assert region.claim_elsewhere(39, end=79) == 40
