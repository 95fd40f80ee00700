"""The page of a chip of 512 PEs, none of which is like another, and what it says when there is little to say."""

from math import log10

import numpy as np
import pytest
from msgspec.structs import replace
from rich.table import Table

from kb_cli.report.data.roofline import DTypePeak, RooflineChart
from kb_cli.report.data.roofline_points import RooflinePoint
from kb_cli.report.data.run_report import ReportBlock, ReportLine, TimeReport
from kb_cli.report.html.page import report_page
from kb_cli.report.pictures.lanes import COLUMNS, MOST, LanePicture, Lanes, MemoryLanes
from kb_cli.report.pictures.png import LEVELS, shaded_png
from kb_cli.report.pictures.roofline_picture import roofline_picture
from kb_cli.report.tables.report_tables import report_tables
from kb_dataexec.analysis import Channels, PathShare, PeShares

BLOCKS = ["pe_gemm", "pe_math", "pe_dma", "pe_fetch_store", "pe_cpu", "pe_scheduler", "hbm", "links"]


def share(block: str, ps: int) -> PathShare:
    return PathShare(block=block, what="service", ps=ps, share=ps / 1000, line="k.py:2", line_ps=ps)


def report_of(n_pes: int) -> TimeReport:
    """Every PE has shares of its own."""
    pes = [
        PeShares(pes=[f"sip{pe // 128}.cube{pe // 8 % 16}.pe{pe % 8}"], shares=[share(each, pe) for each in BLOCKS])
        for pe in range(n_pes)
    ]
    point = RooflinePoint(line="", flops=10**9, ps=10**6, nbytes={"hbm": 10**7, "sram": 10**6, "reg": 10**8})
    return TimeReport(
        run_dir="kb-runs/k",
        benchmark="k",
        topology="four_sip",
        params={"M": 64, "tile": None},
        seed=0,
        sentence="So it is.",
        notes=["a note"],
        latency_ps=1000,
        total_ps=1200,
        verified=False,
        by_sample=False,
        flops=10**9,
        achieved_flops=1e15,
        peak_flops=None,
        speed_of_light="37.0 % of 10,000 GB/s of HBM",
        path=[share(each, 125) for each in BLOCKS],
        blocks=[ReportBlock(block="pe_gemm", path_ps=1, share=0.1, busy_ps=4, hidden_ps=1, of_peak=0.8)],
        lines=[ReportLine(line="k.py:2", number=2, text="b", ps=9, share=0.9, blocks={"hbm": 9}, in_flight_ps=None)],
        roofline=RooflineChart(
            peaks=[DTypePeak(dtypes=["f16"], flops=4e15)],
            bandwidth_gbs={"hbm": 1e4, "sram": 1e5, "reg": 1e5},
            points=[point],
        ),
        pes=pes,
        ties=0,
        benchmark_sha256="0" * 64,
        topology_digest="1" * 64,
        log_digest=None,
        versions={"kb-cli": "0.1.0"},
        environment={"python": "3.11"},
    )


def test_the_page_of_512_pes_that_differ_in_every_pixel_has_less_than_2_mb() -> None:
    rng = np.random.default_rng(0)
    titles = ["pe_dma: dma_read", "pe_fetch_store: fetch", "pe_gemm: gemm", "pe_math: math", "pe_dma: dma_write"]
    titles += ["pe_fetch_store: store"]
    report = report_of(512)
    pictures = [
        LanePicture(each.pes, titles, shaded_png(rng.integers(0, LEVELS + 1, (len(titles), COLUMNS)), LEVELS))
        for each in report.pes
    ]
    noise = shaded_png(rng.integers(0, LEVELS + 1, (MOST, COLUMNS)), LEVELS)
    memories = MemoryLanes([f"sip0.cube0.hbm{number}" for number in range(MOST)], noise, 960)
    page = report_page(report, "a\nb\nc\n", Lanes(0, 1000, pictures, memories))
    assert page.count(b"data:image/png") == 512 + 1
    assert b"held them; 960 quieter ones are left out" in page
    assert 500_000 < len(page) < 2_000_000
    assert page.count(b'<div class="pe">') == 4 + 64 + 512, "SIPs, which open to cubes, which open to PEs"


