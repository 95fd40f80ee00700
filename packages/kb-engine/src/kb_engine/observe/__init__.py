"""Watches runs: the base of all observers, the op log's recorder, and the tracer. Tools use this door."""

from kb_engine.observe.capture import Capture, Recipe, shown_array
from kb_engine.observe.chip import Chip
from kb_engine.observe.observer import Callbacks, Observer, StageTimes

__all__ = [
    "Callbacks",
    "Capture",
    "Chip",
    "Observer",
    "Recipe",
    "StageTimes",
    "shown_array",
]
