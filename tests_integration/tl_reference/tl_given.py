"""Examples of the kernel language: their form, and how they are run.

An example is a kernel of a few lines, under the name of its subject: `tl_exp` shows `tl.exp`, `value_to` shows `.to` of
a value in TCM, `tensor_shard` of a tensor in memory, and `known_T` of integers that are known while the kernel runs.
Its parameters are names of INPUTS, and `y` for the result. `@gives(reference, ...)` states the right result as a
function of the same inputs, in float64.
"""

import inspect
import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import kernbench as kb

_RNG = np.random.default_rng(0)
INPUTS: dict[str, np.ndarray] = {
    "x": _RNG.uniform(0.25, 2.0, (4, 8)).astype(np.float32),
    "z": _RNG.standard_normal((4, 8)).astype(np.float32),
    "row": _RNG.standard_normal(8).astype(np.float32),
    "column": _RNG.standard_normal((4, 1)).astype(np.float32),
    "a": _RNG.standard_normal((16, 32)).astype(np.float16),
    "b": _RNG.standard_normal((32, 16)).astype(np.float16),
    "cube": _RNG.standard_normal((2, 4, 8)).astype(np.float32),
    "i": _RNG.integers(-50, 50, (4, 8)).astype(np.int32),
    "j": np.where(_RNG.integers(0, 2, (4, 8)), 3, -7).astype(np.int32),
    "ids": np.array([2, 0, 3, 0], np.int32),
    "parts": _RNG.standard_normal((16, 8)).astype(np.float32),
    "odd": np.array([[np.nan, np.inf, 1, 0], [-np.inf, 2, np.nan, 3]], np.float32),
}
"""x is positive, z has both signs, row is a vector; a and b multiply; i and j are integers, j without 0.

parts is cut over the PEs by rows.
"""
_DTYPES = {"f": "f32", "i": "i32", "b": "bool"}

NO_COMMAND = "no command, no time"


class Example(NamedTuple):
    """A kernel, its right result, its cost (empty for math, whose class gives it), and options of `kb.run`."""

    kernel: Callable[..., None]
    reference: Callable[..., Any]
    cost: str
    options: dict[str, Any]

    @property
    def name(self) -> str:
        """The name of the example's subject after the dot, such as `exp` of `tl.exp`."""
        return self.kernel.__name__

    @property
    def lines(self) -> str:
        """The body of the kernel."""
        lines = inspect.getsource(self.kernel).splitlines()
        (start,) = (n for n, line in enumerate(lines) if line.startswith("def "))
        return textwrap.dedent("\n".join(lines[start + 1 :]))

    def run(self) -> kb.KernelRun:
        """Run the example, and compare its result with the reference. Raises `kernbench.WrongResult`."""
        inputs, expected = self._inputs(), self.expected()
        result = kb.empty(expected.shape, _DTYPES[expected.dtype.kind])
        arguments = [kb.tensor(each, shard="row") if name == "parts" else each for name, each in inputs.items()]
        done = kb.run(self.kernel, *arguments, result, **{"pes": [0], **self.options})
        done.check(expected)
        return done

    def expected(self) -> np.ndarray:
        """The right result, in float64 if it is of floats."""
        wide = {
            name: each.astype(np.float64) if each.dtype.kind == "f" else each for name, each in self._inputs().items()
        }
        return np.asarray(self.reference(*wide.values()))

    def _inputs(self) -> dict[str, np.ndarray]:
        names = list(inspect.signature(self.kernel).parameters)
        return {name: INPUTS[name] for name in names if name not in ("tl", "y")}


def gives(reference: Callable[..., Any], cost: str = "", **options: Any) -> Callable[[Callable[..., None]], Example]:
    """Make an example of a kernel."""
    return lambda kernel: Example(kernel, reference, cost, options)
