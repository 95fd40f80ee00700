"""Op logs: what they are in memory, how they are written, how they are read back."""

from kb_dataexec.loglines import LogLines
from kb_dataexec.logreader import LogFolder, open_log, read_log
from kb_dataexec.logwriter import FolderLogWriter, LogWriter, MemoryLogWriter, write_log
from kb_dataexec.oplog import OPERAND_DTYPE, OPS_DTYPE, LogSummary, OpLog

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
