"""Chip: the finished hardware of a run, for observers and tools."""

from __future__ import annotations

from typing import Any, NamedTuple

from kb_engine.block.component import ComponentBase
from kb_engine.block.stage_server import StageServer
from kb_engine.fabric.fabric import Fabric
from kb_engine.timing.clock import Clock
from kb_topology import Topology


class Chip(NamedTuple):
    """The clock, the fabric and all blocks of a topology. `components` are by node id, in the topology's order."""

    topology: Topology
    clock: Clock
    fabric: Fabric
    components: dict[str, ComponentBase[Any]]

    @property
    def servers(self) -> list[StageServer]:
        """Every stage queue with the service behind it, in the topology's order."""
        return [server for component in self.components.values() for server in component.servers.values()]
