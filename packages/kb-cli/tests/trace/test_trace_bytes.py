"""Hand-made slices and counters, written and read back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from perfetto_decoder import Decoded, Shown

from kb_cli.trace import trace_file
from kb_cli.trace.arrange import arrange
from kb_cli.trace.slices import whole_flows, without_overlap
from kb_cli.trace.trace_file import Unit, trace_blocks
from kb_cli.trace.tracks import Counters, Slices, TrackPlace

PE = TrackPlace("sip0.cube0.pe1", "gemm")
OTHER = TrackPlace("sip0.cube0.pe0", "dma")


def slices(*rows: tuple[int, int, int, int]) -> Slices:
    """Slices of (place, start, end, name), with the number of the row as argument."""
    track, start, end, name = np.array(sorted(rows), np.int64).reshape(-1, 4).T
    return Slices([PE, OTHER], track, start, end, name, ["a", "b", "c"], {"row": np.arange(len(rows))})


def decoded(unit: Unit, *tables: Slices, counters: tuple[Counters, ...] = ()) -> Decoded:
    return Decoded(b"".join(trace_blocks(arrange("run", tables, counters), unit)))


def test_times_are_rounded_down_and_touching_slices_stay_apart() -> None:
    found = decoded(Unit.NS, slices((0, 1999, 3001, 0), (0, 3001, 3001, 1), (0, 3001, 3999, 2), (1, 0, 12_000_000, 0)))
    gemm, dma = ("run", "sip0.cube0.pe1", "gemm"), ("run", "sip0.cube0.pe0", "dma")
    assert found.slices == [
        Shown(gemm, "a", 1, 2, {"row": 0}),
        Shown(gemm, "b", 3, 0, {"row": 1}),
        Shown(gemm, "c", 3, 0, {"row": 2}),
        Shown(dma, "a", 0, 12_000, {"row": 3}),
    ]
    assert found.tracks == [("run",), ("run", "sip0.cube0.pe0"), dma, ("run", "sip0.cube0.pe1"), gemm]


def test_picoseconds_can_be_shown_as_nanoseconds() -> None:
    found = decoded(Unit.PS, slices((0, 1999, 3001, 0), (0, 3001, 3001, 1)))
    assert [(each.ts, each.dur) for each in found.slices] == [(1999, 1002), (3001, 0)]


@pytest.mark.parametrize("end", [2**63 - 1, 2**62])
def test_the_longest_time_fits(end: int) -> None:
    found = decoded(Unit.PS, slices((0, 0, 1, 0), (0, end - 1, end, 0), (1, end, end, 2)))
    assert [(each.ts, each.dur) for each in found.slices] == [(0, 1), (end - 1, 1), (end, 0)]


def test_a_slice_names_only_values_of_its_track() -> None:
    found = decoded(Unit.NS, slices((0, 0, 1, 2), (1, 0, 1, 0)))
    assert {sequence: state["names"] for sequence, state in found._state.items()} == {3: {1: "a"}, 5: {3: "c"}}


def test_counters_have_their_unit_and_every_value() -> None:
    places = [
        TrackPlace("links", "a -> b", "%"),
        TrackPlace("memories", "hbm0", "%"),
        TrackPlace("links", "nobody", "%"),
    ]
    counters = Counters(places, np.array([0, 0, 0, 1]), np.array([0, 1500, 2999, 4000]), np.array([0.5, 100, 0, 12.25]))
    found = decoded(Unit.NS, slices((0, 0, 1, 0)), counters=(counters,))
    link, memory = ("run", "links", "a -> b"), ("run", "memories", "hbm0")
    assert [tuple(each) for each in found.values] == [(link, 0, 0.5), (link, 1, 100), (link, 2, 0), (memory, 4, 12.25)]
    assert found.tracks[3:] == [("run", "memories"), memory, ("run", "links"), link]
    units = {found.path(uuid): each[8] for uuid, each in found.descriptors.items() if 8 in each}
    assert units == {link: [b"\x32\1%"], memory: [b"\x32\1%"]}


@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 20_000), st.integers(0, 5_000), st.integers(0, 2)), min_size=1
    ),
    st.sampled_from(Unit),
    st.integers(1, 4),
)
def test_overlapping_slices_come_back_in_order(drawn: list[tuple[int, int, int, int]], unit: Unit, block: int) -> None:
    rows = [(track, start, start + length, name) for track, start, length, name in drawn]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace_file, "_BLOCK", block)
        found = decoded(unit, without_overlap(slices(*rows)))
    wanted = sorted(
        (["gemm", "dma"][track], start // unit.ps, end // unit.ps - start // unit.ps, "abc"[name])
        for track, start, end, name in rows
    )
    assert sorted((each.track[-1], each.ts, each.dur, each.name) for each in found.slices) == wanted


def test_flows_stand_beside_slices_without_flows() -> None:
    table = slices((0, 0, 5, 0), (0, 5, 9, 1), (0, 9, 9, 0), (1, 0, 300, 2))
    found = decoded(Unit.PS, table._replace(flow=np.array([0, 300, 0, -300])))
    assert [(each.ts, each.dur, each.flow) for each in found.slices] == [
        (0, 5, 0),
        (5, 4, 300),
        (9, 0, 0),
        (0, 300, -300),
    ]


def test_a_flow_whose_other_end_is_not_shown_is_left_out() -> None:
    table = slices((0, 0, 5, 0), (0, 5, 9, 1))._replace(flow=np.array([3, 4]))
    found = whole_flows([table, slices((1, 9, 9, 0))._replace(flow=np.array([-4]))])
    assert [each.flow.tolist() for each in found if each.flow is not None] == [[0, 4], [-4]]
