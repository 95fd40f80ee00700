"""Transfers between blocks: paths over the graph, links that flows share, and time at the memories."""

from kb_engine.fabric.fabric import Fabric
from kb_engine.fabric.paths import MemoryPath

__all__ = [
    "Fabric",
    "MemoryPath",
]
