"""Host: allocates tensors in the memories of the chip, writes them, launches kernels and reads results.

On a topology with a host, its calls take time on the fabric, one after the other. On other topologies they take no
time. Calls of streams go on while the host's Python runs ahead.

Design: docs/design/launch-and-host.md.
"""

from __future__ import annotations

import copy
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, overload

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from kb_dataexec import numpy_dtype
from kb_engine.block.fabric_roles import MemoryComponent
from kb_engine.collectives import Group
from kb_engine.collectives.grouping import group_of
from kb_engine.engine.engine import Engine
from kb_engine.engine.streams.engine_streams import Piece
from kb_engine.host.collective_calls import CollectiveCalls
from kb_engine.host.fitting import Limit, Need, fitted_sizes
from kb_engine.host.read import DeferredRead
from kb_engine.host.sharding import Sharding
from kb_engine.host.stream_calls import StreamCalls
from kb_engine.host.streams import Pending, Stream, stream_of
from kb_engine.host.tensor_memory import TensorMemory
from kb_engine.host.virtual_memory import VirtualMemory
from kb_engine.language.tl import Language
from kb_engine.launch.launch import LaunchResult
from kb_engine.launch.streams import StreamCall
from kb_engine.launch.targets import pes_of, targets_of
from kb_engine.memory.device_memory import UnwrittenLoadError
from kb_engine.memory.pending import Producer
from kb_engine.program.author.arguments import describe
from kb_engine.program.grid import Schedule, grid_of
from kb_engine.program.port import FrontEnd
from kb_engine.program.runner import Kernel
from kb_engine.program.values.affine import sides_of
from kb_engine.program.values.tensors import Tensor, TensorRef
from kb_messages import CubeTarget, DType, HostCallKind, KernelError, Matrix, MemorySpace, MmuMessage, split_address
from kb_topology import Topology

_LEAST_BLOCK_NBYTES: Final = 4096
MOST_CHOICE_CHARACTERS = 200
"""The most characters of a text that a program says it chose. Source: assumed; a row of a report is shorter."""


def rebuilt(container: list[Any] | tuple[Any, ...], items: Sequence[Any]) -> Any:
    """A copy of *container*, of the same type, with *items* in place of its own.

    The constructor of a subclass is not called, because it may take other arguments. Raises KernelError for a type that
    cannot hold other items, unless the items are its own.
    """
    kind = type(container)
    if kind is list or kind is tuple:
        return kind(items)
    if len(items) == len(container) and all(new is old for new, old in zip(items, container, strict=True)):
        return container
    try:
        if isinstance(container, tuple):
            return tuple.__new__(kind, items)  # type: ignore[type-var]
        same = copy.copy(container)
        same[:] = items
    except Exception:  # noqa: BLE001 - a subclass may override anything
        raise KernelError("launch", f"tensors in {describe(container)}", "them in a list or a tuple") from None
    return same


def owning_cubes(topology: Topology, arguments: Iterable[Any]) -> list[CubeTarget]:
    """The cubes whose memories hold a part of a tensor in *arguments*, in the topology's order.

    *arguments* are the arguments of a kernel. Tensors inside lists and tuples count too.
    """
    owners = {matrix.owner for tensor in _tensors(arguments) for _, matrix in tensor.every_block()}
    nodes, memories = topology.graph.nodes, topology.address_map
    found: set[tuple[int | None, int | None]] = set()
    for owner in owners:
        if owner in memories.interleaved:
            found.update(memories.interleaved[owner].cubes)
        else:
            node = nodes[memories.by_owner[owner].node_id]
            found.add((node.sip, node.cube))
    cubes = [cube for cube in dict.fromkeys((node.sip, node.cube) for node in nodes.values()) if cube in found]
    return [CubeTarget(sip=sip, cube=cube) for sip, cube in cubes if sip is not None and cube is not None]


def _tensors(arguments: Iterable[Any]) -> Iterator[Tensor]:
    for argument in arguments:
        if isinstance(argument, Tensor):
            yield argument
        elif isinstance(argument, TensorRef):
            yield argument.tensor
        elif isinstance(argument, (list, tuple)):
            yield from _tensors(argument)


