import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_engine.memory.allocator import Allocator, Lease, OutOfMemoryError
from kb_messages import KbError


def test_ranges_are_handed_out_from_the_lowest_address_on_and_aligned():
    allocator = Allocator("hbm0", 4096, 1024)
    assert [allocator.allocate(nbytes) for nbytes in (1, 64, 65, 10)] == [4096, 4160, 4224, 4352]
    assert allocator.free_nbytes == 1024 - 64 - 64 - 128 - 64


def test_nothing_takes_a_place_too():
    allocator = Allocator("hbm0", 0, 128)
    assert [allocator.allocate(0), allocator.allocate(0)] == [0, 64]


def test_the_range_of_equal_size_that_came_back_longest_ago_is_taken():
    allocator = Allocator("hbm0", 0, 1024)
    starts = [allocator.allocate(128) for _ in range(4)]
    for start in (starts[2], starts[0]):
        allocator.release(start)
    assert [allocator.allocate(128) for _ in range(3)] == [starts[2], starts[0], 512]


def test_without_one_of_its_size_the_largest_is_split():
    allocator = Allocator("hbm0", 0, 1024)
    starts = [allocator.allocate(128) for _ in range(2)]
    allocator.release(starts[0])
    assert allocator.allocate(64) == 256
    assert allocator.allocate(128) == starts[0]


def test_of_largest_ranges_the_lowest_is_split():
    allocator = Allocator("hbm0", 0, 512)
    starts = [allocator.allocate(128) for _ in range(4)]
    for start in (starts[2], starts[0]):
        allocator.release(start)
    assert [allocator.allocate(64), allocator.allocate(64)] == [0, 64]


def test_neighbours_that_come_back_are_one_piece_again():
    allocator = Allocator("hbm0", 0, 192)
    for start in [allocator.allocate(64) for _ in range(3)][::-1]:
        allocator.release(start)
    assert allocator.allocate(192) == 0


def test_a_range_is_taken_at_an_address_of_free_bytes():
    allocator = Allocator("tcm", 4096, 1024)
    starts = [allocator.allocate(256) for _ in range(4)]
    for start in (starts[1], starts[2]):
        allocator.release(start)
    allocator.take(starts[1] + 128, 200, "y")  # over the end of the first free range, and 256 bytes in whole blocks
    assert allocator.free_ranges() == [(starts[1], starts[1] + 128), (starts[2] + 128, starts[3])]
    assert (allocator.free_nbytes, allocator.held()) == (256, {"y": 256})
    lease = Lease(allocator)
    assert lease.take(starts[1], 64) == starts[1]
    lease.end()
    allocator.release(starts[1] + 128)
    assert allocator.free_ranges() == [(starts[1], starts[3])]


def test_a_full_memory_says_how_much_there_is():
    allocator = Allocator("sip0.cube0.hbm0", 0, 256)
    starts = [allocator.allocate(64) for _ in range(4)]
    allocator.release(starts[0])
    allocator.release(starts[2])
    with pytest.raises(OutOfMemoryError) as caught:
        allocator.allocate(100)
    assert str(caught.value) == (
        "sip0.cube0.hbm0: got a request for 100 bytes, needs at most 64 in one piece (128 of 256 are free); "
        "use smaller tensors or a larger memory"
    )


def test_a_request_that_is_rounded_up_says_to_what():
    with pytest.raises(OutOfMemoryError) as caught:
        Allocator("sip0.cube0.hbm0", 0, 1 << 20, alignment=1 << 21).allocate(2080)
    assert str(caught.value) == (
        "sip0.cube0.hbm0: got a request for 2080 bytes, which takes 2097152 in whole pages or blocks of 2097152, "
        "needs at most 1048576 in one piece (1048576 of 1048576 are free); use smaller tensors or a larger memory"
    )


def test_an_empty_memory_has_nothing():
    with pytest.raises(OutOfMemoryError) as caught:
        Allocator("tcm", 0, 0).allocate(1)
    assert str(caught.value) == (
        "tcm: got a request for 1 bytes, needs at most 0 in one piece (0 of 0 are free); "
        "use smaller tensors or a larger memory"
    )


@pytest.mark.parametrize("start", [0, 64, 128])
def test_what_is_not_allocated_cannot_be_released(start):
    allocator = Allocator("tcm", 0, 256)
    if start == 0:
        allocator.release(allocator.allocate(64))
    else:
        assert allocator.allocate(192) == 0
    with pytest.raises(KbError) as caught:
        allocator.release(start)
    assert str(caught.value) == (
        f"tcm: got a release of {start:#x}, needs the start of an allocation that is not yet released"
    )


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 700)), max_size=60))
def test_allocations_never_overlap_and_everything_comes_back(steps):
    allocator, live = Allocator("tcm", 640, 2048), {}
    for gives_back, number in steps:
        if gives_back and live:
            start = sorted(live)[number % len(live)]
            allocator.release(start)
            del live[start]
            continue
        size = max(1, -(-number // 64)) * 64
        # Whether it fits, by looking at every aligned start.
        taken = {byte for start, end in live.items() for byte in range(start, end, 64)}
        fits = [s for s in range(640, 2688 - size + 1, 64) if not taken & set(range(s, s + size, 64))]
        if fits:
            start = allocator.allocate(number)
            assert start in fits
            live[start] = start + size
        else:
            with pytest.raises(OutOfMemoryError):
                allocator.allocate(number)
        assert allocator.free_nbytes == 2048 - sum(end - start for start, end in live.items())
    for start in live:
        allocator.release(start)
    assert allocator.allocate(2048) == 640


def test_a_full_memory_names_the_three_largest_holders():
    allocator = Allocator("hbm0", 0, 1024)
    for holder, nbytes in (("a", 64), ("b", 128), ("c", 192), ("", 256), ("a", 128), ("d", 64)):
        allocator.allocate(nbytes, holder)
    with pytest.raises(OutOfMemoryError) as caught:
        allocator.allocate(200)
    assert str(caught.value) == (
        "hbm0: got a request for 200 bytes, needs at most 192 in one piece (192 of 1024 are free, a holds 192, "
        "c holds 192, b holds 128); use smaller tensors or a larger memory"
    )


def test_a_lease_gives_back_what_it_holds_and_nothing_else():
    allocator = Allocator("tcm", 0, 256)
    kept = allocator.allocate(64)
    lease = Lease(allocator)
    starts = [lease.allocate(64, "kernel.py:3") for _ in range(3)]
    lease.release(starts[1])
    lease.end()
    assert allocator.free_nbytes == 192
    lease.end()
    allocator.release(kept)
    assert allocator.allocate(256) == 0


def test_free_bytes_can_be_given_up_and_added_again():
    allocator = Allocator("m", 1000, 640)
    first = allocator.allocate(128)
    assert allocator.free_ranges() == [(1128, 1640)]
    allocator.give_up(1448, 192)
    assert (allocator.free_ranges(), allocator.nbytes, allocator.free_nbytes) == ([(1128, 1448)], 448, 320)
    assert allocator.has_room(320)
    assert not allocator.has_room(321)
    allocator.add(1448, 192)
    assert (allocator.nbytes, allocator.free_nbytes) == (640, 512)
    allocator.release(first)
    assert allocator.allocate(640) == 1000


def test_bytes_in_the_middle_of_free_ones_can_be_given_up():
    allocator = Allocator("m", 0, 256)
    allocator.give_up(64, 64)
    assert allocator.free_ranges() == [(0, 64), (128, 256)]
    assert allocator.allocate(128) == 128
    assert allocator.allocate(64) == 0
    allocator.add(64, 64)
    assert allocator.allocate(64) == 64
