"""All that the author of a hardware block needs: base classes, roles, queues, buffers and gates."""

from kb_engine.block.buffers import Region, Ring, Slots
from kb_engine.block.completion_queue import CompletionQueue
from kb_engine.block.component import ComponentBase, Context
from kb_engine.block.control_roles import CommandDispatcher, HostPort, Part
from kb_engine.block.feeding import Feeding
from kb_engine.block.in_flight import PipelineContext, PipelineError, TileToken
from kb_engine.block.pe_roles import (
    AddressTranslator,
    CommandIssuer,
    CommandScheduler,
    ForwardingComponent,
    Initiator,
    MemoryComponent,
    SingleChannelMemory,
)
from kb_engine.block.stage_server import ExclusivePort, Gate, StageServer, WiringError
from kb_engine.timing.units import KIB, Rate, ps_from_ns

__all__ = [
    "KIB",
    "AddressTranslator",
    "CommandDispatcher",
    "CommandIssuer",
    "CommandScheduler",
    "CompletionQueue",
    "ComponentBase",
    "Context",
    "ExclusivePort",
    "Feeding",
    "ForwardingComponent",
    "Gate",
    "HostPort",
    "Initiator",
    "MemoryComponent",
    "Part",
    "PipelineContext",
    "PipelineError",
    "Rate",
    "Region",
    "Ring",
    "SingleChannelMemory",
    "Slots",
    "StageServer",
    "TileToken",
    "WiringError",
    "ps_from_ns",
]
