"""TableWorkload: the layers of a SCALE-Sim table, each an op with an input of its own."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct

from kb_engine import Host
from kb_messages import BenchmarkError, DType
from kb_models.layout import Mesh, Value, parse_map
from kb_models.models.builder import Builder
from kb_models.networks.scale_sim import Layer, Product
from kb_models.ops import Op
from kb_models.workload import OpsWorkload
from kb_topology import Topology


class TableParams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of a table's run.

    `sparse=dense` runs layers with sparse filters as if all weights were there; without it such layers are refused.
    `map` is the layout: filters and columns of products are on the axis `mlp`.
    """

    dtype: DType = DType.F16
    map: str = "mlp=cube"
    sparse: Literal["refuse", "dense"] = "refuse"


class TableWorkload(OpsWorkload):
    """The layers of a table, in its order. Each layer has an input of its own, because a table does not say what leads
    from one layer to the next."""

    Params = TableParams
    layers: ClassVar[tuple[Layer, ...]] = ()

    def made(self, p: TableParams, topology: Topology) -> tuple[Mesh, list[Op]]:
        """An op for each layer. Raises BenchmarkError for sparse layers, unless they run as dense ones."""
        sparse = [layer for layer in self.layers if not layer.dense]
        if sparse and p.sparse == "refuse":
            got = f"{len(sparse)} layers with sparse filters, the first {sparse[0].name} in line {sparse[0].line}"
            raise BenchmarkError(str(self.name), got, "dense filters", "-p sparse=dense takes all weights as there")
        mesh = Mesh.of(topology, parse_map(p.map))
        m = Builder(mesh, p.dtype)
        for layer in self.layers:
            add_layer(m, layer)
        return mesh, m.ops

    def run(self, host: Host, p: TableParams) -> None:
        """Runs the layers, and says what their data are."""
        super().run(host, p)
        facts = {"inputs": "random, one for each layer"}
        n_sparse = sum(not layer.dense for layer in self.layers)
        if n_sparse:
            facts["sparse"] = f"{n_sparse} layers as dense ones"
        host.chose(**facts)


def add_layer(m: Builder, layer: Layer) -> Value:
    """Adds the op of *layer* to *m*. Returns its result."""
    if isinstance(layer, Product):
        x = m.input(f"{layer.name}.x", (layer.m, layer.k), ("tokens", ""))
        return m.linear(layer.name, x, layer.n, "mlp")
    raise BenchmarkError(layer.name, "a convolution", "a matrix product", "give the layer as M, N, K")
