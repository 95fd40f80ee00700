"""Vector addition: out = x + y, block by block, with a mask for the last one, as in Triton's first tutorial."""

from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from kb_engine import Arrays, Benchmark, DType, Host, Language, Tensor, TensorRef, cast

Size = Annotated[int, Meta(ge=1)]


def kernel(tl: Language, x: TensorRef, y: TensorRef, out: TensorRef, block: int) -> None:
    """Each program has a part of the vectors and works on *block* elements at a time. Its last block may be shorter."""
    n = x.shape[0]
    first, last = (number * n // tl.num_programs() for number in (tl.program_id(), tl.program_id() + 1))
    for start in range(first, last, block):
        mask = start + tl.arange(0, block) < last
        a = tl.load(x[start : start + block], mask=mask)
        b = tl.load(y[start : start + block], mask=mask)
        total = a + b
        tl.store(out[start : start + block], total, mask=mask)


class VectorAddParams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sizes are in elements. A program works on `block` elements at a time, by default 1024 or as many as fit
    TCM.
    """

    N: Size = 98432
    block: Size | None = None
    dtype: DType = DType.F32


class VectorAdd(Benchmark[VectorAddParams]):
    """The vectors are cut into a part for each program. Each part lies in the HBM slice of the PE that works on it."""

    Params = VectorAddParams
    name = "vector_add"

    def inputs(self, p: VectorAddParams, rng: np.random.Generator) -> Arrays:
        """Normal numbers, in the operands' dtype."""
        return {name: cast(rng.standard_normal(p.N, dtype=np.float32), p.dtype) for name in ("x", "y")}

    def launch(self, host: Host, p: VectorAddParams, tensors: Arrays) -> dict[str, Tensor]:
        """One program for each part. Where there are more PEs than elements, the other PEs stay idle."""
        programs = min(host.num_pes, p.N)
        slices = [number * host.num_slices // programs for number in range(programs)]
        x, y = (host.tensor(name, tensors[name], p.dtype, blocks=(1, programs), slices=slices) for name in ("x", "y"))
        out = host.empty("out", (p.N,), p.dtype, blocks=(1, programs), slices=slices)
        # TCM holds two steps of both operands and of the result.
        fitted = host.fitted(lambda block: 6 * block * p.dtype.nbytes, block=(p.block, 1024))
        host.launch(kernel, x, y, out, fitted["block"], pes=range(programs))
        return {"out": out}

    def reference(self, p: VectorAddParams, inputs: Arrays) -> Arrays:
        """The sum, in float64."""
        return {"out": inputs["x"].astype(np.float64) + inputs["y"].astype(np.float64)}

    def flops(self, p: VectorAddParams) -> int:
        """One addition for each element."""
        return p.N

    def footprint(self, p: VectorAddParams) -> int:
        """The two operands and the result."""
        return 3 * p.N * p.dtype.nbytes

    def tolerance(self, p: VectorAddParams, inputs: Arrays, expected: Arrays) -> Arrays:
        """Rounding of the sum to f32, and of the result to its dtype."""
        info = p.dtype.info
        return {"out": (info.unit_roundoff + 2.0**-23) * np.abs(expected["out"]) + info.smallest_subnormal}
