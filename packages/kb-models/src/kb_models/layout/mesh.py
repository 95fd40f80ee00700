"""Mesh: the cubes of a chip, and the axes of a model that are split over SIPs and cubes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple, get_args

from kb_messages import BenchmarkError
from kb_models.layout.value import Bounds, Part, cut
from kb_topology import NodeKind, Topology

Axis = Literal["batch", "tokens", "hidden", "heads", "kv_heads", "mlp", "experts", "vocab", "channels", "pixels"]
AXES: Final[tuple[str, ...]] = get_args(Axis)
LEVELS: Final = ("sip", "cube")
_STAGES: Final = ("layers", "layer", "blocks", "stages", "stage", "pipeline")
_PIPELINE: Final = "pipeline parallelism is not built: all cubes share each block"
Layout = Mapping[str, tuple[str, ...]]
"""The levels over which each axis is split. An axis that is missing is not split: each cube has a copy."""


class Cube(NamedTuple):
    """A cube of the chip: its number in the order of SIPs and cubes, its place, and the numbers of its PEs."""

    number: int
    sip: int
    place: int
    pes: tuple[int, ...]


def parse_map(text: str) -> dict[str, tuple[str, ...]]:
    """The layout of *text*, such as `heads=cube,mlp=cube,batch=sip`. `heads=sip*cube` splits over both levels,
    and `none` splits nothing.

    Raises BenchmarkError for an unknown axis, an axis that is named twice, and an unknown level.
    """
    found: dict[str, tuple[str, ...]] = {}
    for item in filter(None, (each.strip() for each in text.split(",") if text.strip() != "none")):
        axis, _, levels = (each.strip() for each in item.partition("="))
        if axis not in AXES:
            fix = _PIPELINE if axis in _STAGES else "write heads=cube,mlp=cube"
            raise BenchmarkError("map", f"an axis {axis!r}", f"one of {', '.join(AXES)}", fix)
        if axis in found:
            raise BenchmarkError("map", f"{axis} twice", "each axis once")
        found[axis] = _levels(axis, levels)
    return found


def _levels(axis: str, text: str) -> tuple[str, ...]:
    levels = () if text in ("", "none") else tuple(text.split("*"))
    if "pe" in levels:
        needs = "sip, cube, sip*cube or none: the PEs of a cube share the cube's part of each op as the op chooses"
        raise BenchmarkError("map", f"{axis}={text}", needs)
    if not set(levels) <= set(LEVELS) or len(set(levels)) < len(levels):
        raise BenchmarkError("map", f"{axis}={text}", "sip, cube, sip*cube or none")
    return tuple(level for level in LEVELS if level in levels)


class Mesh:
    """The cubes of a chip that take part, in the order of SIPs and cubes, and the layout of a model over them.

    With `has_queues` PEs can send each other messages. `array` has the rows and columns of the MAC array of a PE.
    """

    def __init__(
        self,
        pes_by_cube: Sequence[Sequence[Sequence[int]]],
        layout: Layout,
        *,
        has_queues: bool = True,
        array: tuple[int, int] = (64, 64),
    ) -> None:
        """*pes_by_cube* has the numbers of the PEs of each cube, a list of cubes for each SIP. *array* is by default
        that of most bundled chips.

        Raises BenchmarkError where a SIP has another number of cubes than the first, or a cube another number of PEs.
        """
        counts = {len(cubes) for cubes in pes_by_cube}, {len(pes) for cubes in pes_by_cube for pes in cubes}
        if any(len(each) != 1 for each in counts):
            raise BenchmarkError("a chip of unequal SIPs or cubes", "a model", "equal cubes in equal SIPs")
        self.n_sips, self.n_cubes = len(pes_by_cube), len(pes_by_cube[0])
        self.layout = dict(layout)
        self.has_queues = has_queues
        self.array = array
        places = [(sip, place) for sip in range(self.n_sips) for place in range(self.n_cubes)]
        self.cubes = tuple(
            Cube(number, sip, place, tuple(pes_by_cube[sip][place])) for number, (sip, place) in enumerate(places)
        )

    @classmethod
    def of(cls, topology: Topology, layout: Layout) -> Mesh:
        """The mesh of all cubes of *topology* that have PEs."""
        sips: dict[int, dict[int, list[int]]] = {}
        places = topology.graph.pe_places
        for number, pe_id in enumerate(topology.graph.pe_ids):
            (sip, cube), _ = places[pe_id]
            sips.setdefault(sip, {}).setdefault(cube, []).append(number)
        queues = [NodeKind.PE_QUEUE in {node.kind for node in topology.graph.pe_nodes(each)} for each in places]
        arrays = (node.attrs for node in topology.graph.nodes_of_kind(NodeKind.PE_GEMM))
        sides = next(((each["rows"], each["cols"]) for each in arrays if "rows" in each and "cols" in each), (64, 64))
        return cls([list(cubes.values()) for cubes in sips.values()], layout, has_queues=all(queues), array=sides)

    @property
    def pes(self) -> list[int]:
        """The numbers of all PEs, cube by cube: program p of a launch on them runs on PE `pes[p]`."""
        return [pe for cube in self.cubes for pe in cube.pes]

    @property
    def pes_per_cube(self) -> int:
        """The number of PEs of each cube: programs of cube c are `c * pes_per_cube` and the next ones."""
        return len(self.cubes[0].pes)

    def ways(self, axis: str) -> int:
        """The number of parts of *axis*; 1 for an axis that is not split."""
        sizes = {"sip": self.n_sips, "cube": self.n_cubes}
        found = 1
        for level in self.layout.get(axis, ()):
            found *= sizes[level]
        return found

    def index(self, axis: str, cube: int) -> int:
        """The number of the part of *axis* that cube number *cube* has."""
        at, found = self.cubes[cube], 0
        for level in self.layout.get(axis, ()):
            found = found * (self.n_sips if level == "sip" else self.n_cubes) + (at.sip if level == "sip" else at.place)
        return found

    def levels(self, *axes: str) -> tuple[str, ...]:
        """The levels over which any of *axes* is split."""
        return tuple(level for level in LEVELS if any(level in self.layout.get(axis, ()) for axis in axes))

    def group(self, levels: Sequence[str], cube: int) -> tuple[int, ...]:
        """The numbers of the cubes that differ from cube number *cube* in *levels* alone, that cube among them.

        Over the levels of an axis, these cubes hold all parts of the axis; cubes of other groups are their copies, or
        have other parts of other axes.
        """
        here = self.cubes[cube]
        return tuple(
            each.number
            for each in self.cubes
            if ("sip" in levels or each.sip == here.sip) and ("cube" in levels or each.place == here.place)
        )

    def part(self, axis: str, size: int, cube: int, unit: int = 1) -> tuple[int, int]:
        """The part of *axis*, of *size* elements, that cube number *cube* has, in whole groups of *unit* elements.

        Numbers of groups differ by at most one. Where there are more parts than groups, neighbouring parts are copies.
        """
        ways, index, groups = self.ways(axis), self.index(axis, cube), size // unit
        if ways > groups:
            first = index * groups // ways
            return first * unit, (first + 1) * unit
        start, stop = cut(groups, ways, index)
        return start * unit, stop * unit

    def check(self, lengths: Mapping[str, int]) -> None:
        """Raises BenchmarkError for an axis that is split into more parts than it is long, in *lengths*.

        Key heads and experts may have fewer than parts: neighbouring cubes have copies of a key head then, and share
        the columns of an expert.
        """
        for axis in self.layout:
            if axis in lengths and self.ways(axis) > lengths[axis] and axis not in ("kv_heads", "experts"):
                listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
                got = f"{axis} in {self.ways(axis)} parts"
                raise BenchmarkError("map", got, f"at most as many parts as the axis is long: {listed}")

    def parts(self, shape: Sequence[int], axes: Sequence[str], units: Sequence[int] = ()) -> tuple[Part, ...]:
        """One part for each cube of an array of *shape*, cut along the *axes* of its dimensions that are split.

        *units* has the elements of each dimension that stay together, as in a head; by default 1. Raises BenchmarkError
        for two axes that are split over one level, because no cube would have some of the blocks.
        """
        for level in LEVELS:
            split = [axis for axis in axes if level in self.layout.get(axis, ())]
            if len(split) > 1:
                got = f"{' and '.join(split)} of one array over {level}"
                raise BenchmarkError("map", got, "one axis of an array over a level, so that each block is in a cube")
        sizes = tuple(zip(shape, axes, units or (1,) * len(shape), strict=True))
        return tuple(Part(self._bounds(sizes, cube.number), cube.number) for cube in self.cubes)

    def _bounds(self, sizes: Sequence[tuple[int, str, int]], cube: int) -> Bounds:
        return tuple(self.part(axis, size, cube, unit) for size, axis, unit in sizes)
