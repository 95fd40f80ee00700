"""The host: tensors in device memory, sharding, launches, and benchmarks.

Design: docs/design/launch-and-host.md.
"""

from typing import TYPE_CHECKING

from kb_messages import lazy_door

if TYPE_CHECKING:
    from kb_engine.host.benchmark import Arrays as Arrays
    from kb_engine.host.benchmark import Benchmark as Benchmark
    from kb_engine.host.host import Host as Host
    from kb_engine.host.read import DeferredRead as DeferredRead
    from kb_engine.host.read import read_tensor as read_tensor
    from kb_engine.host.sharding import Sharding as Sharding
    from kb_engine.host.streams import Event as Event
    from kb_engine.host.streams import Pending as Pending
    from kb_engine.host.streams import Stream as Stream

_NAMES = {
    "kb_engine.host.benchmark": ("Arrays", "Benchmark"),
    "kb_engine.host.host": ("Host",),
    "kb_engine.host.read": ("DeferredRead", "read_tensor"),
    "kb_engine.host.sharding": ("Sharding",),
    "kb_engine.host.streams": ("Event", "Pending", "Stream"),
}
if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazy_door(__name__, _NAMES)
