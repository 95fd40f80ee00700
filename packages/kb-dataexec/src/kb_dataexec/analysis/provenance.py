"""Provenance: finds the ops that wrote, released and computed a byte, and the message that should have written it.

The log is searched on demand, so execution keeps no record of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.ranges import numbered_rows
from kb_dataexec.files import UnreadableJsonError, json_decoder
from kb_dataexec.log.rows import op_name
from kb_dataexec.log.tables import LogParts, OpLog
from kb_dataexec.memory.store import StoreError
from kb_messages import MathAttributes, Operand, OpKind, OpRecord, Role

Position = tuple[int, int, int, int]
"""The position of a record in the order of pass 2: (command_seq, tile_id, stage_index, op_id)."""

_KEYS: Final = ("op_id", "stage_index", "tile_id", "command_seq")
_WRITES: Final = tuple(role for role in Role if role.is_write)
_MOST_MOVES: Final = 64
_decode_math: Final = json_decoder(MathAttributes)
_MOVES: Final = ((Role.SRC, Role.DST), (Role.IN, Role.OUT))


class Origin(NamedTuple):
    """The origin of the value of a byte: `writer` wrote the byte last, and `maker` computed the value.

    They differ if ops moved the value. `writer` is None if no op of the log wrote the byte. `maker` is None if the
    value comes from the initial memory.
    """

    writer: OpRecord | None
    maker: OpRecord | None

    def __str__(self) -> str:
        if self.writer is None:
            return "no op of the log wrote it"
        text = f"written by {describe(self.writer)}"
        if self.maker is None:
            return f"{text}, moved there from the initial memory"
        return text if self.maker.op_id == self.writer.op_id else f"{text}, computed by {describe(self.maker)}"


def describe(record: OpRecord) -> str:
    """Returns the name of a record in errors: its id, name, component and kernel line, as far as it has them."""
    return op_name(record.op_id, record.name, record.component, record.line)


def position_of(record: OpRecord) -> Position:
    """Returns the position of *record* in the order of pass 2."""
    return record.command_seq, record.tile_id, record.stage_index, record.op_id


def last_writer(log: LogParts, owner: int, offset: int, before: Position | None = None) -> OpRecord | None:
    """Finds the last op in the order of pass 2, and before *before*, that writes byte *offset* of memory *owner*."""

    def writes(part: OpLog) -> Array:
        touching: Array = _touching(part, owner, offset) & np.isin(part.operands["role"], _WRITES)
        return touching

    return _last(log, writes, before)


def last_release(log: LogParts, owner: int, offset: int, before: Position | None = None) -> OpRecord | None:
    """Finds the last op in the order of pass 2, and before *before*, that un-initialises byte *offset* of *owner*."""

    def releases(part: OpLog) -> Array:
        touching: Array = _touching(part, owner, offset) & (part.operands["release"] != 0)
        return touching

    return _last(log, releases, before)


def origin(log: LogParts, owner: int, offset: int) -> Origin:
    """Finds the op that wrote the byte last, and the op that computed its value. An invalid log raises no error.

    A cast (`copy`) computes no value: the maker is the op before it.
    """
    writer = record = last_writer(log, owner, offset)
    for _ in range(_MOST_MOVES):
        if record is None or not _moves(record):
            break
        source = _source_of(record, owner, offset)
        if source is None:
            break
        owner, offset = source
        record = last_writer(log, owner, offset, position_of(record))
    return Origin(writer, record)


def history(log: LogParts, owner: int, offset: int, reader: int | None) -> str:
    """Returns a sentence about a byte that op *reader* could not read. None is a reader after the whole log."""
    before = None if reader is None else _position(log, reader)
    writer, release = (find(log, owner, offset, before) for find in (last_writer, last_release))
    if writer is not None and release is not None and position_of(release) >= position_of(writer):
        return f"last written by {describe(writer)}, then released by {describe(release)}"
    if writer is not None:
        was_message = _is_given_back(log, writer.command_seq, before)
        return f"last written by {describe(writer)}{', a message whose slot came free since' if was_message else ''}"
    if release is not None:
        return f"initial memory, released by {describe(release)}"
    later = last_writer(log, owner, offset)
    return f"only later written, by {describe(later)}" if later is not None else "no op of the log writes it"


def explained(log: LogParts, error: StoreError) -> StoreError:
    """Returns *error* with the ops of *log* that wrote and released the byte that could not be read.

    If the reader should have found a message there, *error* names the message too.
    """
    if error.byte is None:
        return error
    known = [history(log, *error.byte, error.op_id), missing_message(log, *error.byte, error.op_id)]
    fuller = StoreError(error.where, error.got, error.needs, "; ".join(filter(None, known)))
    fuller.byte, fuller.op_id = error.byte, error.op_id
    return fuller


def missing_message(log: LogParts, owner: int, offset: int, reader: int | None) -> str:
    """Returns a sentence on the message that op *reader* should have found at byte *offset* of memory *owner*.

    The PE of *reader* held the message then, and the message did not write the byte. Of several ones, one whose slot
    has the byte comes first. Returns "" for a reader that held no such message.
    """
    sends = log.tables.get("sends")
    if reader is None or sends is None:
        return ""
    record, writing = _record(log, reader), _commands_writing(log, owner, offset)
    pe = record.component.rpartition(".")[0]
    is_mine = np.array([log.strings[dst] == pe for dst in sends["dst"].tolist()], np.bool_)
    is_held = is_mine & (sends["take_seq"] >= 0) & (sends["take_seq"] <= record.command_seq)
    is_held &= (record.command_seq < sends["free_seq"]) | (sends["free_seq"] < 0)
    fills = np.isin(sends["command_seq"], writing)
    slot = numbered_rows(sends["dst"], sends["tag"], sends["slot"])
    lost = np.flatnonzero(is_held & ~fills)
    if not len(lost):
        return ""
    row = sends[lost[np.argmax(np.isin(slot[lost], slot[fills]))]]
    to = f"{log.strings[row['dst']]}, {log.strings[row['tag']]}"
    return (
        f"missing: the message of {_sender(log, int(row['command_seq']))} to {to}, received at "
        f"{log.strings[row['line_taken']]}"
    )


def _is_given_back(log: LogParts, command_seq: int, before: Position | None) -> bool:
    """Whether command *command_seq* sent a message whose slot came free before *before*."""
    sends = log.tables.get("sends")
    if sends is None:
        return False
    free_seq = sends["free_seq"][sends["command_seq"] == command_seq]
    return bool((free_seq >= 0).any()) and (before is None or bool((free_seq <= before[0]).any()))


def _commands_writing(log: LogParts, owner: int, offset: int) -> Array:
    """The numbers of all commands that write byte *offset* of memory *owner*."""
    found = [np.empty(0, np.int64)]
    for part in log.parts():
        writes = _touching(part, owner, offset) & np.isin(part.operands["role"], _WRITES)
        found.append(part.ops["command_seq"][np.isin(part.ops["op_id"], part.operands["op_id"][writes])])
    return np.concatenate(found)


def _sender(log: LogParts, command_seq: int) -> str:
    """The line and the PE of a send command: by its records, or by the table of commands where it has none."""
    for part in log.parts():
        at = np.flatnonzero(part.ops["command_seq"] == command_seq)
        if len(at):
            row = part.ops[at[0]]
            return f"{part.strings[row['line']]} on {part.strings[row['component']].rpartition('.')[0]}"
    commands = log.tables.get("commands")
    mine = [] if commands is None else np.flatnonzero(commands["command_seq"] == command_seq).tolist()
    if commands is None or not mine:
        return f"command {command_seq}"
    return f"{log.strings[commands['line'][mine[0]]]} on {log.strings[commands['pe'][mine[0]]]}"


def _touching(log: OpLog, owner: int, offset: int) -> Array:
    """Whether each operand row holds the byte."""
    rows = log.operands
    past = offset - rows["offset"]
    step = np.where(rows["rows"] > 1, rows["stride"], 0)
    row = np.minimum(past // np.maximum(step, 1), rows["rows"] - 1) * (step > 0)
    within = past - row * step
    touching: Array = (rows["owner"] == owner) & (past >= 0) & (within < rows["row_nbytes"])
    return touching


def _position(log: LogParts, op_id: int) -> Position:
    """The position of the record of op *op_id*."""
    return position_of(_record(log, op_id))


def _record(log: LogParts, op_id: int) -> OpRecord:
    """The record of op *op_id*, which was executed."""
    for part in log.parts():
        found = np.flatnonzero(part.ops["op_id"] == op_id)
        if len(found):
            return part.record(int(found[0]))
    raise AssertionError("an op that was executed has a record")


def _last(log: LogParts, chosen: Callable[[OpLog], Array], before: Position | None) -> OpRecord | None:
    """The last record before *before* that has one of the *chosen* operands of its part."""
    for part in log.parts(backwards=True):
        indices = np.flatnonzero(np.isin(part.ops["op_id"], part.operands["op_id"][chosen(part)]))
        order = indices[np.lexsort(tuple(part.ops[key][indices] for key in _KEYS))]
        for index in order[::-1].tolist():
            place: tuple[Any, ...] = tuple(int(part.ops[key][index]) for key in reversed(_KEYS))
            if before is None or place < before:
                return part.record(index)
    return None


def _moves(record: OpRecord) -> bool:
    """Whether *record* copies or casts values."""
    if record.kind is not OpKind.MATH:
        return record.kind is OpKind.MEMORY
    try:
        return _decode_math(record.params).op == "copy"
    except UnreadableJsonError:
        return False


def _source_of(record: OpRecord, owner: int, offset: int) -> tuple[int, int] | None:
    """Returns (owner, offset) of the element that the move or cast *record* copied to the byte's element."""
    for source, target in zip(record.operands[::2], record.operands[1::2], strict=False):
        element = _element(target, owner, offset)
        if (source.role, target.role) in _MOVES and element is not None and source.rows == target.rows:
            row, col = element
            return source.owner, source.offset + row * source.stride + col * source.dtype.nbytes
    return None


def _element(operand: Operand, owner: int, offset: int) -> tuple[int, int] | None:
    past = offset - operand.offset
    if operand.owner != owner or past < 0:
        return None
    row = min(past // operand.stride, operand.rows - 1) if operand.rows > 1 and operand.stride else 0
    within = past - row * operand.stride
    return (row, within // operand.dtype.nbytes) if within < operand.row_nbytes else None
