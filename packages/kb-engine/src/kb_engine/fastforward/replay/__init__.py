"""Replay: programs of a grid that repeat an earlier program run from a template, without their kernel."""

from kb_engine.fastforward.replay.purity import only_computes
from kb_engine.fastforward.replay.steps import LoadCheck, Loaded, PendingMark, Repetition, Submission
from kb_engine.fastforward.replay.template import MemoryStep
from kb_engine.fastforward.replay.templates import Templates, templates_of

__all__ = [
    "LoadCheck",
    "Loaded",
    "MemoryStep",
    "PendingMark",
    "Repetition",
    "Submission",
    "Templates",
    "only_computes",
    "templates_of",
]
