"""Messages from the host to the chip, and the answers: kernel launches and the mapping of virtual pages.

These messages carry no data: their `data_op` is False, and the op log has no records of them.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct


class CubeTarget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """PEs of one cube: their numbers in the cube, or `all` PEs of its `pe_layout`."""

    sip: int
    cube: int
    pes: tuple[int, ...] | Literal["all"] = "all"


class KernelLaunch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="kernel_launch"):
    """Starts kernel number `launch` on the `targets`. All start at `target_start_ps`, which IO_CPU fills in.

    Launches of one `stream` run one after the other; a launch without one is the only launch under way.
    """

    data_op: ClassVar[bool] = False
    launch: int
    targets: tuple[CubeTarget, ...]
    target_start_ps: int | None = None
    stream: int | None = None


class MmuMap(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="mmu_map"):
    """Maps the `nbytes` bytes at `virtual` to the bytes at `physical`, for each of the PEs `pes` (their ids).

    All three numbers are multiples of the page size. For one PE, a virtual address has one physical address, and a
    physical address has one virtual address.
    """

    data_op: ClassVar[bool] = False
    virtual: int
    physical: int
    nbytes: int
    pes: tuple[str, ...]


class MmuUnmap(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="mmu_unmap"):
    """Ends the mapping of the `nbytes` bytes from `virtual` on for the PEs `pes`. All of these bytes must be mapped."""

    data_op: ClassVar[bool] = False
    virtual: int
    nbytes: int
    pes: tuple[str, ...]


MmuMessage = MmuMap | MmuUnmap
HostMessage = KernelLaunch | MmuMessage


class Request(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="request"):
    """A message to be answered. `number` counts the requests of the node `sender`."""

    data_op: ClassVar[bool] = False
    sender: str
    number: int
    message: HostMessage


class Refusal(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reason why a receiver refuses a message: the parts of a KbError."""

    where: str
    got: str
    needs: str
    fix: str = ""


class Response(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="response"):
    """The answer to request `number` of its sender: all targets are done, or else the first `refusal`."""

    data_op: ClassVar[bool] = False
    number: int
    refusal: Refusal | None = None
