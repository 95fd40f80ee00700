"""Rows, banks, turnaround and refresh: times by hand, in cycles of 2000 ps.

tRCD 7 cycles, tRP 7, tRAS 17, tRRD_S 2, tRRD_L 3, tFAW 15, tRTP 3, tWR 8, tWTR_S 3, tWTR_L 4, RL 7, WL 2, tCCD_S 1,
tCCD_L 2, tRTW 7; tREFI 1950 and tRFC 130, to which tRP is added. The latency is 10000 ps.
"""

from __future__ import annotations

from fractions import Fraction

import pytest

from kb_components.memory.hbm.banked import HbmBanked
from kb_components.memory.hbm.timing import HbmBankedSpec
from kb_engine.block import Context, MemoryPart
from kb_engine.timing import Clock
from kb_messages import CountedPieces, Rectangle, TopologyError

NBYTES = 1 << 20
ATTRIBUTES = {
    "clock_mhz": 500, "rl_cycles": 7, "wl_cycles": 2, "tccd_s_cycles": 1, "tccd_l_cycles": 2, "trtw_cycles": 7,
    "trcd_ns": 14, "trp_ns": 13.9, "tras_ns": 34, "trrd_s_ns": 4, "trrd_l_ns": 6, "tfaw_ns": 30, "trtp_ns": 6,
    "twr_ns": 16, "twtr_s_ns": 6, "twtr_l_ns": 8, "trefi_ns": 3901, "trfc_ns": 260, "latency_ns": 10,
    "mapping": "6R-1BG-2B-5C-1BG",
}  # fmt: skip
ROW = 16384  # bytes from a row to the next one of the same bank
BANK = 2048  # to the next bank of the same group; groups alternate every 32 bytes


def hbm(**changes: object) -> HbmBanked:
    return HbmBanked(HbmBankedSpec(**{**ATTRIBUTES, **changes}), Context("hbm0", Clock(), None, NBYTES))


def at(base: int, rows: int = 1, row_nbytes: int = 32, stride: int = 0) -> Rectangle:
    return Rectangle(base, rows, row_nbytes, stride or row_nbytes)


def read(block: HbmBanked, t_ps: int, memory: Rectangle) -> tuple[int, int]:
    return block.reserve(t_ps, memory, t_ps, False)


def write(block: HbmBanked, t_ps: int, memory: Rectangle, last_byte_ps: int = 0) -> int:
    first, last = block.reserve(t_ps, memory, last_byte_ps or t_ps, True)
    assert first == last
    return last


def cycles(number: int) -> int:
    return number * 2000 + 10000


def counts(block: HbmBanked) -> tuple[int, int, int]:
    return block.row_hits, block.row_closed, block.row_misses


def test_idle_latencies_of_a_closed_bank_a_hit_and_a_miss():
    block = hbm()
    # Closed: tRCD + RL + one cycle of data = 7 + 7 + 1. The first byte is one cycle before the last.
    assert read(block, 0, at(0)) == (cycles(14), cycles(15))
    # Hit: RL + 1, from cycle 100 on.
    assert read(block, 200_000, at(64)) == (cycles(107), cycles(108))
    # Miss: tRP more than closed.
    assert read(block, 400_000, at(ROW)) == (cycles(221), cycles(222))
    assert counts(block) == (1, 1, 1)


def test_requests_are_taken_at_the_next_edge_of_the_clock():
    block = hbm(trefi_ns=0)
    assert read(block, 1, at(0))[1] == cycles(1 + 15)
    assert read(block, 199_999, at(0))[1] == cycles(100 + 8)
    # 450 MHz: 15 and 8 cycles of 20000/9 ps, rounded up once: 33333.3 and 17777.8. 100 ns are cycle 45 exactly.
    odd = hbm(clock_mhz=450)
    assert read(odd, 0, at(0))[1] == 33334 + 10000
    assert read(odd, 100_000, at(0))[1] == 100_000 + 17778 + 10000


def test_a_long_sequential_read_takes_a_cycle_a_burst_and_its_refreshes():
    block = hbm()
    # 32768 bursts. The first is read at 7, the second, for which a row opens at tRRD_S, at 9, and the last 32766 cycles
    # later, at 32775: all other rows open behind other banks' bytes. The first refresh is due at 1950, the next ones
    # every 1950 - 137 active cycles: (32775 - 1950) // 1813 = 17 more. All in all 18 x 137 = 2466 cycles are lost.
    assert read(block, 0, at(0, 1, NBYTES)) == (cycles(14), cycles(32775 + 2466 + 8))
    assert block.refreshes == 18
    # 64 rows of 16 banks: 16 closed and 63 x 16 misses.
    assert counts(block) == (32768 - 1024, 16, 1008)
    assert block.busy_ps == 32768 * 2000
    assert block.spec.bw_gbs == 16


