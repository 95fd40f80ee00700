"""How many rows the parts of a chunk's formulas have: counted and checked before any row is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.formulas.chunk_tables import KINDS, ints

_MOST_SUMMED: Final = 1 << 24
"""Parts that the repetitions of a chunk name, all together. Source: assumed; a second."""
_MOST_ROWS_A_PS: Final = 1 << 20
"""Rows that are repeated, for each picosecond of their period. Source: assumed; each PE of 2000 chips ends a stage in
each picosecond. Rows of one time are made together, so their number bounds memory."""


def stated_rows(tables: Mapping[str, Array]) -> dict[tuple[int, int], list[int]]:
    """The rows of each part of a chunk with *tables*: by the number of its formula and its kind, part by part.

    Raises ValueError for parts that state other rows than *tables* have, and for repetitions that a run cannot have.
    """
    sizes: dict[tuple[int, int], list[int]] = {}
    stated, n_summed = [0] * len(KINDS), 0
    for number, kind, n_rows, n, _, ps in ints(tables["parts"]).tolist():
        mine = sizes.setdefault((number, kind), [])
        if n_rows >= 0:
            stated[kind] += n_rows
            mine.append(n_rows)
            continue
        n_summed -= n_rows
        if not (-n_rows <= len(mine) and n > 0 and ps > 0):
            raise ValueError("a repetition of nothing, or at once")
        repeated = sum(mine[n_rows:])
        if repeated > _MOST_ROWS_A_PS * ps or n_summed > _MOST_SUMMED:
            raise ValueError("repetitions of more rows than a run has in that time")
        mine.append(n * repeated)
    for name, n_stated in zip(KINDS, stated, strict=True):
        if n_stated != len(tables[name]):
            raise ValueError(f"parts of {n_stated} rows of {name}, of which there are {len(tables[name])}")
    return sizes
