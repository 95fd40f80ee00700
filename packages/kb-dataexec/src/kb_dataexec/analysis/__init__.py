"""Questions that a log answers without being executed: dependencies, hazards, and the origin of values."""

from kb_dataexec.analysis.dependencies import backward_slice, dependencies
from kb_dataexec.analysis.hazards import Hazard
from kb_dataexec.analysis.provenance import Origin, origin
from kb_dataexec.analysis.sanitize import Finding, sanitize

__all__ = [
    "Finding",
    "Hazard",
    "Origin",
    "backward_slice",
    "dependencies",
    "origin",
    "sanitize",
]
