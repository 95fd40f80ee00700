"""OnnxWorkload: the graph of an ONNX model as ops, with random weights of the shapes of the file."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct

from kb_engine import Host
from kb_messages import BenchmarkError, DType
from kb_models.layout import Mesh, parse_map
from kb_models.models.builder import Builder
from kb_models.models.params import Size
from kb_models.networks.graph import graph_of
from kb_models.networks.lower import Lowering
from kb_models.networks.norms import with_norms
from kb_models.networks.operators import OPERATORS
from kb_models.networks.unknown import listed
from kb_models.ops import Op
from kb_models.workload import OpsWorkload
from kb_topology import Topology

_MOST_CHARACTERS = 180


class OnnxParams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of a network's run.

    `batch` is the size of dynamic batch dimensions, and `dims` has the sizes of others: `dims=sequence=128,past=0`.
    `unknown=skip` runs the known part of a network; the results of unknown operators are random then. `map` is the
    layout: columns of products are on the axis `mlp`, channels of images on `channels`, and heads on `heads`; "" means
    all of them over all SIPs and cubes. `op` is the only op to run.
    """

    batch: Size = 1
    dims: str = ""
    unknown: Literal["refuse", "skip"] = "refuse"
    map: str = ""
    dtype: DType = DType.F16
    op: str | None = None


class OnnxWorkload(OpsWorkload):
    """A network of an ONNX file, of which `model` has the graph as JSON."""

    Params = OnnxParams
    model: ClassVar[str] = ""

    def __init__(self) -> None:
        super().__init__()
        self._skipped = ""

    def made(self, p: OnnxParams, topology: Topology) -> tuple[Mesh, list[Op]]:
        """The ops of the graph. Raises BenchmarkError that lists the operators that no op computes, before anything
        runs."""
        check_dtype(p.dtype)
        graph = with_norms(graph_of(self.model, str(self.name), p.batch, _dims(p.dims)))
        mesh = Mesh.of(topology, parse_map(p.map or default_map(topology)))
        m = Builder(mesh, p.dtype)
        lowering = Lowering(m, graph)
        lowering.run(OPERATORS)
        unknown = listed(lowering.unknown)
        if lowering.lost:
            unknown += f"; behind them, without shapes: {listed(lowering.lost)}"
        if unknown and (p.unknown == "refuse" or not m.ops):
            fix = f"-p unknown=skip runs the other {len(m.ops)} ops, with random content in place of what these compute"
            got = f"operators that no op of kb computes: {unknown}"
            raise BenchmarkError(str(self.name), got, "known operators", fix if m.ops else "")
        self._skipped = unknown
        return mesh, m.ops

    def run(self, host: Host, p: OnnxParams) -> None:
        """Runs the ops, and says which operators were skipped, and that weights are random."""
        super().run(host, p)
        facts = {"weights": "random, of the shapes of the file"}
        if self._skipped:
            facts["skipped"] = self._skipped[:_MOST_CHARACTERS]
        host.chose(**facts)


def check_dtype(dtype: DType) -> None:
    """Raises BenchmarkError for a dtype that networks do not have."""
    if dtype not in (DType.F32, DType.F16, DType.BF16):
        raise BenchmarkError("-p dtype", dtype.value, "f32, f16 or bf16 for the activations of a network")


def default_map(topology: Topology) -> str:
    """Columns, channels, heads and tables over all SIPs and cubes of *topology*."""
    mesh = Mesh.of(topology, {})
    levels = "*".join(name for name, count in (("sip", mesh.n_sips), ("cube", mesh.n_cubes)) if count > 1) or "none"
    return f"mlp={levels},channels={levels},heads={levels},vocab={levels}"


def _dims(text: str) -> dict[str, int]:
    """The sizes of `name=size,...`. Raises BenchmarkError for other texts."""
    found = {}
    for item in filter(None, (each.strip() for each in text.split(","))):
        name, _, size = (each.strip() for each in item.rpartition("="))
        if not name or not size.isascii() or not size.isdigit() or not 0 < int(size) < 1 << 31:
            raise BenchmarkError(
                "-p dims", repr(item), "NAME=SIZE, with a size of at least 1", "write dims=sequence=128"
            )
        found[name] = int(size)
    return found
