"""The host's side: allocate tensors in the chip's memories, write them, launch kernels, read results.

Where the topology has a host, its calls take time on the fabric, one after the other; else they take none.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from kb_dataexec import MemoryStore, numpy_dtype
from kb_engine.engine.engine import Engine
from kb_engine.host.owners import owning_cubes
from kb_engine.host.sharding import Sharding
from kb_engine.host.tensor_memory import TensorMemory
from kb_engine.host.virtual_memory import VirtualMemory
from kb_engine.language.tl import Language
from kb_engine.launch.launch import LaunchResult
from kb_engine.launch.targets import pes_of
from kb_engine.memory.device_memory import read_matrix
from kb_engine.memory.pending import Producer
from kb_engine.program.port import FrontEnd
from kb_engine.program.runner import Kernel
from kb_engine.program.tensors import Tensor, TensorRef
from kb_messages import CubeTarget, DType, KernelError, Matrix, MemorySpace, MmuMessage, split_address


class DeferredRead:
    """A read of bytes that compute ops have yet to produce. `resolve(memory)` gives them after pass 2."""

    def __init__(self, tensor: Tensor, producer: Producer) -> None:
        self.tensor = tensor
        self._producer = producer

    def resolve(self, memory: MemoryStore) -> npt.NDArray[Any]:
        """The tensor, in its shape, from the memory that pass 2 left behind."""
        return read_tensor(memory, self.tensor)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        raise self._producer.error(f"a host read of {self.tensor.name}")


class Host:
    """The host's API. `launch` returns when the kernel is done; there is one memory for all launches.

    `write_ps` and `read_ps` are how long the host has waited for its writes and reads of tensors, `map_ps` for MMUs.
    """

    def __init__(self, engine: Engine, root: Path | None = None) -> None:
        self.engine = engine
        self.launches: list[LaunchResult] = []
        self._root = root or Path.cwd()
        self._tensors = TensorMemory(engine)
        self._virtual = VirtualMemory(engine)
        self.write_ps = 0
        self.read_ps = 0

    @property
    def map_ps(self) -> int:
        """Picoseconds that `map`, `unmap` and `send` have taken in all."""
        return self._virtual.elapsed_ps

    @property
    def num_pes(self) -> int:
        """PEs of the chip."""
        return len(self.engine.pes)

    @property
    def num_slices(self) -> int:
        """HBM slices of the chip."""
        return self._tensors.memories.count(MemorySpace.HBM)

    def hbm_slice_of(self, pe: int) -> int:
        """The number of the HBM slice that PE number *pe* has in its cube.

        Where a cube has fewer slices than PEs, these are spread evenly. Raises KernelError for a PE that is not there,
        and OutOfMemoryError when its cube has no HBM.
        """
        self._tensors.check_pes("hbm_slice_of", [pe])
        return self._tensors.memories.near(MemorySpace.HBM, pe)

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
    ) -> Tensor:
        """A tensor of one or two dimensions whose bytes are not written yet, in `hbm`, `sram` or `tcm`.

        It is cut into `blocks` (down the rows, along the columns) as even as can be. Each block, row by row of the
        cut, lies packed in the HBM slice, SRAM or PE's TCM that *slices* names; left out, the blocks are spread evenly.
        Or *shard* says how it is cut, or copied, over the PEs: each shard lies in the memory that its PE has in its
        cube (`hbm_slice_of`). Raises KernelError for a shape, a cut or slices that make no sense, more shards than rows
        or columns among them, and OutOfMemoryError when a memory is full.
        """
        return self._tensors.empty(name, shape, dtype, blocks, slices, memory, shard)

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
    ) -> Tensor:
        """A tensor that holds *data*, whose numpy type must be that of *dtype*; the host copies it once."""
        tensor = self.empty(name, data.shape, dtype, blocks, slices, memory=memory, shard=shard)
        self.write(tensor, data)
        return tensor

    def free(self, tensor: Tensor) -> None:
        """Give a tensor's memory back. Raises KernelError when it is freed already, or still mapped."""
        self._tensors.check_live("free", tensor)
        if self._virtual.is_mapped(replace(tensor, virtual=())):
            raise KernelError(f"free of {tensor.name}", "a tensor at virtual addresses", "an unmapped one", "unmap it")
        self._tensors.free(tensor)

    def map(self, tensor: Tensor, virtual: int | None = None, pes: Sequence[int] | None = None) -> Tensor:
        """*tensor* as kernels on *pes* (default: all) see it from now on, at virtual addresses from *virtual* on.

        Each of its blocks takes whole pages, one after the other; left out, *virtual* is the next address never used.
        The host may go on to use either. Raises AddressError for bytes that a page table refuses, since they are mapped
        already or in no whole pages, and KernelError for a PE without MMU.
        """
        self._tensors.check_live("map", tensor)
        if tensor.virtual:
            raise KernelError(f"map of {tensor.name}", "a tensor at virtual addresses", "one at physical ones")
        ids = list(self.engine.pes)
        return self._virtual.map(tensor, virtual, [ids[number] for number in self._tensors.check_pes("map", pes)])

    def unmap(self, tensor: Tensor) -> None:
        """Undo `map`, which returned *tensor*. Raises KernelError when it is not mapped."""
        self._virtual.unmap(tensor)

    def send(self, message: MmuMessage) -> None:
        """Have PEs' MMUs do as *message* says, between launches: all of them or, if one refuses, none.

        Raises AddressError for bytes that a page table refuses, and KernelError for a PE without MMU.
        """
        self._virtual.send(message)

    def write(self, tensor: Tensor, data: npt.NDArray[Any]) -> None:
        """Overwrite *tensor*, every copy of it. Raises KernelError when *data* has another shape or element type."""
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
            block = np.array(whole[rows, cols], order="C", copy=True)
            self.engine.memory.store.write_tensor(*split_address(matrix.address), block, copy=False)
            self.engine.memory.pending.clear(matrix)
            written.append((matrix, block))
        began = self.engine.clock.now_ps
        times = self._move(tensor, write=True)
        self.write_ps += self.engine.clock.now_ps - began
        if self.engine.initial_memory is not None:
            for (matrix, block), each in zip(written, times, strict=True):
                self.engine.log_host_write(matrix, block.tobytes(), each)

    def launch(
        self,
        kernel: Kernel,
        *arguments: Any,
        pes: Sequence[int] | Literal["all"] | None = None,
        targets: Sequence[CubeTarget] | None = None,
        front_end: FrontEnd = Language,
    ) -> LaunchResult:
        """Run *kernel* on the PEs numbered in *pes*, on `all`, or on those of *targets*, each as one program.

        Left out, on all PEs of the cubes whose memories hold a part of a tensor argument, and without such on all PEs.
        Tensors, and lists and tuples of them, arrive as references; everything else as it is. *front_end* makes the
        kernel's first argument, `tl` unless another is given, from the program's port. Raises KernelError for targets
        that are not there, and what Engine.launch raises.
        """
        if pes is not None and targets is not None:
            raise KernelError("launch", "pes and targets", "one of the two")
        passed = [self._as_reference(argument) for argument in arguments]
        ids = self._launch_ids(passed, pes, targets)
        result = self.engine.launch(kernel, passed, ids, self._root, targets, front_end)
        self.launches.append(result)
        return result

    def _launch_ids(
        self,
        arguments: Sequence[Any],
        pes: Sequence[int] | Literal["all"] | None,
        targets: Sequence[CubeTarget] | None,
    ) -> list[str]:
        graph = self.engine.topology.graph
        if targets is not None:
            return pes_of(graph, targets)
        ids = list(self.engine.pes)
        if pes is None:
            cubes = owning_cubes(self.engine.topology, arguments)
            return pes_of(graph, cubes) if cubes else ids
        return ids if pes == "all" else [ids[number] for number in self._tensors.check_pes("launch", pes)]

    def read(self, tensor: Tensor) -> npt.NDArray[Any] | DeferredRead:
        """The tensor's data, or a DeferredRead when a compute op makes some of it.

        Raises KernelError when copies of it differ.
        """
        self._tensors.check_live("read", tensor)
        began = self.engine.clock.now_ps
        self._move(tensor, write=False)
        self.read_ps += self.engine.clock.now_ps - began
        for _, matrix in tensor.every_block():
            producer = self.engine.memory.pending.producer(matrix)
            if producer is not None:
                return DeferredRead(tensor, producer)
        return read_tensor(self.engine.memory.store, tensor)

    def _move(self, tensor: Tensor, write: bool) -> list[tuple[int, int]]:
        """Write or read every block of *tensor*, in time; when each began and ended."""
        matrices, now = [matrix for _, matrix in tensor.every_block()], self.engine.clock.now_ps
        if self.engine.host_calls is None:
            return [(now, now)] * len(matrices)
        return self.engine.host_calls.move(matrices, write)

    def _as_reference(self, argument: Any) -> Any:
        if isinstance(argument, (list, tuple)):
            return type(argument)(map(self._as_reference, argument))
        if isinstance(argument, (Tensor, TensorRef)):
            self._tensors.check_live("launch", argument if isinstance(argument, Tensor) else argument.tensor)
        return argument.ref if isinstance(argument, Tensor) else argument


