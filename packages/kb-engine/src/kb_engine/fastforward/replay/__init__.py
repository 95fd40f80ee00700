"""Replay: programs of a grid that repeat an earlier program run from a template, without their kernel."""

from kb_engine.fastforward.replay.purity import only_computes
from kb_engine.fastforward.replay.steps import LoadCheck, Loaded, PendingMark, Repetition
from kb_engine.fastforward.replay.template import Issue, MemoryStep
from kb_engine.fastforward.replay.templates import Templates, templates_of

__all__ = [
    "Issue",
    "LoadCheck",
    "Loaded",
    "MemoryStep",
    "PendingMark",
    "Repetition",
    "Templates",
    "only_computes",
    "templates_of",
]
