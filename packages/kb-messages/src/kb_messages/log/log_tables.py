"""The schema of the auxiliary tables of an op log. A log may leave any of them out.

`dependencies` adds to the dependencies that the executor derives from bytes. The other tables give the reasons for the
times of records, and only reports read them. Columns of text hold indices in the log's table of strings, and times are
integer picoseconds. In columns of times and numbers, and in columns that name another record, -1 stands for "none" or
"unknown".
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple


class CallCause(IntEnum):
    """The cause that let a kernel make a call: its own start, or an earlier command that was submitted, done or queued.

    A command is queued where commands wait in the queue of their engine. Where a kernel waited for another program, the
    cause is a message that came, a credit for a slot that came free, or a signal.
    """

    START = 0
    SUBMISSION = 1
    COMPLETION = 2
    QUEUED = 3
    MESSAGE = 4
    CREDIT = 5
    SIGNAL = 6


class SyncReason(IntEnum):
    """What a kernel waited for: a message, a credit for a message that it sends, a signal, or a barrier's signal.

    Launches of streams wait for PEs that other launches have (PE_BUSY), and streams wait for events (EVENT). These two
    are no waits of a kernel for another program of its launch.
    """

    MESSAGE = 0
    CREDIT = 1
    SIGNAL = 2
    BARRIER = 3
    PE_BUSY = 4
    EVENT = 5

    @property
    def is_between_programs(self) -> bool:
        """Whether a kernel waits for another program of its launch."""
        return self <= SyncReason.BARRIER


class HostCallKind(IntEnum):
    """What the host's call of a stream does: a launch, a transfer of the host, or the record of an event or the wait
    for one. A look is no call of a stream: the host's Python waited for the end of a call."""

    LAUNCH = 0
    WRITE = 1
    READ = 2
    COPY = 3
    RECORD = 4
    WAIT = 5
    LOOK = 6


class MessageKind(IntEnum):
    """Whether a message is a request or an answer."""

    REQUEST = 0
    RESPONSE = 1


class TableSchema(NamedTuple):
    """The schema of one table: its columns, with little-endian numpy type strings, and the meaning of their numbers.

    `texts` are the columns of text, and `codes` maps each column that holds the numbers of an enum to the enum. The
    times in `ascending` never fall from one column to the next.
    """

    columns: tuple[tuple[str, str], ...]
    texts: tuple[str, ...] = ()
    codes: Mapping[str, type[IntEnum]] = {}
    ascending: tuple[str, ...] = ()


ID_COLUMNS: Final = (
    "op_id", "depends_on", "first_op_id", "behind_op", "command_seq", "after_seq", "operand_seq", "take_seq",
    "free_seq", "by_seq", "next_seq", "cause_seq", "first_seq", "end_seq",
)  # fmt: skip
"""Columns that hold the ids of ops and the numbers of commands, which may be any numbers."""


SYNC_TABLES: Final = ("sends", "signals", "waits")
"""The tables of programs that wait for each other. A log without such programs does not have the tables."""
STREAM_TABLES: Final = ("calls", "reads")
"""The tables of the host's streams. A log of a run without streams does not have the tables."""
OPTIONAL_TABLES: Final = (*SYNC_TABLES, *STREAM_TABLES)
"""The tables that a log has only where they have rows."""


def _times(*names: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, "<i8") for name in names)


_COMMAND_TIMES: Final = (
    "t_call_ps", "t_issued_ps", "t_submitted_ps", "t_taken_ps", "t_decoded_ps", "t_fed_ps", "t_done_ps",
)  # fmt: skip
_TRANSFER_TIMES: Final = "t_sent_ps", "t_arrived_ps", "t_served_ps", "t_first_ps", "t_last_ps"
_KERNEL_TIMES: Final = "t_called_ps", "t_target_ps", "t_start_ps", "t_end_ps"
_MESSAGE_TIMES: Final = "t_sent_ps", "t_arrived_ps"
_SEND_TIMES: Final = "t_credit_ps", "t_rung_ps", "t_taken_ps", "t_freed_ps", "t_credited_ps"
_SIGNAL_TIMES: Final = "t_call_ps", "t_sent_ps", "t_rung_ps"
_CALL_TIMES: Final = "t_called_ps", "t_made_ps", "t_start_ps", "t_end_ps"

