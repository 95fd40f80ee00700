"""Fit: whether a whole model fits the HBM of a chip, from the ops of the blocks that are simulated."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from msgspec import Struct

from kb_messages import BenchmarkError, MemorySpace
from kb_models.layout import Mesh, Value
from kb_models.layout.value import Role
from kb_models.ops import Op
from kb_topology import Topology

_GIB: Final = 1 << 30
_SHARES: Final = {"fp8": 0.5, "int8": 0.5, "int4": 0.25}
"""The bytes of weights in these forms, as a share of the bytes in f16; scales apart."""
_NAMES: Final[dict[Role, str]] = {
    "weight": "weights",
    "cache": "cache",
    "table": "tables",
    "activation": "activations",
}


class Held(Struct, frozen=True):
    """The bytes that one slice of HBM holds of the whole model, by purpose, and the bytes that the slice has."""

    slice_name: str
    nbytes: dict[Role, int]
    capacity: int

    @property
    def total(self) -> int:
        """All bytes that the slice holds."""
        return sum(self.nbytes.values())

    @property
    def fits(self) -> bool:
        """Whether the slice is large enough."""
        return self.total <= self.capacity


def fullest_slice(ops: Sequence[Op], mesh: Mesh, topology: Topology, kept: Collection[str] = ()) -> Held:
    """The slice of HBM that holds most of the whole model, as a share of its size.

    Weights, caches and tables of a block count as often as the model has the block. Activations count as often as the
    run has them, because another block takes the same memory again; those called *kept* are a cache. Raises
    BenchmarkError for a cube without HBM.
    """
    slices = _slices(mesh, topology)
    held: list[list[dict[Role, float]]] = [[{} for _ in each] for each in slices]
    pes = {pe: (cube.number, place) for cube in mesh.cubes for place, pe in enumerate(cube.pes)}
    for value, purpose, times in _values(ops, kept):
        for part in value.parts if value.source is None else ():
            share = times * value.dtype.nbytes * _size(part.shape)
            of_cube = held[part.cube]
            near = part.blocks.pes if part.blocks is not None else () if part.pe is None else (part.pe,)
            each_cube = len(mesh.cubes[part.cube].pes)
            numbers = [pes[pe][1] * len(of_cube) // each_cube for pe in near] or range(len(of_cube))
            for number in numbers:
                of_slice = of_cube[number]
                of_slice[purpose] = of_slice.get(purpose, 0) + share / len(numbers)
    every = [
        Held(name, {role: round(found) for role, found in of_slice.items()}, capacity)
        for of_cube, names in zip(held, slices, strict=True)
        for of_slice, (name, capacity) in zip(of_cube, names, strict=True)
    ]
    return max(every, key=lambda each: each.total / each.capacity)


def check_fit(name: str, held: Held, mesh: Mesh, forms: Sequence[str], batch: int) -> None:
    """Raises BenchmarkError where *held*, the fullest slice, is too small for the model *name*, with what would fit.

    *forms* are smaller forms that the weights may have, and *batch* is the number of sequences.
    """
    if held.fits:
        return
    listed = ", ".join(
        f"{_NAMES[role]} {_gib(nbytes)}"
        for role, nbytes in sorted(held.nbytes.items(), key=lambda each: -each[1])
        if nbytes >= _GIB // 100
    )
    got = f"{_gib(held.total)} GiB in {held.slice_name} ({listed})"
    raise BenchmarkError(
        name, got, f"at most {_gib(held.capacity)} GiB", "; ".join(_ways_out(held, mesh, forms, batch))
    )


def _ways_out(held: Held, mesh: Mesh, forms: Sequence[str], batch: int) -> Iterator[str]:
    weights, room = held.nbytes.get("weight", 0), held.capacity
    per_sequence = (held.total - weights) / batch
    if weights < room and batch > 1 and room - weights >= per_sequence:
        yield f"a batch of {int((room - weights) // per_sequence)} fits"
    smaller = [each for each in _SHARES if each in forms and weights * _SHARES[each] + held.total - weights <= room]
    if smaller:
        yield f"take weights={' or '.join(smaller)}"
    split = [axis for axis in mesh.layout if axis not in ("batch", "tokens")]
    if mesh.n_sips > 1 and not all("sip" in mesh.layout[axis] for axis in split):
        yield f"split {', '.join(split) or 'heads, mlp, vocab'} over sip*cube"
    else:
        yield f"shard over {-(-held.total * mesh.n_sips // room)} SIPs, of which this chip has {mesh.n_sips}"


def _values(ops: Sequence[Op], kept: Collection[str]) -> Iterator[tuple[Value, Role, int]]:
    """Each value once, with its purpose, and how often the whole model has it at a time."""
    found: dict[str, tuple[Value, Role, int]] = {}
    for op in ops:
        for value in (*op.reads, *op.writes):
            of_block = value.name.partition(".")[0] == op.name.partition(".")[0]
            purpose: Role = "cache" if value.name in kept else value.purpose
            times = op.repeats if of_block and purpose != "activation" else 1
            found.setdefault(value.name, (value, purpose, times))
    yield from found.values()


def _slices(mesh: Mesh, topology: Topology) -> list[list[tuple[str, int]]]:
    """The name and the bytes of each slice of HBM, for each cube of *mesh*."""
    places = topology.graph.pe_places
    ids = topology.graph.pe_ids
    of_place: dict[tuple[int, int], list[tuple[str, int]]] = {}
    for node in topology.graph.nodes.values():
        if node.memory is not None and node.memory.space is MemorySpace.HBM and node.sip is not None:
            of_place.setdefault((node.sip, node.cube or 0), []).append((node.id, node.memory.nbytes))
    found = [of_place.get(places[ids[cube.pes[0]]][0], []) for cube in mesh.cubes]
    for slices, cube in zip(found, mesh.cubes, strict=True):
        if not slices:
            raise BenchmarkError(topology.name, f"no HBM in the cube of PE {cube.pes[0]}", "HBM in each cube with PEs")
    return found


def _size(shape: Sequence[int]) -> int:
    found = 1
    for each in shape:
        found *= each
    return found


def _gib(nbytes: float) -> str:
    return f"{nbytes / _GIB:.1f}" if nbytes >= _GIB / 10 else f"{nbytes / _GIB:.2f}"
