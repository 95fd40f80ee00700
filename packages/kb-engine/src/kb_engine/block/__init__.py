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
    MemoryPart,
    Scratchpad,
    SingleChannelMemory,
)
from kb_engine.block.gates import ExclusivePort, Gate, WiringError
from kb_engine.block.in_flight import CommandInFlight, PipelineError, TileToken
from kb_engine.block.pe_roles import (
    AddressTranslator,
    CommandIssuer,
    CommandScheduler,
    CompletionQueue,
    FeederWait,
    Feeding,
    IsolableWork,
    Isolation,
    MessageQueue,
)
from kb_engine.block.register_file import RegisterFile, RegisterFileOwner
from kb_engine.block.stage_server import StageServer
from kb_engine.block.state_visitor import (
    BY_HAND,
    CALL,
    COUNT,
    DEADLINE,
    IDENTICAL,
    MOMENT,
    MOMENT_OR_NONE,
    OP,
    PART,
    SAME,
    SIZE,
    TOKEN,
    NotPeriodic,
    State,
    Stateful,
    StateKind,
    StateVisitor,
    each,
    each_value,
    moment_or_none,
    optional,
    row,
)
from kb_engine.timing.clock import Clock
from kb_engine.timing.units import KIB, PS_PER_NS, Rate, ps_from_ns
from kb_topology import exact

__all__ = [
    "BY_HAND",
    "CALL",
    "COUNT",
    "DEADLINE",
    "IDENTICAL",
    "KIB",
    "MOMENT",
    "MOMENT_OR_NONE",
    "OP",
    "PART",
    "PS_PER_NS",
    "SAME",
    "SIZE",
    "TOKEN",
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
    "MemoryPart",
    "MessagePart",
    "MessageQueue",
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
    "State",
    "StateKind",
    "StateVisitor",
    "Stateful",
    "TileToken",
    "WiringError",
    "each",
    "each_value",
    "exact",
    "moment_or_none",
    "optional",
    "ps_from_ns",
    "row",
    "split_message",
]
