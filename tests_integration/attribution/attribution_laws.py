"""What holds of every answer to where the time went, checked against the rows of the log."""

from typing import Any

import numpy as np

from kb_dataexec import OpLog
from kb_dataexec.analysis import Where, paths, where
from kb_messages import SyncReason

PARTS = ("pe_dma", "links", "hbm", "sram", "pe_tcm")
"""What a service of a DMA is cut into."""


def check_laws(log: OpLog) -> Where:
    """Check the answer for *log* and return it."""
    found = where(log)
    assert found.unexplained_ps == 0
    for launch in found.launches:
        for start_ps, end_ps, rows in [(launch.start_ps, launch.end_ps, launch.rows)] + [
            (pe.start_ps, pe.end_ps, pe.rows) for pe in launch.pes
        ]:
            assert (start_ps, end_ps) == (launch.start_ps, launch.end_ps)
            assert sum(row.ps for row in rows) == end_ps - start_ps
            between = sum(row.ps for row in rows if row.via not in ("launch", "answer"))
            assert between == launch.kernels_end_ps - launch.kernels_start_ps
            assert not [row for row in rows if row.block == "unknown"]
        on_path: dict[str, int] = {}
        for row in launch.rows:
            if row.what != "busy with others":
                on_path[row.block] = on_path.get(row.block, 0) + row.ps
        assert set(on_path) <= set(launch.busy)
        assert {block: ps - on_path.get(block, 0) for block, ps in launch.busy.items()} == launch.hidden
        assert min(launch.hidden.values(), default=0) >= 0
    for path, launch in zip(paths(log), found.launches, strict=True):
        _check_path(log, path, launch.start_ps, launch.end_ps)
    return found


def _check_path(log: OpLog, path: Any, start_ps: int, end_ps: int) -> None:
    """Segments follow one another without a gap, and each lies inside work of its block."""
    times = np.append(path.start_ps, path.end_ps[-1:]).tolist()
    assert times[1:] == path.end_ps.tolist()
    assert times[:1] + times[-1:] == ([start_ps, end_ps] if times else [])
    ops = {int(row["op_id"]): row for row in log.ops}
    commands = log.table("commands")
    for number, op_id in enumerate(path.op_id.tolist()):
        start, end, block, what = (
            int(column[number]) for column in (path.start_ps, path.end_ps, path.block, path.what)
        )
        assert start < end
        texts = path.strings[block], path.strings[what]
        if op_id >= 0:
            op = ops[op_id]
            assert op["t_start_ps"] <= start < end <= op["t_end_ps"]
            component = log.strings[op["component"]]
            assert component.startswith(f"{path.strings[path.pe[number]]}.")
            assert component.endswith(f".{texts[0]}") or (component.endswith(".pe_dma") and texts[0] in PARTS)
            assert path.strings[path.line[number]] == log.strings[op["line"]]
        elif texts == ("pe_scheduler", "decode"):
            assert _is_in(commands, start, end, "t_taken_ps", "t_decoded_ps")
        elif texts == ("pe_cpu", "issue"):
            assert _is_in(commands, start, end, "t_call_ps", "t_issued_ps") or _is_call(log, start, end)
        elif texts[0] == "pe_queue":
            assert _is_of_queue(log, start, end, texts[1])


def _is_in(commands: Any, start: int, end: int, first: str, last: str) -> bool:
    return bool(((commands[first] <= start) & (end <= commands[last])).any())


def _is_call(log: OpLog, start: int, end: int) -> bool:
    """Whether PE_CPU issued a call then that waits or signals."""
    found = False
    for name, at, shift in (("waits", "from_ps", -1), ("signals", "t_call_ps", 0)):
        rows = log.tables.get(name, log.tables["waits"][:0])
        first = rows[at if len(rows) else "from_ps"] + shift * rows["issue_ps"]
        found |= bool(((first <= start) & (end <= first + rows["issue_ps"])).any())
    return found


def _is_of_queue(log: OpLog, start: int, end: int, what: str) -> bool:
    """Whether it is the time of a doorbell, or of a credit, that a kernel waited for."""
    waits = log.tables["waits"]
    mine = waits[(waits["to_ps"] > waits["from_ps"]) & ((waits["reason"] == SyncReason.CREDIT) == (what == "credit"))]
    until = mine["to_ps"] - (mine["way_ps"] if what == "credit" else 0)
    return bool(((until - mine["queue_ps"] == start) & (until == end)).any())
