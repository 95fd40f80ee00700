"""Rows that repeat others, as formulas, and how the rows of an op log follow from them and from commands."""

from typing import TYPE_CHECKING

from kb_messages import lazy_door

if TYPE_CHECKING:
    from kb_dataexec.log.formulas.address_arrays import addresses_of as addresses_of
    from kb_dataexec.log.formulas.checked_ints import INT64 as INT64
    from kb_dataexec.log.formulas.checked_ints import int64s as int64s
    from kb_dataexec.log.formulas.command import SlotRing as SlotRing
    from kb_dataexec.log.formulas.command_log import CommandLog as CommandLog
    from kb_dataexec.log.formulas.command_periods import CommandPeriods as CommandPeriods
    from kb_dataexec.log.formulas.command_periods import CommandShift as CommandShift
    from kb_dataexec.log.formulas.command_periods import RepeatedCommand as RepeatedCommand
    from kb_dataexec.log.formulas.command_periods import each_command as each_command
    from kb_dataexec.log.formulas.expected_rows import ClosedRows as ClosedRows
    from kb_dataexec.log.formulas.formula_reader import FormulaReader as FormulaReader
    from kb_dataexec.log.formulas.formula_writer import FormulaWriter as FormulaWriter
    from kb_dataexec.log.formulas.further_rows import command_table as command_table
    from kb_dataexec.log.formulas.further_rows import int_columns as int_columns
    from kb_dataexec.log.formulas.further_rows import table as table
    from kb_dataexec.log.formulas.group_texts import intern_blocks as intern_blocks
    from kb_dataexec.log.formulas.group_texts import intern_texts as intern_texts
    from kb_dataexec.log.formulas.row_formula import Part as Part
    from kb_dataexec.log.formulas.row_formula import Repeat as Repeat
    from kb_dataexec.log.formulas.row_formula import RowForm as RowForm
    from kb_dataexec.log.formulas.row_formula import RowFormula as RowFormula
    from kb_dataexec.log.formulas.row_formula import Table as Table
    from kb_dataexec.log.formulas.row_formulas import DISPATCHES as DISPATCHES
    from kb_dataexec.log.formulas.row_formulas import RECORDS as RECORDS
    from kb_dataexec.log.formulas.row_formulas import TRANSFERS as TRANSFERS
    from kb_dataexec.log.formulas.row_formulas import WAITS as WAITS
    from kb_dataexec.log.formulas.row_formulas import RowFormulas as RowFormulas
    from kb_dataexec.log.formulas.row_maker import Chunk as Chunk
    from kb_dataexec.log.formulas.row_maker import Places as Places
    from kb_dataexec.log.formulas.row_maker import RowMaker as RowMaker
    from kb_dataexec.log.formulas.row_maker import n_finished as n_finished
    from kb_dataexec.log.formulas.row_source import RowSource as RowSource
    from kb_dataexec.log.formulas.stated_records import StatedRecords as StatedRecords

_NAMES = {
    "kb_dataexec.log.formulas.address_arrays": ("addresses_of",),
    "kb_dataexec.log.formulas.command": ("SlotRing",),
    "kb_dataexec.log.formulas.expected_rows": ("ClosedRows",),
    "kb_dataexec.log.formulas.command_log": ("CommandLog",),
    "kb_dataexec.log.formulas.command_periods": ("CommandPeriods", "CommandShift", "RepeatedCommand", "each_command"),
    "kb_dataexec.log.formulas.formula_reader": ("FormulaReader",),
    "kb_dataexec.log.formulas.formula_writer": ("FormulaWriter",),
    "kb_dataexec.log.formulas.further_rows": (
        "command_table",
        "int_columns",
        "table",
    ),
    "kb_dataexec.log.formulas.group_texts": ("intern_blocks", "intern_texts"),
    "kb_dataexec.log.formulas.checked_ints": ("INT64", "int64s"),
    "kb_dataexec.log.formulas.row_formula": (
        "Part",
        "Repeat",
        "RowForm",
        "RowFormula",
        "Table",
    ),
    "kb_dataexec.log.formulas.row_formulas": (
        "DISPATCHES",
        "RECORDS",
        "TRANSFERS",
        "WAITS",
        "RowFormulas",
    ),
    "kb_dataexec.log.formulas.row_maker": (
        "Chunk",
        "Places",
        "RowMaker",
        "n_finished",
    ),
    "kb_dataexec.log.formulas.row_source": ("RowSource",),
    "kb_dataexec.log.formulas.stated_records": ("StatedRecords",),
}
if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazy_door(__name__, _NAMES)
