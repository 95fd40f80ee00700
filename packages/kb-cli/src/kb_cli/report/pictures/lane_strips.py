"""Strips: a row for many PEs, with the stage that was at work most in each moment, and how much all PEs worked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kb_cli.report.elements.equal_pes import PeGroup
from kb_cli.report.pictures.png import LEVELS, shaded_png, shades
from kb_cli.trace.protobuf import Ints
from kb_cli.trace.transfers import Floats


class Strip(NamedTuple):
    """The row of *group*, with a PNG for each stage: the moments in which the stage was at work most.

    A pixel has a colour in one PNG at most. The pixel is as dark as the mean share of its time in which the PEs of the
    group worked, each counted with the lane that was at work longest. *inner* has the rows of `group.inner`.
    """

    group: PeGroup
    layers: dict[str, bytes]
    inner: tuple[Strip, ...]


def strips(groups: Sequence[PeGroup], covered: Mapping[str, Mapping[str, Floats]]) -> list[Strip]:
    """Returns the strips of *groups*. *covered* has the coverage (0 to 1) of each pixel, by PE and the title of its
    lane.
    """
    stages = sorted({stage_of(title) for lanes in covered.values() for title in lanes})
    return [_strip(group, covered, stages) for group in groups]


def _strip(group: PeGroup, covered: Mapping[str, Mapping[str, Floats]], stages: Sequence[str]) -> Strip:
    numbers, levels = _row(group, covered, stages)
    layers = {}
    for number, stage in enumerate(stages):
        mine = np.where(numbers == number, levels, 0)
        if mine.any():
            layers[stage] = shaded_png(mine[np.newaxis], LEVELS)
    return Strip(group, layers, tuple(_strip(each, covered, stages) for each in group.inner))


def stage_of(title: str) -> str:
    """Returns the stage in the *title* of a lane, like `pe_gemm: gemm`."""
    return title.rpartition(": ")[2]


def _row(group: PeGroup, covered: Mapping[str, Mapping[str, Floats]], stages: Sequence[str]) -> tuple[Ints, Ints]:
    """Returns for each pixel the number of the stage that was at work most, and the shade."""
    n_columns = len(next(iter(covered[group.pes[0]].values())))
    sums, busy = np.zeros((len(stages), n_columns)), np.zeros(n_columns)
    for pe in group.pes:
        for title, share in covered[pe].items():
            sums[stages.index(stage_of(title))] += share
        busy += np.max(np.stack(list(covered[pe].values())), axis=0)
    return np.argmax(sums, axis=0), shades(busy / len(group.pes))
