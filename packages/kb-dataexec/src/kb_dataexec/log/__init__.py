"""The op log: tables, digest, writers, readers, the order of pass 2, and the forms on disk."""

from typing import TYPE_CHECKING

from kb_messages import lazy_door

if TYPE_CHECKING:
    from kb_dataexec.log.columns import Columns as Columns
    from kb_dataexec.log.columns import columns_of as columns_of
    from kb_dataexec.log.digest import LogSummary as LogSummary
    from kb_dataexec.log.lazy import LazyOpLog as LazyOpLog
    from kb_dataexec.log.lines.log_lines import LogLines as LogLines
    from kb_dataexec.log.parquet import ParquetError as ParquetError
    from kb_dataexec.log.parquet import export_parquet as export_parquet
    from kb_dataexec.log.reader import LogFolder as LogFolder
    from kb_dataexec.log.reader import open_log as open_log
    from kb_dataexec.log.reader import read_log as read_log
    from kb_dataexec.log.rows import Op as Op
    from kb_dataexec.log.rows import OperandRow as OperandRow
    from kb_dataexec.log.schedule import Schedule as Schedule
    from kb_dataexec.log.table_dtypes import OPERAND_DTYPE as OPERAND_DTYPE
    from kb_dataexec.log.table_dtypes import OPS_DTYPE as OPS_DTYPE
    from kb_dataexec.log.table_dtypes import TABLE_DTYPES as TABLE_DTYPES
    from kb_dataexec.log.tables import LogParts as LogParts
    from kb_dataexec.log.tables import OpLog as OpLog
    from kb_dataexec.log.writer import FolderLogWriter as FolderLogWriter
    from kb_dataexec.log.writer import LogWriter as LogWriter
    from kb_dataexec.log.writer import MemoryLogWriter as MemoryLogWriter
    from kb_dataexec.log.writer import write_log as write_log

_NAMES = {
    "kb_dataexec.log.columns": (
        "Columns",
        "columns_of",
    ),
    "kb_dataexec.log.digest": ("LogSummary",),
    "kb_dataexec.log.lazy": ("LazyOpLog",),
    "kb_dataexec.log.lines.log_lines": ("LogLines",),
    "kb_dataexec.log.parquet": (
        "ParquetError",
        "export_parquet",
    ),
    "kb_dataexec.log.reader": (
        "LogFolder",
        "open_log",
        "read_log",
    ),
    "kb_dataexec.log.rows": (
        "Op",
        "OperandRow",
    ),
    "kb_dataexec.log.schedule": ("Schedule",),
    "kb_dataexec.log.table_dtypes": (
        "OPERAND_DTYPE",
        "OPS_DTYPE",
        "TABLE_DTYPES",
    ),
    "kb_dataexec.log.tables": (
        "LogParts",
        "OpLog",
    ),
    "kb_dataexec.log.writer": (
        "FolderLogWriter",
        "LogWriter",
        "MemoryLogWriter",
        "write_log",
    ),
}
if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazy_door(__name__, _NAMES)