class Copies(Struct, frozen=True):
    """A tensor `name` of `nbytes` bytes that was placed `count` times with equal content."""

    name: str
    count: int
    nbytes: int


_Blocks = dict[tuple[int, int, int, int], npt.NDArray[Any]]
"""Blocks of an array, by their first row, end row, first column and end column."""


class Host(CollectiveCalls, StreamCalls):
    """The host of one chip, for a user's program. All launches share the memories of the chip.

    Lines of kernels in errors and reports are relative to *root*, by default the current folder. `write_ps` and
    `read_ps` are the picoseconds of all writes and reads of tensors; `launches` holds all results. `choices` has what
    the program said by `chose`. `copies` has the tensors that were placed several times with equal content: those of
    `replicas`, and those with a sharding that copies. `needs_data` is False in a run for times alone, in which a
    program may leave out the values that its kernels do not look at (`write_unknown`).
    """

    def __init__(self, engine: Engine, root: Path | None = None, needs_data: bool = True) -> None:
        self.engine = engine
        self.needs_data = needs_data
        self.launches: list[LaunchResult] = []
        self._results: dict[int, LaunchResult] = {}
        self._ended: list[int] = []
        self._n_launches = 0
        self.choices: dict[str, str | int] = {}
        self.copies: list[Copies] = []
        self._root = root or Path.cwd()
        self._tensors = engine.shared_by_hosts(TensorMemory)
        self._memories = self._tensors.memories
        self._virtual = VirtualMemory(engine, self._tensors.mappings)
        self.write_ps = 0
        self.read_ps = 0

    @property
    def map_ps(self) -> int:
        """The picoseconds of all calls of `map`, `unmap` and `send`."""
        return self._virtual.elapsed_ps

    @property
    def num_pes(self) -> int:
        """The number of PEs of the chip."""
        return len(self.engine.pes)

    @property
    def num_slices(self) -> int:
        """The number of HBM slices of the chip."""
        return self._memories.count(MemorySpace.HBM)

    @property
    def interleaves_cubes(self) -> bool:
        """Whether the HBM slices of each cube are interleaved, so that a tensor may lie over those of one cube."""
        return self._memories.n_pools > 0

    @property
    def has_message_queues(self) -> bool:
        """Whether every PE has a message queue, so that its programs can send and receive."""
        return all(pe.queue is not None for pe in self.engine.pes.values())

    @property
    def pes_by_cube(self) -> list[list[list[int]]]:
        """The numbers of the PEs of each cube that has some: a list of cubes for each SIP, in the topology's order."""
        sips: dict[int, dict[int, list[int]]] = {}
        for number, (sip, cube) in enumerate(self._memories.places):
            sips.setdefault(sip, {}).setdefault(cube, []).append(number)
        return [list(cubes.values()) for cubes in sips.values()]

    @property
    def cache_nbytes(self) -> int:
        """The bytes of all caches in front of memories of the chip; 0 for a chip without one."""
        blocks = self.engine.components.values()
        return sum(block.cache_nbytes for block in blocks if isinstance(block, MemoryComponent))

    def hbm_slice_of(self, pe: int) -> int:
        """The number of the HBM slice near PE number *pe*, in the same cube.

        In a cube with fewer slices than PEs, neighbouring PEs share a slice. Raises KernelError for a missing PE, and
        OutOfMemoryError for a cube without HBM.
        """
        self._memories.check_pes("hbm_slice_of", [pe])
        return self._memories.near(MemorySpace.HBM, pe)

    @property
    def tcm_nbytes(self) -> int:
        """The bytes of TCM for the values of a kernel, beside the tile buffers, on the PE that has the least."""
        return min(pe.tcm.nbytes for pe in self.engine.pes.values())

    @property
    def register_nbytes(self) -> int:
        """The bytes of the register file of the PE that has the least."""
        return min(int(pe.register_nbytes) for pe in self.engine.pes.values())

    def fitted(self, values: Need, sums: Need | None = None, /, **sizes: tuple[int | None, int]) -> dict[str, int]:
        """Sizes of a kernel's blocks that fit the PEs of this chip, by name.

        An entry of *sizes* has the size that the user gave, or None, and the largest size to choose. *values* takes all
        sizes by name and returns the bytes that the kernel holds in TCM at once, which are at most 7/8 of `tcm_nbytes`,
        because free bytes lie in several pieces. *sums* returns the bytes of its sums of products, which are at most
        half of the register file, so that operands have the other half. Source: assumed, both shares. Each size to
        choose is halved until both fit, or until it is 1.

        The sizes that were chosen go to `choices`. Sizes that the user gave stay, so a kernel may still need more TCM
        than there is, and is then refused at the line that asks for it.
        """
        given = {name: size for name, (size, _) in sizes.items()}
        limits = [Limit(self.tcm_nbytes * 7 // 8, values)]
        if sums is not None:
            limits.insert(0, Limit(self.register_nbytes // 2, sums))
        found = fitted_sizes(limits, given, {name: most for name, (_, most) in sizes.items()})
        self.choices.update({name: found[name] for name, size in given.items() if size is None})
        return found

    def spread(self, shape: Sequence[int], dtype: DType | str) -> tuple[int, int]:
        """The blocks, down the rows and along the columns, in which a tensor lies evenly over all HBM slices.

        It is one block on a chip that interleaves its slices, where such a tensor lies over them anyway, and for a
        tensor of up to 4 KiB: each block of a load is a transfer of its own. Source: assumed. There is at most one
        block for each slice, for each row, and for 4 KiB; a tensor of one row is cut along its columns.
        """
        if self._memories.n_pools or self._memories.default_name is not None:
            return 1, 1
        rows, cols = sides_of(tuple(shape))
        count = max(1, min(self.num_slices, rows * cols * DType(dtype).nbytes // _LEAST_BLOCK_NBYTES))
        return (min(count, rows), 1) if rows > 1 else (1, min(count, cols))

    def chose(self, **facts: str | int) -> None:
        """Adds *facts* to `choices`: what the program chose on this chip, such as `operands="sharded", replicas=8`.

        A run records the choices, and its report shows them. A fact that is said again replaces the earlier one.
        Raises KernelError for a value that is neither an int nor a text of 1 to 200 characters that print, and for a
        call without facts.
        """
        needs = f"ints, and texts of 1 to {MOST_CHOICE_CHARACTERS} characters that print"
        if not facts:
            raise KernelError("host.chose", "no facts", 'one or more, such as operands="sharded"')
        for name, value in facts.items():
            if type(value) is not int and type(value) is not str:
                raise KernelError("host.chose", f"{describe(value)} for {name}", needs)
            if type(value) is str and not (0 < len(value) <= MOST_CHOICE_CHARACTERS and value.isprintable()):
                raise KernelError("host.chose", f"the text {value[:MOST_CHOICE_CHARACTERS]!r} for {name}", needs)
        self.choices.update(facts)

    def empty(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: DType | str,
        blocks: tuple[int, int] = (1, 1),
        slices: Sequence[int] | None = None,
        *,
        memory: str = "hbm",
        shard: Sharding | str | None = None,
        cube: int | None = None,
    ) -> Tensor:
        """Allocates a tensor of *shape*, of any rank, whose bytes are not written yet. All dimensions but the last are
        its rows.

        *memory* is `hbm`, `sram` or `tcm`, or a set of slices that the topology interleaves, where the tensor is flat.
        *blocks* is the number of blocks of the tensor, down the rows and along the columns; their sizes differ by at
        most one. *slices* names the memory of each block, row by row: the number of an HBM slice, an SRAM or a PE.
        Without *slices* the blocks are spread evenly over all memories. A block lies packed in its memory.

        *shard*, in place of *blocks* and *slices*, cuts or copies the tensor over the PEs. Each shard lies in the
        memory near its PE (`hbm_slice_of`). A kernel that uses a whole tensor with copies uses the copy of its PE.

        On a chip with `hbm_interleave_nbytes`, a tensor in HBM without *blocks*, *slices* and *shard* is flat: it lies
        in granules over all slices of the first SIP, or over those of cube number *cube*. `memory="sip1.hbm"` names the
        slices of another SIP of several cubes.

        Raises KernelError for impossible shapes, cuts and slices, such as more shards than rows, and OutOfMemoryError
        when a memory is full.
        """
        tensor = self._tensors.empty(name, shape, dtype, blocks, slices, memory, shard, cube)
        if tensor.copies:
            self._note_copies(tensor, 1 + len(tensor.copies))
        return tensor

    def tensor(
        self,
        name: str,
        data: npt.NDArray[Any],
        dtype: DType | str,
        blocks: tuple[int, int] = (1, 1),
        slices: Sequence[int] | None = None,
        *,
        memory: str = "hbm",
        shard: Sharding | str | None = None,
        cube: int | None = None,
    ) -> Tensor:
        """Allocates a tensor that holds a copy of *data*. `empty` describes the other arguments.

        Raises KernelError when the numpy dtype of *data* is not that of *dtype*, and the errors of `empty`. After an
        error, the memory is free again.
        """
        with self._tensors.freed_at_an_error() as made:
            made.append(self.empty(name, data.shape, dtype, blocks, slices, memory=memory, shard=shard, cube=cube))
            self.write(made[0], data)
        return made[0]

    def replicas(
        self,
        name: str,
        data: npt.NDArray[Any],
        dtype: DType | str,
        blocks: tuple[int, int] = (1, 1),
        slices: Sequence[Sequence[int]] = (),
        *,
        memory: str = "hbm",
    ) -> list[Tensor]:
        """Allocates tensors that hold the same *data*, one for each entry of *slices*, which names the memories of its
        blocks.

        On the chip, the result is the same as after as many calls of `tensor`. The simulator keeps one copy of *data*
        for all of the tensors; a write to one of them changes that tensor alone. Raises the errors of `tensor`, and
        KernelError without *slices*. After an error, no replica is left.
        """
        if not len(slices):
            raise KernelError(f"replicas of {name}", "no slices", "the memories of the blocks of each replica")
        kept: _Blocks = {}
        with self._tensors.freed_at_an_error() as made:
            for homes in slices:
                made.append(self.empty(name, data.shape, dtype, blocks, homes, memory=memory))
                self._place(made[-1], data, kept)
        if len(made) > 1:
            self._note_copies(made[0], len(made))
        return made

    def _note_copies(self, tensor: Tensor, count: int) -> None:
        self.copies.append(Copies(tensor.name, count, tensor.rows * tensor.cols * tensor.dtype.nbytes))

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors that hold memory of the chip, in the order in which they were allocated."""
        return list(self._tensors.live.values())

    def free(self, tensor: Tensor) -> None:
        """Frees the memory of *tensor*, after all calls of streams.

        Raises KernelError for a tensor that is freed or still mapped.
        """
        self.synchronize()
        self._tensors.check_live("free", tensor)
        if self._tensors.mappings.has(replace(tensor, virtual=())):
            raise KernelError(f"free of {tensor.name}", "a tensor at virtual addresses", "an unmapped one", "unmap it")
        self._tensors.free(tensor)

    def map(self, tensor: Tensor, virtual: int | None = None, pes: Sequence[int] | None = None) -> Tensor:
        """Maps *tensor* for the PEs numbered in *pes*, by default all PEs. Returns the tensor at virtual addresses.

        Kernels on these PEs may use the returned tensor from now on. The host may use both tensors. Each block takes
        whole pages, one block after the other from address *virtual* on, by default the first address that was never
        used.

        Raises AddressError when a page table refuses, because bytes are mapped already or fill no whole pages, and
        KernelError for a PE without MMU.
        """
        self._tensors.check_live("map", tensor)
        if tensor.virtual:
            raise KernelError(f"map of {tensor.name}", "a tensor at virtual addresses", "one at physical ones")
        ids = list(self.engine.pes)
        return self._virtual.map(tensor, virtual, [ids[number] for number in self._memories.check_pes("map", pes)])

    def unmap(self, tensor: Tensor) -> None:
        """Undoes the call of `map` that returned *tensor*. Raises KernelError for a tensor that is not mapped."""
        self._virtual.unmap(tensor)

    def send(self, message: MmuMessage) -> None:
        """Sends *message* to the MMUs of PEs, between launches. When one MMU refuses the message, none obeys.

        Raises AddressError for bytes that a page table refuses, and KernelError for a PE without MMU.
        """
        self._virtual.send([message])

    @overload
    def write(self, tensor: Tensor, data: npt.NDArray[Any], *, stream: None = None) -> None: ...
    @overload
    def write(self, tensor: Tensor, data: npt.NDArray[Any], *, stream: Stream) -> Pending[None]: ...
    def write(self, tensor: Tensor, data: npt.NDArray[Any], *, stream: Stream | None = None) -> Pending[None] | None:
        """Overwrites every copy of *tensor* with *data*. Raises KernelError when *data* has another shape or dtype.

        The simulator keeps *data* itself, and no copy, where nobody can change it: a read-only array, written at once.
        In a *stream*, the write begins after the calls of the stream before it, and all bytes change when it begins;
        *data* is copied at once.
        """
        return self._place(tensor, data, {}, stream)

    def _place(
        self, tensor: Tensor, data: npt.NDArray[Any], kept: _Blocks, stream: Stream | None = None
    ) -> Pending[None] | None:
        """Overwrites every copy of *tensor* with *data*. Equal blocks share one array, cached in *kept*."""
        if data.shape != tensor.shape or data.dtype != numpy_dtype(tensor.dtype):
            raise KernelError(
                f"write of {tensor.name}",
                f"{data.dtype} of shape {data.shape}",
                f"{tensor.dtype} of shape {tensor.shape}",
            )
        self._tensors.check_live("write", tensor)
        whole = data.reshape(tensor.rows, tensor.cols)
        written: list[tuple[Matrix, npt.NDArray[Any]]] = []
        for (rows, cols), matrix in tensor.every_block():
            bounds = rows.start, rows.stop, cols.start, cols.stop
            if bounds not in kept:
                block = whole[rows, cols]
                is_kept = stream is None and block.flags.c_contiguous and not block.flags.writeable
                kept[bounds] = block if is_kept else np.array(block, order="C", copy=True)
            written.append((matrix, kept[bounds]))
        if stream is not None:
            return self._moved(stream, HostCallKind.WRITE, [Piece(None, *each) for each in written])
        self.synchronize()
        for matrix, block in written:
            self.engine.memory.store.write_tensor(*split_address(matrix.address), block, copy=False)
            self.engine.memory.pending.clear(matrix)
        began = self.engine.clock.now_ps
        times = self.engine.move([matrix for matrix, _ in written], True)
        self.write_ps += self.engine.clock.now_ps - began
        if self.engine.initial_memory is not None:
            for (matrix, block), each in zip(written, times, strict=True):
                self.engine.log_host_write(matrix, block.tobytes(), each)
        return None

    def write_unknown(self, tensor: Tensor) -> None:
        """Writes *tensor* without its values, in the time of `write`: for runs that need times alone.

        The tensor takes none of this machine's memory. A kernel that looks at one of its values gets a KernelError, and
        pass 2 cannot compute from it.
        """
        self._tensors.check_live("write", tensor)
        self.synchronize()
        blocks = [matrix for _, matrix in tensor.every_block()]
        for matrix in blocks:
            self.engine.memory.pending.mark(matrix, Producer("the host's write", tensor.name))
        began = self.engine.clock.now_ps
        self.engine.move(blocks, True)
        self.write_ps += self.engine.clock.now_ps - began

    def warm(self, tensor: Tensor, written: bool = False) -> None:
        """Brings *tensor* into the caches in front of its memory, as an earlier kernel leaves a tensor that it read or,
        with *written*, wrote. Takes no time. Measurements repeat a kernel, so they find its tensors there.

        A chip without caches does nothing. Of more bytes than the caches hold, the last ones stay. Raises KernelError
        for a tensor that was freed.
        """
        self._tensors.check_live("warm", tensor)
        self.engine.warm([matrix for _, matrix in tensor.every_block()], written)

    @overload
    def launch(
        self,
        kernel: Kernel,
        *arguments: Any,
        pes: Sequence[int] | Literal["all"] | None = ...,
        targets: Sequence[CubeTarget] | None = ...,
        front_end: FrontEnd = ...,
        grid: int | Sequence[int] | None = ...,
        schedule: Schedule = ...,
        stream: None = None,
    ) -> LaunchResult: ...
    @overload
    def launch(
        self,
        kernel: Kernel,
        *arguments: Any,
        pes: Sequence[int] | Literal["all"] | None = ...,
        targets: Sequence[CubeTarget] | None = ...,
        front_end: FrontEnd = ...,
        grid: int | Sequence[int] | None = ...,
        schedule: Schedule = ...,
        stream: Stream,
    ) -> Pending[LaunchResult]: ...
    def launch(
        self,
        kernel: Kernel,
        *arguments: Any,
        pes: Sequence[int] | Literal["all"] | None = None,
        targets: Sequence[CubeTarget] | None = None,
        front_end: FrontEnd = Language,
        grid: int | Sequence[int] | None = None,
        schedule: Schedule = "dynamic",
        stream: Stream | None = None,
    ) -> LaunchResult | Pending[LaunchResult]:
        """Runs *kernel* as one program on each of several PEs, or as the programs of *grid*. Returns when all are done.

        *pes* holds numbers of PEs, or is `all`; *targets* names PEs by cube. Without both, the kernel runs on
        the PEs of `default_targets`.

        *grid* holds the number of programs along one to three axes, axis 0 the fastest. A PE takes its next program
        when the kernel has returned, although commands of the last program may be in flight. With *schedule* `dynamic`
        the programs go in order to the PE that is free first, the first in the order of the launch if there are
        several; with `static`, PE p of P has the programs p, p + P, and so on.

        Tensors, and lists and tuples of tensors, reach the kernel as references. The lists and tuples keep their type,
        so a namedtuple stays one. All other arguments reach the kernel unchanged: for a tensor in a dict or a
        dataclass, pass `tensor.ref`. *front_end* makes the first argument of the kernel from the program's port; by
        default, `tl`.

        In a *stream*, the call returns at once, and the launch begins after the calls of the stream before it. The
        kernel runs when its result, or that of a later call, is waited for, so the host leaves arguments such as dicts
        unchanged until then.

        Raises KernelError for missing targets, for lists that hold themselves and for a wrong *grid*, and the errors of
        `Engine.launch`.
        """
        if pes is not None and targets is not None:
            raise KernelError("launch", "pes and targets", "one of the two")
        programs = grid_of(grid, schedule)
        try:
            passed = [self._as_reference(argument) for argument in arguments]
        except RecursionError:
            got = "lists that are nested too deep, or that hold themselves"
            raise KernelError("launch", got, "arguments that end") from None
        ids = self._launch_ids(passed, pes, targets)
        if stream is not None:
            place = stream_of(stream, "launch", self._root).place(self.engine, "launch")
            number = self._n_launches
            self._n_launches += 1
            call = self.engine.launch_in(
                place, partial(self._launched, number), kernel, passed, ids, self._root, targets, front_end, programs
            )
            return Pending(call, self._wait_for, lambda: self._results[number])
        try:
            result = self.engine.launch(kernel, passed, ids, self._root, targets, front_end, programs)
        except UnwrittenLoadError as error:
            self._name_element(error)
            raise
        self.launches.append(result)  # all launches of streams have ended before
        self._ended.append(self._n_launches)
        self._n_launches += 1
        return result

    def _launched(self, number: int, result: LaunchResult) -> None:
        """Keeps the *result* of launch *number* in `launches`, by its number among those that have ended."""
        self._results[number] = result
        self.launches.insert(bisect_left(self._ended, number), result)
        insort(self._ended, number)

    def synchronize(self) -> None:
        """Waits until all calls of all streams have ended.

        Raises the errors of `launch` in any stream, and SimulationStuckError for an event that nobody records. Nothing
        more can be simulated then.
        """
        self._wait_for()

    def _wait_for(self, call: StreamCall | None = None) -> None:
        try:
            self.engine.wait_for(call)
        except UnwrittenLoadError as error:
            self._name_element(error)
            raise

    def _name_element(self, error: UnwrittenLoadError) -> None:
        error.name(self._tensors.element_with(*error.byte))

    def group(self, pes: Sequence[int] | None = None, of: Sequence[int] | None = None) -> Group:
        """The group of the PEs numbered in *pes*, by default all, for the collectives of `kb_engine.collectives`.

        Rank r of the group is the program on PE `pes[r]` of a launch with `pes=of`; *of* is by default *pes*. The group
        knows its order around the chip: cube by cube, along a closed way of neighbours where the mesh of cubes has one,
        and SIP by SIP. Raises KernelError for missing PEs, PEs that are not in *of*, and PEs without `pe_queue`.
        """
        memories = self._memories
        return group_of(self.engine, memories.places, memories.home, memories.check_pes("group", pes), of)

    def default_targets(self, arguments: Iterable[Any] = ()) -> list[CubeTarget]:
        """The PEs of a launch with *arguments* that names none: all PEs of the cubes whose memories hold a part of a
        tensor among them.

        A tensor without a place counts in all cubes of its SIP. Without tensors, the launch has all PEs of the chip.
        Tensors inside lists and tuples count too.
        """
        topology = self.engine.topology
        tensors = list(_tensors(arguments))
        owning = owning_cubes(topology, tensors)
        unplaced = list(filter(self._tensors.is_unplaced, tensors))
        sips = {each.sip for each in owning_cubes(topology, unplaced)} if unplaced else set()
        cubes = targets_of(topology.graph, self.engine.pes)
        return [each for each in cubes if each in owning or each.sip in sips] or list(cubes)

    def _launch_ids(
        self,
        arguments: Sequence[Any],
        pes: Sequence[int] | Literal["all"] | None,
        targets: Sequence[CubeTarget] | None,
    ) -> list[str]:
        graph = self.engine.topology.graph
        if targets is not None:
            return pes_of(graph, targets)
        if pes is None:
            return pes_of(graph, self.default_targets(arguments))
        ids = list(self.engine.pes)
        return ids if pes == "all" else [ids[number] for number in self._memories.check_pes("launch", pes)]

    @overload
    def read(self, tensor: Tensor, *, stream: None = None) -> npt.NDArray[Any] | DeferredRead: ...
    @overload
    def read(self, tensor: Tensor, *, stream: Stream) -> Pending[npt.NDArray[Any] | DeferredRead]: ...
    def read(
        self, tensor: Tensor, *, stream: Stream | None = None
    ) -> npt.NDArray[Any] | DeferredRead | Pending[npt.NDArray[Any] | DeferredRead]:
        """Reads *tensor* in its shape. Returns a DeferredRead when pass 2 computes some of the bytes.

        In a *stream*, the read begins after the calls of the stream before it, and gets the elements of that moment.

        Raises KernelError when the copies of a sharded tensor differ, and StoreError for bytes never written.
        """
        self._tensors.check_live("read", tensor)
        if stream is not None:
            return self._read_in(stream, tensor)
        self.synchronize()
        began = self.engine.clock.now_ps
        self.engine.move([matrix for _, matrix in tensor.every_block()], False)
        self.read_ps += self.engine.clock.now_ps - began
        return self._elements(tensor)

    def _as_reference(self, argument: Any) -> Any:
        if isinstance(argument, Tensor):
            self._tensors.check_live("launch", argument)
            return argument.ref
        if isinstance(argument, (list, tuple)):
            return rebuilt(argument, [self._as_reference(each) for each in argument])
        if isinstance(argument, TensorRef):
            self._tensors.check_live("launch", argument.tensor)
        elif type(argument) is dict:
            self._check_refs_in(argument)
        return argument

    def _check_refs_in(self, held: Mapping[Any, Any]) -> None:
        """Raises KernelError for a reference in *held*, at any depth, to a tensor that was freed.

        A dict reaches the kernel unchanged, so it may hold itself.
        """
        left: list[Any] = [held]
        seen: set[int] = set()
        while left:
            each = left.pop()
            if isinstance(each, TensorRef):
                self._tensors.check_live("launch", each.tensor)
            elif type(each) in (dict, list, tuple) and id(each) not in seen:
                seen.add(id(each))
                left += each.values() if type(each) is dict else each
