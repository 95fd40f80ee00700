"""Power iteration: the largest eigenvalue of a symmetric matrix of positive numbers, and its vector.

The kernel looks at what it has computed: it stops when the vector no longer changes.
"""

from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from kb_engine import Arrays, Benchmark, Host, Language, Tensor, TensorRef

Size = Annotated[int, Meta(ge=1)]


def kernel(tl: Language, a: TensorRef, x: TensorRef, eigenvalue: TensorRef, tolerance: float, most: int) -> None:
    """x becomes A x over its largest element, until no element changes by more than *tolerance*; *most* times at most.

    A stays in TCM. One program does it all.
    """
    matrix = tl.load(a)
    vector = tl.load(x)
    for _ in range(most):
        image = tl.dot(matrix, vector)
        largest = tl.max(image, axis=0)
        following = image / largest
        difference = following - vector
        distances = tl.abs(difference)
        change = tl.materialize(tl.max(distances, axis=0))
        tl.store(eigenvalue, largest)
        for value in (image, largest, difference, distances, change, vector):
            tl.free(value)
        vector = following
        if change[0, 0] <= tolerance:
            break
    tl.store(x, vector)


class PowerIterationParams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`N` in elements; `tolerance` is the change of an element that counts as none, `most` how many steps there are."""

    N: Size = 128
    tolerance: Annotated[float, Meta(gt=0)] = 1e-5
    most: Size = 100


class PowerIteration(Benchmark[PowerIterationParams]):
    """A, x and the eigenvalue lie in one HBM slice; one PE works."""

    Params = PowerIterationParams
    name = "power_iteration"

    def inputs(self, p: PowerIterationParams, rng: np.random.Generator) -> Arrays:
        """Even numbers from 0 to 1 above the diagonal and, mirrored, below it."""
        upper = np.triu(rng.random((p.N, p.N), dtype=np.float32))
        return {"a": upper + np.triu(upper, 1).T}

    def launch(self, host: Host, p: PowerIterationParams, tensors: Arrays) -> dict[str, Tensor]:
        """x begins as ones."""
        a = host.tensor("a", tensors["a"], "f32")
        x = host.tensor("x", np.ones((p.N, 1), np.float32), "f32")
        eigenvalue = host.empty("eigenvalue", (1, 1), "f32")
        host.launch(kernel, a, x, eigenvalue, p.tolerance, p.most, pes=[0])
        return {"x": x, "eigenvalue": eigenvalue}

    def reference(self, p: PowerIterationParams, inputs: Arrays) -> Arrays:
        """numpy's eigenvalues and vectors of symmetric matrices; the vector's largest element is 1."""
        values, vectors = np.linalg.eigh(inputs["a"].astype(np.float64))
        vector = vectors[:, -1:] / vectors[np.abs(vectors[:, -1]).argmax(), -1]
        return {"x": vector, "eigenvalue": values[-1].reshape(1, 1)}

    def flops(self, p: PowerIterationParams) -> int:
        """Of one step, as how many there are follows from the data: a product with the matrix."""
        return 2 * p.N * p.N

    def tolerance(self, p: PowerIterationParams, inputs: Arrays, expected: Arrays) -> Arrays:
        """What is left when the iteration stops, and rounding in f32.

        r = A x - s x, for the factor s that x is divided by, is s times the last change, so |r| <= s sqrt(N) tolerance.
        Source: G. H. Golub, C. F. Van Loan, "Matrix Computations", section 8.1: of a symmetric matrix, an eigenvalue
        is within |r| / |x| of s, and the angle to its vector is at most |r| / |x| over the distance to the next one.
        Scaling to a largest element of 1 at most doubles an error.
        """
        values = np.linalg.eigvalsh(inputs["a"].astype(np.float64))
        gap = values[-1] - values[-2] if p.N > 1 else values[-1]
        left = 4 * values[-1] * np.sqrt(p.N) * (p.tolerance + 2.0**-22)
        return {"x": np.asarray(left / gap), "eigenvalue": np.asarray(left)}
