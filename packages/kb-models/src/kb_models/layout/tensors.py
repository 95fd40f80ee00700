"""Tensors: the values of a model in the memories of a chip."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from kb_dataexec import MemoryStore
from kb_engine import Host, Tensor, read_tensor
from kb_messages import BenchmarkError, KernelError, split_address
from kb_models.layout.mesh import Mesh
from kb_models.layout.value import Array, Content, Part, Place, Value

_ALIGNMENT = 64
"""The bytes to which the host rounds a tensor. Source: the allocator of HBM."""


class Tensors:
    """The tensors of the values that were placed on *host*, one for each part, in the order of `Value.parts`."""

    def __init__(
        self,
        host: Host,
        mesh: Mesh,
        seed: int,
        needs_data: bool = True,
        stand_ins: Mapping[str, Content] = MappingProxyType({}),
    ) -> None:
        """Without *needs_data*, only the tables that kernels look at get their content. *stand_ins* has the content of
        values that no op writes, by name.
        """
        self._stand_ins = stand_ins
        self.host = host
        self.needs_data = needs_data
        self.mesh = mesh
        self._seed = seed
        self._placed: dict[str, tuple[Value, list[Tensor]]] = {}
        regions = host.engine.topology.address_map.interleaved.values()
        rounds = [region.interleaving.round_nbytes for region in regions if region.is_of_cube]
        self._round_nbytes = max(rounds, default=0)
        n_slices = host.num_slices
        self._has_own_slices = n_slices >= host.num_pes and len(set(map(host.hbm_slice_of, mesh.pes))) == len(mesh.pes)

    def put(self, value: Value) -> None:
        """Allocates the parts of *value*, and writes its content. A value that is placed already stays as it is.

        Raises OutOfMemoryError for a full memory, and BenchmarkError for another value of the same name.
        """
        if value.name in self._placed:
            if self._placed[value.name][0] is not value:
                raise BenchmarkError(f"value {value.name}", "two values of one name", "one name for each value")
            return
        if value.source is not None:
            self.put(value.source)
            held = self._placed[value.source.name][1]
            found = zip(value.parts, value.places, strict=True)
            self._placed[value.name] = value, [_within(held[place.part], place, part) for part, place in found]
            return
        content = value.content or self._stand_ins.get(value.name)
        makes = content is not None and (self.needs_data or value.is_looked_at)
        data = self._content(value, content) if content is not None and makes else None
        blocks: dict[Any, Array] = {}  # parts with equal bounds share one array
        tensors = [self._put(value, part, data, blocks) for part in value.parts]
        self._placed[value.name] = value, tensors
        if content is not None and not makes:
            for tensor in tensors:
                self.host.write_unknown(tensor)

    def __getitem__(self, value: Value) -> list[Tensor]:
        """The tensors of the parts of *value*. Raises KernelError for a value that no op before has written."""
        if value.name not in self._placed:
            raise KernelError(f"value {value.name}", "a value that is not placed", "one that an op before writes")
        return self._placed[value.name][1]

    def read(self, memory: MemoryStore, value: Value) -> Array:
        """The whole array of *value* in *memory*. Raises StoreError for bytes never written, KernelError for unequal
        copies."""
        found: Array | None = None
        seen: dict[Any, int] = {}
        for number, (part, tensor) in enumerate(zip(value.parts, self[value], strict=True)):
            block = read_tensor(memory, tensor)
            if found is None:
                found = np.empty(value.shape, block.dtype)
            if part.bounds in seen and not _same(found[part.slices], block):
                first = value.parts[seen[part.bounds]].cube
                got = f"other values in cube {part.cube} than in cube {first}"
                raise KernelError(f"read of {value.name}", got, "copies that agree")
            if part.bounds not in seen:
                seen[part.bounds] = number
                found[part.slices] = block
        assert found is not None, "a value has parts"
        return found

    def byte_of(self, value: Value, index: tuple[int, ...]) -> tuple[int, int]:
        """(owner, offset) of the first byte of the element of *value* at *index*, in the first part that has it."""
        for part, tensor in zip(value.parts, self[value], strict=True):
            if all(start <= at < stop for at, (start, stop) in zip(index, part.bounds, strict=True)):
                place = tuple(at - start for at, (start, _) in zip(index, part.bounds, strict=True))
                return split_address(_address(tensor, place))
        raise KernelError(f"value {value.name}", f"index {index}", "an index of a part")

    def _content(self, value: Value, content: Content) -> Array:
        rng = np.random.default_rng([self._seed, zlib.crc32((value.seed_name or value.name).encode())])
        made = content(rng)
        made = made if made.base is None else made.copy()  # nobody else can change it, so parts may be views of it
        made.setflags(write=False)
        return made

    def _put(self, value: Value, part: Part, data: Array | None, blocks: dict[Any, Array]) -> Tensor:
        where = self._where(part)
        if data is None:
            found = self.host.empty(value.name, part.shape, value.dtype, **where)
        else:
            if part.bounds not in blocks:
                blocks[part.bounds] = np.ascontiguousarray(data[part.slices])
                blocks[part.bounds].setflags(write=False)
            found = self.host.tensor(value.name, blocks[part.bounds], value.dtype, **where)
        if "cube" in where and self._round_nbytes:
            self._fill_round(part.cube, int(np.prod(part.shape, dtype=np.int64)) * value.dtype.nbytes)
        return found

    def _fill_round(self, cube: int, nbytes: int) -> None:
        """Takes the rest of the last round of slices behind *nbytes*, so that the next part over *cube* begins in the
        first slice too: a second block of a model has its tensors in the same slices as the first.
        """
        rest = -(-(-nbytes // _ALIGNMENT) * _ALIGNMENT) % self._round_nbytes
        if rest:
            self.host.empty("unused", (1, rest), "u8", cube=cube)

    def _where(self, part: Part) -> dict[str, Any]:
        """The place of *part* as arguments of `Host.empty`.

        Where PEs share HBM slices, or a chip interleaves all of its slices, what lies near PEs lies over the cube.
        """
        if part.pe is not None and self._has_own_slices:
            return {"slices": [self.host.hbm_slice_of(part.pe)]}
        if part.blocks is not None and self._has_own_slices:
            slices = [self.host.hbm_slice_of(pe) for pe in part.blocks.pes]
            return {"blocks": (part.blocks.down, part.blocks.along), "slices": slices}
        return self._over_cube(part)

    def _over_cube(self, part: Part) -> dict[str, Any]:
        pes = self.mesh.cubes[part.cube].pes
        if self.host.interleaves_cubes and not part.by_rows:
            return {"cube": part.cube}
        slices = sorted({self.host.hbm_slice_of(pe) for pe in pes})
        rows = int(np.prod(part.shape[:-1], dtype=np.int64))
        count = min(len(slices), rows)
        return {"blocks": (count, 1), "slices": slices[:count]}


def _same(one: Array, other: Array) -> bool:
    return np.array_equal(np.ascontiguousarray(one).view(np.uint8), np.ascontiguousarray(other).view(np.uint8))


def _address(tensor: Tensor, place: tuple[int, ...]) -> int:
    """The address of the element of *tensor* at *place*."""
    *leading, col = (0, *place)
    row = 0
    for at, size in zip(leading, (1, *tensor.shape[:-1]), strict=True):
        row = row * size + at
    return _address_in_rows(tensor, row, col)


def _address_in_rows(tensor: Tensor, row: int, col: int) -> int:
    i = next(number for number, bound in enumerate(tensor.row_bounds[1:]) if row < bound)
    block = tensor.block(i, 0)
    return block.address + (row - tensor.row_bounds[i]) * block.stride + col * tensor.dtype.nbytes


def _within(tensor: Tensor, place: Place, part: Part) -> Tensor:
    """*part* as a tensor in the memory of *tensor*, from *place* on."""
    address = _address_in_rows(tensor, *divmod(place.element, tensor.cols))
    rows = int(np.prod(part.shape[:-1], dtype=np.int64))
    return Tensor(
        name=tensor.name,
        shape=part.shape,
        dtype=tensor.dtype,
        row_bounds=(0, rows),
        col_bounds=(0, part.shape[-1]),
        addresses=((address,),),
    )
