"""The kernel that the host's collectives launch."""

from __future__ import annotations

from typing import Any

from kb_engine import collectives
from kb_engine.collectives import Group
from kb_engine.program.values.tensors import TensorRef


def collective_kernel(tl: Any, group: Group, call: str, x: TensorRef, y: TensorRef, options: dict[str, Any]) -> None:
    """The program of a rank: collective *call* of the rank's shards of *x* and *y*."""
    rank = group.rank(tl)
    getattr(collectives, call)(tl, group, x.shard(rank), y.shard(rank), **options)
