"""A roofline's times of measured GEMMs, with nothing fitted, and with two numbers fitted to the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import measured
from measured import MeasuredRow

from kb_engine import DType, Engine
from kb_plans import GemmSize
from kb_topology import Topology

KNOWN = {"M", "N", "K", "dtype"}
OTHER_NAMES = {
    "fp16": "f16", "float16": "f16", "half": "f16", "bfloat16": "bf16", "fp32": "f32", "float32": "f32",
    "fp8": "f8e4m3", "e4m3": "f8e4m3", "fp8_e4m3": "f8e4m3", "f8e4m3fn": "f8e4m3", "e5m2": "f8e5m2",
    "fp8_e5m2": "f8e5m2", "int8": "i8", "s8": "i8",
}  # fmt: skip
"""Names of types of operands in data sheets and libraries."""


class Roofline(NamedTuple):
    """A GEMM takes `constant_us`, and the longer of its operations and its bytes, the operations at a part of the peak.

    `peak_flops` and `gbs` are the topology's. If not `overlaps`, the GEMM takes both times, one after the other.
    """

    peak_flops: float
    gbs: float
    efficiency: float = 1.0
    constant_us: float = 0.0
    overlaps: bool = True

    def us(self, row: MeasuredRow) -> float:
        """Microseconds of *row*."""
        m, n, k, dtype, _, batch = size_of(row)
        flops_us = 2e6 * batch * m * n * k / (self.efficiency * self.peak_flops)
        bytes_us = batch * (m * k + k * n + m * n) * dtype.nbytes / self.gbs / 1000
        return self.constant_us + (max(flops_us, bytes_us) if self.overlaps else flops_us + bytes_us)

    def fitted(self, rows: Sequence[MeasuredRow]) -> Roofline:
        """With the part of the peak and the constant that make the mean error of *rows* least, on a grid.

        Of the two ways to put operations and bytes together, it is the better one.
        """
        shortest = min(row.value for row in rows)
        candidates = [
            self._replace(efficiency=part / 100, constant_us=shortest * step / 50, overlaps=overlaps)
            for overlaps in (True, False)
            for part in range(40, 101)
            for step in range(51)
        ]
        return min(candidates, key=lambda each: each.mape(rows))

    def mape(self, rows: Sequence[MeasuredRow]) -> float:
        """The mean error over *rows*, in percent."""
        return measured.mape([(row.value, self.us(row)) for row in rows])


def size_of(row: MeasuredRow) -> GemmSize:
    """The GEMM of *row*, with a C of the operands' type. The batch is `B` or `batch`, 1 by default.

    Raises ValueError for other params, and for a unit other than us.
    """
    params = {("batch" if name == "B" else name): value for name, value in row.params.items()}
    try:
        m, n, k, batch = (int(params.get(name, "1") if name == "batch" else params[name]) for name in (*"MNK", "batch"))
        dtype = DType(OTHER_NAMES.get(params["dtype"], params["dtype"]))
    except (KeyError, ValueError):
        raise ValueError(f"a row of {row.device} with {row.params}, and not with M, N, K and dtype") from None
    if min(m, n, k, batch) < 1:
        raise ValueError(f"a row of {row.device} with {row.params}: sides are at least 1")
    if set(params) - {"batch"} != KNOWN or len(params) != len(row.params):
        raise ValueError(f"a row of {row.device} with {row.params}: only M, N, K, dtype and one batch are known")
    if row.unit != "us":
        raise ValueError(f"a row of {row.device} in {row.unit!r}, and not in 'us'")
    return GemmSize(m, n, k, dtype, dtype, batch)


def roofline(topology: Topology, dtype: DType) -> Roofline:
    """The roofline of *topology*, from its blocks."""
    engine = Engine(topology)
    blocks: list[Any] = list(engine.components.values())
    peak = sum(block.peak_flops(dtype) for block in blocks if hasattr(block, "peak_flops"))
    return Roofline(
        peak, sum(block.spec.bw_gbs for block in blocks if block.node_id.rpartition(".")[2].startswith("hbm"))
    )