def test_bursts_of_one_bank_group_are_tccd_l_apart():
    # Every other burst of a row: the last of 10 is read 9 x 2 cycles after the first.
    assert read(hbm(), 0, at(0, 10, 32, 64))[1] == cycles(15 + 18)
    # In both groups, 20 take as long, after the second row: it opens at tRRD_S, and the last is read at 9 + 18.
    assert read(hbm(), 0, at(0, 1, 640))[1] == cycles(9 + 18 + 8)


def test_rows_of_one_bank_follow_each_other_at_tras_plus_trp():
    # Activates at 0, 24, 48, ..: tRAS 17 + tRP 7.
    block = hbm()
    assert read(block, 0, at(0, 40, 32, ROW))[1] == cycles(39 * 24 + 15)
    assert counts(block) == (0, 1, 39)


def test_activates_keep_trrd_and_four_of_them_tfaw():
    # Groups 0, 1, 0, 1, 2 and a bank each: activates at 0, 2, 4, 6 and, by tFAW, 15. The last burst is read at 22.
    assert read(hbm(), 0, at(0, 5, 32, BANK + 32))[1] == cycles(22 + 8)
    # One group: 0, 3, 6 by tRRD_L.
    assert read(hbm(), 0, at(0, 3, 32, BANK))[1] == cycles(6 + 15)


def test_turning_the_bus_around_takes_time():
    block = hbm(trefi_ns=0)
    read(block, 0, at(0, 1, 64))  # columns at 7 and, its row being opened at 2, at 9
    assert write(block, 0, at(128)) == cycles(9 + 7 + 3)  # tRTW; WL and one cycle
    assert read(block, 0, at(32))[1] == cycles(16 + 3 + 3 + 8)  # the other group: WL + 1 + tWTR_S
    write(block, 200_000, at(0))  # at 100
    assert read(block, 200_000, at(64))[1] == cycles(100 + 3 + 4 + 8)  # the same group: tWTR_L
    assert block.turnarounds == 4
    write(block, 400_000, at(0))  # at 200; the row can be closed at 200 + WL + 1 + tWR = 211
    assert write(block, 400_000, at(ROW)) == cycles(211 + 14 + 3)


def test_a_refresh_holds_requests_up_and_closes_rows():
    block = hbm()
    read(block, 0, at(0))
    # tREFI is 1950.5 cycles, rounded down. A request at 1949 is served, with a hit; one at 1950 waits until 2087.
    assert read(block, 1949 * 2000, at(0))[1] == cycles(1949 + 8)
    assert read(block, 1950 * 2000, at(0))[1] == cycles(1950 + 137 + 15)
    assert (counts(block), block.refreshes) == ((1, 2, 0), 1)
    # An idle memory refreshes too.
    assert read(block, 10 * 1950 * 2000 + 500_000, at(0))[1] == cycles(10 * 1950 + 250 + 15)
    assert (counts(block), block.refreshes) == ((1, 3, 0), 10)
    assert read(hbm(trefi_ns=0), 10 * 1950 * 2000, at(0))[1] == cycles(10 * 1950 + 15)


def test_the_closed_policy_closes_rows_when_a_request_is_over():
    block = hbm(page_policy="closed")
    assert read(block, 0, at(0, 1, 32))[1] == cycles(15)
    # Closed at tRAS + tRP = 24: then tRCD, RL, 1.
    assert read(block, 0, at(0, 1, 32))[1] == cycles(24 + 15)
    assert read(block, 200_000, at(ROW))[1] == cycles(100 + 15)
    assert counts(block) == (0, 3, 0)


def test_a_write_is_committed_after_its_last_byte():
    # The row is open at 7; the last byte is there at 50, and is written WL + 1 later.
    assert write(hbm(), 0, at(0, 1, 64), 100_000) == cycles(53)
    assert write(hbm(), 0, at(0, 1, 64)) == cycles(9 + 3)


def test_the_last_byte_holds_the_bus_and_the_row():
    block = hbm()
    write(block, 0, at(0), 100_000)  # at 50
    assert write(block, 0, at(32)) == cycles(51 + 3)
    # The row can be closed at 50 + WL + 1 + tWR = 61.
    assert write(block, 0, at(ROW)) == cycles(61 + 14 + 3)


