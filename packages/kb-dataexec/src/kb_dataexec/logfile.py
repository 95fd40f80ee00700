"""Op logs in memory and on disk: the names of `kb_dataexec.log` that read and write logs."""

from kb_dataexec.log.digest import LogSummary
from kb_dataexec.log.lines.log_lines import LogLines
from kb_dataexec.log.reader import LogFolder, open_log, read_log
from kb_dataexec.log.table_dtypes import OPERAND_DTYPE, OPS_DTYPE
from kb_dataexec.log.tables import OpLog
from kb_dataexec.log.writer import FolderLogWriter, LogWriter, MemoryLogWriter, write_log

__all__ = [
    "OPERAND_DTYPE",
    "OPS_DTYPE",
    "FolderLogWriter",
    "LogFolder",
    "LogLines",
    "LogSummary",
    "LogWriter",
    "MemoryLogWriter",
    "OpLog",
    "open_log",
    "read_log",
    "write_log",
]
