"""Parts of a chip folded into strips of heat, links over time, and the facts of a service: computed by hand."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from web_client import served

from kb_cli.main import kb
from kb_cli.trace.arrange import LINKS
from kb_cli.trace.tracks import Slices, TrackPlace
from kb_cli.trace.traffic import Resource
from kb_cli.trace.transfers import DmaFlow
from kb_cli.web.lanes import link_table
from kb_cli.web.lanes.colourings import by_words
from kb_cli.web.lanes.fold_table import FoldTable
from kb_cli.web.lanes.lane_table import LaneTable
from kb_cli.web.lanes.link_table import LinkTable
from kb_cli.web.lanes.span_sums import RateSums, SpanSums
from kb_dataexec import read_log

PES = ["sip0.cube0.pe0", "sip0.cube0.pe1", "sip0.cube1.pe0"]
SPANS = [  # (lane, start, end): pe0 reads while it multiplies; the write of the host belongs to no PE
    (0, 0, 5),
    (1, 0, 40), (1, 60, 70),
    (2, 20, 60),
    (3, 50, 100),
    (4, 90, 100), (4, 100, 100),
]  # fmt: skip
READ, GEMM = "pe_dma: dma_read", "pe_gemm: gemm"
LANES = [("launches", "host: write"), (PES[0], READ), (PES[0], GEMM), (PES[1], GEMM), (PES[2], READ)]


@pytest.fixture
def folds() -> tuple[FoldTable, LaneTable]:
    lane, start, end = np.array(SPANS, np.int64).T
    stages = [title.partition(": ")[2] for _, title in LANES]
    places = [TrackPlace(*each) for each in LANES]
    table = LaneTable(Slices(places, lane, start, end, lane, stages, {"op": np.arange(len(lane))}), stages, stages)
    return FoldTable(table, ["", PES[0], PES[0], PES[1], PES[2]]), table


def test_a_fold_stands_before_its_parts_and_counts_its_units(folds: tuple[FoldTable, LaneTable]) -> None:
    found = folds[0].folds
    assert [each.name for each in found] == ["", "sip0", "sip0.cube0", PES[0], PES[1], "sip0.cube1", PES[2]]
    assert [(each.first, each.last) for each in found] == [(1, 5), (1, 5), (1, 4), (1, 3), (3, 4), (4, 5), (4, 5)]
    # pe0 is at work from 0 to 70 but for 60 to 60; pe1 from 50 to 100; the other cube from 90 to 100
    assert folds[0].busy_ps.tolist() == [130, 130, 120, 70, 50, 10, 10]
    assert [SPANS[row] for row in folds[0].last_rows] == [(3, 50, 100)] * 3 + [(1, 60, 70), (3, 50, 100)] + [
        (4, 90, 100)
    ] * 2


def test_the_heat_of_a_fold_is_the_mean_share_of_its_units(folds: tuple[FoldTable, LaneTable]) -> None:
    table, lanes = folds
    kinds = by_words(lanes, "stage")
    read, gemm = (kinds.texts.index(each) for each in ("dma_read", "gemm"))
    edges = np.linspace(0, 100, 6)
    pe0, cube0, whole = (table.window(lane, edges, kinds, 99) for lane in (3, 2, 0))
    assert pe0.cover.tolist() == [255, 255, 255, round(255 / 2), 0]
    assert pe0.kind[:3].tolist() == [
        read,
        min(read, gemm),
        gemm,
    ]  # from 20 to 40 both are at work, and one kind is shown
    assert cube0.cover.tolist() == [round(255 * each) for each in (20 / 40, 20 / 40, 30 / 40, 30 / 40, 20 / 40)]
    assert whole.cover.tolist() == [round(255 * each) for each in (1 / 3, 1 / 3, 30 / 60, 30 / 60, 30 / 60)]


@pytest.mark.parametrize("seed", range(3))
def test_sums_of_spans_that_overlap_are_those_of_each_span(seed: int) -> None:
    rng = np.random.default_rng(seed)
    start = rng.integers(0, 10**13, 200)  # ten seconds
    end = start + rng.integers(0, 10**12, 200)
    rate = rng.random(200)
    edges = np.sort(rng.random(9) * 1.1e13)
    each = np.clip(np.minimum(end, edges[1:, None]) - np.maximum(start, edges[:-1, None]), 0, None)
    assert SpanSums(start, end).between(edges) == pytest.approx(each.sum(axis=1), abs=0.01)
    assert RateSums(start, end, rate).between(edges) == pytest.approx((each * rate).sum(axis=1), rel=1e-9)
    assert RateSums(start[:0], end[:0], rate[:0]).between(edges).tolist() == [0.0] * 8


class FakeChip:
    """A chip in which the first flow takes one link, and the second one that link and another one."""


def test_a_link_shows_the_used_part_of_its_bandwidth(monkeypatch: pytest.MonkeyPatch) -> None:
    near, far = ("sip0.cube0.a -> sip0.cube0.b", "sip0.cube0.b -> sip0.cube1.b")
    use = [Resource(TrackPlace(LINKS, title, "%"), gbs) for title, gbs in ((near, 100.0), (far, 50.0))]
    monkeypatch.setattr(link_table, "used_by", lambda flows, chip: [{use[0]: 1.0}, {use[0]: 0.5, use[1]: 1.0}])
    flows = [
        DmaFlow("", "dma_read", 1, np.array([0]), np.array([20_000]), np.array([1000])),  # 50 GB/s for 20 ns
        DmaFlow("", "dma_read", 1, np.array([10_000]), np.array([20_000]), np.array([200])),  # 20 GB/s for 10 ns
    ]
    table = LinkTable(flows, FakeChip())
    assert [place.title for place in table.lanes] == [
        far,
        near,
    ]  # sip0 holds both ends of the first one, cube0 of the other
    assert [each.name for each in table.folds] == ["", "sip0", "sip0.cube0"]
    edges = np.linspace(0, 40_000, 5)
    shares = {lane: (table.window(lane, edges, None, 0).cover / 255).tolist() for lane in (0, 1)}
    assert shares[0] == pytest.approx([0, 20 / 50, 0, 0], abs=1 / 255)
    assert shares[1] == pytest.approx([0.5, (50 + 20 / 2) / 100, 0, 0], abs=1 / 255)
    assert (table.folded(0, edges).cover / 255).tolist() == pytest.approx([0.25, 0.5, 0, 0], abs=1 / 255)
    # 1000 bytes at 100 GB/s take 10 ns, 100 bytes 1 ns, and 200 bytes at 50 GB/s 4 ns
    assert [table.busy_ps(0, 1), table.busy_ps(1, 2), table.busy_ps(0, 2)] == [4000, 11_000, 15_000]


def test_a_service_tells_its_bytes_its_product_and_what_held_it_up(tmp_path: Path) -> None:
    options = ["-p", "M=32", "-p", "N=16", "-p", "K=48", "-p", "tile=32x16x24", "--topology", "one_pe"]
    done = CliRunner().invoke(kb, ["run", "gemm", *options, "--levers", "none", "--out", str(tmp_path)])
    assert done.exit_code == 0
    (folder,) = tmp_path.iterdir()
    log = read_log(folder / "log")
    names = np.array(log.strings)[log.ops["name"]]
    with served(tmp_path) as client:
        (run,) = client.ask("/api/runs").json["runs"]

        def ask(name: str, row: np.void) -> dict:
            return client.ask(f"/api/{name}?run={run['id']}&op={row['op_id']}").json

        read, *_, last = log.ops[names == "dma_read"]
        facts, ns = ask("facts", read), (read["t_end_ps"] - read["t_start_ps"]) / 1000
        assert facts["nbytes"] == 32 * 24 * 2  # a tile of A in f16
        assert facts["gbs"] == pytest.approx(32 * 24 * 2 / ns)
        assert facts["memories"] == ["sip0.cube0.hbm0"]
        assert (facts["mnk"], facts["tflops"]) == (None, None)
        held = ask("cause", last)
        (before,) = log.ops[(names == "dma_read") & (log.ops["t_end_ps"] == last["t_start_ps"])]
        assert (held["via"], held["by"]["op"]) == ("data", before["op_id"])  # one tile reads A, then B
        assert held["by"]["t1_ps"] == last["t_start_ps"]
        (first, *_) = log.ops[names == "gemm"]
        facts, ns = ask("facts", first), (first["t_end_ps"] - first["t_start_ps"]) / 1000
        assert (facts["mnk"], facts["nbytes"], facts["memories"]) == ([32, 16, 24], None, [])
        assert ask("cause", first)["by"]["name"] == "fetch gemm.py:35"
        assert facts["tflops"] == pytest.approx(2 * 32 * 16 * 24 / ns / 1000)
        links = client.ask(f"/api/lanes?run={run['id']}&table=links").json
        assert {each["name"] for each in links["folds"]} == {"", "sip0", "sip0.cube0"}
        assert "served" not in str(links["groups"])
        missing = client.ask(f"/api/facts?run={run['id']}&op=99999999")
        assert (missing.status, "an op of the log" in missing.text) == (400, True)
