"""kernbench from Python: run a kernel on a simulated chip, look at its results, and see where the time went.

import kernbench as kb
r = kb.run(kernel, x, kb.empty(x.shape, "f16"), chip="one_cube")
r.check(reference)
"""

from typing import TYPE_CHECKING

from kb_messages import lazy_door

if TYPE_CHECKING:
    from kb_cli.benchmark.call import Call as Call
    from kb_cli.benchmark.call import call as call
    from kb_cli.benchmark.call_benchmark import benchmark as benchmark
    from kb_cli.benchmark.values.tensor_argument import cast as cast
    from kb_cli.benchmark.values.tensor_argument import empty as empty
    from kb_cli.benchmark.values.tensor_argument import tensor as tensor
    from kb_cli.benchmark.values.tensor_argument import zeros as zeros
    from kb_cli.face.chips import chip as chip
    from kb_cli.face.comparison import compare as compare
    from kb_cli.face.kernel_run import KernelRun as KernelRun
    from kb_cli.face.kernel_run import WrongResult as WrongResult
    from kb_cli.face.run import run as run
    from kb_cli.report.data.run_report import read_report as read_report
    from kb_cli.sweep.sweep_file import read_sweep as read_sweep
    from kb_cli.whatif.levers import levers as levers
    from kb_engine import Host as Host
    from kb_engine import Sharding as Sharding
    from kb_messages import CubeTarget as CubeTarget
    from kb_messages import DType as DType
    from kb_messages import KbError as KbError
    from kb_messages import TileShape as TileShape
    from kb_topology import Topology as Topology
    from kb_topology import load_topology as load_topology

_NAMES = {
    "kb_cli.benchmark.call": ("Call", "call"),
    "kb_cli.benchmark.call_benchmark": ("benchmark",),
    "kb_cli.benchmark.values.tensor_argument": ("cast", "empty", "tensor", "zeros"),
    "kb_cli.face.chips": ("chip",),
    "kb_cli.face.comparison": ("compare",),
    "kb_cli.face.kernel_run": ("KernelRun", "WrongResult"),
    "kb_cli.face.run": ("run",),
    "kb_cli.report.data.run_report": ("read_report",),
    "kb_cli.sweep.sweep_file": ("read_sweep",),
    "kb_cli.whatif.levers": ("levers",),
    "kb_engine": ("Host", "Sharding"),
    "kb_messages": ("CubeTarget", "DType", "KbError", "TileShape"),
    "kb_topology": ("Topology", "load_topology"),
}
if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazy_door(__name__, _NAMES)
