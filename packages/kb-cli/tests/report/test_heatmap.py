"""The pictures of heat maps: few pairs have cells with numbers, and many are images for light and for dark pages."""

import base64
import re
import struct
import zlib
from xml.etree import ElementTree

import numpy as np
import pytest
from picture_flaws import picture_flaws

from kb_cli.report.pictures.heatmap import HeatMapPanel, Tick, heat_map
from kb_cli.report.pictures.probe_map import _ticks
from kb_topology.diagram import HEAT_COLOURS

SVG = "{http://www.w3.org/2000/svg}"


def panel(values: object, hot: str = "high") -> HeatMapPanel:
    return HeatMapPanel(title="latency", unit="ns", values=np.array(values, np.float64), hot=hot)  # type: ignore[arg-type]


def drawn(shown: HeatMapPanel) -> str:
    rows, columns = (
        _ticks(tuple(f"sip{at // 64}.cube{at // 8}.n{at % 8}" for at in range(n))) for n in shown.values.shape
    )
    return heat_map("a chip", "how it was probed", [shown], rows, columns)


def classes(svg: str, tag: str) -> list[str]:
    return [each.get("class", "") for each in ElementTree.fromstring(svg).iter(f"{SVG}{tag}")]


@pytest.mark.parametrize(
    "shape",
    [(1, 1), (8, 9), (16, 16), (17, 3), (3, 200), (200, 3), (512, 576)],
    ids=lambda shape: "x".join(map(str, shape)),
)
def test_every_size_can_be_read_on_both_pages(shape: tuple[int, int]) -> None:
    svg = drawn(panel(80.0 + np.arange(shape[0] * shape[1]).reshape(shape)))
    assert (picture_flaws(svg), picture_flaws(svg, dark=True)) == ([], [])


def test_hot_is_the_end_that_the_legend_names() -> None:
    for hot, ends in (("high", ["heat0", "heat7"]), ("low", ["heat7", "heat0"])):
        svg = drawn(panel([[10.0, 30.0]], hot))
        assert [each for each in classes(svg, "rect") if each.startswith("heat")] == ends
        assert f"ns; {hot} is hot" in svg


def test_a_pair_without_a_path_is_blank_and_the_legend_says_so() -> None:
    svg = drawn(panel([[10.0, np.nan, 20.0]]))
    assert "ns; high is hot; blank: no path" in svg
    assert [each for each in classes(svg, "rect") if each.startswith("heat")] == ["heat0", "heat7"]
    assert "nan" not in svg


def test_equal_values_have_one_colour() -> None:
    svg = drawn(panel([[5.0, 5.0]]))
    assert [each for each in classes(svg, "rect") if each.startswith("heat")] == ["heat4", "heat4"]


def image(svg: str, number: int) -> tuple[tuple[int, int], list[str], set[int]]:
    """The size of an image, its colours, and the numbers of those that it has."""
    png = base64.b64decode(re.findall(r"base64,([^\"]+)", svg)[number])
    width, height = struct.unpack(">II", png[16:24])
    colours = png[png.index(b"PLTE") + 4 :]
    data = zlib.decompress(png[png.index(b"IDAT") + 4 :])
    lines = np.frombuffer(data, np.uint8).reshape(height, width + 1)
    return (
        (width, height),
        [f"#{colours[3 * at : 3 * at + 3].hex()}" for at in range(65)],
        set(lines[:, 1:].ravel().tolist()),
    )


def test_many_pairs_are_an_image_for_each_page_from_the_coldest_to_the_hottest_colour() -> None:
    values = np.arange(17.0 * 40).reshape(17, 40)
    values[3, 3] = np.nan
    svg = drawn(panel(values))
    assert classes(svg, "image") == ["pixels on-light", "pixels on-dark"] * 2, "of the legend, and of the pairs"
    for page in (0, 1):
        size, colours, used = image(svg, 2 + page)
        # 560 // 17 = 32 pixels a row, 560 // 40 = 14 a column: viewers that blur single pixels show squares.
        assert size == (40 * 14, 17 * 32)
        assert (colours[1], colours[64]) == (HEAT_COLOURS[0][page], HEAT_COLOURS[7][page])
        assert {0, 1, 64} <= used, "clear for the pair without a path"


def test_a_few_large_values_leave_colours_to_the_others() -> None:
    """From 1 to 64 colours follow the logarithm: 8 is half the way."""
    svg = drawn(panel([[1.0, 8.0, 64.0]]))
    assert [each for each in classes(svg, "rect") if each.startswith("heat")] == ["heat0", "heat4", "heat7"]


def test_cubes_of_a_sip_have_labels_that_do_not_meet_and_each_sip_begins_with_one() -> None:
    ticks = _ticks(tuple(f"sip{sip}.cube{cube}.pe{pe}" for sip in range(4) for cube in range(16) for pe in range(8)))
    assert ticks[:2] == [Tick(0, "sip0.cube0", True), Tick(8, "cube1")]
    assert [tick.start for tick in ticks if tick.begins] == [0, 128, 256, 384]
    assert _ticks(("sip0.cube0.pe3.pe_dma",)) == [Tick(0, "pe3")]