def test_pseudo_channels_work_side_by_side():
    two = hbm(mapping="5R-1BG-2B-5C-1BG-1PC")
    # 40 bursts: 20 each. Each opens its second group's row at 2, so the second burst is read at 9 and the last at 27.
    assert read(two, 0, at(0, 1, 40 * 32)) == (cycles(14), cycles(27 + 8))
    assert [channel.hits for channel in two.channels] == [18, 18]
    assert two.busy_ps == 20 * 2000
    assert two.spec.bw_gbs == 32


def test_the_mapping_decides_whether_a_stride_hits():
    stride = at(0, 32, 64, 1024)
    by_row = hbm(mapping="2BG-2B-6R-5C")  # a row each: 31 times 24 cycles
    by_column = hbm(mapping="6R-5C-2BG-2B")  # every 1024 bytes is another column of the same four banks' rows
    assert read(by_row, 0, stride)[1] == cycles(31 * 24 + 15 + 2)  # the second burst tCCD_L later
    assert read(by_column, 0, stride)[1] < cycles(31 * 6 + 15)
    assert counts(by_row) == (32, 1, 31)
    assert by_column.row_misses < 8


def test_pieces_open_their_own_rows_and_share_a_request():
    block = hbm()
    # Two rows of one bank: the second is opened tRAS + tRP after the first, and read tRCD + RL + 1 later.
    both = CountedPieces.of((at(0), at(ROW)), 32)
    assert read(block, 0, both) == (cycles(14), cycles(17 + 7 + 7 + 7 + 1))
    assert (block.read_nbytes, block.row_misses) == (64, 1)
    # A write waits for its last byte with its last burst alone: the first one is written in the meantime.
    block = hbm()
    assert write(block, 0, CountedPieces.of((at(0), at(64)), 32), 200_000) == cycles(100 + 2 + 1)
    assert (block.written_nbytes, counts(block)) == (64, (1, 1, 0))


def test_requests_of_no_bytes_hold_nothing():
    block = hbm()
    assert read(block, 5000, Rectangle(0, 0, 0, 0)) == (15000, 15000)
    assert read(block, 0, at(0))[1] == cycles(15)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"mapping": "5R-1BG-2B-5C-1BG"},
            (
                "hbm0.mapping: got 16384 bursts of 32 bytes, 524288 bytes in all, needs the memory's 1048576; "
                "add or remove row bits"
            ),
        ),
        (
            {"mapping": "3R-1BG-3R-2B-5C-1BG"},
            "hbm0.mapping: got 2 row fields, needs one; write all row bits as one R",
        ),
        ({"mapping": "4B-11C"}, "hbm0.mapping: got 0 row fields, needs one; write all row bits as one R"),
        (
            {"trefi_ns": 270},
            (
                "hbm0.trefi_ns: got 135 cycles, of which refresh takes 137, needs time between refreshes; "
                "raise trefi_ns"
            ),
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(changes, message):
    with pytest.raises(TopologyError) as caught:
        hbm(**changes)
    assert str(caught.value) == message


def test_a_kernel_runs_on_it(simulate):
    attributes = ", ".join(f"{name}: {value}" for name, value in ATTRIBUTES.items())
    banked = ("impl: builtin.hbm_fixed, count: 1", f"impl: builtin.hbm_banked, count: 1, {attributes}")
    change = (banked, ("bw_gbs: 50, latency_ns: 30}", "burst_nbytes: 32}"))

    def kernel(tl, a, c):
        tl.store(c, tl.load(a))

    run = simulate(kernel, (16, 16, "f16"), (16, 16, "f16"), changes=change)
    # Issued 7000, set-up 2000, at the slice at 10000: cycle 5. 16 bursts: activates at 5 and 7, columns 12, 14 to 28,
    # bytes to 36. The slice's latency is 10000, the way back 1000.
    assert run.times(0, 0) == [(7000, 7000, 36 * 2000 + 11000, 83000)]
    block = run.engine.components["sip0.cube0.hbm0"]
    assert (block.read_nbytes, block.written_nbytes, block.busy_ps) == (512, 512, 32 * 2000)
    assert (block.row_hits, block.row_closed, block.row_misses, block.turnarounds) == (30, 2, 0, 1)


def test_pseudo_channels_move_whole_bursts_side_by_side():
    block = hbm(mapping="5R-1BG-2B-5C-1BG-1PC")
    each = Fraction(2000, 32)  # a burst of 32 bytes in a cycle of 2000 ps
    assert block.parts == (MemoryPart("", 0, 0, each), MemoryPart("", 0, 0, each))
    read(block, 0, at(0, row_nbytes=40))  # a burst of channel 0, and one of channel 1
    write(block, 500_000, at(64, row_nbytes=8))
    assert block.parts == (MemoryPart("", 32, 32, each), MemoryPart("", 32, 0, each))
    assert (block.read_nbytes, block.written_nbytes) == (40, 8)
