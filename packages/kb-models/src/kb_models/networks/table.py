"""TableWorkload: the layers of a SCALE-Sim table, each an op with an input of its own."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct

from kb_engine import Host
from kb_messages import BenchmarkError, DType
from kb_models.layout import Mesh, Value, parse_map
from kb_models.models.builder import Builder
from kb_models.networks.onnx_network import check_dtype, default_map
from kb_models.networks.scale_sim import Layer, Product
from kb_models.ops import Images, Op, Window
from kb_models.workload import OpsWorkload
from kb_topology import Topology


class TableParams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of a table's run.

    `sparse=dense` runs layers with sparse filters as if all weights were there; without it such layers are refused.
    `map` is the layout: filters are on the axis `channels`, and columns of products on `mlp`; "" means
    both over all SIPs and cubes. `op` is the only op to run.
    """

    dtype: DType = DType.F16
    map: str = ""
    sparse: Literal["refuse", "dense"] = "refuse"
    op: str | None = None


class TableWorkload(OpsWorkload):
    """The layers of a table, in its order. Each layer has an input of its own, because a table does not
    say how one layer leads to the next."""

    Params = TableParams
    layers: ClassVar[tuple[Layer, ...]] = ()

    def made(self, p: TableParams, topology: Topology) -> tuple[Mesh, list[Op]]:
        """An op for each layer. Raises BenchmarkError for sparse layers, unless they run as dense ones."""
        check_dtype(p.dtype)
        sparse = [layer for layer in self.layers if not layer.dense]
        if sparse and p.sparse == "refuse":
            got = f"{len(sparse)} layers with sparse filters, the first {sparse[0].name} in line {sparse[0].line}"
            raise BenchmarkError(str(self.name), got, "dense filters", "-p sparse=dense takes all weights as there")
        mesh = Mesh.of(topology, parse_map(p.map or default_map(topology)))
        m = Builder(mesh, p.dtype)
        for layer in self.layers:
            add_layer(m, layer)
        return mesh, m.ops

    def run(self, host: Host, p: TableParams) -> None:
        """Runs the layers, and says that their inputs are random."""
        super().run(host, p)
        facts = {"inputs": "random, one for each layer"}
        n_sparse = sum(not layer.dense for layer in self.layers)
        if n_sparse:
            facts["sparse"] = f"{n_sparse} layers as dense ones"
        host.chose(**facts)


def add_layer(m: Builder, layer: Layer) -> Value:
    """Adds the op of *layer* to *m*. Returns its result."""
    if isinstance(layer, Product):
        return _product(m, layer)
    (height, width), (below, right) = layer.ifmap, layer.over_the_edge
    shape = height * width, layer.channels
    x = Images(m.input(f"{layer.name}.x", shape, ("tokens", "")), 1, height, width)
    window = Window.of(layer.filter, layer.stride, (0, 0, below, right))
    n = layer.filters * (layer.channels if layer.depthwise else 1)
    if layer.depthwise and layer.filters == 1:
        x = x._replace(value=m.input(f"{layer.name}.x", shape, ("tokens", _axis(m, "channels", n))))
        return m.depthwise(layer.name, x, window).value
    groups, axis = layer.channels if layer.depthwise else 1, _axis(m, "channels", n)
    return m.convolution(layer.name, x, n, window, groups=groups, bias=False, axis=axis).value


def _product(m: Builder, layer: Product) -> Value:
    """The op of a product; an op for each of a batch."""
    axis = _axis(m, "mlp", layer.n)
    for number in range(layer.batch):
        name = layer.name if layer.batch == 1 else f"{layer.name}[{number}]"
        x = m.input(f"{name}.x", (layer.m, layer.k), ("tokens", ""))
        found = m.linear(name, x, layer.n, axis)
    return found


def _axis(m: Builder, axis: str, n: int) -> str:
    """*axis*, over which *n* columns are split: none where there are fewer than parts."""
    return axis if n >= m.mesh.ways(axis) else ""
