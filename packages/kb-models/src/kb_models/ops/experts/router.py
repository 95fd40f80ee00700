"""Router: chooses the experts of each row, and their shares, by the largest of a product."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from kb_engine import Host, TensorRef, default_tolerance, product_tolerance
from kb_messages import BenchmarkError, DType
from kb_models.layout import Mesh, Part, Tensors, Value, cut, whole
from kb_models.layout.value import Array
from kb_models.ops.experts.reference import product
from kb_models.ops.linear import normal
from kb_models.ops.op import Op, Read

MOST_BY_MATH: Final = 32
"""The most products of a row and an expert that a PE multiplies by its math units. Source: counted; with 128 lanes and
an array of 64 columns, a product takes 1/128 of the width in each of two ops, and the array the whole width."""


class Routed(NamedTuple):
    """The tensors of the results of a router, a part for each cube."""

    logits: Sequence[Any]
    ids: Sequence[Any]
    shares: Sequence[Any]


class Steps(NamedTuple):
    """The PEs of a cube, the rows of a step, and whether a step is one row that the math units multiply."""

    pes: int
    rows: int
    by_math: bool


def kernel(tl: Any, x: Sequence[TensorRef], w: Sequence[TensorRef], found: Routed, steps: Steps) -> None:
    """PE i of a cube chooses the experts of part i of the rows of its cube, a step at a time."""
    cube, place = divmod(tl.program_id(), steps.pes)
    first, last = cut(x[cube].shape[0], steps.pes, place)
    weights = tl.load_async(w[cube]) if steps.by_math and first < last else w[cube]
    for at in range(first, last, steps.rows):
        rows = slice(at, min(at + steps.rows, last))
        logits = products(tl, x[cube][rows, :], weights, steps.by_math)
        stores = [tl.store_async(found.logits[cube][rows, :], logits)]
        best = chosen(tl, logits, found.ids[cube].shape[1])
        powers = [tl.exp(largest - best[0][1]) for _, largest in best]
        total = 1.0 / sum(powers[1:], start=powers[0])
        stores.append(tl.store_async(found.ids[cube][rows, :], known(tl, [expert for expert, _ in best])))
        for choice, power in enumerate(powers):
            stores.append(tl.store_async(found.shares[cube][rows, choice : choice + 1], power * total))
        for each in stores:
            tl.wait(each)


def products(tl: Any, rows: TensorRef, weights: Any, by_math: bool) -> Any:
    """The logits of *rows*, in f32, by one row of *weights* for each expert."""
    if by_math:
        found = tl.sum(tl.load(rows).to("f32") * weights.to("f32"), axis=1).reshape((1, weights.shape[0]))
    else:
        found = tl.composite("gemm", rows, weights.T, epilogue=(tl.cast("f32"),))
    tl.wait(found)
    return found


def chosen(tl: Any, logits: Any, count: int) -> list[tuple[Any, Any]]:
    """The numbers and the logits of the *count* best experts of each row, in descending order."""
    numbers, found = tl.arange(0, logits.shape[1])[None, :], []
    for _ in range(count):
        found.append((tl.argmax(logits, axis=1), tl.max(logits, axis=1)))
        logits = tl.where(found[-1][0] == numbers, float("-inf"), logits)
    return found


def known(tl: Any, columns: Sequence[Any]) -> Any:
    """*columns*, computed integers, side by side as known integers: the program waits for them and looks at them.

    So programs that load them know them without a look of their own, and pass 2 has the numbers that the kernels saw.
    """
    joined = columns[0]
    for each in columns[1:]:
        joined = tl.cat(joined, each)
    return tl.arange(0, 1)[None, :] + joined.data.reshape(len(columns), -1).T


class Router(Op):
    """The `top_k` best of *n_experts* experts for each row of X, rows x width, which is whole in each cube.

    Results are the logits X W^T in f32, the numbers of the experts in i32, in descending order of their logits, and
    their shares in f32, a softmax over the logits of the chosen experts. Of equal logits the lower number is better.
    Each cube chooses for its own copy of rows. Source: Jiang et al., arXiv 2401.04088, section 2.1.
    """

    kind = "router"

    def __init__(self, name: str, mesh: Mesh, x: Value, n_experts: int, top_k: int) -> None:
        """Raises BenchmarkError for more experts a row than there are."""
        if not 1 <= top_k <= n_experts:
            raise BenchmarkError(f"op {name}", f"{top_k} of {n_experts} experts", f"1 to {n_experts} experts a row")
        rows, width = x.shape
        shape = n_experts, width
        parts = tuple(Part(whole(shape), cube.number) for cube in mesh.cubes)
        content = normal(shape, width**-0.5, x.dtype)
        self.w = Value(name=f"{name}.w", shape=shape, dtype=x.dtype, parts=parts, content=content)
        self.x, self.mesh = x, mesh
        self.logits, self.ids, self.shares = (
            self._result(f"{name}.{each}", cols, dtype)
            for each, cols, dtype in (
                ("logits", n_experts, DType.F32),
                ("ids", top_k, DType.I32),
                ("shares", top_k, DType.F32),
            )
        )
        self.flops = 2 * rows * width * n_experts
        super().__init__(name, (x, self.w), (self.logits, self.ids, self.shares))

    def launch(self, host: Host, tensors: Tensors) -> None:
        """Launches one program on each PE.

        A product on the array takes a cycle for each column of X, however few its rows. So few rows, of which each is
        multiplied in less time by the math units, are multiplied there, if the weights fit TCM.
        """
        n_experts, width = self.w.shape
        rows = -(-max(part.shape[0] for part in self.x.parts) // self.mesh.pes_per_cube)
        by_math = rows * n_experts <= MOST_BY_MATH and n_experts * width * 12 <= host.tcm_nbytes // 2
        steps = Steps(self.mesh.pes_per_cube, 1 if by_math else min(64, max(1, rows)), by_math)
        found = Routed(*(tensors[value] for value in self.writes))
        host.launch(kernel, tensors[self.x], tensors[self.w], found, steps, pes=self.mesh.pes)

    def reference(self, read: Read) -> dict[str, Array]:
        """The product in float64; and the choice and the shares exactly as they follow from the logits on the chip."""
        logits = read(self.logits).astype(np.float64)
        ids = np.argsort(-logits, axis=1, kind="stable")[:, : self.ids.shape[1]]
        powers = np.exp(np.take_along_axis(logits, ids, axis=1) - logits.max(axis=1, keepdims=True))
        found = product(read(self.x), read(self.w).T), ids, powers / powers.sum(axis=1, keepdims=True)
        return dict(zip((value.name for value in self.writes), found, strict=True))

    def tolerance(self, read: Read, expected: Any) -> dict[str, Array]:
        """That of a product for the logits, zero for the numbers, and the default for the shares."""
        logits, ids, shares = (expected[value.name] for value in self.writes)
        products = product_tolerance(logits, read(self.x), read(self.w).T, DType.F32)
        found = products, np.zeros(ids.shape), default_tolerance(shares, DType.F32)
        return dict(zip((value.name for value in self.writes), found, strict=True))

    def _result(self, name: str, cols: int, dtype: DType) -> Value:
        parts = tuple(Part((part.bounds[0], (0, cols)), part.cube) for part in self.x.parts)
        axes = self.x.axes[0], ""
        return Value(name=name, shape=(self.x.shape[0], cols), dtype=dtype, parts=parts, axes=axes)
