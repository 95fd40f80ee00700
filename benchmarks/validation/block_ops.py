"""A measured op of a model's block on the chip of its device: the op of kb-models of one rank, and its time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from importlib.resources import files
from typing import Final, NamedTuple

import numpy as np
from measured import Comparison, MeasuredRow

from kb_engine import Engine, Host
from kb_messages import DType
from kb_models.layout import Mesh, Tensors, Value
from kb_models.models.builder import Builder
from kb_models.models.rotation import Rotation
from kb_models.ops import Heads, Rope
from kb_models.ops.elementwise import Elementwise, Operand
from kb_models.ops.expression import Step
from kb_topology import Topology

KNOWN: Final = {"model", "op", "tokens", "tp", "dtype"}
SILU_PRODUCT: Final[tuple[Step, ...]] = (0, 0, "sigmoid", "mul", 1, "mul")
"""The steps of silu(a) * b."""


class BlockOp(NamedTuple):
    """An op of a block of a model, for `tokens` rows, and the sizes of one rank of `tp`.

    Heads and columns of the MLP are divided by `tp`.
    """

    op: str
    tokens: int
    dtype: DType
    hidden: int
    mlp: int
    heads: Heads
    epsilon: float
    theta: float

    @property
    def is_product(self) -> bool:
        """Whether the op is a product with weights."""
        return self.op in PRODUCTS


def block_op(row: MeasuredRow) -> BlockOp:
    """The op that *row* measured. Raises ValueError for a model, an op or a degree that is not known."""
    params = row.params
    if set(params) != KNOWN or row.unit != "us":
        raise ValueError(f"params {' '.join(params)} in {row.unit}, needs {' '.join(sorted(KNOWN))} in us")
    if params["op"] not in BUILDERS:
        raise ValueError(f"op={params['op']}, needs one of {', '.join(BUILDERS)}")
    folder = files("kb_models.configs")
    known = sorted(each.name.removesuffix(".json") for each in folder.iterdir() if each.name.startswith("llama"))
    if params["model"] not in known:
        raise ValueError(f"model={params['model']}, needs one of {', '.join(known)}")
    config = json.loads((folder / f"{params['model']}.json").read_text(encoding="utf-8"))
    try:
        tp, tokens, dtype = int(params["tp"]), int(params["tokens"]), DType(params["dtype"])
    except ValueError:
        raise ValueError(f"tokens={params['tokens']} tp={params['tp']} dtype={params['dtype']}") from None
    cut = [config[key] for key in ("num_attention_heads", "num_key_value_heads", "intermediate_size")]
    if tp < 1 or tokens < 1 or any(size % tp for size in cut):
        raise ValueError(f"tokens={tokens} tp={tp}, needs a token, and a degree that divides heads and columns")
    dim = config["hidden_size"] // cut[0]
    heads = Heads(heads=cut[0] // tp, kv_heads=cut[1] // tp, head_dim=dim)
    others = config["hidden_size"], cut[2] // tp, heads, config["rms_norm_eps"], config["rope_theta"]
    return BlockOp(params["op"], tokens, dtype, *others)


def simulate(topology: Topology, row: MeasuredRow) -> Comparison:
    """Runs the op of *row* without log and data, from empty caches. The simulated time has no start-up."""
    began = time.perf_counter()
    of_row = block_op(row)
    mesh = Mesh.of(topology, {})
    builder = Builder(mesh, of_row.dtype)
    BUILDERS[of_row.op](builder, of_row)
    host = Host(Engine(topology, None))
    tensors = Tensors(host, mesh, 0, needs_data=False)
    for op in builder.ops:
        for value in (*op.reads, *op.writes):
            tensors.put(value)
        op.launch(host, tensors)
    took_ps = sum(each.end_ps - each.start_ps for each in host.launches)
    return Comparison(row, took_ps / 1e6, time.perf_counter() - began)


def _input(m: Builder, size: BlockOp, width: int, name: str = "x") -> Value:
    return m.input(name, (size.tokens, width), ("batch", ""))


def _qkv(m: Builder, size: BlockOp) -> None:
    q, kv, d = size.heads.heads, size.heads.kv_heads, size.heads.head_dim
    outs = [("q", q * d, "heads", d), ("k", kv * d, "kv_heads", d), ("v", kv * d, "kv_heads", d)]
    m.projections("qkv", _input(m, size, size.hidden), outs)


def _swiglu(m: Builder, size: BlockOp) -> None:
    x, rows, columns = _input(m, size, 2 * size.mlp), np.arange(size.tokens), np.arange(size.mlp)
    shape, axes = (size.tokens, size.mlp), ("batch", "")
    y = Value(name="y", shape=shape, dtype=x.dtype, parts=m.mesh.parts(shape, axes), axes=axes)
    halves = [Operand(x, rows, columns), Operand(x, rows, columns + size.mlp)]
    m.add(Elementwise("swiglu", m.mesh, halves, SILU_PRODUCT, y))


def _rope(m: Builder, size: BlockOp) -> None:
    d = size.heads.head_dim
    q, k = _input(m, size, size.heads.heads * d, "q"), _input(m, size, size.heads.kv_heads * d, "k")
    m.add(Rope("rope", m.mesh, q, k, size.heads, Rotation(theta=size.theta).frequencies(d), 1))


PRODUCTS: Final = ("qkv", "o", "gate_up", "down")
BUILDERS: Final[dict[str, Callable[[Builder, BlockOp], object]]] = {
    "qkv": _qkv,
    "o": lambda m, s: m.linear("o", _input(m, s, s.heads.heads * s.heads.head_dim), s.hidden, "hidden"),
    "gate_up": lambda m, s: m.linear("gate_up", _input(m, s, s.hidden), 2 * s.mlp, "mlp"),
    "down": lambda m, s: m.linear("down", _input(m, s, s.mlp), s.hidden, "hidden"),
    "swiglu": _swiglu,
    "rms_norm": lambda m, s: m.rms_norm("norm", _input(m, s, s.hidden), s.epsilon),
    "rope": _rope,
    "add": lambda m, s: m.plus("add", _input(m, s, s.hidden, "a"), _input(m, s, s.hidden, "b")),
}
"""The ops by name, as vLLM's profiles divide a block: the projections of gate and up are one product, and silu(gate) *
up reads it."""
