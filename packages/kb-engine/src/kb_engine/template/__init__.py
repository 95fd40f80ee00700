"""Programs of a grid that do as one of them did are repeated from a template, without their kernel."""

from kb_engine.template.purity import MadeKernel, is_pure
from kb_engine.template.templates import play_of

__all__ = [
    "MadeKernel",
    "is_pure",
    "play_of",
]
