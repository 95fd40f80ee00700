"""The tiles of a plan, made once for all plans that differ from it only in blocks and addresses.

Equal PEs run one product, and a loop issues one command, at other addresses each time. Only the transfers of their
tiles differ, and the distance of a transfer from its operand's address is the same as in the first plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from kb_messages.memory.rectangles import Rectangle
from kb_messages.plans.stages import DmaParams, Stage, StageTemplate, StageType, TilePlan

_Picker = Callable[[Sequence[Stage]], tuple[Stage, ...]]


class _Transfer(NamedTuple):
    """A DMA stage of template number `template`, `offset` bytes behind address number `at` of its plan."""

    template: int
    stage_type: StageType
    at: int
    offset: int
    rows: int
    row_nbytes: int
    stride: int
    to_registers: bool
    atomic: bool


class MovableTiles(NamedTuple):
    """The tiles of a plan with few tiles.

    `components` are the components of the plan's templates. `computing` has each stage that is no DMA once, after the
    number of its template, and `transfers` has each DMA stage. Each entry of `tiles` is the place of a tile in the
    grid, and a function that picks the stages of the tile from both together.
    """

    components: tuple[str, ...]
    computing: tuple[tuple[int, Stage], ...]
    transfers: tuple[_Transfer, ...]
    tiles: tuple[tuple[int, int, int, _Picker], ...]

    def on(self, components: tuple[str, ...]) -> MovableTiles:
        """The tiles of the same plan on other blocks."""
        computing = tuple(
            [(number, Stage(each.stage_type, components[number], each.params)) for number, each in self.computing]
        )
        return MovableTiles(components, computing, self.transfers, self.tiles)

    def at(self, addresses: Sequence[int]) -> tuple[TilePlan, ...]:
        """The tiles with operands in memory at *addresses*, in the order of `PipelinePlan.addresses`."""
        components, made = self.components, [stage for _, stage in self.computing]
        for template, stage_type, at, offset, rows, row_nbytes, stride, to_registers, atomic in self.transfers:
            memory = Rectangle(addresses[at] + offset, rows, row_nbytes, stride)
            params = DmaParams(memory, to_registers, (), False, atomic)
            made.append(Stage(stage_type, components[template], params))
        stages = tuple(made)
        return tuple([TilePlan(number, m, n, k, pick(stages)) for number, (m, n, k, pick) in enumerate(self.tiles)])


def movable_tiles(
    tiles: Sequence[TilePlan],
    templates: Sequence[StageTemplate],
    template_numbers: Callable[[TilePlan], Sequence[int]],
    addresses: Mapping[int, tuple[int, int]],
) -> MovableTiles:
    """The movable form of *tiles*, which are all tiles of a plan of *templates*. No stage may be in pieces.

    *template_numbers* returns the numbers of the templates of a tile's stages. *addresses* maps the template number of
    a transfer to the number of its address among the addresses of the plan, and to this address.
    """
    computing: dict[int, tuple[int, Stage]] = {}
    transfers: dict[int, _Transfer] = {}
    made = [(tile, [*zip(template_numbers(tile), tile.stages, strict=True)]) for tile in tiles]
    for number, stage in (each for _, stages in made for each in stages):
        if isinstance(stage.params, DmaParams):
            if id(stage) not in transfers:
                transfers[id(stage)] = _transfer(number, stage, *addresses[number])
        else:
            computing[id(stage)] = number, stage
    places = {each: place for place, each in enumerate((*computing, *transfers))}
    return MovableTiles(
        tuple([each.component for each in templates]),
        tuple(computing.values()),
        tuple(transfers.values()),
        tuple([(tile.m, tile.n, tile.k, _picker([places[id(each)] for each in tile.stages])) for tile in tiles]),
    )


def _transfer(template: int, stage: Stage, at: int, address: int) -> _Transfer:
    params = stage.params
    assert isinstance(params, DmaParams)
    memory = params.memory
    return _Transfer(
        template, stage.stage_type, at, memory.base - address, memory.rows, memory.row_nbytes, memory.stride,
        params.to_registers, params.atomic,
    )  # fmt: skip


def _picker(numbers: Sequence[int]) -> _Picker:
    """A function that picks the stages with these *numbers* from a sequence of stages."""
    if len(numbers) > 1:
        return itemgetter(*numbers)
    return itemgetter(slice(numbers[0], numbers[0] + 1))
