"""Collectives as calls of the host: each launches one on the shards of a tensor.

Design: docs/design/messages.md
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from kb_engine.collectives import Group, check_algorithm
from kb_engine.host.collective_kernel import collective_kernel
from kb_engine.host.sharding import Sharding
from kb_engine.launch.launch import LaunchResult
from kb_engine.program.values.tensors import Tensor
from kb_messages import DType, KernelError


class LaunchingHost(Protocol):
    """The parts of a host that collectives need."""

    num_pes: int

    def group(self, pes: Sequence[int] | None = None, of: Sequence[int] | None = None) -> Group:
        """The group of PEs."""

    def empty(self, name: str, shape: tuple[int, ...], dtype: DType | str, *, shard: Sharding | str | None) -> Tensor:
        """Allocates a tensor."""

    def launch(self, kernel: Callable[..., None], *arguments: Any, pes: Sequence[int]) -> LaunchResult:
        """Runs a kernel."""


class CollectiveCalls:
    """Collectives over the shards of a tensor: shard r, of rows or a copy, belongs to rank r, on the PE `pes[r]`.

    *pes* are by default all PEs of the chip, in the order of the shards. All shards have one shape. The result is a new
    tensor near these PEs. *algorithm* and *op* are those of `kb_engine.collectives`. All calls raise KernelError for a
    tensor without a shard for each PE, and for shards that differ.
    """

    def all_reduce(
        self: LaunchingHost, x: Tensor, op: str = "sum", algorithm: str = "auto", pes: Sequence[int] | None = None
    ) -> Tensor:
        """Combines the shards of *x*. The result has the shape of a shard, and a copy for each PE."""
        owners, shape = _shards_of(self, x, "all_reduce", algorithm, pes)
        y = self.empty(f"{x.name}.all_reduce", shape, x.dtype, shard=_copies(owners))
        return _launch(self, "all_reduce", x, y, owners, {"op": op, "algorithm": algorithm})

    def reduce_scatter(
        self: LaunchingHost, x: Tensor, op: str = "sum", algorithm: str = "auto", pes: Sequence[int] | None = None
    ) -> Tensor:
        """Combines the shards of *x*. The result has the shape of a shard, and its rows are cut over the PEs.

        Raises KernelError unless the number of rows is a multiple of the number of PEs.
        """
        owners, shape = _shards_of(self, x, "reduce_scatter", algorithm, pes)
        if shape[0] % len(owners):
            got = f"reduce_scatter of shards of {shape[0]} rows"
            raise KernelError(f"tensor {x.name}", got, f"a multiple of {len(owners)} rows, for the PEs")
        y = self.empty(f"{x.name}.reduce_scatter", shape, x.dtype, shard=Sharding(owners=owners))
        return _launch(self, "reduce_scatter", x, y, owners, {"op": op, "algorithm": algorithm})

    def all_gather(self: LaunchingHost, x: Tensor, algorithm: str = "auto", pes: Sequence[int] | None = None) -> Tensor:
        """Puts the rows of all shards of *x* one below the other. The result has a copy for each PE."""
        owners, (rows, *rest) = _shards_of(self, x, "all_gather", algorithm, pes)
        y = self.empty(f"{x.name}.all_gather", (rows * len(owners), *rest), x.dtype, shard=_copies(owners))
        return _launch(self, "all_gather", x, y, owners, {"algorithm": algorithm})

    def broadcast(
        self: LaunchingHost, x: Tensor, root: int = 0, algorithm: str = "auto", pes: Sequence[int] | None = None
    ) -> Tensor:
        """Copies shard *root* of *x*. The result has the shape of a shard, and a copy for each PE."""
        owners, shape = _shards_of(self, x, "broadcast", algorithm, pes)
        y = self.empty(f"{x.name}.broadcast", shape, x.dtype, shard=_copies(owners))
        return _launch(self, "broadcast", x, y, owners, {"root": root, "algorithm": algorithm})

    def all_to_all(self: LaunchingHost, x: Tensor, algorithm: str = "auto", pes: Sequence[int] | None = None) -> Tensor:
        """Sends chunk r of each shard of *x* to rank r. The result has the shape of all shards, cut by rows."""
        owners, (rows, *rest) = _shards_of(self, x, "all_to_all", algorithm, pes)
        shape = (rows * len(owners), *rest)
        y = self.empty(f"{x.name}.all_to_all", shape, x.dtype, shard=Sharding(owners=owners))
        return _launch(self, "all_to_all", x, y, owners, {"algorithm": algorithm})


def _copies(owners: tuple[int, ...]) -> Sharding:
    return Sharding(sips="replica", cubes="replica", pes="replica", owners=owners)


def _shards_of(
    host: LaunchingHost, x: Tensor, call: str, algorithm: str, pes: Sequence[int] | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The PEs of the ranks, and the shape of each shard of *x*, a matrix."""
    owners = tuple(range(host.num_pes) if pes is None else pes)
    where = f"{call} of tensor {x.name}"
    check_algorithm(call, algorithm, where)
    if len(x.shards) != len(owners):
        got = f"{len(x.shards)} shards on {len(owners)} PEs"
        fix = "allocate it with shard='row' or 'replica', and name its owners as pes"
        raise KernelError(where, got, "a shard for each PE", fix)
    shapes = {x.ref.shard(number).shape for number in range(len(owners))}
    if len(shapes) > 1:
        listed = " and ".join(" x ".join(map(str, each)) for each in sorted(shapes))
        raise KernelError(where, f"shards of {listed}", "shards of one shape")
    return owners, shapes.pop()


def _launch(
    host: LaunchingHost, call: str, x: Tensor, y: Tensor, owners: tuple[int, ...], options: dict[str, Any]
) -> Tensor:
    """Launches *call* from *x* to *y*, and returns *y*."""
    host.launch(collective_kernel, host.group(owners), call, x, y, options, pes=owners)
    return y
