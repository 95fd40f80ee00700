"""What a log tells without being executed: dependencies, hazards, and where values come from."""

from kb_dataexec.analysis.dependencies import backward_slice, dependencies
from kb_dataexec.analysis.sanitize import Finding, sanitize

__all__ = [
    "Finding",
    "backward_slice",
    "dependencies",
    "sanitize",
]
