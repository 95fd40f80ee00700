"""Op logs: what they are in memory, how they are written, how they are read back."""

from kb_dataexec.logreader import LogFolder, read_log
from kb_dataexec.logwriter import FolderLogWriter, LogWriter, MemoryLogWriter, write_log
from kb_dataexec.oplog import OPERAND_DTYPE, OPS_DTYPE, LogSummary, OpLog

__all__ = [
    "OPERAND_DTYPE",
    "OPS_DTYPE",
    "FolderLogWriter",
    "LogFolder",
    "LogSummary",
    "LogWriter",
    "MemoryLogWriter",
    "OpLog",
    "read_log",
    "write_log",
]
