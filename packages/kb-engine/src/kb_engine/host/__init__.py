"""The host's side: tensors in device memory, sharding, launches, and benchmarks."""

from kb_engine.host.benchmark import Arrays, Benchmark
from kb_engine.host.host import Host
from kb_engine.host.read import DeferredRead, read_tensor
from kb_engine.host.sharding import Sharding

__all__ = [
    "Arrays",
    "Benchmark",
    "DeferredRead",
    "Host",
    "Sharding",
    "read_tensor",
]
