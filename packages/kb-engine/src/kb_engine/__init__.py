"""The simulation engine. What the author of a kernel or a benchmark needs is here; what is not exported is private."""

from typing import TYPE_CHECKING

from kb_messages import lazy_door

if TYPE_CHECKING:
    from kb_dataexec import cast as cast
    from kb_dataexec import default_tolerance as default_tolerance
    from kb_dataexec import gemm_tolerance as gemm_tolerance
    from kb_dataexec import product_tolerance as product_tolerance
    from kb_engine.engine.engine import Engine as Engine
    from kb_engine.host.benchmark import Arrays as Arrays
    from kb_engine.host.benchmark import Benchmark as Benchmark
    from kb_engine.host.host import Copies as Copies
    from kb_engine.host.host import Host as Host
    from kb_engine.host.read import DeferredRead as DeferredRead
    from kb_engine.host.read import read_tensor as read_tensor
    from kb_engine.host.sharding import Sharding as Sharding
    from kb_engine.host.streams import Event as Event
    from kb_engine.host.streams import Pending as Pending
    from kb_engine.host.streams import Stream as Stream
    from kb_engine.host.workload import OutputPart as OutputPart
    from kb_engine.host.workload import PlannedOp as PlannedOp
    from kb_engine.host.workload import PlannedValue as PlannedValue
    from kb_engine.host.workload import Workload as Workload
    from kb_engine.host.workload import WorkloadOp as WorkloadOp
    from kb_engine.host.workload import WorkloadOutput as WorkloadOutput
    from kb_engine.host.workload import WorkloadStep as WorkloadStep
    from kb_engine.language.gemm import Epilogue as Epilogue
    from kb_engine.language.tl import Language as Language
    from kb_engine.launch.launch import LaunchResult as LaunchResult
    from kb_engine.launch.launch import ProgramTimes as ProgramTimes
    from kb_engine.program.values.handles import CompositeHandle as CompositeHandle
    from kb_engine.program.values.handles import LoadedTensor as LoadedTensor
    from kb_engine.program.values.host_values import HostValue as HostValue
    from kb_engine.program.values.tensors import Tensor as Tensor
    from kb_engine.program.values.tensors import TensorRef as TensorRef
    from kb_messages import CubeTarget as CubeTarget
    from kb_messages import DType as DType
    from kb_messages import TileShape as TileShape

__version__ = "0.1.0"

_NAMES = {
    "kb_dataexec": ("product_tolerance", "cast", "default_tolerance", "gemm_tolerance"),
    "kb_engine.engine.engine": ("Engine",),
    "kb_engine.host.benchmark": ("Arrays", "Benchmark"),
    "kb_engine.host.host": ("Copies", "Host"),
    "kb_engine.host.read": ("DeferredRead", "read_tensor"),
    "kb_engine.host.sharding": ("Sharding",),
    "kb_engine.host.streams": ("Event", "Pending", "Stream"),
    "kb_engine.host.workload": (
        "OutputPart",
        "PlannedOp",
        "PlannedValue",
        "Workload",
        "WorkloadOp",
        "WorkloadOutput",
        "WorkloadStep",
    ),
    "kb_engine.program.values.host_values": ("HostValue",),
    "kb_engine.language.gemm": ("Epilogue",),
    "kb_engine.language.tl": ("Language",),
    "kb_engine.launch.launch": ("LaunchResult", "ProgramTimes"),
    "kb_engine.program.values.handles": ("CompositeHandle", "LoadedTensor"),
    "kb_engine.program.values.tensors": ("Tensor", "TensorRef"),
    "kb_messages.control": ("CubeTarget",),
    "kb_messages.dtypes": ("DType",),
    "kb_messages.plans.stages": ("TileShape",),
}
if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazy_door(__name__, _NAMES)
