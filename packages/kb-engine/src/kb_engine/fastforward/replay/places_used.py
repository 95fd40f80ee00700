"""PlaceUsed: bytes of memory that a command of a template uses, of many programs at once."""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np

from kb_engine.fastforward.replay.placeholders import Numbers
from kb_engine.fastforward.replay.template import Template
from kb_engine.program.values.symbols import Ints
from kb_messages import Rectangle, accesses_of, overlaps


class _Given(int):
    """An address that a program is given, with any offset."""

    def __add__(self, _: int) -> _Given:
        return self


class PlaceUsed(NamedTuple):
    """The bytes that one command reads or writes: for each of several programs, `shape` at one of the `bases`.

    The base is a number where it is that of all programs.
    """

    bases: Ints | int
    shape: Rectangle
    writes: bool

    def at(self, which: int) -> Rectangle:
        """The bytes of the program at place *which*."""
        base, shape = self.bases, self.shape
        base = base if isinstance(base, int) else int(base[which])
        return Rectangle(base, shape.rows, shape.row_nbytes, shape.stride)

    def n_alike(self, other: PlaceUsed) -> int | None:
        """How many programs, from the first one on, share a byte with the *other* place's if the first one does.

        None stands for all.
        """
        distances = other.bases - self.bases
        if isinstance(distances, int):
            return None
        meets = overlaps(self.at(0), other.at(0))
        is_like = distances == distances[0]
        if not meets:
            is_like |= (distances >= self.shape.end) | (-distances >= other.shape.end)
        for which in np.flatnonzero(~is_like).tolist():
            if overlaps(self.at(which), other.at(which)) != meets:
                return int(which)
        return None


def places_used(template: Template, rows: Ints) -> list[PlaceUsed]:
    """What the commands of the programs in *rows* of the table of *template* use.

    Bytes that programs are given, in TCM and in registers, are left out: nobody else has them, and programs a period
    later are given the same.
    """
    columns = cast(Numbers, list(template.table[rows].T))  # commands are made for all programs at once
    found = []
    for issue in template.issues:
        reads, writes = accesses_of(issue.submission.command(columns, [_Given()] * template.n_given))
        for writes_it, rectangles in ((False, reads), (True, writes)):
            for each in rectangles:
                if type(each.base) is not _Given:
                    shape = Rectangle(0, each.rows, each.row_nbytes, each.stride)
                    found.append(PlaceUsed(each.base, shape, writes_it))
    return found