def test_a_wrong_run_is_marked_and_notes_are_shown() -> None:
    page = report_page(report_of(1), "a\nb\nc\n", None).decode()
    assert '<dd class="bad">FAILED</dd>' in page
    assert '<p class="note">a note</p>' in page
    assert "from call to answer" in page
    assert "<h2>Lanes</h2>" not in page
    assert "<td>b</td>" in page


def test_hidden_work_is_a_part_of_the_bar() -> None:
    """0.8 of the peak, a quarter of it hidden."""
    page = report_page(report_of(1), "", None).decode()
    assert '<i class="path" style="width:60.000%"></i><i class="hidden" style="width:20.000%"></i>' in page


def test_a_mark_stands_where_its_numbers_say() -> None:
    """1e15 FLOP/s and 100 FLOP a byte. The slope meets the peak of 2e15 at 200 FLOP a byte."""
    chart = RooflineChart(
        peaks=[DTypePeak(dtypes=["f16"], flops=2e15)],
        bandwidth_gbs={"hbm": 1e4, "sram": 1e5},
        points=[RooflinePoint(line="", flops=10**9, ps=10**6, nbytes={"hbm": 10**7})],
    )
    picture = roofline_picture(chart)
    assert picture is not None
    # x spans a power of ten around 100 * sqrt(2), from 96 to 630 pixels; y one around 1e15 * sqrt(2), from 356 up to 30
    assert f"M{96 + 534 * (0.5 - log10(2) / 2) - 5:.2f} {356 - 326 * (0.5 - log10(2) / 2):.2f}a5 5 0 1 0" in picture
    assert "SRAM" not in picture, "no byte of the run is of SRAM"


@pytest.mark.parametrize("nbytes", [{}, {"hbm": 0}, {"elsewhere": 5}])
def test_a_run_without_bytes_has_no_picture(nbytes: dict[str, int]) -> None:
    point = RooflinePoint(line="", flops=1, ps=1, nbytes=nbytes)
    assert roofline_picture(RooflineChart(peaks=[], bandwidth_gbs={"hbm": 1.0}, points=[point])) is None


def test_the_picture_holds_runs_that_did_next_to_nothing() -> None:
    point = RooflinePoint(line="<x>", flops=1, ps=10**18, nbytes={"hbm": 10**18})
    peak = DTypePeak(dtypes=["f16"], flops=1e15)
    picture = roofline_picture(RooflineChart(peaks=[peak], bandwidth_gbs={"hbm": 1e3}, points=[point]))
    assert picture is not None
    assert picture.count("<line") < 60
    assert "<x>" not in picture


def test_channels_of_512_pes_that_differ_stay_short():
    channels = [
        Channels(
            src=f"pe{pe}", dst=f"pe{pe + 1}", tag="tag 0", channels=1, messages=1, nbytes=64, mean_ps=pe,
            longest_ps=pe, slots=1, busy_slots=1.0,
        )
        for pe in range(512)
    ]  # fmt: skip
    page = report_page(replace(report_of(1), channels=channels), "", None).decode()
    assert "pe11 -&gt; pe12" in page
    assert "500 more: see --json" in page
    assert "pe12 -&gt; pe13" not in page
    assert "Channels" not in report_page(report_of(1), "", None).decode()


def test_the_terminal_has_a_page_of_512_pes_500_launches_and_100_lines() -> None:
    report = report_of(512)
    points = [replace(report.roofline.points[0], name=f"launch {at}") for at in range(500)]
    lines = [replace(report.lines[0], line=f"k.py:{at}", number=at) for at in range(100)]
    tables = report_tables(replace(report, roofline=replace(report.roofline, points=points), lines=lines))
    by_header = {str(each.columns[0].header): each for each in tables if isinstance(each, Table)}
    assert [by_header[name].row_count for name in ("line", "roofline", "PE")] == [20 + 1, 12 + 1 + 1, 4]
    assert list(by_header["PE"].columns[0].cells) == [f"sip{sip} (128 PEs)" for sip in range(4)]
