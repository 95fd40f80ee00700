"""Compressed rows: rows of the op log that repeat other rows or follow from commands, and so need not be stored.

To append rows, `CompressedWriter` packs a chunk for `LogWriter.append_compressed`. To repeat rows, `Repeat` stands for
repetitions of rows, and `CommandPeriods` for repetitions of commands. To read them, `CompressedReader.read` makes all
rows of a chunk, and `CommandLog` makes them command by command.
"""

from typing import TYPE_CHECKING

from kb_messages import lazy_door

if TYPE_CHECKING:
    from kb_dataexec.log.compressed.auxiliary_rows import command_table as command_table
    from kb_dataexec.log.compressed.auxiliary_rows import int_columns as int_columns
    from kb_dataexec.log.compressed.auxiliary_rows import table as table
    from kb_dataexec.log.compressed.chunk_reader import CompressedReader as CompressedReader
    from kb_dataexec.log.compressed.chunk_reader import RecordCounter as RecordCounter
    from kb_dataexec.log.compressed.chunk_writer import CompressedWriter as CompressedWriter
    from kb_dataexec.log.compressed.command import SlotRing as SlotRing
    from kb_dataexec.log.compressed.command_group import intern_blocks as intern_blocks
    from kb_dataexec.log.compressed.command_group import intern_texts as intern_texts
    from kb_dataexec.log.compressed.command_log import CommandLog as CommandLog
    from kb_dataexec.log.compressed.command_periods import CommandPeriods as CommandPeriods
    from kb_dataexec.log.compressed.command_periods import CommandShift as CommandShift
    from kb_dataexec.log.compressed.command_periods import RepeatedCommand as RepeatedCommand
    from kb_dataexec.log.compressed.command_periods import each_command as each_command
    from kb_dataexec.log.compressed.compressed_rows import DISPATCHES as DISPATCHES
    from kb_dataexec.log.compressed.compressed_rows import RECORDS as RECORDS
    from kb_dataexec.log.compressed.compressed_rows import TRANSFERS as TRANSFERS
    from kb_dataexec.log.compressed.compressed_rows import WAITS as WAITS
    from kb_dataexec.log.compressed.compressed_rows import CompressedRows as CompressedRows
    from kb_dataexec.log.compressed.compressed_rows import CompressedTables as CompressedTables
    from kb_dataexec.log.compressed.compressed_rows import Part as Part
    from kb_dataexec.log.compressed.compressed_rows import Repeat as Repeat
    from kb_dataexec.log.compressed.compressed_rows import RowForm as RowForm
    from kb_dataexec.log.compressed.compressed_rows import Table as Table
    from kb_dataexec.log.compressed.expected_rows import IsolatedRows as IsolatedRows
    from kb_dataexec.log.compressed.expected_rows import RowSource as RowSource
    from kb_dataexec.log.compressed.int_arrays import INT64 as INT64
    from kb_dataexec.log.compressed.int_arrays import addresses_of as addresses_of
    from kb_dataexec.log.compressed.int_arrays import int64s as int64s
    from kb_dataexec.log.compressed.row_maker import Chunk as Chunk
    from kb_dataexec.log.compressed.row_maker import Places as Places
    from kb_dataexec.log.compressed.row_maker import RowMaker as RowMaker
    from kb_dataexec.log.compressed.row_maker import n_finished as n_finished

_NAMES = {
    "kb_dataexec.log.compressed.auxiliary_rows": (
        "command_table",
        "int_columns",
        "table",
    ),
    "kb_dataexec.log.compressed.chunk_reader": (
        "CompressedReader",
        "RecordCounter",
    ),
    "kb_dataexec.log.compressed.chunk_writer": ("CompressedWriter",),
    "kb_dataexec.log.compressed.command": ("SlotRing",),
    "kb_dataexec.log.compressed.command_group": (
        "intern_blocks",
        "intern_texts",
    ),
    "kb_dataexec.log.compressed.command_log": ("CommandLog",),
    "kb_dataexec.log.compressed.command_periods": (
        "CommandPeriods",
        "CommandShift",
        "RepeatedCommand",
        "each_command",
    ),
    "kb_dataexec.log.compressed.compressed_rows": (
        "CompressedRows",
        "CompressedTables",
        "DISPATCHES",
        "Part",
        "RECORDS",
        "Repeat",
        "RowForm",
        "TRANSFERS",
        "Table",
        "WAITS",
    ),
    "kb_dataexec.log.compressed.expected_rows": (
        "IsolatedRows",
        "RowSource",
    ),
    "kb_dataexec.log.compressed.int_arrays": (
        "INT64",
        "addresses_of",
        "int64s",
    ),
    "kb_dataexec.log.compressed.row_maker": (
        "Chunk",
        "Places",
        "RowMaker",
        "n_finished",
    ),
}
if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazy_door(__name__, _NAMES)