def read_tensor(memory: MemoryStore, tensor: Tensor) -> npt.NDArray[Any]:
    """A whole tensor, blocks put together.

    Raises StoreError where bytes were never written, and KernelError when the copies of a sharded tensor differ.
    """
    first = _read_copy(memory, tensor, 0)
    for copy in range(1, tensor.n_copies):
        other = _read_copy(memory, tensor, copy)
        differing = (first.view(np.uint8) != other.view(np.uint8)).reshape(first.size, -1).any(axis=1)
        if differing.any():
            at = tuple(map(int, np.unravel_index(int(differing.argmax()), first.shape)))
            raise KernelError(
                f"read of {tensor.name}",
                f"{first[at]} at {list(at)} of its first copy and {other[at]} of copy {copy}",
                "copies that agree",
                "have every owner write the same to its copy",
            )
    return first.reshape(tensor.shape)


def _read_copy(memory: MemoryStore, tensor: Tensor, copy: int) -> npt.NDArray[Any]:
    """One copy, `rows x cols`."""
    blocks = tensor.blocks(copy)
    if len(blocks) == 1:
        return read_matrix(memory, blocks[0][1])
    parts = [(where, read_matrix(memory, matrix)) for where, matrix in blocks]
    whole = np.empty((tensor.rows, tensor.cols), dtype=parts[0][1].dtype)
    for where, part in parts:
        whole[where] = part
    return whole
