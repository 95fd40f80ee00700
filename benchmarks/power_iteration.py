"""Power iteration: the largest eigenvalue of a symmetric matrix of positive numbers, and its eigenvector.

The kernel looks at values that it has computed: it stops when the vector no longer changes.
"""

from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from kb_engine import Arrays, Benchmark, DType, Host, Language, Tensor, TensorRef, cast

Size = Annotated[int, Meta(ge=1)]


def kernel(tl: Language, a: TensorRef, x: TensorRef, eigenvalue: TensorRef, tolerance: float, most: int) -> None:
    """Replaces x by A x, scaled to a largest element of 1, until no element changes by more than *tolerance*.

    There are *most* steps at most. A stays in TCM, and is multiplied by x in A's dtype. One program does all of the
    work.
    """
    matrix = tl.load(a)
    vector = tl.load(x)
    for _ in range(most):
        image = tl.dot(matrix, vector if matrix.dtype == vector.dtype else vector.to(matrix.dtype))
        largest = tl.max(image, axis=0)
        following = image / largest
        difference = following - vector
        distances = tl.abs(difference)
        change = tl.materialize(tl.max(distances, axis=0))
        tl.store(eigenvalue, largest)
        vector = following
        if change[0, 0] <= tolerance:
            break
    tl.store(x, vector)


class PowerIterationParams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`N` is in elements. The iteration stops when all changes are within `tolerance`, or after `most` steps.

    `dtype`, a float, is the type of A. The vector is f32.
    """

    N: Size = 128
    tolerance: Annotated[float, Meta(gt=0)] = 1e-5
    most: Size = 100
    dtype: DType = DType.F32

    def __post_init__(self) -> None:
        if not self.dtype.is_float:
            raise ValueError(f"{self.dtype.value} holds no numbers between 0 and 1: dtype has to be a float")


class PowerIteration(Benchmark[PowerIterationParams]):
    """A, x and the eigenvalue lie in one HBM slice, and one PE works."""

    Params = PowerIterationParams
    name = "power_iteration"

    def inputs(self, p: PowerIterationParams, rng: np.random.Generator) -> Arrays:
        """Evenly distributed numbers from 0 to 1 on and above the diagonal, mirrored below it."""
        upper = np.triu(rng.random((p.N, p.N), dtype=np.float32))
        return {"a": cast(upper + np.triu(upper, 1).T, p.dtype)}

    def launch(self, host: Host, p: PowerIterationParams, tensors: Arrays) -> dict[str, Tensor]:
        """x begins as a vector of ones."""
        a = host.tensor("a", tensors["a"], p.dtype)
        x = host.tensor("x", np.ones((p.N, 1), np.float32), "f32")
        eigenvalue = host.empty("eigenvalue", (1, 1), "f32")
        host.launch(kernel, a, x, eigenvalue, p.tolerance, p.most, pes=[0])
        return {"x": x, "eigenvalue": eigenvalue}

    def reference(self, p: PowerIterationParams, inputs: Arrays) -> Arrays:
        """numpy's largest eigenvalue and its eigenvector, scaled to a largest element of 1."""
        values, vectors = np.linalg.eigh(inputs["a"].astype(np.float64))
        vector = vectors[:, -1:] / vectors[np.abs(vectors[:, -1]).argmax(), -1]
        return {"x": vector, "eigenvalue": values[-1].reshape(1, 1)}

    def flops(self, p: PowerIterationParams) -> int:
        """The product of one step. The number of steps follows from the data, so it is not counted."""
        return 2 * p.N * p.N

    def footprint(self, p: PowerIterationParams) -> int:
        """A, and x and the eigenvalue in f32."""
        return p.dtype.nbytes * p.N * p.N + 4 * (p.N + 1)

    def tolerance(self, p: PowerIterationParams, inputs: Arrays, expected: Arrays) -> Arrays:
        """The error that is left when the iteration stops, and rounding in f32 and of x to A's dtype.

        Let s be the factor that scales A x. The residual r = A x - s x is s times the last change of x, so
        |r| <= s sqrt(N) tolerance, and rounding x to another dtype puts s sqrt(N) roundoffs to it. A symmetric matrix
        has an eigenvalue within |r| / |x| of s, and the angle between x and its eigenvector is at most |r| / |x| over
        the distance to the next eigenvalue. Scaling to a largest element of 1 at most doubles an error.
        Source: G. H. Golub, C. F. Van Loan, "Matrix Computations", section 8.1.
        """
        values = np.linalg.eigvalsh(inputs["a"].astype(np.float64))
        gap = values[-1] - values[-2] if p.N > 1 else values[-1]
        rounding = 0.0 if p.dtype is DType.F32 else 2 * p.dtype.info.unit_roundoff
        left = 4 * values[-1] * np.sqrt(p.N) * (p.tolerance + rounding + 2.0**-22)
        return {"x": np.asarray(left / gap), "eigenvalue": np.asarray(left)}
