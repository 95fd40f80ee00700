"""A write that comes in parts: what the memory gets, and when."""

import pytest

from kb_engine.fabric.incoming_write import IncomingWrite, MemoryRequests
from kb_engine.fabric.sharing.arrival_curve import FairShare, SteadyPace
from kb_engine.fabric.transfer_rows import WatchedWrite
from kb_messages import Rectangle

ALL = Rectangle(0, 4, 100, 1000)


class Asked:
    """A memory of one picosecond a byte that keeps what it is asked."""

    burst_nbytes = 64

    def __init__(self):
        self.asked = []

    def reserve(self, t_ps, memory, last_byte_ps, write):
        self.asked.append((t_ps, memory.base, memory.nbytes, last_byte_ps))
        return last_byte_ps + 7, last_byte_ps + 7


@pytest.fixture
def memory():
    return Asked()


def test_without_other_requests_the_memory_gets_the_write_as_a_whole(memory):
    write = IncomingWrite(memory, ALL)
    write.comes(1000, SteadyPace(1000, 1400, 400), 0, 0.0)
    assert write.finish(1400) == 1407
    assert memory.asked == [(1000, 0, 400, 1400)]


def test_what_has_come_is_handed_over_in_whole_bursts(memory):
    write = IncomingWrite(memory, ALL)
    write.comes(1000, SteadyPace(1000, 1400, 400), 0, 0.0)
    write.hand_over(1151)  # 150 bytes came before: row 0, and 50 of row 1 at 1000, which is 40 behind a burst's begin
    # Row 1 has a cut at 1024. 124 bytes came by 1124, and the rest comes from then on.
    assert memory.asked == [(1000, 0, 100, 1151), (1000, 1000, 24, 1151)]
    write.hand_over(1160)
    assert len(memory.asked) == 2
    assert write.finish(1400) == 1407
    assert memory.asked[2:] == [(1124, 1024, 76, 1400), (1124, 2000, 200, 1400)]


def test_nothing_is_handed_over_before_the_first_byte(memory):
    write = IncomingWrite(memory, ALL)
    write.hand_over(500)
    write.comes(1000, SteadyPace(1000, 1400, 400), 0, 0.0)
    write.hand_over(900)
    assert memory.asked == []
    assert write.came_ps == 1000


def test_bytes_that_come_faster_make_up_for_no_slow_ones(memory):
    share = FairShare(0)
    share.change(1000, 0.5)
    write = IncomingWrite(memory, Rectangle(0, 1, 400, 400))
    write.comes(1010, share, 10, 0.0)  # the link is 10 ps away
    share.change(1256, 2.0)  # 128 bytes by then
    requests = MemoryRequests()
    requests.writes.append(write)
    requests.hand_over(1402, write)
    assert memory.asked == [(1010, 0, 64, 1266)]
    assert write.finish(1402) == 1409
    assert memory.asked[1:] == [(1138, 64, 336, 1402)]


def test_a_write_that_begins_later_is_served_after_what_came_before(memory):
    first, second = IncomingWrite(memory, Rectangle(0, 1, 640, 640)), IncomingWrite(memory, Rectangle(4096, 1, 64, 64))
    first.comes(0, SteadyPace(0, 640, 640), 0, 0.0)
    second.comes(257, SteadyPace(257, 321, 64), 0, 0.0)
    requests = MemoryRequests()
    requests.writes += [second, first]
    requests.hand_over(321, second)
    second.finish(321)
    assert [asked[1:3] for asked in memory.asked] == [(0, 256), (256, 64), (4096, 64)]


def test_rows_that_touch_are_cut_at_bursts_alone(memory):
    write = IncomingWrite(memory, Rectangle(0, 16, 16, 16))
    write.comes(0, SteadyPace(0, 256, 256), 0, 0.0)
    write.hand_over(101)
    assert memory.asked == [(0, 0, 64, 101)]


class InTurn(Asked):
    """It serves one request after the other, and says when."""

    has_write_port = False
    free_ps = 0

    def reserve(self, t_ps, memory, last_byte_ps, write):
        self.held = max(t_ps, self.free_ps), max(t_ps, self.free_ps) + memory.nbytes
        self.free_ps = self.held[1]
        return super().reserve(t_ps, memory, last_byte_ps, write)

    def held_ps(self, memory, write):
        return self.held


def test_a_write_that_ends_without_bytes_left_is_not_the_last_to_hold_the_memory():
    memory, holders = InTurn(), [-1]
    first, second, third = (WatchedWrite(memory, Rectangle(op * 4096, 1, 64, 64), holders, op) for op in range(3))
    for write in (first, second, third):
        write.comes(0, SteadyPace(0, 64, 64), 0, 0.0)
    for write in (first, second):
        write.hand_over(65)
    first.finish(65)
    third.finish(65)
    assert [asked[1] for asked in memory.asked] == [0, 4096, 8192]
    assert (second.behind_op, third.behind_op) == (0, 1)
