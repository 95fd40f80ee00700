"""The engine: builds a chip from its topology, runs it, and explains a simulation that is stuck."""

from typing import TYPE_CHECKING

from kb_messages import lazy_door

if TYPE_CHECKING:
    from kb_engine.engine.chips import chip_of as chip_of
    from kb_engine.engine.engine import Engine as Engine
    from kb_engine.engine.guards.limits import Limits as Limits
    from kb_engine.engine.registry import BUILTIN as BUILTIN
    from kb_engine.engine.registry import GROUP as GROUP
    from kb_engine.engine.registry import Registry as Registry

_NAMES = {
    "kb_engine.engine.chips": ("chip_of",),
    "kb_engine.engine.engine": ("Engine",),
    "kb_engine.engine.guards.limits": ("Limits",),
    "kb_engine.engine.registry": ("BUILTIN", "GROUP", "Registry"),
}
if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazy_door(__name__, _NAMES)
