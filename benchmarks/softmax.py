"""Row softmax: Y[m, :] = exp(X[m, :] - max) / sum. The rows are split over the PEs; each takes a few rows at a time."""

from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from kb_engine import Arrays, Benchmark, DType, Host, Language, Tensor, TensorRef, cast

Size = Annotated[int, Meta(ge=1)]


def kernel(tl: Language, x: TensorRef, y: TensorRef, rows: int) -> None:
    """Each program has the rows of one block of X, and works on *rows* of them at a time, in f32."""
    m = x.shape[0]
    first, last = (number * m // tl.num_programs() for number in (tl.program_id(), tl.program_id() + 1))
    for start in range(first, last, rows):
        part = slice(start, min(start + rows, last))
        loaded = tl.load(x[part, :])
        wide = loaded.to("f32")
        largest = tl.max(wide, axis=1)
        shifted = wide - largest
        powers = tl.exp(shifted)
        total = tl.sum(powers, axis=1)
        quotient = powers / total
        result = quotient.to(y.dtype)
        tl.store(y[part, :], result)


class SoftmaxParams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sizes are in elements. A program works on `rows` rows at a time, by default 32 or as many as fit TCM.

    `dtype` is a float.
    """

    M: Size = 256
    N: Size = 512
    rows: Size | None = None
    dtype: DType = DType.F16

    def __post_init__(self) -> None:
        if not self.dtype.is_float:
            raise ValueError(f"{self.dtype.value} holds no shares of 1: dtype has to be a float")


class Softmax(Benchmark[SoftmaxParams]):
    """X and Y are cut into blocks of rows. Each block lies in the HBM slice of the PE that works on it."""

    Params = SoftmaxParams
    name = "softmax"

    def inputs(self, p: SoftmaxParams, rng: np.random.Generator) -> Arrays:
        """Normal numbers with a standard deviation of 3, in the operand's dtype."""
        return {"x": cast(3 * rng.standard_normal((p.M, p.N), dtype=np.float32), p.dtype)}

    def launch(self, host: Host, p: SoftmaxParams, tensors: Arrays) -> dict[str, Tensor]:
        """One program for each block of rows. Where there are more PEs than rows, the other PEs stay idle."""
        programs = min(host.num_pes, p.M)
        slices = [number * host.num_slices // host.num_pes for number in range(programs)]
        x = host.tensor("x", tensors["x"], p.dtype, blocks=(programs, 1), slices=slices)
        y = host.empty("y", (p.M, p.N), p.dtype, blocks=(programs, 1), slices=slices)
        # TCM holds two steps of rows as they are, and the rows twice in f32.
        fitted = host.fitted(lambda rows: rows * (p.N * (2 * p.dtype.nbytes + 8) + 64), rows=(p.rows, 32))
        host.launch(kernel, x, y, fitted["rows"], pes=range(programs))
        return {"y": y}

    def reference(self, p: SoftmaxParams, inputs: Arrays) -> Arrays:
        """The definition, in float64."""
        x = inputs["x"].astype(np.float64)
        powers = np.exp(x - x.max(axis=1, keepdims=True))
        return {"y": powers / powers.sum(axis=1, keepdims=True)}

    def flops(self, p: SoftmaxParams) -> int:
        """For each element a comparison, a difference, a power, a term of the sum and a quotient."""
        return 5 * p.M * p.N

    def footprint(self, p: SoftmaxParams) -> int:
        """X and Y."""
        return 2 * p.M * p.N * p.dtype.nbytes

    def tolerance(self, p: SoftmaxParams, inputs: Arrays, expected: Arrays) -> Arrays:
        """Rounding of the result, and of f32 before: relative errors grow with the exponent's size and with sqrt(N)."""
        x = inputs["x"].astype(np.float64)
        spread = x.max(axis=1, keepdims=True) - x
        in_f32 = (spread + np.sqrt(p.N) + 8) * 2.0**-24
        info = p.dtype.info
        return {"y": (2 * info.unit_roundoff + in_f32) * expected["y"] + info.smallest_subnormal}
