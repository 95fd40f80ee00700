"""The critical paths of the launches of a log, as segments for a trace."""

from __future__ import annotations

import numpy as np

from kb_cli.trace.critical_path import PathSegments
from kb_dataexec import OpLog
from kb_dataexec.analysis import Causes, LazyServices


def path_of(log: OpLog, services: LazyServices | None = None) -> PathSegments:
    """The segments that PEs worked on, of all launches. The way of a launch over other processors is left out.

    *services* are those of *log*, where a caller has them. Raises LogError when *log* has no table of kernels.
    """
    found = list(Causes(log, services).paths())
    strings = found[-1].strings if found else []  # those of a later path have those of the paths before
    columns = {
        name: np.concatenate([getattr(each, name) for each in found]) if found else np.empty(0, np.int64)
        for name in ("start_ps", "end_ps", "pe", "line", "block", "what")
    }
    of_pes = np.array([bool(text) for text in strings], np.bool_)[columns["pe"]]
    return PathSegments(strings=strings, **{name: column[of_pes] for name, column in columns.items()})
