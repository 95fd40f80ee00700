"""The picture of a roofline can be read: no label is cut, struck through, or on another one."""

import numpy as np
import pytest
from picture_flaws import picture_flaws

from kb_cli.report.data.roofline import DTypePeak, RooflineChart
from kb_cli.report.data.roofline_points import RooflinePoint
from kb_cli.report.pictures.plots.placed_labels import Box, LabelPlaces, Segment
from kb_cli.report.pictures.plots.plot import alone
from kb_cli.report.pictures.roofline_picture import roofline_plot

RUN = RooflinePoint(line="", flops=10**9, ps=10**7, nbytes={"hbm": 10**7, "reg": 10**8})


def chart_of(points: list[RooflinePoint], **more: float) -> RooflineChart:
    peaks = [DTypePeak(dtypes=["f16"], flops=1e15), DTypePeak(dtypes=["f32"], flops=2.5e14)]
    spaces = {"hbm": 1e4, "sram": 2e4, "reg": 2.4e4}
    return RooflineChart(peaks=peaks, bandwidth_gbs=spaces, points=points, **more)


def crowd(count: int, spread: float) -> list[RooflinePoint]:
    """Points around the run, some at the very same place, and names of all lengths."""
    rng = np.random.default_rng(count)
    factors = np.exp(rng.normal(0, spread, (count, 2)))
    return [
        RooflinePoint(
            line="",
            name=f"launch {at}" * (1 + at % 3),
            flops=10**9,
            ps=round(10**7 * a),
            nbytes={"hbm": round(10**7 * b)},
        )
        for at, (a, b) in enumerate(factors.tolist())
    ]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize(("count", "spread"), [(0, 0.0), (12, 0.0), (12, 0.05), (12, 3.0), (60, 0.5)])
def test_every_label_can_be_read(count: int, spread: float, dark: bool) -> None:
    plot = roofline_plot(chart_of([RUN, *crowd(count, spread)], math_flops=4e13))
    assert plot is not None
    assert picture_flaws(alone(plot, "a run"), dark=dark) == []
    drawn = "".join(plot.parts)
    for each in ("GEMM f16 1 PFLOP/s", "GEMM f32 250 TFLOP/s", "math units 40 TFLOP/s", "HBM 10,000 GB/s", ">the run<"):
        assert each in drawn
    assert "SRAM" not in drawn
    assert drawn.count('class="mark hbm"') == count


def test_a_thousand_launches_have_the_marks_of_those_with_most_time() -> None:
    plot = roofline_plot(chart_of([RUN, *crowd(1000, 0.3)]))
    assert plot is not None
    assert "".join(plot.parts).count('class="mark hbm"') == 399


def test_the_frame_ends_near_what_it_shows() -> None:
    """The run has 10 FLOP a byte of the TCM ports and 100 of HBM, and the highest roof meets HBM's slope there."""
    plot = roofline_plot(chart_of([RUN]))
    assert plot is not None
    drawn = "".join(plot.parts)
    marks = [text for text in (f">{value}<" for value in (1, 2, 5, 10, 20, 50, 100, 200, 500)) if text in drawn]
    assert marks == [">10<", ">20<", ">50<", ">100<"]


def test_a_label_goes_beside_its_mark_and_a_line_leads_from_farther_places() -> None:
    places = LabelPlaces(Box(0, 0, 300, 100))
    first = places.beside("one", 100, 50)
    assert first is not None
    assert (first.leader, first.x) == (None, 109)
    marks = [Box(60 + 10 * at, 20, 70 + 10 * at, 80) for at in range(8)]
    places.take(*marks, Segment(0, 90, 300, 90))
    second = places.beside("two", 100, 50)
    assert second is not None
    assert second.leader is not None
    assert not any(second.box.meets(each) for each in [first.box, *marks])
    assert second.box.bottom <= 90
    assert places.beside("three", 100, 50, reach=20) is None


def test_a_line_meets_a_box_that_it_passes_and_no_other() -> None:
    box = Box(10, 10, 20, 20)
    assert Segment(0, 0, 30, 30).meets(box)
    assert Segment(15, 0, 15, 30).meets(box)
    assert Segment(12, 12, 13, 13).meets(box)
    assert not Segment(0, 25, 30, 25).meets(box)
    assert not Segment(0, 12, 12, 30).meets(box)
    assert not Segment(0, 0, 9, 9).meets(box)
