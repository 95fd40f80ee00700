"""RuleSearch: looks for flaws of kernels in a log, on the way of its chunks, by all rules on the kernel's side."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final

from kb_cli.run.base.remedy import LEAST_GAIN, Remedy
from kb_cli.run.observe.metrics import Metrics
from kb_cli.run.records.usage_file import UsageTable
from kb_cli.run.rules.placement.long_hop import LongHop
from kb_cli.run.rules.placement.replicas import Replicas
from kb_cli.run.rules.placement.tail import Tail
from kb_cli.run.rules.placement.uneven_slices import UnevenSlices
from kb_cli.run.rules.placement.unused_pes import UnusedPes
from kb_cli.run.rules.rule import Rule
from kb_cli.run.rules.run_facts import RunFacts
from kb_cli.run.rules.run_sums import RunSums
from kb_cli.run.rules.work.blocking_waits import BlockingWaits
from kb_cli.run.rules.work.command_times import CommandTimes
from kb_cli.run.rules.work.last_axis_reductions import LastAxisReductions
from kb_cli.run.rules.work.padding import Padding
from kb_cli.run.rules.work.pieces import Pieces
from kb_cli.run.rules.work.repeated_reads import RepeatedReads
from kb_dataexec import OpLog
from kb_dataexec.analysis import Where
from kb_engine import Host, LaunchResult

RULES: Final[tuple[type[Rule], ...]] = (
    Tail,
    UnusedPes,
    UnevenSlices,
    Replicas,
    LongHop,
    LastAxisReductions,
    Padding,
    BlockingWaits,
    RepeatedReads,
    Pieces,
)


class RuleSearch:
    """Passes the log of *launches* of *host* to all rules: pass each chunk, or the whole log, to `look`, and then call
    `remedies`.
    """

    def __init__(self, host: Host, launches: Sequence[LaunchResult]) -> None:
        self._host, self._launches = host, launches
        self._rules = [rule() for rule in RULES]
        self._commands = CommandTimes(host)

    @cached_property
    def _sums(self) -> RunSums:
        """The sums of the chunks so far. A run without a log makes none."""
        return RunSums(self._host, self._launches)

    def look(self, chunk: OpLog) -> None:
        """Takes *chunk*, a part of a log with the operands of its ops, or a whole log."""
        self._sums.look(chunk)
        self._commands.look(chunk)
        for each in self._rules:
            each.look(chunk)

    def remedies(
        self, where: Where, usage: UsageTable, metrics: Metrics, looks: bool = False, is_script: bool = False
    ) -> list[Remedy]:
        """Returns the remedies that gain something, the most gain first; of equals, in the order of the rules.

        `RunFacts` says what the arguments are.
        """
        seen = where, usage, metrics, self._launches, self._host, self._sums, self._commands
        facts = RunFacts(*seen, looks=looks, is_script=is_script)
        found = [remedy for each in self._rules if (remedy := each.remedy(facts)) is not None]
        return sorted((each for each in found if each.gain >= LEAST_GAIN), key=lambda each: -each.gain)
