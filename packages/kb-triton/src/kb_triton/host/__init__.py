"""The host's side of a launch: the chip that runs it, and the bytes of host arrays."""

from kb_triton.host.arrays import Reinterpreted, TensorDescriptor, is_view, type_of
from kb_triton.host.buffers import address, is_array
from kb_triton.host.device import Device, current, use, using
from kb_triton.host.launches import Launched, LaunchedFunction, OutOfResources, TunedConfig, Tuning
from kb_triton.host.options import Options, options_of, topology_of
from kb_triton.host.storages import Storage
from kb_triton.host.trials import Trials

__all__ = [
    "Device",
    "Launched",
    "LaunchedFunction",
    "Options",
    "OutOfResources",
    "Reinterpreted",
    "Storage",
    "TensorDescriptor",
    "Trials",
    "TunedConfig",
    "Tuning",
    "address",
    "current",
    "is_array",
    "is_view",
    "options_of",
    "topology_of",
    "type_of",
    "use",
    "using",
]
