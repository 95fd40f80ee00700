"""The pictures of sweeps can be read: on light and dark pages, alone and in a page, however many values axes have."""

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from msgspec.structs import replace
from picture_flaws import picture_flaws

from kb_cli.report.elements.page_elements import PLOT_STYLE, STYLE
from kb_cli.report.html.sweep_page import picture_files, sweep_pictures
from kb_cli.report.pictures.plots.labels import cut, kept, lines, spread
from kb_cli.report.pictures.plots.scale import Scale
from kb_cli.report.pictures.plots.tick_text import binary_text, one_unit, plain, time_text, value_text
from kb_cli.sweep.configuration import Configuration
from kb_cli.sweep.expression import number_of
from kb_cli.sweep.front import front
from kb_cli.sweep.job import PointModel, PointResult
from kb_cli.sweep.sensitivity import sensitivity
from kb_cli.sweep.sweep import SweepPoint, SweepResult

Latency = Callable[[Mapping[str, str]], int | None]


def swept(axes: dict[str, list[str]], latency: Latency, costs: Sequence[str] = (), **given: Any) -> SweepResult:
    """A sweep over all combinations of *axes*. A latency of None is that of a point that failed."""
    points = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    times = [latency(point) for point in points]
    found = [
        Configuration(
            values=point,
            points=[number],
            latency_ps=ps,
            flops=0,
            figure_ps=float(ps),
            of_peak=None,
            of_memory=None,
            verified=None,
            costs=[_cost(cost, point) for cost in costs],
        )
        for number, (point, ps) in enumerate(zip(points, times, strict=True))
        if ps is not None
    ]
    found.sort(key=lambda each: each.figure_ps)
    figures = np.array([[each.figure_ps, *each.costs] for each in found])
    failed = sum(ps is None for ps in times)
    known = {
        "benchmark": "gemm",
        "topology": "one_cube",
        "params": {"M": "512"},
        "seed": 0,
        "over": [],
        "points": [
            SweepPoint(values=point, result=None, error="" if ps is not None else "no room")
            for point, ps in zip(points, times, strict=True)
        ],
        "by": "latency",
        "notes": [],
    }
    return SweepResult(
        axes=axes,
        failed=failed,
        configurations=found,
        costs=list(costs),
        front=list(front(figures)) if costs else [],
        sensitivity=sensitivity(axes, points, times),
        **{**known, **given},
    )


def _cost(name: str, point: Mapping[str, str]) -> float:
    """The cost `more AXIS`, `less AXIS`, or the formula `AXIS * AXIS`."""
    first, _, rest = name.partition(" ")
    value = number_of(point[rest if first in ("more", "less") else first])
    assert value is not None
    return {"more": value, "less": -value}.get(first, value * value)


def seen(result: SweepResult) -> set[str]:
    """The names of the pictures of *result*, none of which has a flaw, alone or in a page, in light or in dark."""
    for svg in map(str, picture_files(result).values()):
        assert (picture_flaws(svg), picture_flaws(svg, dark=True)) == ([], [])
    for svg in map(str, sweep_pictures(result).values()):
        named = svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
        assert picture_flaws(named, sheet=STYLE + PLOT_STYLE) == []
    return set(picture_files(result))


def drawn(result: SweepResult, name: str) -> ElementTree.Element:
    return ElementTree.fromstring(str(sweep_pictures(result)[name]))


def texts(svg: ElementTree.Element) -> list[str]:
    return [each.text or "" for each in svg.iter("text")]


SIZES = {"size": ["256 KiB", "512 KiB", "1 MiB", "2 MiB"], "bw_gbs": ["51.2", "102.4"]}
LONG = "a value of forty-two characters, in a list"


def by_size(point: Mapping[str, str]) -> int:
    return 10**13 // int(number_of(point["size"]) or 1) + round(4e8 / float(point["bw_gbs"]))


def many(n: int, m: int) -> dict[str, list[str]]:
    return {"tile": [f"{16 * at}x64x64" for at in range(1, n + 1)], "depth": [str(at) for at in range(1, m + 1)]}


def by_number(point: Mapping[str, str]) -> int | None:
    tile = int(point["tile"].partition("x")[0])
    return None if tile == 32 and point["depth"] == "3" else 10**9 * tile // (4 + int(point["depth"]))


