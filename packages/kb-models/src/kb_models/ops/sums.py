"""Sum: adds up activations element by element, and applies an activation function to the sum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import erf
from typing import Any, Final

import numpy as np

from kb_engine import Host, TensorRef, default_tolerance
from kb_messages import BenchmarkError
from kb_models.layout import Mesh, Tensors, Value, cut
from kb_models.layout.value import Array
from kb_models.ops.op import Op, Read

FUNCTIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "none": lambda tl, x: x,
    "relu": lambda tl, x: tl.maximum(x, 0.0),
    "silu": lambda tl, x: x * tl.sigmoid(x),
    "gelu": lambda tl, x: 0.5 * x * (1.0 + tl.erf(x * 2**-0.5)),
    "gelu_tanh": lambda tl, x: 0.5 * x * (1.0 + tl.tanh(0.7978845608 * (x + 0.044715 * x * x * x))),
    "tanh": lambda tl, x: tl.tanh(x),
    "sigmoid": lambda tl, x: tl.sigmoid(x),
}
"""Activation functions, by name. `gelu` is the exact one, by erf; `gelu_tanh` is the approximation of GPT-2, with the
root of 2 / pi. Source: Hendrycks, Gimpel, arXiv 1606.08415."""

REFERENCES: Final[dict[str, Callable[[Array], Array]]] = {
    "none": lambda x: x,
    "relu": lambda x: np.maximum(x, 0.0),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: 0.5 * x * (1 + np.vectorize(erf, otypes=[np.float64])(x * 2**-0.5)),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))),
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}
"""The same in float64."""

STEEPEST: Final = 1.13
"""The largest slope of these functions, of gelu; silu has 1.1."""


def kernel(
    tl: Any, terms: Sequence[Sequence[TensorRef]], y: Sequence[TensorRef], pes: int, step: int, function: str
) -> None:
    """PE i of a cube adds up part i of the rows of *terms*, in f32, and applies *function*."""
    cube, place = divmod(tl.program_id(), pes)
    first, last = cut(y[cube].shape[0], pes, place)
    spans = [slice(at, min(at + step, last)) for at in range(first, last, step)]
    loads = ([tl.load_async(each[cube][rows, :]) for each in terms] for rows in spans)
    pending: list[Any] = []
    for rows, parts in zip(spans, tl.ahead(loads), strict=True):
        total = sum((each.to("f32") for each in parts[1:]), start=parts[0].to("f32"))
        found = FUNCTIONS[function](tl, total).to(y[cube].dtype)
        pending.append(tl.store_async(y[cube][rows, :], found))
        if len(pending) > 1:
            tl.wait(pending.pop(0))
    for each in pending:
        tl.wait(each)


class Sum(Op):
    """The sum of *terms*, activations of one layout, and *function* of it: a key of `FUNCTIONS`."""

    kind = "elementwise"

    def __init__(self, name: str, mesh: Mesh, terms: Sequence[Value], function: str = "none") -> None:
        """Raises BenchmarkError for another function, and for terms of different shapes or layouts."""
        x = terms[0]
        if function not in FUNCTIONS:
            raise BenchmarkError(f"op {name}", f"the activation {function!r}", f"one of {', '.join(FUNCTIONS)}")
        for each in terms[1:]:
            if each.shape != x.shape or [part.bounds for part in each.parts] != [part.bounds for part in x.parts]:
                got = f"{each.name} of {each.shape} on {each.axes} and {x.name} of {x.shape} on {x.axes}"
                raise BenchmarkError(f"op {name}", got, "terms of one shape, of which each cube has the same part")
        self.mesh, self.terms_added, self.function = mesh, tuple(terms), function
        self.y = Value(name=name, shape=x.shape, dtype=x.dtype, parts=x.parts, axes=x.axes)
        self.flops = (len(terms) - 1 + (function != "none")) * int(np.prod(x.shape))
        super().__init__(name, self.terms_added, (self.y,))

    def launch(self, host: Host, tensors: Tensors) -> None:
        """Launches one program on each PE. A step is as many rows as fit, up to 8."""
        width, nbytes, pes = self.y.shape[1], self.y.dtype.nbytes, self.mesh.pes_per_cube
        rows = max(part.shape[0] for part in self.y.parts)
        each = width * (nbytes * (3 * len(self.terms_added) + 2) + 8)
        most = min(8, -(-rows // pes))
        step = host.fitted(lambda rows_of_a_sum: rows_of_a_sum * each, rows_of_a_sum=(None, most))["rows_of_a_sum"]
        given = [tensors[value] for value in self.terms_added]
        host.launch(kernel, given, tensors[self.y], pes, step, self.function, pes=self.mesh.pes)

    def reference(self, read: Read) -> dict[str, Array]:
        """The sum and the function, in float64."""
        return {self.y.name: REFERENCES[self.function](self._sums(read)[0])}

    def tolerance(self, read: Read, expected: Any) -> dict[str, Array]:
        """The default, and the loss of the sum in f32 by the sizes of its terms, times the steepest slope."""
        lost = STEEPEST * len(self.terms_added) * 2.0**-24 * self._sums(read)[1]
        return {self.y.name: default_tolerance(expected[self.y.name], self.y.dtype) + lost}

    def _sums(self, read: Read) -> tuple[Array, Array]:
        """The sum of the terms, and of their sizes."""
        terms = [read(each).astype(np.float64) for each in self.terms_added]
        return sum(terms[1:], start=terms[0]), sum((np.abs(each) for each in terms[1:]), start=np.abs(terms[0]))
