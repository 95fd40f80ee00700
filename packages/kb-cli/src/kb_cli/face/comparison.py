"""`kernbench.compare`: what changed between two runs of a program, or of run folders."""

from __future__ import annotations

import os
from pathlib import Path

from kb_cli.compare.comparison import RunComparison
from kb_cli.compare.comparison import compare as compare_sides
from kb_cli.compare.side import Side, read_side
from kb_cli.face.kernel_run import KernelRun
from kb_cli.run.base.files import folder_path

Compared = KernelRun | str | os.PathLike[str]
"""A run of this program, or the folder of one run."""


def compare(before: Compared, after: Compared, blocks_alone: bool = False) -> RunComparison:
    """Compares the run *after* with the run *before*, each a run of this program or a run folder, as `kb compare` does.

    With *blocks_alone*, kernel lines are left out, and the two may be runs of two benchmarks. Raises KbError for runs
    of two benchmarks without it, and RunFolderError for a folder that is not as the run wrote it.
    """
    return compare_sides(_side(before), _side(after), blocks_alone)


def _side(of: Compared) -> Side:
    if not isinstance(of, KernelRun):
        return read_side(folder_path(of))
    ran = of.in_memory()
    return Side(of.folder or Path(of.result.benchmark), ran.run, ran.topology, ran.source.splitlines(), ran.where)