@pytest.mark.parametrize(
    "result",
    [
        swept(SIZES, by_size, ["more size", "more bw_gbs"]),
        swept(SIZES, by_size, ["size * size"]),
        swept(SIZES, by_size, ["less size"], by="latency of a token"),
        swept(many(24, 6), by_number, ["more depth"]),
        swept(many(40, 3), by_number, ["more depth"]),
        swept(many(2, 2), lambda point: 7 if point["depth"] == "1" else 10**13, ["more depth"]),
        swept({"tile": ["16", LONG], LONG * 3: ["1", "2"]}, lambda point: len("".join(point.values()))),
    ],
    ids=["sizes", "formula", "less", "24x6", "40 values", "twelve decades", "long names"],
)
def test_every_picture_can_be_read(result: SweepResult) -> None:
    assert {"axes"} <= seen(result) <= {"axes", "map", "front"}


def of_model(contexts: list[str], floor: float) -> SweepResult:
    """A sweep of a model over its context: 1 us for each 1024, and a floor of that share of it."""
    found = swept({"context": contexts}, lambda point: round(1e6 * (number_of(point["context"]) or 0) / 1024))
    points = []
    for point in found.points:
        ps = round(1e6 * (number_of(point.values["context"]) or 0) / 1024)
        model = PointModel(phase="decode", items=1, unit="token", floor_ps=round(ps * floor), op="qkv", op_share=0.5)
        result = PointResult(
            topology="one_cube",
            latency_ps=ps,
            flops=1,
            achieved_flops=1.0,
            peak_flops=None,
            memory_share=None,
            utilization={},
            bytes={},
            bounded_by="",
            verified=None,
            max_abs_err=None,
            model=model,
        )
        points.append(replace(point, result=result))
    return replace(found, points=points)


@pytest.mark.parametrize("floor", [0.1, 0.999])
@pytest.mark.parametrize("contexts", [["1k", "4k", "16k"], [f"{at}k" for at in range(1, 60)]], ids=["3", "59"])
def test_the_picture_of_a_model_can_be_read(contexts: list[str], floor: float) -> None:
    """Where the floor is as high as the time, their names stand one below the other."""
    assert seen(of_model(contexts, floor)) == {"axes", "models"}
    assert {"time", "floor", "1 us", "context"} <= set(texts(drawn(of_model(contexts, floor), "models")))


def test_the_dot_of_the_first_value_is_drawn_on_others_of_its_latency() -> None:
    svg = drawn(swept({"depth": ["1", "2"], "tile": ["3", "4"]}, lambda point: 100 * int(point["tile"])), "axes")
    kinds = [(each.get("class"), "".join(each.itertext()).partition(":")[0]) for each in svg.iter("circle")]
    assert kinds[-2:] == [("best", "depth 2"), ("open", "depth 1")]


def test_a_file_has_the_style_of_its_own_classes_alone() -> None:
    files = picture_files(swept(SIZES, by_size, ["more size"]))
    assert ".heat7" in files["map"]
    assert ".heat" not in files["axes"]
    for each in files.values():
        assert set(re.findall(r"var\((--[\w-]+)\)", each)) == set(re.findall(r"(--[\w-]+): ", each))
        assert each.count("--plot-ink: ") == 2, "light and dark"
    assert ".slope" not in "".join(files.values()), "of the roofline"


def test_sizes_and_rates_stand_beside_the_front_as_tables_have_them() -> None:
    said = texts(drawn(swept(SIZES, by_size, ["more size", "more bw_gbs"]), "front"))
    assert {*SIZES["size"], "51.2 GB/s", "102.4 GB/s", "latency (less is better)"} <= set(said)
    assert "bw_gbs (GB/s), more is dearer" in said
    assert "size * size, more is dearer" in texts(drawn(swept(SIZES, by_size, ["size * size"]), "front"))
    assert not any("e+" in each for each in said)


def test_many_sizes_have_marks_at_powers_of_two() -> None:
    sizes = {"size": [f"{at} KiB" for at in range(64, 4096, 64)], "bw_gbs": ["51.2"]}
    said = texts(drawn(swept(sizes, by_size, ["more size"]), "front"))
    assert [each for each in said if "iB" in each] == [
        *("64 KiB", "128 KiB", "256 KiB", "512 KiB", "1 MiB", "2 MiB", "4 MiB")
    ]


def test_the_front_is_joined_by_steps_that_go_level_to_the_dearer_point_and_then_down() -> None:
    """Three points on the front at depth 1, 2 and 3; 4 is dearer and no faster."""
    times = {"1": 400, "2": 300, "3": 200, "4": 200}
    result = swept({"depth": list(times)}, lambda point: times[point["depth"]], ["more depth"])
    svg = drawn(result, "front")
    (path,) = [each.get("d") or "" for each in svg.iter("path") if each.get("class") == "front"]
    points = [tuple(map(float, each.split())) for each in path[1:].split("L")]
    dots = [(float(each.get("cx", 0)), float(each.get("cy", 0))) for each in svg.iter("circle")]
    (x1, y1), (x2, y2), (x3, y3) = sorted(dots[-3:])
    assert points == [(x1, 30.0), (x1, y1), (x2, y1), (x2, y2), (x3, y2), (x3, y3), (616.0, y3)]


