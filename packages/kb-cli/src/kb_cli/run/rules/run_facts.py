"""RunFacts: what a rule knows of a finished run besides its log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kb_cli.run.observe.metrics import Metrics
from kb_cli.run.records.usage_file import UsageTable
from kb_cli.run.rules.run_sums import RunSums
from kb_cli.run.rules.work.command_times import CommandTimes
from kb_dataexec.analysis import Where
from kb_engine import Host, LaunchResult


class RunFacts(NamedTuple):
    """A finished run, beside its log. The chip with its blocks is `host.engine`.

    `sums` are sums over its log, and `commands` the commands of its log. `looks` says that kernels waited for values
    that they had computed, and `is_script` that they are Triton kernels of a script.
    """

    where: Where
    usage: UsageTable
    metrics: Metrics
    launches: Sequence[LaunchResult]
    host: Host
    sums: RunSums
    commands: CommandTimes
    looks: bool = False
    is_script: bool = False
