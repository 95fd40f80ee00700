"""Everything the author of a hardware block needs: base classes, roles, queues, buffers, gates and units.

Only kb_messages has to be imported besides.
"""

from kb_engine.block.block_directory import Receiver
from kb_engine.block.buffers import Region, Ring, Slots
from kb_engine.block.closable import ClosableWork, Closer
from kb_engine.block.completion_queue import CompletionQueue
from kb_engine.block.component import ComponentBase, Context
from kb_engine.block.control_roles import CommandDispatcher, HostPort, MessagePart
from kb_engine.block.fabric_roles import (
    BufferedComponent,
    ForwardingComponent,
    Initiator,
    MemoryComponent,
    Scratchpad,
    SingleChannelMemory,
)
from kb_engine.block.fold_pass import FoldPass, NotFolded, moment_or_none
from kb_engine.block.gates import ExclusivePort, Gate, WiringError
from kb_engine.block.in_flight import CommandInFlight, PipelineError, TileToken
from kb_engine.block.message_parts import split_message
from kb_engine.block.pe_roles import AddressTranslator, CommandIssuer, CommandScheduler, FeederWait, Feeding
from kb_engine.block.register_file import RegisterFile, RegisterFileOwner
from kb_engine.block.stage_server import StageServer
from kb_engine.timing.clock import Clock
from kb_engine.timing.units import KIB, Rate, ps_from_ns
from kb_topology import exact

__all__ = [
    "KIB",
    "AddressTranslator",
    "BufferedComponent",
    "Clock",
    "ClosableWork",
    "Closer",
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
    "FoldPass",
    "ForwardingComponent",
    "Gate",
    "HostPort",
    "Initiator",
    "MemoryComponent",
    "MessagePart",
    "NotFolded",
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
    "TileToken",
    "WiringError",
    "exact",
    "moment_or_none",
    "ps_from_ns",
    "split_message",
]
