"""Pass 2: executes a log, record by record or fused, as a whole or as far as a value needs it."""

from typing import TYPE_CHECKING

from kb_messages import lazy_door

if TYPE_CHECKING:
    from kb_dataexec.execute.executor import Executor as Executor
    from kb_dataexec.execute.executor import Look as Look
    from kb_dataexec.execute.incremental import PartialExecution as PartialExecution
    from kb_dataexec.execute.incremental import Unfinished as Unfinished
    from kb_dataexec.execute.incremental import UnfinishedError as UnfinishedError
    from kb_dataexec.ops.vector_program import evaluate_integers as evaluate_integers
    from kb_dataexec.ops.vector_program import evaluate_program as evaluate_program


_NAMES = {
    "kb_dataexec.execute.executor": ("Executor", "Look"),
    "kb_dataexec.execute.incremental": ("PartialExecution", "Unfinished", "UnfinishedError"),
    "kb_dataexec.ops.vector_program": ("evaluate_integers", "evaluate_program"),
}
if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazy_door(__name__, _NAMES)
