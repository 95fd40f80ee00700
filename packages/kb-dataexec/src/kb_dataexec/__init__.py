"""Memory, op logs, their execution and verification, for any simulator. Names that are not exported are private."""

from typing import TYPE_CHECKING

from kb_messages import lazy_door

if TYPE_CHECKING:
    from kb_dataexec.analysis.dependencies import dependencies as dependencies
    from kb_dataexec.analysis.sanitize import sanitize as sanitize
    from kb_dataexec.arrays.dtypes import cast as cast
    from kb_dataexec.arrays.dtypes import numpy_dtype as numpy_dtype
    from kb_dataexec.execute.executor import Executor as Executor
    from kb_dataexec.log.reader import LargeLogError as LargeLogError
    from kb_dataexec.log.reader import open_log as open_log
    from kb_dataexec.log.reader import read_log as read_log
    from kb_dataexec.log.tables import OpLog as OpLog
    from kb_dataexec.log.writer import FolderLogWriter as FolderLogWriter
    from kb_dataexec.log.writer import LogWriter as LogWriter
    from kb_dataexec.log.writer import MemoryLogWriter as MemoryLogWriter
    from kb_dataexec.memory.store import MemoryStore as MemoryStore
    from kb_dataexec.memory.store import StoreError as StoreError
    from kb_dataexec.memory.store import UnwrittenBytesError as UnwrittenBytesError
    from kb_dataexec.verify.compare import compare as compare
    from kb_dataexec.verify.product_tolerance import product_tolerance as product_tolerance
    from kb_dataexec.verify.tolerance import default_tolerance as default_tolerance
    from kb_dataexec.verify.tolerance import gemm_tolerance as gemm_tolerance
    from kb_messages import DType as DType

__version__ = "0.1.0"

_NAMES = {
    "kb_dataexec.analysis.dependencies": ("dependencies",),
    "kb_dataexec.analysis.sanitize": ("sanitize",),
    "kb_dataexec.arrays.dtypes": ("cast", "numpy_dtype"),
    "kb_dataexec.execute.executor": ("Executor",),
    "kb_dataexec.log.reader": ("LargeLogError", "open_log", "read_log"),
    "kb_dataexec.log.tables": ("OpLog",),
    "kb_dataexec.log.writer": ("FolderLogWriter", "LogWriter", "MemoryLogWriter"),
    "kb_dataexec.memory.store": ("MemoryStore", "StoreError", "UnwrittenBytesError"),
    "kb_dataexec.verify.compare": ("compare",),
    "kb_dataexec.verify.product_tolerance": ("product_tolerance",),
    "kb_dataexec.verify.tolerance": ("default_tolerance", "gemm_tolerance"),
    "kb_messages": ("DType",),
}
if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazy_door(__name__, _NAMES)
