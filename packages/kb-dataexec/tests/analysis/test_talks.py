"""Waits for other PEs and channels, added up by hand."""

import numpy as np

from kb_dataexec import OpLog
from kb_dataexec.analysis import Channels, SyncWaits, channels, sync_waits
from kb_dataexec.log.table_dtypes import OPERAND_DTYPE, OPS_DTYPE, TABLE_DTYPES

STRINGS = ["pe0", "pe1", "pe2", "tag 0", "k.py:3", "k.py:4"]


def log_with(**tables: list[dict[str, int]]) -> OpLog:
    made = {}
    for name, rows in tables.items():
        made[name] = np.zeros(len(rows), TABLE_DTYPES[name])
        for at, row in enumerate(rows):
            for column, value in row.items():
                made[name][at][column] = value
    return OpLog(np.empty(0, OPS_DTYPE), np.empty(0, OPERAND_DTYPE), STRINGS, tables=made)


def wait(pe: int, line: int, reason: int, from_ps: int, to_ps: int, other: int) -> dict[str, int]:
    return {"pe": pe, "line": line, "reason": reason, "from_ps": from_ps, "to_ps": to_ps, "other": other}


def send(seq: int, dst: int, slot: int, times: tuple[int, int, int, int], nbytes: int = 64) -> dict[str, int]:
    names = "t_credit_ps", "t_rung_ps", "t_taken_ps", "t_freed_ps"
    return {
        "command_seq": seq,
        "dst": dst,
        "tag": 3,
        "slot": slot,
        "nbytes": nbytes,
        **dict(zip(names, times, strict=True)),
    }


def test_waits_by_line_and_reason_name_the_longest():
    log = log_with(
        waits=[wait(0, 4, 0, 10, 40, 1), wait(1, 4, 0, 10, 90, 2), wait(2, 4, 0, 50, 50, 1), wait(2, 5, 3, 0, 7, 0)]
    )
    assert sync_waits(log) == [
        SyncWaits(line="k.py:3", reason="message", count=3, waited_ps=110, longest_ps=80, pe="pe1", other="pe2"),
        SyncWaits(line="k.py:4", reason="barrier", count=1, waited_ps=7, longest_ps=7, pe="pe2", other="pe0"),
    ]


def test_equal_channels_share_a_row_and_a_held_slot_is_full_to_the_end():
    """pe0 -> pe1 and pe1 -> pe2: two messages each, 20 and 30 ps. Slots are full from 10 to 60 and from 30 to 90 ps,
    and in the other channel from 10 to 50: 110 and 100 of 80 ps.
    """
    sends = [
        send(0, 1, 0, (10, 30, 40, 60)),
        send(1, 1, 1, (30, 60, 90, -1)),
        send(2, 2, 0, (10, 30, 40, 50)),
        send(3, 2, 1, (30, 60, 90, -1)),
        send(4, 0, 0, (50, -1, -1, -1)),
    ]
    commands = [{"command_seq": seq, "pe": seq // 2} for seq in range(5)]
    assert channels(log_with(commands=commands, sends=sends)) == [
        Channels(
            src="pe0", dst="pe1", tag="tag 0", channels=2, messages=2, nbytes=128,
            mean_ps=25, longest_ps=30, slots=2, busy_slots=(110 / 80 + 100 / 80) / 2,
        )
    ]  # fmt: skip


def test_a_log_without_messages_has_neither():
    assert sync_waits(log_with()) == channels(log_with()) == []
