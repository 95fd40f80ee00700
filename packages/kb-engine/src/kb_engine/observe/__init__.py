"""Watches runs: the base of all observers, the op log's recorder, and the tracer. Tools use this door."""

from typing import TYPE_CHECKING

from kb_messages import lazy_door

if TYPE_CHECKING:
    from kb_engine.observe.capture import Capture as Capture
    from kb_engine.observe.capture import Recipe as Recipe
    from kb_engine.observe.capture import shown_array as shown_array
    from kb_engine.observe.chip import Chip as Chip
    from kb_engine.observe.observer import Callbacks as Callbacks
    from kb_engine.observe.observer import Observer as Observer
    from kb_engine.observe.observer import StageTimes as StageTimes
    from kb_engine.observe.slow_path import COMMANDS as COMMANDS
    from kb_engine.observe.slow_path import NO_REMEDY as NO_REMEDY

_NAMES = {
    "kb_engine.observe.slow_path": ("COMMANDS", "NO_REMEDY"),
    "kb_engine.observe.capture": ("Capture", "Recipe", "shown_array"),
    "kb_engine.observe.chip": ("Chip",),
    "kb_engine.observe.observer": ("Callbacks", "Observer", "StageTimes"),
}
if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazy_door(__name__, _NAMES)
