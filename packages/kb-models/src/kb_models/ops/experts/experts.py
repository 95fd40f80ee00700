"""Experts: the MLPs of the experts that each row has chosen, over the cubes that have them, and sums by shares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from kb_engine import Host
from kb_models.layout import Mesh, Part, Tensors, Value, cut
from kb_models.layout.value import Array, Bounds
from kb_models.ops.collective import blocks_of
from kb_models.ops.experts.kernels import Piece, Plan, Work, combine, dispatch, down, gate_up
from kb_models.ops.experts.places import ExpertPlaces, Range, expert_levels, places_of
from kb_models.ops.experts.reference import product
from kb_models.ops.linear import normal
from kb_models.ops.op import Op, Read

FEW_ROWS: Final = 32
"""The most rows of a cube for which a PE begins the next block of a product early. Source: assumed; blocks of more rows
are as large as fits TCM, so that weights are read once."""


class Experts(Op):
    """The mixture of experts of X, rows x width, which is whole in each cube, by the choices of a `Router`.

    Each row goes through the MLPs of its experts, `(silu(X W1) * (X W3)) W2` with *mlp* columns, and gets their sum by
    their shares. Rows go to the cubes of their experts and come back by loads, in four launches: rows are packed by
    expert; the first products; the last one; sums. Which cubes work, and for how long, follows from the numbers of the
    experts, which the kernels load.

    Where experts are split over cubes, the result has parts that `Builder.experts` gathers. Where each cube has columns
    of all experts, the results are partial sums, ways x rows x width. Sources: Jiang et al., arXiv 2401.04088; Lepikhin
    et al., arXiv 2006.16668, for the exchanges.
    """

    kind = "experts"
    looks_at_values = True

    def __init__(self, name: str, mesh: Mesh, x: Value, ids: Value, shares: Value, n_experts: int, mlp: int) -> None:
        rows, width = x.shape
        self.x, self.ids, self.shares, self.mesh, self._n_experts = x, ids, shares, mesh, n_experts
        self._places = places_of(mesh, x, n_experts, mlp)
        experts, columns = expert_levels(mesh)
        self.is_partial = not experts and bool(columns) and all(len(each.sources) == 1 for each in self._places)
        if self.is_partial:
            targets = [(part.bounds[0], (0, width)) for part in x.parts]
            self._places = [each._replace(target=own) for each, own in zip(self._places, targets, strict=True)]
        self._ups, self._downs = (
            self._pieces([each.columns for each in self._places]),
            self._pieces([(0, width if each.columns[0] < each.columns[1] else 0) for each in self._places]),
        )
        self.w1, self.w3 = (
            self._weights(f"{name}.{each}", n_experts, (width, mlp), self._ups, lambda place, cols: ((0, width), cols))
            for each in ("w1", "w3")
        )
        self.w2 = self._weights(
            f"{name}.w2", n_experts, (mlp, width), self._downs, lambda place, cols: (place.columns, cols)
        )
        self.y = self._result(name)
        self.scratch = tuple(
            self._scratch(f"{name}.{each}", widths)
            for each, widths in (
                ("packed", [width for _ in self._places]),
                ("hidden", [max(1, each.columns[1] - each.columns[0]) for each in self._places]),
                ("done", [width for _ in self._places]),
            )
        )
        self.flops = 6 * rows * ids.shape[1] * width * mlp
        super().__init__(name, (x, ids, shares, self.w1, self.w3, self.w2), (self.y,))

    @property
    def nbytes(self) -> int:
        """The bytes of all values, with the weights of the experts that rows choose, as `floor_nbytes` has them."""
        return super().nbytes - sum(value.nbytes for value in (self.w1, self.w3, self.w2)) + self.floor_nbytes

    @property
    def floor_nbytes(self) -> int:
        """The bytes of the weights of the experts that rows choose: the mean where all choices are as likely.

        The numbers are known only when the router has run. A row chooses k of n experts, so r rows choose
        n (1 - (1 - k / n)^r) of them on average.
        """
        rows, chosen = self.ids.shape
        missed = (1 - chosen / self._n_experts) ** rows
        return round((1 - missed) * sum(value.nbytes for value in (self.w1, self.w3, self.w2)))

    def launch(self, host: Host, tensors: Tensors) -> None:
        """Launches one program on each PE, four times. Products have blocks of up to 256 rows and 1024 columns, or of
        as many as fit TCM: two of operands, two sums and their product."""
        mesh, nbytes, width = self.mesh, self.x.dtype.nbytes, self.x.shape[1]
        x, ids, shares, y = (tensors[each] for each in (self.x, self.ids, self.shares, self.y))
        most, held_nbytes = max(part.shape[0] for part in self.scratch[0].parts), host.tcm_nbytes // 8
        n_ahead = 1 if most <= FEW_ROWS else 0
        each = (3 + 2 * n_ahead) * nbytes
        fitted = host.fitted(
            lambda rows_of_an_expert, columns_of_an_expert: (
                rows_of_an_expert * columns_of_an_expert * each + held_nbytes
            ),
            rows_of_an_expert=(None, min(256, most)),
            columns_of_an_expert=(None, 1024),
        )
        rows = max(1, min(16, host.tcm_nbytes // (8 * width * nbytes)))
        work = Work(*(tensors[each] for each in self.scratch))
        ups, downs = ([[piece for piece, _ in each] for each in pieces] for pieces in (self._ups, self._downs))
        plan = Plan(
            places=self._places,
            ups=ups,
            downs=downs,
            sums=self._sums(),
            pes=mesh.pes_per_cube,
            rows=rows,
            block_m=fitted["rows_of_an_expert"],
            block_n=fitted["columns_of_an_expert"],
            n_ahead=n_ahead,
            held_nbytes=held_nbytes,
            is_partial=self.is_partial,
        )
        host.launch(dispatch, x, ids, work, plan, pes=mesh.pes)
        host.launch(gate_up, ids, tensors[self.w1], tensors[self.w3], work, plan, pes=mesh.pes)
        host.launch(down, ids, tensors[self.w2], work, plan, pes=mesh.pes)
        host.launch(combine, ids, shares, work, y, plan, pes=mesh.pes)

    def reference(self, read: Read) -> dict[str, Array]:
        """The mixture in float64, by expert, from the choices and shares on the chip."""
        found = np.zeros(self.y.shape)
        for way, x, gate, up, last, rows, weights in self._by_expert(read):
            h = product(x, gate)
            h *= product(x, up) / (1 + np.exp(-h))
            np.add.at(found[way] if self.is_partial else found, rows, weights * product(h, last))
        return {self.y.name: found}

    def tolerance(self, read: Read, expected: Any) -> dict[str, Array]:
        """The rounding of stored values with the unit roundoff u, and of sums in f32, by the sizes of their terms.

        An element of the input of the last product is off by at most 3 u of it, for three roundings, and by the errors
        of the first two products, of which silu passes one on with a slope of at most 1.1. These errors are
        independent, so the error of their weighted sum exceeds 7 times the root of the sum of squares with a
        probability below 5e-11. Source: Hoeffding (1963), theorem 2. For few elements the sum of their sizes is less.
        Results are rounded once in each cube that has columns of an expert, and once more.
        """
        info, (width, mlp) = self.y.dtype.info, (self.x.shape[1], self.w1.shape[1])
        u, f32 = info.unit_roundoff, 2.0**-24
        found = np.abs(expected[self.y.name]) * (2 * u) + info.smallest_subnormal
        for way, x, gate, up, last, rows, weights in self._by_expert(read):
            x, gate, up, last = (each.astype(np.float32) for each in (x, gate, up, last))
            g, v = x @ gate, x @ up
            passed = np.abs(g / (1 + np.exp(-g)))
            np.abs(x, out=x), np.abs(gate, out=gate), np.abs(up, out=up)
            off = 1.1 * np.sqrt(width) * f32 * ((x @ gate) * np.abs(v) + passed * (x @ up))
            off += (3 * u + 16 * f32) * passed * np.abs(v)
            result = np.abs((g / (1 + np.exp(-g)) * v) @ last)
            np.abs(last, out=last)
            lost = np.minimum(7 * np.sqrt((off * off) @ (last * last)), off @ last)
            lost += 1.1 * u * result + np.sqrt(mlp) * f32 * ((passed * np.abs(v)) @ last)
            np.add.at(found[way] if self.is_partial else found, rows, weights * lost)
        return {self.y.name: found}

    def _by_expert(self, read: Read) -> Iterator[tuple[int, Array, Array, Array, Array, Array, Array]]:
        """For each expert with rows, and for each part of its columns that a cube has: the number of the part, its rows
        of X, its weights, the numbers of the rows, and their shares as a column."""
        x, ids, shares, w1, w3, w2 = (read(each) for each in self.reads)
        width, mlp = x.shape[1], self.w1.shape[1]
        for expert, (_, cubes) in enumerate(self._places[0].holders):
            rows, choice = np.nonzero(ids == expert)
            ways = len(cubes)
            for way in range(ways if rows.size else 0):
                first, last = cut(mlp, ways, way)
                up, down = slice(expert * width, (expert + 1) * width), slice(expert * mlp + first, expert * mlp + last)
                some = w1[up, first:last], w3[up, first:last], w2[down]
                yield way, x[rows], *some, rows, shares[rows, choice, None].astype(np.float64)

    def _pieces(self, spans: Sequence[Range]) -> list[list[tuple[Piece, Part]]]:
        """The pieces of each program, with a part that has the expert and the columns as bounds. *spans* are the
        columns of each cube, which its PEs share."""
        found: list[list[tuple[Piece, Part]]] = []
        number = 0
        for cube, place, (first, last) in zip(self.mesh.cubes, self._places, spans, strict=True):
            mine: list[list[tuple[Piece, Part]]] = [[] for _ in cube.pes]
            count = min(len(cube.pes), last - first)
            for expert in range(*place.experts):
                for at in range(count):
                    start, stop = cut(last - first, count, at)
                    bounds = (expert, expert + 1), (first + start, first + stop)
                    piece = Piece(expert - place.experts[0], number, slice(start, stop))
                    mine[at].append((piece, Part(bounds, cube.number, cube.pes[at])))
                    number += 1
            found += mine
        return found

    def _weights(
        self,
        name: str,
        n_experts: int,
        shape: tuple[int, int],
        pieces: Sequence[Sequence[tuple[Piece, Part]]],
        bounds_of: Callable[[ExpertPlaces, Range], tuple[Range, Range]],
    ) -> Value:
        """Weights of *shape* of each expert, one below the other. Each PE has the weights of its pieces near it."""
        flat = sorted((piece.part, part) for each in pieces for piece, part in each)
        parts = []
        for _, part in flat:
            (expert, _), cols = part.bounds
            (first, last), cols = bounds_of(self._places[part.cube], cols)
            rows = expert * shape[0] + first, expert * shape[0] + last
            parts.append(Part((rows, cols), part.cube, part.pe))
        whole, dtype = (n_experts * shape[0], shape[1]), self.x.dtype
        content = normal(whole, shape[0] ** -0.5, dtype)
        return Value(name=name, shape=whole, dtype=dtype, parts=tuple(parts), content=content)

    def _result(self, name: str) -> Value:
        """The result: blocks that cubes add up, or partial sums."""
        mesh, dtype = self.mesh, self.x.dtype
        axes: tuple[str, ...] = self.x.axes[0], ""
        bounds: list[Bounds] = [place.target for place in self._places]
        shape: tuple[int, ...] = self.x.shape
        if self.is_partial:
            ways = [mesh.index("mlp", cube.number) for cube in mesh.cubes]
            bounds = [((way, way + 1), *each) for way, each in zip(ways, bounds, strict=True)]
            shape, axes = (mesh.ways("mlp"), *shape), ("mlp", *axes)
        parts = tuple(Part(each, cube.number) for each, cube in zip(bounds, mesh.cubes, strict=True))
        return Value(name=name, shape=shape, dtype=dtype, parts=parts, axes=axes)

    def _scratch(self, name: str, widths: Sequence[int]) -> Value:
        """Rows of *widths* elements in each cube, as many as its experts may get."""
        rows = [
            sum(last - first for (first, last), _ in each.sources)
            * min(self.ids.shape[1], each.experts[1] - each.experts[0])
            for each in self._places
        ]
        most = max(rows)
        parts = tuple(
            Part(((cube * most, cube * most + count), (0, width)), cube)
            for cube, (count, width) in enumerate(zip(rows, widths, strict=True))
        )
        return Value(name=name, shape=(most * len(rows), max(widths)), dtype=self.x.dtype, parts=parts)

    def _sums(self) -> list[tuple[Range, Range]]:
        """The block of the result that each program adds up."""
        pes, found = self.mesh.pes_per_cube, []
        for place in self._places:
            (top, bottom), (left, right) = place.target
            blocks = blocks_of(bottom - top, right - left, pes)
            mine = [((top + r.start, top + r.stop), (left + c.start, left + c.stop)) for r, c in blocks]
            found += mine + [((top, top), (left, left))] * (pes - len(mine))
        return found
