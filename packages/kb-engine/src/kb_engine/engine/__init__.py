"""Builds a chip from its topology, runs it, and explains a simulation that is stuck."""

from kb_engine.engine.engine import Engine
from kb_engine.engine.registry import GROUP, Registry

__all__ = [
    "GROUP",
    "Engine",
    "Registry",
]
