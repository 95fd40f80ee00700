"""The layout of random charts, which no bundled chip looks like."""

from __future__ import annotations

import random

import pytest

from kb_topology.diagram import flaws, layout
from kb_topology.diagram.chart import Box, Chart, Edge, Heat

LABELS = ((), ("64 GB/s", "2 mm"), ("16 x 102.4 GB/s", "12.25 mm"), ("1 GB/s",))
STYLES = ("fabric", "memory", "compute", "command", "group")
LINES = ("memory", "data", "command")


def random_chart(seed: int) -> Chart:
    """One to five rows of one to nine boxes with up to 40 edges between any two of them, in a run or not."""
    rng = random.Random(seed)
    measured = rng.random() < 0.5

    def heat() -> Heat | None:
        top = rng.random()
        return Heat(top, top * rng.random()) if measured and rng.random() < 0.8 else None

    rows = [
        tuple(
            Box(
                f"b{row}.{column}",
                "n" * rng.randint(1, 14),
                tuple("latency 45 ns"[: rng.randint(1, 13)] for _ in range(rng.randint(0, 4))),
                rng.choice(STYLES),
                rng.choice(("", "like", f"row{row}")),
                heat=heat(),
            )
            for column in range(rng.randint(1, 9))
        )
        for row in range(rng.randint(1, 5))
    ]
    keys = [box.key for row in rows for box in row]
    edges = [
        Edge(
            *rng.sample(keys, 2),
            rng.choice(LABELS),
            rng.choice(LINES),
            arrows := rng.random() < 0.4,
            arrows and rng.random() < 0.5,
            heat=heat(),
        )
        for _ in range(rng.randint(0, 40) if len(keys) > 1 else 0)
    ]
    return Chart(f"chart {seed}", "random", tuple(rows), tuple(edges), "a note", measured)


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_nothing_lies_on_anything_in_random_charts(first: int) -> None:
    found = {seed: flaws(layout(random_chart(seed))) for seed in range(first, first + 50)}
    assert {seed: wrong for seed, wrong in found.items() if wrong} == {}


def test_a_layout_is_the_same_every_time() -> None:
    assert all(layout(random_chart(seed)) == layout(random_chart(seed)) for seed in range(20))
