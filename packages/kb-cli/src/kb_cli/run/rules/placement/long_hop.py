"""The rule `long hop`: one hop of a ring of programs is longer than the others, and the whole ring goes at its pace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kb_cli.run.base.remedy import LEAST_GAIN, Remedy
from kb_cli.run.rules.rule import Rule
from kb_cli.terminal.units import duration
from kb_dataexec import OpLog
from kb_messages import SyncReason

if TYPE_CHECKING:
    from kb_cli.run.rules.run_facts import RunFacts

_Ints = npt.NDArray[np.int64]
_LEAST_MESSAGES: Final = 3
"""The fewest hops of a ring, and messages on each hop. Source: assumed; fewer have no pace of their own."""
_LONGER: Final = 1.1
"""How much longer than the median hop the longest one is at least. Source: assumed; hops of one
ring in a cube differ by less."""


class _Hops(NamedTuple):
    """The messages of one launch over the hops of a ring, in columns, each hop with as many messages.

    `src` and `dst` are texts of PEs by number. A message took `took_ps` from the credit to the doorbell, which rang at
    `rung_ps`. The sender had worked for `worked_ps` since it took the message before.
    """

    src: _Ints
    dst: _Ints
    took_ps: _Ints
    rung_ps: _Ints
    worked_ps: _Ints


class LongHop(Rule):
    """Finds launches whose programs send messages of one size in a ring, one hop of which takes longer than the others.

    A DMA waits for the acknowledgement of a message before it sends the next one, so the longest hop takes a message
    only once a round trip, and all programs wait for it. Without that hop, a step takes the time of a message over the
    other hops, and the work between a receipt and the next send. It keeps five numbers for each message.
    """

    def __init__(self) -> None:
        self._sends: list[npt.NDArray[np.void]] = []
        self._waits: list[npt.NDArray[np.void]] = []
        self._strings: list[str] = []

    def look(self, chunk: OpLog) -> None:
        """Takes the messages of *chunk*, and who received them."""
        self._strings = list(chunk.strings) if "sends" in chunk.tables else self._strings
        for name, kept in (("sends", self._sends), ("waits", self._waits)):
            if len(chunk.tables.get(name, ())):
                kept.append(chunk.tables[name])

    def remedy(self, facts: RunFacts) -> Remedy | None:
        """Returns the remedy of the launch with the most to gain; None without a ring, or with hops that are alike."""
        if not self._sends or not self._waits:
            return None
        sends, waits = np.concatenate(self._sends), np.concatenate(self._waits)
        waits = waits[waits["reason"] == SyncReason.MESSAGE]
        sends, waits = np.sort(sends, order="command_seq"), waits[np.argsort(waits["by_seq"], kind="stable")]
        if not np.array_equal(sends["command_seq"], waits["by_seq"]):
            return None
        found = [self._of_launch(sends, waits, each.start_ps, each.end_ps) for each in facts.launches]
        saved_ps = sum(ps for ps, _ in found)
        if saved_ps < LEAST_GAIN * facts.metrics.span_ps:
            return None
        _, (src, dst, took_ps, others_ps) = max(found)
        names = self._strings[src], self._strings[dst]
        return Remedy(
            rule="long hop",
            part=names[0],
            flaw=f"a message from {names[0]} to {names[1]} takes {duration(took_ps)}, those of other hops "
            f"{duration(others_ps)}",
            change="order the programs of the ring so that each is near the next one",
            gain=saved_ps / facts.metrics.span_ps,
            basis="estimated",
            line=self._strings[int(waits["line"][0])],
        )

    def _of_launch(
        self, sends: npt.NDArray[np.void], waits: npt.NDArray[np.void], start_ps: int, end_ps: int
    ) -> tuple[int, tuple[int, int, int, int]]:
        """The picoseconds to save, and (from, to, time, time of others) of the longest hop; (0, ...) for no ring."""
        nothing = 0, (-1, -1, 0, 0)
        mine = (sends["t_rung_ps"] >= start_ps) & (sends["t_rung_ps"] <= end_ps)
        hops = _hops(sends[mine], waits[mine])
        if hops is None:
            return nothing
        pes = np.unique(hops.src)
        took = np.array([int(hops.took_ps[hops.src == pe].mean()) for pe in pes.tolist()])
        others_ps, worst = int(np.median(took)), int(took.argmax())
        if took[worst] < _LONGER * others_ps:
            return nothing
        of_worst = hops.src == pes[worst]
        rung_ps = np.sort(hops.rung_ps[of_worst])
        step_ps = others_ps + int(np.median(hops.worked_ps))
        saved_ps = int(rung_ps[-1] - rung_ps[0]) - (len(rung_ps) - 1) * step_ps
        dst = int(hops.dst[of_worst][0])
        return max(saved_ps, 0), (int(pes[worst]), dst, int(took[worst]), others_ps)


def _hops(sends: npt.NDArray[np.void], waits: npt.NDArray[np.void]) -> _Hops | None:
    """The hops of the messages; None where they have different sizes, or are no ring with equally many on each hop."""
    src, dst = waits["other"].astype(np.int64), waits["pe"].astype(np.int64)
    pes, counts = np.unique(src, return_counts=True)
    n_pairs = len(np.unique(np.stack([src, dst]), axis=1).T) if len(src) else 0
    is_ring = n_pairs == len(pes) == len(np.unique(dst)) >= _LEAST_MESSAGES
    if not is_ring or len(np.unique(counts)) > 1 or counts[0] < _LEAST_MESSAGES or len(np.unique(sends["nbytes"])) > 1:
        return None
    worked = np.zeros(len(src), np.int64)
    for pe in pes.tolist():
        taken, credit = np.sort(sends["t_taken_ps"][dst == pe]), sends["t_credit_ps"][src == pe]
        at = np.searchsorted(taken, credit, side="right") - 1
        worked[src == pe] = np.where(at < 0, 0, credit - taken[np.maximum(at, 0)])
    return _Hops(src, dst, sends["t_rung_ps"] - sends["t_credit_ps"], sends["t_rung_ps"], worked)
