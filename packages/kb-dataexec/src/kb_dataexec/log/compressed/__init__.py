"""Compressed rows: rows of the op log that repeat other rows or follow from commands, and so need not be stored.

`LogRows` takes all rows of a run: append, repeat, cut, flush. `CommandPeriods` stands for repetitions of commands.
To read a chunk, `CompressedReader.read` makes all its rows, and `CommandLog` makes rows command by command.
"""

from typing import TYPE_CHECKING

from kb_messages import lazy_door

if TYPE_CHECKING:
    from kb_dataexec.log.compressed.chunk_reader import CompressedReader as CompressedReader
    from kb_dataexec.log.compressed.chunk_reader import RecordCounter as RecordCounter
    from kb_dataexec.log.compressed.command import SlotRing as SlotRing
    from kb_dataexec.log.compressed.command_log import CommandLog as CommandLog
    from kb_dataexec.log.compressed.command_periods import CommandPeriods as CommandPeriods
    from kb_dataexec.log.compressed.command_periods import CommandShift as CommandShift
    from kb_dataexec.log.compressed.command_periods import RepeatedCommand as RepeatedCommand
    from kb_dataexec.log.compressed.compressed_rows import TRANSFERS as TRANSFERS
    from kb_dataexec.log.compressed.compressed_rows import CompressedTables as CompressedTables
    from kb_dataexec.log.compressed.compressed_rows import PendingRows as PendingRows
    from kb_dataexec.log.compressed.compressed_rows import Table as Table
    from kb_dataexec.log.compressed.int_arrays import INT64 as INT64
    from kb_dataexec.log.compressed.int_arrays import addresses_of as addresses_of
    from kb_dataexec.log.compressed.int_arrays import int64s as int64s
    from kb_dataexec.log.compressed.log_rows import LogMark as LogMark
    from kb_dataexec.log.compressed.log_rows import LogRows as LogRows
    from kb_dataexec.log.compressed.row_maker import Chunk as Chunk
    from kb_dataexec.log.compressed.row_maker import Places as Places

_NAMES = {
    "kb_dataexec.log.compressed.chunk_reader": ("CompressedReader", "RecordCounter"),
    "kb_dataexec.log.compressed.command": ("SlotRing",),
    "kb_dataexec.log.compressed.command_log": ("CommandLog",),
    "kb_dataexec.log.compressed.command_periods": ("CommandPeriods", "CommandShift", "RepeatedCommand"),
    "kb_dataexec.log.compressed.compressed_rows": ("CompressedTables", "PendingRows", "TRANSFERS", "Table"),
    "kb_dataexec.log.compressed.int_arrays": ("INT64", "addresses_of", "int64s"),
    "kb_dataexec.log.compressed.log_rows": ("LogMark", "LogRows"),
    "kb_dataexec.log.compressed.row_maker": ("Chunk", "Places"),
}
if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazy_door(__name__, _NAMES)
