"""Linear ops: products of activations with weights, whose columns or whose rows lie over cubes.

`Linear` has one result, `Projections` several, and `Gated` the product of two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from kb_engine import Host, Tensor, TensorRef
from kb_messages import BenchmarkError
from kb_models.layout import Blocks, Mesh, Part, Tensors, Value, cut
from kb_models.layout.value import Array
from kb_models.ops.linear import kernels
from kb_models.ops.linear.grid import blocks_of, grid_for
from kb_models.ops.linear.kernels import EPILOGUES, Extras, Piece, Plan
from kb_models.ops.linear.weights import GROUP, Panel, Quantisation, Weight, normal, ordered
from kb_models.ops.op import Op, Read
from kb_models.ops.sums import FUNCTIONS, REFERENCES, STEEPEST

HELD_ROWS: Final = 256
"""The most rows of X that a PE holds in TCM. Source: measured; on one_sip a sum of 256 terms for 512 rows and 4096
columns takes 22.3 us with 256 rows, 22.6 with 128, and 27.8 without."""
LEAST_HELD_ROWS: Final = 128
"""The fewest rows that are held where more rows do not fit. Source: assumed; weights are read once for each step."""
HELD_SHARE: Final = 5
"""X is held where its rows take at most this part of TCM. Source: measured; more rows keep the weights waiting."""
DEPTH: Final = 512
"""The most rows of int8 weights that become floats at a time. Source: assumed."""
_ROUNDOFF: Final = 2.0**-24
"""The unit roundoff of f32."""
FUNCTION_ROUNDOFF: Final = 16 * _ROUNDOFF
"""The error of an activation in f32, of its size and of 1. Source: assumed; a few roundings and functions."""


class Out(NamedTuple):
    """A result: its name, its columns, their axis, and how many columns stay together, such as those of a head."""

    name: str
    n: int
    axis: str
    unit: int = 1


class Share(NamedTuple):
    """Columns of a result that a cube computes, and the cubes that have them."""

    start: int
    stop: int
    cubes: tuple[int, ...]


class _Panels(Op):
    """A product of X, rows x K, with the columns of all *outs*, which are cut into panels, one for each column of the
    grid of each cube.

    Where X is split along K, each cube multiplies its part, and results have the sums of each part as a first
    dimension. A bias and a residual are then in the first part.
    """

    kind = "linear"
    is_gated = False

    def __init__(
        self,
        name: str,
        mesh: Mesh,
        x: Value,
        outs: Sequence[Out],
        *,
        bias: bool,
        activation: str,
        weights: Quantisation,
        residual: Value | None = None,
    ) -> None:
        if activation not in FUNCTIONS:
            raise BenchmarkError(f"op {name}", f"the activation {activation!r}", f"one of {', '.join(FUNCTIONS)}")
        if len(x.shape) != 2:
            raise BenchmarkError(f"op {name}", f"{x.name} of {x.shape}", "rows x features")
        self.mesh, self.x, self.outs, self.activation = mesh, x, tuple(outs), activation
        self.downs = sorted({part.bounds[1] for part in x.parts})
        if self.is_partial and len(self.downs) < mesh.ways(x.axes[1]):
            got = f"{x.name} in {len(self.downs)} parts and copies of them"
            raise BenchmarkError(f"op {name}", got, f"a part for each of the {mesh.ways(x.axes[1])} shares of a sum")
        self.bounds = [[self._cols(out, cube.number) for out in self.outs] for cube in mesh.cubes]
        self._cut(name, x, bias, weights)
        self.residual = residual
        self.results = tuple(self._result(number) for number in range(1 if self.is_gated else len(self.outs)))
        if residual is not None:
            self._check_residual(residual)
        rows, k = x.shape
        self.flops = 2 * rows * k * sum(out.n for out in self.outs)
        self.terms = k
        extras = [each for each in (self.bias, residual) if each is not None]
        super().__init__(name, (x, *self.weight.values, *extras), self.results)

    @property
    def is_partial(self) -> bool:
        """Whether results are sums of parts of K."""
        return len(self.downs) > 1

    def way(self, cube: int) -> int:
        """The number of the part of K that cube number *cube* has."""
        return self.downs.index(self.x.parts[cube].bounds[1])

    def launch(self, host: Host, tensors: Tensors) -> None:
        """Launches one program on each PE."""
        results = [[self._matrix(each) for each in tensors[value]] for value in self.results]
        widths = [block.cols.stop - block.cols.start for block in self.blocks if block is not None]
        each = max(widths) * (2 if self.is_gated else 1)
        plan = self._plan(host, each)
        x, w, extras = tensors[self.x], tensors[self.weight.w], self._extras(tensors)
        host.launch(kernels.kernel, x, w, results, self.blocks, extras, plan, pes=self.mesh.pes)

    def reference(self, read: Read) -> dict[str, Array]:
        """The products with bias, residual and activation, or the products of each part of K, in float64."""
        return self._stacked([self._finished(self._sums(read, way)) for way in range(len(self.downs))])

    def tolerance(self, read: Read, expected: Mapping[str, Array]) -> dict[str, Array]:
        """The errors of the sums in f32, times the steepest slope of the activation, and the rounding of results."""
        lost = self._stacked([self._lost(read, way) for way in range(len(self.downs))])
        found = {}
        for value in self.results:
            info, array = value.dtype.info, np.abs(expected[value.name])
            found[value.name] = lost[value.name] + 2 * info.unit_roundoff * array + info.smallest_subnormal
        return found

    def factors(self, read: Read) -> tuple[Array, Array] | None:
        """X and W of a product and nothing more; None otherwise."""
        plain = self.weight.kind == "same" and self.bias is None and self.residual is None
        if not plain or self.is_partial or len(self.outs) > 1 or self.activation != "none":
            return None
        return read(self.x), read(self.weight.w)[:, self.places[0]]

    def _cols(self, out: Out, cube: int) -> tuple[int, int]:
        return (0, out.n) if self.is_partial else self.mesh.part(out.axis, out.n, cube, out.unit)

    def _cut(self, name: str, x: Value, bias: bool, weights: Quantisation) -> None:
        """The grid, the panels, and where the columns of each result lie in the weight."""
        mesh, rows = self.mesh, [part.shape[0] for part in x.parts]
        self.shares = self._shares()
        widths = [sum(share.stop - share.start for share in each) for each in self.shares]
        shared = [width // 2 if self.is_gated else width for width in widths]
        self.grid = grid_for(max(rows), shared, mesh)
        self.blocks = blocks_of(mesh, self.grid, rows, shared)
        self.pieces: list[list[Piece]] = []
        found: dict[tuple[tuple[int, int, int], ...], int] = {}
        order: list[Array] = []
        panels = []
        firsts = np.cumsum([0, *(out.n for out in self.outs)])
        for cube in mesh.cubes:
            for j in range(self.grid.along):
                pieces = self._pieces(cube.number, j)
                self.pieces.append(pieces)
                starts = [self.bounds[cube.number][piece.out][0] for piece in pieces]
                spans = [(p.out, at + p.to.start, at + p.to.stop) for p, at in zip(pieces, starts, strict=True)]
                if (key := tuple(spans)) not in found:
                    found[key] = sum(map(len, order))
                    order += [np.arange(firsts[out] + start, firsts[out] + stop) for out, start, stop in spans]
                cols = found[key], found[key] + sum(stop - start for _, start, stop in spans)
                pe = cube.pes[j] if self.grid.down == 1 else None
                panels.append(Panel(x.parts[cube.number].bounds[1], cols, cube.number, pe))
        whole = np.concatenate(order)
        self.weight = Weight(name, x.shape[1], int(firsts[-1]), panels, whole, x.dtype, weights)
        self.places = [self._places(whole, int(firsts[i]), out.n) for i, out in enumerate(self.outs)]
        self.bias = self._bias(f"{name}.bias", panels, whole) if bias else None
        self._panels = panels

    def _shares(self) -> list[list[Share]]:
        """The columns of each result that each cube computes: all of its part."""
        return [[Share(*bounds, (cube,)) for bounds in each] for cube, each in enumerate(self.bounds)]

    def _pieces(self, cube: int, j: int) -> list[Piece]:
        """The columns of panel *j* of *cube*: the columns of each result one after the other."""
        shares, bounds = self.shares[cube], self.bounds[cube]
        if self.is_gated:
            to = slice(*cut(shares[0].stop - shares[0].start, self.grid.along, j))
            size = to.stop - to.start
            return [Piece(out, slice(out * size, (out + 1) * size), to, (cube,)) for out in (0, 1)]
        first, last = cut(sum(share.stop - share.start for share in shares), self.grid.along, j)
        found, at = [], 0
        for out, share in enumerate(shares):
            size = share.stop - share.start
            start, stop = max(first, at), min(last, at + size)
            if start < stop:
                moved = share.start - bounds[out][0] - at
                to = slice(start + moved, stop + moved)
                found.append(Piece(out, slice(start - first, stop - first), to, share.cubes))
            at += size
        return found

    @staticmethod
    def _places(order: Array, first: int, n: int) -> Array:
        """The places in *order* of the columns *first* to *first* + *n*, of copies the first."""
        columns, places = np.unique(order, return_index=True)
        return places[np.searchsorted(columns, np.arange(first, first + n))]

    def _bias(self, name: str, panels: Sequence[Panel], order: Array) -> Value:
        n = int(order.max()) + 1
        parts = tuple(Part((panel.cols,), panel.cube, panel.pe) for panel in panels if panel.down == self.downs[0])
        content = ordered(normal((n,), 1.0, self.x.dtype), order)
        return Value(name=name, shape=(len(order),), dtype=self.x.dtype, parts=parts, content=content)

    def _result(self, number: int) -> Value:
        x, out, mesh = self.x, self.outs[number], self.mesh
        row_axis, inner = x.axes
        rows = [part.bounds[0] for part in x.parts]
        if self.is_partial:
            parts = tuple(
                Part(((self.way(cube.number), self.way(cube.number) + 1), own, (0, out.n)), cube.number, blocks=near)
                for cube, own, near in zip(mesh.cubes, rows, self._blocks_near(row_axis, rows), strict=True)
            )
            shape, of_sums = (len(self.downs), x.shape[0], out.n), (inner, row_axis, "")
            return Value(name=out.name, shape=shape, dtype=x.dtype, parts=parts, axes=of_sums)
        parts = tuple(Part((rows[c], self.bounds[c][number]), c) for c in range(len(mesh.cubes)))
        axes = (row_axis, out.axis)
        return Value(name=out.name, shape=(x.shape[0], out.n), dtype=x.dtype, parts=parts, axes=axes)

    def _blocks_near(self, row_axis: str, rows: Sequence[tuple[int, int]]) -> list[Blocks | None]:
        """The blocks of the sums of each cube, each near the PE that computes the block, where a `ReduceScatter` reads
        them; an `AllReduce` takes whole rows."""
        (down, along), mesh = self.grid, self.mesh
        is_scattered = mesh.ways("tokens") > 1 and row_axis == "batch"
        near = [Blocks(down, along, cube.pes[: down * along]) for cube in mesh.cubes]
        return [
            each if is_scattered and last - first >= down else None
            for each, (first, last) in zip(near, rows, strict=True)
        ]

    def _check_residual(self, residual: Value) -> None:
        y = self.results[0]
        places = [part.bounds[-2:] for part in y.parts]
        if len(residual.shape) != 2 or [part.bounds for part in residual.parts] != places:
            got = f"the residual {residual.name} of {residual.shape} on {residual.axes}"
            needs = f"one of {y.shape[-2:]}, of which each cube has what it has of {y.name}"
            raise BenchmarkError(f"op {y.name}", got, needs)

    def _matrix(self, tensor: Tensor) -> TensorRef:
        return tensor.ref[0] if self.is_partial else tensor.ref

    def _plan(self, host: Host, width: int) -> Plan:
        """The rows of a step and the depth of unpacking that fit TCM."""
        k, nbytes = max(stop - start for start, stop in self.downs), self.x.dtype.nbytes
        rows = max(block.rows.stop - block.rows.start for block in self.blocks if block is not None)
        if self.weight.kind in ("int8", "int4"):
            return self._unpacking_plan(host, rows, width, k)
        held = min(rows, HELD_ROWS)
        while held > LEAST_HELD_ROWS and held * k * nbytes > host.tcm_nbytes // HELD_SHARE:
            held = -(-held // 2)
        holds_x = held * k * nbytes <= host.tcm_nbytes // HELD_SHARE
        step = held if holds_x else rows
        is_direct = len(self.outs) == 1 and self.activation in EPILOGUES
        if not is_direct:
            share = host.tcm_nbytes * 2 // HELD_SHARE
            while step > 1 and step * width * 4 > share:
                step = -(-step // 2)
        return Plan(step, holds_x, 0, self.pieces, self.activation, self.is_gated, is_direct)

    def _unpacking_plan(self, host: Host, rows: int, width: int, k: int) -> Plan:
        nbytes, is_int4 = self.x.dtype.nbytes, self.weight.kind == "int4"
        given = 2 * GROUP if is_int4 else None
        found = host.fitted(
            lambda unpacked_rows, unpacked_depth: (
                unpacked_depth * (3 * (unpacked_rows * nbytes + width) + width * nbytes) + 16 * unpacked_rows * width
            ),
            lambda unpacked_rows, unpacked_depth: 4 * unpacked_rows * width,
            unpacked_rows=(None, min(rows, HELD_ROWS)),
            unpacked_depth=(given, min(k, DEPTH)),
        )
        step, depth = found["unpacked_rows"], found["unpacked_depth"]
        return Plan(step, False, depth, self.pieces, self.activation, self.is_gated)

    def _extras(self, tensors: Tensors) -> Extras:
        """The scales and biases of each panel, and the residual of each cube that adds one."""
        scale: list[Any] = [None] * len(self._panels)
        if self.weight.scale is not None:
            scale = tensors[self.weight.scale]
        bias = iter(tensors[self.bias]) if self.bias is not None else iter(())
        first = self.downs[0]
        biases: list[Any] = [next(bias, None) if panel.down == first else None for panel in self._panels]
        residual: list[Any] = [None] * len(self.mesh.cubes)
        if self.residual is not None:
            placed = tensors[self.residual]
            residual = [placed[c] if self.way(c) == 0 else None for c in range(len(residual))]
        return Extras(scale, biases, residual)

    def _stacked(self, values: Sequence[Sequence[Array]]) -> dict[str, Array]:
        """The results by name, from the results of each part of K."""
        by_result = zip(self.results, zip(*values, strict=True), strict=True)
        return {value.name: np.stack(each) if self.is_partial else each[0] for value, each in by_result}

    def _sums(self, read: Read, way: int) -> list[Array]:
        """The sum of part *way* of K for each of the outs, before the activation."""
        down = self.downs[way]
        product = self.weight.product(read, read(self.x)[:, slice(*down)], down)
        return [product[:, at] + added for at, added in zip(self.places, self._added(read, way), strict=True)]

    def _added(self, read: Read, way: int, function: Any = np.asarray) -> list[Any]:
        """The sum of *function* of what is added to part *way* of K for each of the outs: bias and residual."""
        found: list[Any] = [0.0] * len(self.outs)
        if way == 0 and self.bias is not None:
            bias = function(read(self.bias).astype(np.float64))
            found = [bias[at] for at in self.places]
        if way == 0 and self.residual is not None:
            found = [found[0] + function(read(self.residual).astype(np.float64))]
        return found

    def _finished(self, sums: Sequence[Array]) -> list[Array]:
        function = REFERENCES[self.activation]
        return [function(sums[0]) * sums[1]] if self.is_gated else [function(each) for each in sums]

    def _lost(self, read: Read, way: int) -> list[Array]:
        """The error of each result of part *way* in f32, before it is rounded to its dtype.

        A sum, its scale, a bias and a residual are rounded to f32 by less than a unit of the sizes of their terms.
        """
        down = self.downs[way]
        sizes = self.weight.lost(read, read(self.x)[:, slice(*down)], down)
        lost = [
            sizes[:, at] + 2 * _ROUNDOFF * added
            for at, added in zip(self.places, self._added(read, way, np.abs), strict=True)
        ]
        if self.activation == "none" and not self.is_gated:
            return lost
        sums, function = self._sums(read, way), REFERENCES[self.activation]
        after = [STEEPEST * one + FUNCTION_ROUNDOFF * (1 + np.abs(z)) for one, z in zip(lost, sums, strict=True)]
        if not self.is_gated:
            return after
        return [np.abs(sums[1]) * after[0] + np.abs(function(sums[0])) * lost[1] + after[0] * lost[1]]


class Linear(_Panels):
    """Y = activation(X W + bias + residual), of X of rows x K, with *n* columns on *axis* in groups of *unit*.

    Where X is split along K, Y has the sums of each part of K as a first dimension, the bias and the residual in the
    first part, and no activation.
    """

    def __init__(
        self,
        name: str,
        mesh: Mesh,
        x: Value,
        n: int,
        axis: str,
        *,
        unit: int = 1,
        bias: bool = False,
        activation: str = "none",
        residual: Value | None = None,
        weights: Quantisation = "same",
    ) -> None:
        """Raises BenchmarkError for an unknown activation or kind of weights, and for a residual of another layout."""
        out = Out(name, n, axis, unit)
        super().__init__(name, mesh, x, (out,), bias=bias, activation=activation, weights=weights, residual=residual)
        if self.is_partial and activation != "none":
            raise BenchmarkError(f"op {name}", f"{activation} of a sum over cubes", "the activation after the sum")
        self.y = self.results[0]

    @property
    def w(self) -> Value:
        """The weight."""
        return self.weight.w


class Projections(_Panels):
    """The products of X with several weights, such as those of q, k and v, in one launch.

    X is whole in each cube. Where an axis has more parts than heads, neighbouring cubes have copies: each computes some
    of the columns, and stores them in all of these cubes.
    """

    kind = "linear"

    def __init__(
        self,
        name: str,
        mesh: Mesh,
        x: Value,
        outs: Sequence[Out],
        *,
        bias: bool = False,
        weights: Quantisation = "same",
    ) -> None:
        """Raises BenchmarkError for an X that is split along K, and for an unknown kind of weights."""
        check_whole(name, x)
        super().__init__(name, mesh, x, outs, bias=bias, activation="none", weights=weights)

    def _shares(self) -> list[list[Share]]:
        """The columns of each result that each cube computes: the cubes of a SIP that have copies share them."""
        cubes, bounds = self.mesh.cubes, self.bounds
        found: list[list[Share]] = []
        for cube in cubes:
            found.append([])
            for out, (start, stop) in enumerate(bounds[cube.number]):
                rows = self.x.parts[cube.number].bounds[0]
                copies = tuple(
                    each.number
                    for each in cubes
                    if each.sip == cube.sip
                    and self.x.parts[each.number].bounds[0] == rows
                    and bounds[each.number][out] == (start, stop)
                )
                first, last = cut(stop - start, len(copies), copies.index(cube.number))
                found[-1].append(Share(start + first, start + last, copies))
        has_work = all(any(share.start < share.stop for share in each) for each in found)
        return found if has_work else super()._shares()


class Gated(_Panels):
    """Y = activation(X Wg) * (X Wu) in one launch, with *n* columns on *axis*. X is whole in each cube."""

    is_gated = True

    def __init__(
        self,
        name: str,
        mesh: Mesh,
        x: Value,
        n: int,
        axis: str,
        *,
        activation: str = "silu",
        weights: Quantisation = "same",
    ) -> None:
        """Raises BenchmarkError for an X that is split along K, and for an unknown activation or kind of weights."""
        check_whole(name, x)
        outs = Out(name, n, axis), Out(f"{name}.up", n, axis)
        super().__init__(name, mesh, x, outs, bias=False, activation=activation, weights=weights)


def check_whole(name: str, x: Value) -> None:
    """Raises BenchmarkError unless each cube has all columns of *x*."""
    if len({part.bounds[-1] for part in x.parts}) > 1:
        got, fix = f"{x.name}, of which each cube has some columns", f"gather {x.name} first"
        raise BenchmarkError(f"op {name}", got, "all columns in each cube", fix)
