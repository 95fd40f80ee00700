"""Norm: RMS norm and layer norm of the rows of an activation, also of a sum of two, which is then a result too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from kb_engine import Host, TensorRef, default_tolerance
from kb_models.layout import Mesh, Part, Tensors, Value, cut, whole
from kb_models.layout.value import Array
from kb_models.ops.linear import normal
from kb_models.ops.op import Op, Read

STEP: Final = 8
"""The most rows of a step. Source: measured; on 512 rows of 4096 elements on one cube, steps of 4 to 16 rows take 17.1
us, and steps of one row 20.7 us."""
_ROUNDOFF: Final = 2.0**-24
"""The unit roundoff of f32."""


class NormSizes(NamedTuple):
    """The PEs of a cube, the rows of a step, the constant that is added to the mean square, and whether the mean is
    taken off first, as in a layer norm."""

    pes: int
    step: int
    epsilon: float
    is_centred: bool


def kernel(
    tl: Any,
    terms: Sequence[Sequence[TensorRef]],
    factors: Sequence[Sequence[TensorRef]],
    results: Sequence[Sequence[TensorRef]],
    sizes: NormSizes,
) -> None:
    """PE i of a cube adds up *terms* and normalizes part i of the rows of its cube, in f32. *results* are the norm, and
    the sum where that is asked for."""
    cube, place = divmod(tl.program_id(), sizes.pes)
    first, last = cut(terms[0][cube].shape[0], sizes.pes, place)
    spans = [slice(at, min(at + sizes.step, last)) for at in range(first, last, sizes.step)]
    loads = ([tl.load_async(each[cube][rows, :]) for each in terms] for rows in spans)
    loaded = [tl.load_async(each[tl.program_id()]) for each in factors if spans]
    stores: list[Any] = []
    for rows, parts in zip(spans, tl.ahead(loads), strict=True):
        total = sum((each.to("f32") for each in parts[1:]), start=parts[0].to("f32"))
        rounded = [each.to(results[0][cube].dtype) for each in (normalized(tl, total, loaded, sizes), total)]
        places = [each[cube][rows, :] for each in results]
        begun = [tl.store_async(to, value) for to, value in zip(places, rounded, strict=False)]
        wait_for(tl, stores)
        stores = begun
    wait_for(tl, stores)


def normalized(tl: Any, x: Any, factors: Sequence[Any], sizes: NormSizes) -> Any:
    """The rows of *x*, in f32, over the roots of their mean squares, times the first of *factors*, plus the second."""
    width = x.shape[1]
    if sizes.is_centred:
        x = x - tl.sum(x, axis=1) * (1.0 / width)
    found = x * tl.rsqrt(tl.sum(x * x, axis=1) * (1.0 / width) + sizes.epsilon) * factors[0].to("f32")
    return found + factors[1].to("f32") if len(factors) > 1 else found


def wait_for(tl: Any, stores: Sequence[Any]) -> None:
    """Waits for all of *stores*."""
    for each in stores:
        tl.wait(each)


class Norm(Op):
    """Normalizes the sum of *terms*, activations of rows x width that are whole in each cube.

    An RMS norm divides each row by the root of its mean square, and multiplies by a weight for each column. A layer
    norm, with *is_centred*, takes off the mean first, and adds a bias for each column. Each cube normalizes its own
    copy: its PEs share its rows. With *keeps_sum*, the sum of *terms* is a second result, as a residual stream.
    """

    kind = "norm"

    def __init__(
        self,
        name: str,
        mesh: Mesh,
        terms: Sequence[Value],
        epsilon: float,
        *,
        is_centred: bool = False,
        keeps_sum: bool = False,
    ) -> None:
        x = terms[0]
        rows, width = x.shape
        places = tuple(Part(whole((width,)), cube.number, pe) for cube in mesh.cubes for pe in cube.pes)
        names = [f"{name}.{each}" for each in ("w", "b")[: 1 + is_centred]]
        content = normal((width,), 1.0, x.dtype)
        self.factors_of_columns = tuple(
            Value(name=each, shape=(width,), dtype=x.dtype, parts=places, content=content) for each in names
        )
        results = [name, f"{name}.sum"][: 1 + keeps_sum]
        parts = tuple(Part(part.bounds, part.cube, by_rows=x.axes[0] == "tokens") for part in x.parts)
        writes = tuple(Value(name=each, shape=x.shape, dtype=x.dtype, parts=parts, axes=x.axes) for each in results)
        self.x, self.mesh, self.epsilon, self.is_centred = tuple(terms), mesh, epsilon, is_centred
        self.flops = (4 + 3 * is_centred + len(terms) - 1) * rows * width
        self.terms = width
        super().__init__(name, (*self.x, *self.factors_of_columns), writes)

    def launch(self, host: Host, tensors: Tensors) -> None:
        """Launches one program on each PE. A step is as many rows as fit, up to 8, so that loads, math and stores of
        different steps overlap."""
        width, nbytes, pes = self.x[0].shape[1], self.x[0].dtype.nbytes, self.mesh.pes_per_cube
        most = max(part.shape[0] for part in self.x[0].parts)
        # TCM holds two steps as they come, two of results, and one in f32 and one on the way to its sum
        each = width * (nbytes * (3 * len(self.x) + 2 * len(self.writes)) + 12)
        step = host.fitted(
            lambda rows_of_a_norm: rows_of_a_norm * each + 8 * width, rows_of_a_norm=(None, min(STEP, -(-most // pes)))
        )["rows_of_a_norm"]
        sizes = NormSizes(pes, step, self.epsilon, self.is_centred)
        given = [[tensors[value] for value in group] for group in (self.x, self.factors_of_columns, self.writes)]
        host.launch(kernel, *given, sizes, pes=self.mesh.pes)

    def reference(self, read: Read) -> dict[str, Array]:
        """The definition, in float64. Sources: Zhang and Sennrich, arXiv 1910.07467; Ba et al., arXiv 1607.06450."""
        total, centred, scale = self._parts(read)
        w, *bias = (read(each).astype(np.float64) for each in self.factors_of_columns)
        found = centred * scale * w
        for each in bias:
            found += each
        return dict(zip((value.name for value in self.writes), (found, total), strict=False))

    def tolerance(self, read: Read, expected: Any) -> dict[str, Array]:
        """The rounding of results, and of sums and differences in f32, by the sizes of their terms."""
        names = [value.name for value in self.writes]
        total, _, scale = self._parts(read)
        w, *bias = (np.abs(read(each).astype(np.float64)) for each in self.factors_of_columns)
        magnitudes = [np.abs(read(each).astype(np.float64)) for each in self.x]
        sizes = sum(magnitudes[1:], start=magnitudes[0])
        # the mean loses sqrt(width) roundoffs of the mean size; each difference one of its terms
        lost = sizes + self.is_centred * (np.abs(total) + np.sqrt(self.terms) * sizes.mean(axis=1, keepdims=True))
        in_f32 = 4 * _ROUNDOFF * (lost * scale * w + sum(bias))
        found = [default_tolerance(expected[names[0]], self.writes[0].dtype, self.terms) + in_f32]
        if len(names) > 1:
            found.append(default_tolerance(expected[names[1]], self.writes[1].dtype) + 2 * _ROUNDOFF * sizes)
        return dict(zip(names, found, strict=True))

    def _parts(self, read: Read) -> tuple[Array, Array, Array]:
        """The sum of the terms, the sum less its mean in a layer norm, and the factor of each row."""
        total = sum((read(each).astype(np.float64) for each in self.x[1:]), start=read(self.x[0]).astype(np.float64))
        centred = total - total.mean(axis=1, keepdims=True) if self.is_centred else total
        return total, centred, 1 / np.sqrt((centred**2).mean(axis=1, keepdims=True) + self.epsilon)
