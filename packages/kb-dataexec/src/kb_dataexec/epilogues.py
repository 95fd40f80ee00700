"""A window's MATH records, one by one but on the results of fused products: which are needed, and their values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from kb_dataexec.cells import IrregularError
from kb_dataexec.dataflow import Dataflow, Source
from kb_dataexec.dtypes import Array
from kb_dataexec.ops.math import decode
from kb_dataexec.panels import Tile, cast_along
from kb_dataexec.schedule import Schedule
from kb_dataexec.store import MemoryStore
from kb_messages.errors import LogError
from kb_messages.oplog import OpKind


class Epilogues:
    """The MATH records of a Dataflow, which begins with record *start*. Raises IrregularError where one is wrong."""

    def __init__(self, flow: Dataflow, schedule: Schedule, start: int) -> None:
        self._flow = flow
        records = np.flatnonzero(flow.kind == OpKind.MATH)
        try:
            self._math = dict(zip(records.tolist(), map(decode, schedule.pick(records + start)), strict=True))
        except LogError as error:
            raise IrregularError("a math op that is wrong") from error
        self._sources: dict[int, list[Source]] = {}
        self._uses: Counter[int] = Counter()

    def require(self, live: Iterable[int]) -> set[int]:
        """Note the MATH records that the results of *live* depend on; the GEMM records that they depend on."""
        needed = set(live)
        gemms: set[int] = set()
        for record in reversed(self._math):
            if record not in needed:
                continue
            sources = self._sources[record] = [self._flow.source(operand) for operand in self._flow.inputs(record)]
            found = [source.record for source in sources if source.record >= 0]
            self._uses.update(found)
            needed.update(found)
            gemms.update(source for source in found if source not in self._math)
        return gemms

    def evaluate(
        self, products: dict[int, Array], tiles: list[Tile], store: MemoryStore
    ) -> Iterator[tuple[int, Array]]:
        """Every required record with its value, in order. Results of *products*, by record, go with their last use."""
        values = products
        for record, math in self._math.items():
            sources = self._sources.get(record)
            if sources is None:
                continue
            found = [tiles[s.cell].read(store) if s.record < 0 else values[s.record] for s in sources]
            value = math.evaluate([cast_along(array, s.casts) for array, s in zip(found, sources, strict=True)])
            if self._uses[record]:
                values[record] = value
            for source in sources:
                self._uses[source.record] -= 1
                if not self._uses[source.record]:
                    values.pop(source.record, None)
            yield record, value
