"""Rows that repeat others, as formulas, and how the rows of an op log follow from them and from commands."""

from kb_dataexec.log.formulas.address_arrays import addresses_of
from kb_dataexec.log.formulas.further_rows import command_table, int_columns, table
from kb_dataexec.log.formulas.group_texts import intern_texts
from kb_dataexec.log.formulas.int64s import int64s
from kb_dataexec.log.formulas.row_formula import Part, Repeat, RowForm, RowFormula, Table
from kb_dataexec.log.formulas.row_formulas import DISPATCHES, RECORDS, TRANSFERS, WAITS, RowFormulas
from kb_dataexec.log.formulas.row_maker import Places, RowMaker, n_finished
from kb_dataexec.log.formulas.row_source import RowSource

__all__ = [
    "DISPATCHES",
    "RECORDS",
    "TRANSFERS",
    "WAITS",
    "Part",
    "Places",
    "Repeat",
    "RowForm",
    "RowFormula",
    "RowFormulas",
    "RowMaker",
    "RowSource",
    "Table",
    "addresses_of",
    "command_table",
    "int64s",
    "int_columns",
    "intern_texts",
    "n_finished",
    "table",
]
