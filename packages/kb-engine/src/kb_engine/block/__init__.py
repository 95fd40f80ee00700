"""Everything the author of a hardware block needs: base classes, roles, queues, buffers, gates and units.

Only kb_messages has to be imported besides.
"""

from kb_engine.block.block_directory import Receiver
from kb_engine.block.buffers import Region, Ring, Slots
from kb_engine.block.component import ComponentBase, Context
from kb_engine.block.control_roles import CommandDispatcher, HostPort, MessagePart, split_message
from kb_engine.block.fabric_roles import (
    BufferedComponent,
    ForwardingComponent,
    Initiator,
    MemoryComponent,
    Scratchpad,
    SingleChannelMemory,
)
from kb_engine.block.gates import ExclusivePort, Gate, WiringError
from kb_engine.block.in_flight import CommandInFlight, PipelineError, TileToken
from kb_engine.block.isolation import IsolableWork, Isolation
from kb_engine.block.pe_roles import (
    AddressTranslator,
    CommandIssuer,
    CommandScheduler,
    CompletionQueue,
    FeederWait,
    Feeding,
)
from kb_engine.block.register_file import RegisterFile, RegisterFileOwner
from kb_engine.block.stage_server import StageServer
from kb_engine.block.state_visitor import NotPeriodic, StateVisitor, moment_or_none
from kb_engine.timing.clock import Clock
from kb_engine.timing.units import KIB, Rate, ps_from_ns
from kb_topology import exact

__all__ = [
    "KIB",
    "AddressTranslator",
    "BufferedComponent",
    "Clock",
    "CommandDispatcher",
    "CommandInFlight",
    "CommandIssuer",
    "CommandScheduler",
    "CompletionQueue",
    "ComponentBase",
    "Context",
    "ExclusivePort",
    "FeederWait",
    "Feeding",
    "ForwardingComponent",
    "Gate",
    "HostPort",
    "Initiator",
    "IsolableWork",
    "Isolation",
    "MemoryComponent",
    "MessagePart",
    "NotPeriodic",
    "PipelineError",
    "Rate",
    "Receiver",
    "Region",
    "RegisterFile",
    "RegisterFileOwner",
    "Ring",
    "Scratchpad",
    "SingleChannelMemory",
    "Slots",
    "StageServer",
    "StateVisitor",
    "TileToken",
    "WiringError",
    "exact",
    "moment_or_none",
    "ps_from_ns",
    "split_message",
]
