"""Head: the products of activations with a weight for each word, and the word with the largest one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from kb_engine import Host, TensorRef, gemm_tolerance
from kb_messages import DType
from kb_models.layout import Mesh, Part, Tensors, Value, cut
from kb_models.layout.value import Array
from kb_models.ops.linear.grid import Block, blocks_of, grid_for
from kb_models.ops.linear.kernels import steps
from kb_models.ops.linear.linear import check_whole
from kb_models.ops.linear.weights import Panel, Weight
from kb_models.ops.op import Op, Read

HELD_SHARE: Final = 5
"""X is held where its rows take at most this part of TCM, as in `Linear`."""
_NO_WORD: Final = 2**31 - 1


class Team(NamedTuple):
    """What cubes that have all words together found: for each of their panels the largest value of each row, and its
    word."""

    values: TensorRef
    words: TensorRef


class Plan(NamedTuple):
    """The rows of a step, whether X is held in TCM, and the first word and the row of candidates of each panel."""

    step: int
    holds_x: bool
    first: Sequence[int]
    place: Sequence[int]


def kernel(
    tl: Any,
    x: Sequence[TensorRef],
    w: Sequence[TensorRef],
    teams: Sequence[Team],
    blocks: Sequence[Block | None],
    plan: Plan,
) -> None:
    """Each program stores the largest product of each of its rows with the words of its panel, and the word."""
    block = blocks[tl.program_id()]
    for rows in [] if block is None else steps(block.rows, plan.step):
        a = x[block.cube][rows, :]
        z = tl.composite("gemm", tl.load(a) if plan.holds_x else a, w[block.panel], epilogue=[tl.cast("f32")])
        value, word = tl.max(z, axis=1, return_indices=True)
        team, place = teams[block.cube], plan.place[block.panel]
        tl.store(team.words[place, rows], (word + plan.first[block.panel]).reshape(-1))
        tl.store(team.values[place, rows], value.reshape(-1))


def choose(
    tl: Any, teams: Sequence[Team], ids: Sequence[TensorRef], logits: Sequence[TensorRef], pes: int, step: int
) -> None:
    """The PEs of each cube choose the candidates with the largest values, of equal ones the lowest word."""
    cube, place = divmod(tl.program_id(), pes)
    for rows in steps(slice(*cut(ids[cube].shape[0], pes, place)), step):
        values, words = tl.load_async(teams[cube].values[:, rows]), tl.load_async(teams[cube].words[:, rows])
        best = tl.max(values, axis=0)
        tl.store(ids[cube][rows], tl.min(tl.where(values == best, words, _NO_WORD), axis=0).reshape(-1))
        tl.store(logits[cube][rows], best.reshape(-1))


class Head(Op):
    """The word of each row of X, rows x K, with the largest product of its weight with the row, and the product.

    The words are split over the axis `vocab`. The products stay in f32 and in TCM; two launches choose from them. A
    word counts as right if its product in float64 is at most as much below the largest one as sums in f32 allow.
    """

    kind = "head"

    def __init__(self, name: str, mesh: Mesh, x: Value, vocab: int) -> None:
        """Raises BenchmarkError for an X that is split along K."""
        check_whole(name, x)
        rows, k = x.shape
        self.mesh, self.x, self.vocab = mesh, x, vocab
        bounds = [mesh.part("vocab", vocab, cube.number) for cube in mesh.cubes]
        heights, widths = [part.shape[0] for part in x.parts], [stop - start for start, stop in bounds]
        self.grid = grid_for(max(heights), widths, mesh)
        self.blocks = blocks_of(mesh, self.grid, heights, widths)
        self.panels = [
            Panel(
                (0, k),
                (start + cut(stop - start, self.grid.along, j)[0], start + cut(stop - start, self.grid.along, j)[1]),
                cube.number,
                cube.pes[j] if self.grid.down == 1 else None,
            )
            for cube, (start, stop) in zip(mesh.cubes, bounds, strict=True)
            for j in range(self.grid.along)
        ]
        self.weight = Weight(name, k, vocab, self.panels, np.arange(vocab), x.dtype, "same")
        parts = tuple(Part(part.bounds[:1], part.cube) for part in x.parts)
        self.ids, self.logits = (
            Value(name=each, shape=(rows,), dtype=dtype, parts=parts, axes=x.axes[:1])
            for each, dtype in ((name, DType.I32), (f"{name}.logits", DType.F32))
        )
        self.flops = 2 * rows * k * vocab
        self.terms = k
        super().__init__(name, (x, self.weight.w), (self.ids, self.logits))

    def launch(self, host: Host, tensors: Tensors) -> None:
        """Launches one program on each PE for the products, and again to choose."""
        x, w = tensors[self.x], tensors[self.weight.w]
        teams, places = self._teams(host)
        plan = self._plan(host, places)
        host.launch(kernel, x, w, teams, self.blocks, plan, pes=self.mesh.pes)
        n, pes = max(places) + 1, self.mesh.pes_per_cube
        step = host.fitted(lambda rows_of_a_choice: 48 * rows_of_a_choice * n, rows_of_a_choice=(None, 256))
        host.launch(choose, teams, tensors[self.ids], tensors[self.logits], pes, *step.values(), pes=self.mesh.pes)

    def reference(self, read: Read) -> dict[str, Array]:
        """The word that the chip chose, where its product is as large as the largest one within the errors of both,
        and the word with the largest product elsewhere; and the products of these words, in float64."""
        x, chosen, rows = read(self.x), read(self.ids), np.arange(self.x.shape[0])
        product = self.weight.product(read, x, (0, x.shape[1]))
        best, known = product.argmax(axis=1), np.clip(chosen, 0, self.vocab - 1)
        lost = self._lost(read, x, known) + self._lost(read, x, best)
        right = (chosen == known) & (product[rows, known] + lost >= product[rows, best])
        words = np.where(right, known, best)
        return {self.ids.name: words, self.logits.name: product[rows, words]}

    def tolerance(self, read: Read, expected: Mapping[str, Array]) -> dict[str, Array]:
        """Nothing for words, and for a product the error of a sum in f32."""
        lost = self._lost(read, read(self.x), expected[self.ids.name])
        return {self.ids.name: np.zeros(self.ids.shape), self.logits.name: lost}

    def _lost(self, read: Read, x: Array, words: Array) -> Array:
        """The error of the product of each row with its word in f32. Source: `gemm_tolerance`."""
        w = np.abs(read(self.weight.w)[:, words].astype(np.float64))
        sizes: Array = np.einsum("rk,kr->r", np.abs(x.astype(np.float64)), w)
        return gemm_tolerance(np.zeros(sizes.shape), sizes, x.shape[1], DType.F32)

    def _plan(self, host: Host, places: list[int]) -> Plan:
        used = [block for block in self.blocks if block is not None]
        rows = max(block.rows.stop - block.rows.start for block in used)
        width = max(block.cols.stop - block.cols.start for block in used)
        row_nbytes = self.x.shape[1] * self.x.dtype.nbytes
        share = host.tcm_nbytes // HELD_SHARE
        step = min(rows, max(1, 2 * share // (4 * width)))
        return Plan(step, step * row_nbytes <= share, [panel.cols[0] for panel in self.panels], places)

    def _teams(self, host: Host) -> tuple[list[Team], list[int]]:
        """The team of each cube, with memory for its candidates in its first cube, and the place of each panel."""
        cubes, along = self.mesh.cubes, self.grid.along
        copies: dict[Any, int] = {}
        members: dict[Any, list[int]] = {}
        for cube in cubes:
            rows = self.x.parts[cube.number].bounds[0]
            key = rows, self.panels[cube.number * along].cols
            copies[key] = copies.get(key, -1) + 1
            members.setdefault((rows, copies[key]), []).append(cube.number)
        teams: dict[int, Team] = {}
        places = [0] * len(self.panels)
        for number, ((rows, _), team) in enumerate(members.items()):
            shape = len(team) * along, rows[1] - rows[0]
            home = [host.hbm_slice_of(cubes[team[0]].pes[0])]
            values, words = (
                host.empty(f"{self.name}.{what}{number}", shape, dtype, slices=home)
                for what, dtype in (("values", DType.F32), ("words", DType.I32))
            )
            for at, cube_number in enumerate(sorted(team, key=lambda each: self.panels[each * along].cols)):
                teams[cube_number] = Team(values.ref, words.ref)
                for j in range(along):
                    places[cube_number * along + j] = at * along + j
        return [teams[cube.number] for cube in cubes], places
