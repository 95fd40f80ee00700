"""Transfers between blocks: paths over the graph, links that flows share, and time at the memories."""

from kb_engine.fabric.fabric import Fabric
from kb_engine.fabric.packets.packet_fabric import PacketFabric
from kb_engine.fabric.paths import MemoryPath
from kb_engine.fabric.transfer_rows import TransferRows

__all__ = [
    "Fabric",
    "MemoryPath",
    "PacketFabric",
    "TransferRows",
]
