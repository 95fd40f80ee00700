"""The picture of `kb whatif`: bars as long as their times, and texts that can be read."""

import re

import pytest
from picture_flaws import picture_flaws

from kb_cli.compare.blocks import BlockChange
from kb_cli.compare.comparison import RunComparison
from kb_cli.report.pictures.whatif_picture import whatif_file, whatif_picture
from kb_cli.whatif.whatif import SetValue, WhatIf


def answer(before: int, bound: int | None, measured: int, *changes: tuple[str, int]) -> WhatIf:
    blocks = [BlockChange(block=block, busy_ps=(0, 0), path_ps=(10**9, 10**9 + change)) for block, change in changes]
    comparison = RunComparison(
        before="a", after="b", same=False, configuration=[], latency_ps=(before, measured), tiles=[], change_ps=0,
        whole_ps=None, rows=[], blocks=blocks, pes=[], sentences=["HBM works less."], missing=[],
    )  # fmt: skip
    sets = [SetValue(path="$.cube.nodes.hbm.bw_gbs", before=None, after=204.8)]
    change = measured / before - 1 if before else 0.0
    return WhatIf(
        run="a", set=sets, before_ps=before, bound_ps=bound, latency_ps=measured, change=change, comparison=comparison
    )


def test_bars_are_as_long_as_their_times() -> None:
    """The longest time has 300 pixels, from 150 to 450. Changes of -30 and +60 ps share them: 0 is at 250."""
    plot = whatif_picture(answer(100, 40, 50, ("hbm", -30), ("links", 60), ("pe_cpu", 0)))
    bars = re.findall(r'<rect x="([^"]*)" y="[^"]*" width="([^"]*)" height="16" class="(\w+)"', "".join(plot.parts))
    assert bars == [
        ("150", "300", "other"),
        ("150", "150", "best"),
        ("150", "120", "open"),
        ("150", "100", "less"),
        ("250", "200", "more"),
    ]
    assert plot.title == "-50.0 % measured, -60.0 % at best"


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize(
    "found",
    [
        answer(17_184_000, 15_654_000, 17_085_000, ("hbm", -1_502_000), ("links", 1_408_000), ("pe_dma", -5_000)),
        answer(10**12, None, 3 * 10**12, *((f"block_of_a_very_long_name_{at}", 10**11 * at) for at in range(30))),
        answer(0, 0, 0),
        answer(5, None, 5, ("hbm", -1)),
    ],
)
def test_every_text_can_be_read(found: WhatIf, dark: bool) -> None:
    assert picture_flaws(whatif_file(found).decode(), dark=dark) == []
