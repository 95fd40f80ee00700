"""What the host tells the chip, and what that answers: kernel launches, and which virtual pages are which physical."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class CubeTarget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """PEs of one cube: `pes` are their numbers in it, or `all` of its `pe_layout`."""

    sip: int
    cube: int
    pes: tuple[int, ...] | Literal["all"] = "all"


class KernelLaunch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="kernel_launch"):
    """Start kernel number `launch` on the `targets`, all of them at `target_start_ps` once that is stamped."""

    launch: int
    targets: tuple[CubeTarget, ...]
    target_start_ps: int | None = None


class MmuMap(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="mmu_map"):
    """From now on `nbytes` bytes from `virtual` on are those from `physical` on, for each of the PEs `pes` (their ids).

    All three numbers are multiples of the page size. No byte has two virtual addresses for one PE, nor two physical.
    """

    virtual: int
    physical: int
    nbytes: int
    pes: tuple[str, ...]


class MmuUnmap(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="mmu_unmap"):
    """From now on the `nbytes` bytes from `virtual` on, all of them mapped until now, are nothing for the PEs `pes`."""

    virtual: int
    nbytes: int
    pes: tuple[str, ...]


MmuMessage = MmuMap | MmuUnmap
HostMessage = KernelLaunch | MmuMessage


class Request(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="request"):
    """A message on its way, the `number`th that node `sender` has sent and wants an answer to."""

    sender: str
    number: int
    message: HostMessage


class Refusal(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a message was not obeyed: the parts of a KbError."""

    where: str
    got: str
    needs: str
    fix: str = ""


class Response(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="response"):
    """The answer to the sender's request `number`: all targets have done as told, or the first `refusal` of one."""

    number: int
    refusal: Refusal | None = None
