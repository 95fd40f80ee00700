"""How many records chunks of formulas state, none of which is made."""

from __future__ import annotations

from typing import NamedTuple

from kb_dataexec.log.formulas.chunk_tables import KINDS, ints, unpack_chunk
from kb_dataexec.log.formulas.stated_parts import stated_rows
from kb_dataexec.log.formulas.told_commands import read_as_written

_RECORDS = KINDS.index("records")
_PENDING = -1


class _Begun(NamedTuple):
    """A closed command of `n_records` that runs in the time from `begin_ps` to `end_ps`."""

    begin_ps: int
    end_ps: int
    n_records: int

    def n_from(self, since_ps: int) -> int:
        """About how many of the records come from *since_ps* on."""
        left_ps = self.end_ps - max(since_ps, self.begin_ps)
        return self.n_records * left_ps // max(1, self.end_ps - self.begin_ps) if left_ps >= 0 else 0


class StatedRecords:
    """Counts the records of a log from its chunks of formulas, which are added in their order: `total` so far.

    An error ends closed commands early. About so many records as came of them are counted then.
    """

    def __init__(self) -> None:
        self.total = 0
        self._of_formula: dict[int, int] = {}
        self._begun: dict[int, _Begun] = {}
        self._before_ps = 0

    def add(self, data: bytes, where: str) -> None:
        """Add the chunk *data*. Raises LogError, which begins with *where*, for bytes that are no such chunk."""
        tables, _ = unpack_chunk(data, where, ("commands", "addresses"))
        with read_as_written(where):
            sizes = stated_rows(tables)
        n_records = {number: sum(each) for (number, kind), each in sizes.items() if kind == _RECORDS}
        self.total += n_records.pop(_PENDING, 0)
        self._of_formula |= n_records
        closed = ints(tables["closed"]).tolist()
        self._end_all_but({first_op for first_op, *_ in closed})
        for first_op, begin_ps, end_ps, number, _ in closed:
            if number >= 0:
                begun = self._begun[first_op] = _Begun(begin_ps, end_ps, self._of_formula.get(number, 0))
                self.total += begun.n_records
        self._before_ps = int(tables["chunk"]["before_ps"].max(initial=0))

    def _end_all_but(self, left: set[int]) -> None:
        for first_op in self._begun.keys() - left:
            self.total -= self._begun.pop(first_op).n_from(self._before_ps)