def test_points_of_the_front_say_what_they_are_and_how_fast() -> None:
    """Each size needs a time of its own; 128x64 is the faster tile of each."""
    axes = {"size": ["1 MiB", "2 MiB"], "tile": ["64x64", "128x64"], "rows": ["8"]}
    times = {"1 MiB": 40, "2 MiB": 20}
    said = texts(drawn(swept(axes, lambda p: 10**6 * times[p["size"]] // len(p["tile"]), ["more size"]), "front"))
    assert {"128x64: 6.667 us", "128x64: 3.333 us"} <= set(said)
    numbers = {"size": ["1 MiB", "2 MiB"], "rows": ["8", "9"]}
    by_rows = swept(numbers, lambda p: times[p["size"]] * int(p["rows"]), ["more size"])
    assert {"rows 8: 320 ps", "rows 8: 160 ps"} <= set(texts(drawn(by_rows, "front")))


def test_costs_that_move_together_share_a_panel() -> None:
    axes = {"size": ["1 KiB", "2 KiB"]}
    alike = swept(
        axes, lambda point: 9 - len(point["size"]) + int(point["size"][0] == "1"), ["more size", "size * size"]
    )
    said = texts(drawn(alike, "front"))
    assert "size, more is dearer; size * size change with it" in said
    assert said.count("latency (less is better)") == 1


def test_cells_have_the_latency_and_a_failed_one_says_so() -> None:
    svg = drawn(swept(many(4, 3), by_number), "map")
    assert {"latency, ms; slow is hot", "failed"} <= set(texts(svg))
    titles = [each.text or "" for each in svg.iter("title")]
    assert "tile 64x64x64, depth 1: 12.800 ms" in titles
    assert "tile 32x64x64, depth 3: failed" in titles
    hottest = [each for each in svg.iter("rect") if "tile 64x64x64, depth 1" in "".join(each.itertext())]
    assert [each.get("class") for each in hottest] == ["heat7"]


def test_a_value_without_a_label_is_counted_and_has_a_title() -> None:
    svg = drawn(swept(many(40, 3), by_number), "axes")
    assert any(re.fullmatch(r"swing [\d.]+x; \d+ of 40 values are without a label", each) for each in texts(svg))
    assert sum((each.text or "").startswith("tile ") for each in svg.iter("title")) == 40


def test_labels_move_apart_no_more_than_they_must() -> None:
    """Labels of 20 px with 8 px between; the two that meet at 50 move by 14 each."""
    assert spread([20, 20, 20], [50, 50, 200], 0, 300) == [36, 64, 200]
    assert spread([20, 20], [0, 300], 0, 300) == [10, 290]
    assert spread([20, 20], [100, 100], 0, 110) == [72, 100]
    assert kept([20] * 10, 272) == list(range(10))
    assert kept([20] * 10, 271) == [0, 2, 4, 6, 8]


def test_texts_that_are_too_long_lose_their_middle_and_sentences_break_between_words() -> None:
    assert cut("abc", 100) == "abc"
    assert re.fullmatch(r"a+…b+", cut("a" * 60 + "b" * 60, 200))
    assert lines("one two three", 50) == ["one", "two", "three"]
    assert lines("one two three", 500) == ["one two three"]


def test_numbers_have_the_unit_of_their_axis() -> None:
    assert value_text("hbm.bw_gbs", "102.4") == "102.4 GB/s"
    assert value_text("size / input_kib", "2 MiB / 512") == "2 MiB / 512"
    assert [value_text(name, "64") for name in ("input_kib", "rows", "clock_ghz")] == ["64 KiB", "64", "64 GHz"]
    assert [plain(each) for each in (16384, 2.5e6, 0.25, 3e12)] == ["16,384", "2.5 M", "0.25", "3 T"]
    assert [time_text(each) for each in (2e7, 2.5e9, 1e12, 500)] == ["20 us", "2.5 ms", "1 s", "500 ps"]
    assert [binary_text(each) for each in (512, 1536 * 1024, 2**31)] == ["512 B", "1.5 MiB", "2 GiB"]
    assert one_unit([7_205_000, 110_768_000, 17_549_000]) == ("us", ["7.205", "110.8", "17.55"])
    assert Scale(1e6, 7e6, 0, 1, False).binary_marks() == [2.0**20 * at for at in range(1, 7)]
