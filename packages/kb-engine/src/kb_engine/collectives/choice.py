"""The choice of `auto`: the algorithm of a collective with the least estimated time on the chip.

Design: docs/design/messages.md
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

from kb_engine.collectives.algorithms import RING, acts_of, algorithms_of, segment_elements
from kb_engine.collectives.costs import RankTimes
from kb_engine.collectives.estimate import Estimate, Recursion
from kb_engine.collectives.group import Group
from kb_engine.collectives.sizes import Sizes
from kb_engine.engine.engine import Engine
from kb_engine.program.pe import ProcessingElement

_MOST_SEGMENTS: Final = 3
"""The segments whose acts are counted; more of them are taken to last as long as the third one. Source: assumed."""


class Chooser:
    """Estimates the collectives of one group, on *elements*, the PEs of its ranks.

    `home_of(rank)` is the address of the memory near the PE of *rank*. Estimates take no simulated time, and leave the
    chip as it is.
    """

    def __init__(self, engine: Engine, elements: list[ProcessingElement], home_of: Callable[[int], int]) -> None:
        self._engine = engine
        self._elements = elements
        self._home_of = home_of

    @cached_property
    def times(self) -> list[RankTimes]:
        """The times of each rank's PE."""
        kinds: dict[bytes, dict[Any, int]] = {}
        return [
            RankTimes(self._engine, element, self._home_of(rank), kinds) for rank, element in enumerate(self._elements)
        ]

    def estimate(
        self,
        group: Group,
        call: str,
        algorithm: str,
        sizes: Sizes,
        in_tcm: tuple[bool, bool] = (False, False),
        root: int = 0,
        limit_ps: int | None = None,
    ) -> Estimate | None:
        """The estimate of *call* by *algorithm*; None where it takes more than *limit_ps*.

        *in_tcm* says whether the operand, and the result, of a rank is a value in TCM, and not in memory near the PE.
        """
        segment = segment_elements(call, algorithm, group, sizes)
        n_more = max(0, -(-sizes.n // segment) - _MOST_SEGMENTS)
        if n_more:
            # Further segments take equal times.
            counts = (_MOST_SEGMENTS - 1) * segment, _MOST_SEGMENTS * segment, sizes.n - n_more * segment
            less, more, rest = (
                self.estimate(group, call, algorithm, sizes._replace(n=n), in_tcm, root, limit_ps) for n in counts
            )
            return None if less is None or more is None or rest is None else rest.continued(less, more, n_more)
        if limit_ps is not None and self._least_ps(group, call, algorithm, sizes) > limit_ps:
            return None
        recursion = Recursion(self.times, sizes, in_tcm, self._depth, limit_ps)
        return recursion.run([acts_of(call, algorithm, group, rank, sizes, root) for rank in range(len(group))])

    def _least_ps(self, group: Group, call: str, algorithm: str, sizes: Sizes) -> int:
        """Picoseconds that *call* takes at least: in a ring, an element makes a whole way in one message after the
        other.
        """
        if algorithm != RING or call == "all_to_all" or not sizes.n:
            return 0
        hops = [(rank, group.ring[at - 1]) for at, rank in enumerate(group.ring)]
        nbytes = sizes.dtype.nbytes
        each_ps = min(
            self.times[source].issue_ps + self.times[source].decode_ps
            + self.times[source].send(self.times[to], nbytes).commit_ps
            for to, source in hops
        )  # fmt: skip
        return each_ps * (len(group) - 1) * (2 if call == "all_reduce" else 1)

    def choose(self, group: Group, call: str, sizes: Sizes, in_tcm: tuple[bool, bool]) -> str:
        """The algorithm with the least estimated time; of equals, the first of `algorithms_of`."""
        algorithms = algorithms_of(call)
        if len(algorithms) == 1 or len(group) == 1 or not sizes.n:
            return algorithms[0]
        best: tuple[int, int] | None = None
        # Algorithms with few messages first: they are estimated in little time, and bound the time of the others.
        for number in reversed(range(len(algorithms))):
            limit_ps = None if best is None else best[0]
            found = self.estimate(group, call, algorithms[number], sizes, in_tcm, limit_ps=limit_ps)
            if found is not None and (best is None or (found.total_ps, number) < best):
                best = found.total_ps, number
        assert best is not None, "the first estimate has no limit"
        return algorithms[best[1]]

    def _depth(self, rank: int) -> int:
        queue = self._elements[rank].queue
        assert queue is not None, "a group of several PEs has queues"
        return queue.depth