LOG_TABLES: Final[Mapping[str, TableSchema]] = {
    "dependencies": TableSchema((("op_id", "<i8"), ("depends_on", "<i8"))),
    "commands": TableSchema(
        columns=(
            ("command_seq", "<i8"),
            ("pe", "<i4"),
            ("line", "<i4"),
            ("name", "<i4"),
            ("n_tiles", "<i8"),
            ("first_op_id", "<i8"),
            ("n_ops", "<i8"),
            *_times(*_COMMAND_TIMES),
            ("after_seq", "<i8"),
            ("after", "|i1"),
            ("operand_seq", "<i8"),
            ("operand_ps", "<i8"),
        ),
        texts=("pe", "line", "name"),
        codes={"after": CallCause},
        ascending=_COMMAND_TIMES,
    ),
    "dispatches": TableSchema(
        columns=(("op_id", "<i8"), *_times("t_in_order_ps", "t_claimed_ps")),
        ascending=("t_in_order_ps", "t_claimed_ps"),
    ),
    "transfers": TableSchema(
        columns=(
            ("op_id", "<i8"),
            ("memory", "<i4"),
            *_times(*_TRANSFER_TIMES),
            ("latency_ps", "<i8"),
            ("shared_ps", "<i8"),
            ("behind_op", "<i8"),
        ),
        texts=("memory",),
        ascending=_TRANSFER_TIMES,
    ),
    "kernels": TableSchema(
        columns=(("launch", "<i8"), ("pe", "<i4"), *_times(*_KERNEL_TIMES)), texts=("pe",), ascending=_KERNEL_TIMES
    ),
    "messages": TableSchema(
        columns=(("launch", "<i8"), ("src", "<i4"), ("dst", "<i4"), ("message", "|i1"), *_times(*_MESSAGE_TIMES)),
        texts=("src", "dst"),
        codes={"message": MessageKind},
        ascending=_MESSAGE_TIMES,
    ),
    "sends": TableSchema(
        columns=(
            ("command_seq", "<i8"),
            ("dst", "<i4"),
            ("tag", "<i4"),
            ("slot", "<i8"),
            ("nbytes", "<i8"),
            *_times(*_SEND_TIMES),
            ("line_taken", "<i4"),
            ("take_seq", "<i8"),
            ("free_seq", "<i8"),
        ),
        texts=("dst", "tag", "line_taken"),
        ascending=_SEND_TIMES,
    ),
    "signals": TableSchema(
        columns=(
            ("number", "<i8"),
            ("src", "<i4"),
            ("dst", "<i4"),
            ("flag", "<i4"),
            ("n", "<i8"),
            *_times(*_SIGNAL_TIMES),
            ("line", "<i4"),
            ("after_seq", "<i8"),
            ("issue_ps", "<i8"),
            ("cause", "|i1"),
            ("cause_seq", "<i8"),
        ),
        texts=("src", "dst", "flag", "line"),
        codes={"cause": CallCause},
        ascending=_SIGNAL_TIMES,
    ),
    "waits": TableSchema(
        columns=(
            ("pe", "<i4"),
            ("line", "<i4"),
            ("reason", "|i1"),
            *_times("from_ps", "to_ps"),
            ("by_seq", "<i8"),
            ("next_seq", "<i8"),
            ("other", "<i4"),
            *_times("issue_ps", "queue_ps", "way_ps"),
            ("cause", "|i1"),
            ("cause_seq", "<i8"),
        ),
        texts=("pe", "line", "other"),
        codes={"reason": SyncReason, "cause": CallCause},
        ascending=("from_ps", "to_ps"),
    ),
    "calls": TableSchema(
        columns=(
            ("number", "<i8"),
            ("stream", "<i8"),
            ("call_kind", "|i1"),
            ("line", "<i4"),
            ("launch", "<i8"),
            ("event", "<i8"),
            ("first_seq", "<i8"),
            ("end_seq", "<i8"),
            *_times(*_CALL_TIMES),
        ),
        texts=("line",),
        codes={"call_kind": HostCallKind},
        ascending=_CALL_TIMES,
    ),
    "reads": TableSchema(
        columns=(
            ("call", "<i8"),
            ("owner", "<i8"),
            ("offset", "<i8"),
            ("rows", "<i8"),
            ("row_nbytes", "<i8"),
            ("stride", "<i8"),
        ),
    ),
}
"""The auxiliary tables by name, in the order of the digest. OPTIONAL_TABLES come last there.

`dependencies`: op `op_id` follows op `depends_on`, whatever their bytes.

`commands`: a command of a kernel, done at `t_done_ps`, with `n_ops` ops whose ids count from `first_op_id` on. The
kernel called at `t_call_ps`, and `after` and `after_seq` are the cause of that moment. PE_CPU issued the command at
`t_issued_ps`, after a wait of `operand_ps` for operands. Command `operand_seq` delivered the last of these operands.
Where engines have queues, `t_issued_ps` may also be the turn of the command in the queue of its engine, when command
`operand_seq` was submitted. The scheduler got the command at `t_submitted_ps`, took it, decoded it, and began to feed
its tiles.

`dispatches`: a tile, by its first op, that waited for earlier tiles to be fetched (until `t_in_order_ps`), and then for
its buffers (until `t_claimed_ps`). Every other tile had its buffers when the tile before it was fed.

`transfers`: the request of a DMA op. `memory` began to serve it at `t_served_ps`, behind the request of `behind_op`.
The README of kb-dataexec explains how the columns divide a service into parts, and which services need no row.

`kernels`: a program of a launch. The programs of a grid stand in their order, and a PE may have several of them; such a
PE took each but the first one at `t_start_ps`. `messages`: the messages that host and processors sent for a launch, one
row for each receiver.

`sends`: a message of command `command_seq` to a program on PE `dst`, in slot `slot` of its channel, in the order in
which slots were given back. The sender had a credit at `t_credit_ps`. The doorbell of the receiver rang at `t_rung_ps`,
its kernel took the message at `t_taken_ps`, at `line_taken`, and gave the slot back at `t_freed_ps`. The credit was
back at `t_credited_ps`. Commands of the receiver from number `take_seq` on come after the message, and commands from
number `free_seq` on do not read the slot. So the bytes of the slot are gone before command `free_seq`.

`signals`: signal `number` of the launches so far added `n` to the counter `flag` of the program on PE `dst`. The kernel
called at `t_call_ps`, and PE_CPU of PE `src` took `issue_ps`. The signal left at `t_sent_ps`, when the commands before
number `after_seq` were done, and rang at `t_rung_ps`. Waits of the kernel that ended after the call do not come before
the signal. `cause` and `cause_seq` let the kernel make the call, as `after` and `after_seq` of a command.

`waits`: a kernel on PE `pe` waited for the program on PE `other`, in the order in which the waits ended. `by_seq` is
what ended the wait: the number of a send command (MESSAGE), of the send command whose slot came free (CREDIT), or of a
signal (SIGNAL and BARRIER). It is -1 where a credit is the first of its slot, and where the other program had not
begun. Commands of the PE from number `next_seq` on come after the wait. The call took PE_CPU `issue_ps` up to
`from_ps`, and `cause` and `cause_seq` let the kernel make the call. A wait that took time ended `queue_ps` + `way_ps`
after the bytes of the message were committed (`queue_ps` is the doorbell's time), after the slot was given back
(`queue_ps`, the credit's time, comes first, then the way of the credit), or after the signal was sent (the way comes
first, then the doorbell). A receipt and a wait for a signal have rows where they took no time, too. Two reasons have -1
in the columns that are not named here. PE_BUSY: the launch of the host's call `next_seq`, at `line`, waited for PE
`pe`, which launch `by_seq` had. EVENT: the stream `pe` waited, by call `next_seq`, for an event that the stream `other`
recorded, by call `by_seq`.

`calls`: call `number` of the host's streams, by their number in `stream`, in the order in which the calls ended. A copy
without a stream has -1. The driver began with the call at `t_called_ps` and had made it at `t_made_ps`. Its work began
at `t_start_ps`: a launch left the host, a transfer began, or a wait for an event began. The host knew of its end at
`t_end_ps`. `launch` is the number of a launch, and `event` that of the event of a RECORD or WAIT. A LOOK has no stream:
the host's Python waited for call `event`, or for all calls (-1), before it made later calls. A WRITE or COPY has the
commands from number `first_seq` on and before number `end_seq`. A READ comes after the commands before number
`first_seq`.

`reads`: bytes that the READ `call` read, a row for each block.
"""
