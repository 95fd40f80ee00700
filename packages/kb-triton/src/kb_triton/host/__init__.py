"""The host's side of a launch: the chip that runs it, and the bytes of host arrays."""

from kb_triton.host.arrays import Reinterpreted, type_of
from kb_triton.host.buffers import address, is_array
from kb_triton.host.device import Device, LaunchedFunction, current, use, using
from kb_triton.host.errors import OutOfResources
from kb_triton.host.launched import Launched
from kb_triton.host.options import Options, options_of, topology_of
from kb_triton.host.storages import Storage
from kb_triton.host.tensor_descriptor import TensorDescriptor
from kb_triton.host.tunings import TunedConfig, Tuning

__all__ = [
    "Device",
    "Launched",
    "LaunchedFunction",
    "Options",
    "OutOfResources",
    "Reinterpreted",
    "Storage",
    "TensorDescriptor",
    "TunedConfig",
    "Tuning",
    "address",
    "current",
    "is_array",
    "options_of",
    "topology_of",
    "type_of",
    "use",
    "using",
]
