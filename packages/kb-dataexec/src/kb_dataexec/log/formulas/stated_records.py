"""How many records chunks of formulas state, none of which is made."""

from __future__ import annotations

from kb_dataexec.log.formulas.chunk_tables import KINDS, ints, unpack_chunk

_RECORDS = KINDS.index("records")
_PENDING = -1


class StatedRecords:
    """Counts the records of a log from its chunks of formulas, which are added in their order: `total` so far."""

    def __init__(self) -> None:
        self.total = 0
        self._of_formula: dict[int, int] = {}

    def add(self, data: bytes, where: str) -> None:
        """Add the chunk *data*. Raises LogError, which begins with *where*, for bytes that are no such chunk."""
        tables, _ = unpack_chunk(data, where)
        sizes: dict[int, list[int]] = {}
        for number, kind, n_rows, n, _, _ in ints(tables["parts"]).tolist():
            if kind == _RECORDS:
                mine = sizes.setdefault(number, [])
                mine.append(n_rows if n_rows >= 0 else max(n, 0) * sum(mine[n_rows:]))
        self.total += sum(sizes.pop(_PENDING, []))
        self._of_formula |= {number: sum(each) for number, each in sizes.items()}
        begun = ints(tables["closed"])[:, 3].tolist()
        self.total += sum(self._of_formula.get(number, 0) for number in begun if number >= 0)
