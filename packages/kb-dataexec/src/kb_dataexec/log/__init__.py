"""The op log: tables, digest, writers, readers, the order of pass 2, and the forms on disk."""

from kb_dataexec.log.columns import Columns, columns_of
from kb_dataexec.log.digest import LogSummary
from kb_dataexec.log.jsonl import LogLines
from kb_dataexec.log.late import LateOpLog
from kb_dataexec.log.parquet import ParquetError, export_parquet
from kb_dataexec.log.reader import LogFolder, open_log, read_log
from kb_dataexec.log.rows import Op, OperandRow
from kb_dataexec.log.schedule import Schedule
from kb_dataexec.log.table_dtypes import OPERAND_DTYPE, OPS_DTYPE, TABLE_DTYPES
from kb_dataexec.log.tables import OpLog
from kb_dataexec.log.writer import FolderLogWriter, LogWriter, MemoryLogWriter, write_log

__all__ = [
    "OPERAND_DTYPE",
    "OPS_DTYPE",
    "TABLE_DTYPES",
    "Columns",
    "FolderLogWriter",
    "LateOpLog",
    "LogFolder",
    "LogLines",
    "LogSummary",
    "LogWriter",
    "MemoryLogWriter",
    "Op",
    "OpLog",
    "OperandRow",
    "ParquetError",
    "Schedule",
    "columns_of",
    "export_parquet",
    "open_log",
    "read_log",
    "write_log",
]
