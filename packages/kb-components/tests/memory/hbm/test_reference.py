"""The banked HBM and its burst-by-burst reference give the same picoseconds and counts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from sampled_cases import examples

from kb_components.memory.hbm.banked import HbmBanked
from kb_components.memory.hbm.reference import ReferenceHbm
from kb_components.memory.hbm.timing import HbmBankedSpec
from kb_engine.block import Context
from kb_engine.timing import Clock
from kb_messages import Rectangle

NBYTES = 1 << 20
MAPPINGS = (
    "4R-1BG-2B-5C-2PC-1BG",  # bank groups interleaved by burst, four pseudo-channels by pairs of bursts
    "7R-5C-2BG-1B",
    "2BG-2B-6R-5C",  # the row below the bank
    "1PC-1BG-1B-3R-2B-5C-1BG-1C",
    "8R-7C",  # one bank
)
TIMINGS = {
    "clock_mhz": 450, "rl_cycles": 7, "wl_cycles": 2, "tccd_s_cycles": 1, "tccd_l_cycles": 2, "trtw_cycles": 7,
    "trcd_ns": 14, "trp_ns": 14, "tras_ns": 34, "trrd_s_ns": 4, "trrd_l_ns": 6, "tfaw_ns": 30, "trtp_ns": 6,
    "twr_ns": 16, "twtr_s_ns": 6, "twtr_l_ns": 8, "trefi_ns": 3900, "trfc_ns": 260, "latency_ns": 80.3,
}  # fmt: skip
SLOW_ROWS = {"trrd_s_ns": 20, "trrd_l_ns": 31, "tfaw_ns": 111, "tras_ns": 90, "tccd_l_cycles": 3, "tccd_s_cycles": 2}

rectangles = st.one_of(
    st.builds(
        lambda base, rows, row_nbytes, gap: Rectangle(base, rows, row_nbytes, row_nbytes + gap),
        st.integers(0, NBYTES // 4),
        st.integers(1, 40),
        st.integers(1, 700),
        st.one_of(st.sampled_from([0, 1, 512, 4096, 16384 - 256, 16384]), st.integers(0, 16000)),
    ),
    st.builds(
        lambda base, rows, row_nbytes: Rectangle(base, rows, row_nbytes, 8192),
        st.integers(0, NBYTES // 64).map(lambda at: at * 32),
        st.integers(1, 60),
        st.sampled_from([32, 64, 256, 8000]),
    ),
    st.builds(
        lambda base, nbytes: Rectangle(base, 1, nbytes, nbytes), st.integers(0, NBYTES // 2), st.integers(1, 150_000)
    ),
    st.builds(lambda rows: Rectangle(64, rows, 33, 0), st.integers(2, 5)),
    st.builds(lambda rows: Rectangle(4000, rows, 40000, 100_000), st.integers(1, 9)),
)
requests = st.lists(
    st.tuples(
        st.one_of(st.just(0), st.integers(0, 3_000_000)),  # picoseconds since the arrival before
        rectangles,
        st.one_of(st.just(0), st.integers(0, 500_000)),  # until the last byte
        st.booleans(),
    ),
    min_size=1,
    max_size=5,
)
small = st.builds(
    Rectangle,
    st.integers(0, 511).map(lambda at: at * 32),
    st.integers(1, 6),
    st.sampled_from([32, 64, 256]),
    st.sampled_from([256, 1024, 2048 + 32, 8192, 16384]),
)
again = st.lists(small, min_size=1, max_size=2).flatmap(
    lambda pool: st.lists(
        st.tuples(
            st.sampled_from([0, 20_000, 60_000, 100_000, 150_000, 4_000_000]),
            st.builds(
                lambda asked, rows: replace(asked, base=asked.base + rows * 16384),
                st.sampled_from(pool),
                st.integers(0, 1),
            ),
            st.sampled_from([0, 0, 90_000]),
            st.booleans(),
        ),
        min_size=10,
        max_size=40,
    )
)


def fits(rectangle: Rectangle) -> bool:
    return rectangle.base + (rectangle.rows - 1) * rectangle.stride + rectangle.row_nbytes <= NBYTES


def block(spec: HbmBankedSpec) -> HbmBanked:
    return HbmBanked(spec, Context("hbm0", Clock(), None, NBYTES))


def counts(hbm: HbmBanked) -> dict[str, int]:
    return {
        "hits": hbm.row_hits,
        "closed": hbm.row_closed,
        "misses": hbm.row_misses,
        "turnarounds": hbm.turnarounds,
    }


specs = st.builds(
    lambda refresh, policy, changes: {**TIMINGS, **changes, "trefi_ns": refresh, "page_policy": policy},
    st.sampled_from([0, 3900, 700]),
    st.sampled_from(["open", "closed"]),
    st.sampled_from([{}, SLOW_ROWS]),
)


def check(spec: HbmBankedSpec, asked: list[tuple[int, Rectangle, int, bool]]) -> None:
    hbm, reference = block(spec), ReferenceHbm(spec)
    now = 0
    for gap, rectangle, spread, write in asked:
        now += gap
        if fits(rectangle):
            request = now, rectangle, now + spread * write, write
            assert hbm.reserve(*request) == reference.reserve(*request)
            assert counts(hbm) == reference.counts


@pytest.mark.parametrize("mapping", MAPPINGS)
@settings(max_examples=examples(25))
@given(asked=requests, attributes=specs)
def test_times_and_counts_are_those_of_bursts_one_by_one(mapping, asked, attributes):
    check(HbmBankedSpec(**attributes, mapping=mapping), asked)


@pytest.mark.parametrize("mapping", MAPPINGS)
@settings(max_examples=examples(40))
@given(asked=again, attributes=specs)
def test_what_is_asked_again_costs_what_it_costs_burst_by_burst(mapping, asked, attributes):
    check(HbmBankedSpec(**attributes, mapping=mapping), asked)


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("policy", ["open", "closed"])
def test_much_of_a_memory_back_to_back_is_no_exception(mapping, policy):
    spec = HbmBankedSpec(**TIMINGS, mapping=mapping, page_policy=policy)
    hbm, reference = block(spec), ReferenceHbm(spec)
    whole, halves = Rectangle(0, 1, NBYTES // 2, NBYTES // 2), Rectangle(96, 256, 1000, 4096)
    for rectangle, write in ((whole, False), (halves, False), (halves, True), (whole, True), (whole, False)):
        assert hbm.reserve(0, rectangle, 0, write) == reference.reserve(0, rectangle, 0, write)
    assert counts(hbm) == reference.counts
