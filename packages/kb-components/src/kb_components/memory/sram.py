"""SRAM: a shared memory of a cube behind the NOC, with one port for all accesses, or one each for reads and writes."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from kb_components.cost_fields import bandwidth_gbs, time_ns
from kb_engine.block import DEADLINE, Context, MemoryPart, Rate, SingleChannelMemory, State, ps_from_ns
from kb_messages import Rectangle


class SramSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bandwidth of a port (GB/s) and access latency (ns).

    `ports`: reads and writes take turns at one port (`shared`), or each have a port (`separate`). `burst_nbytes`: a
    write that other requests interrupt is served in whole bursts. Source: assumed.
    """

    bw_gbs: Annotated[
        float, bandwidth_gbs(("sram: bytes", "sram: busy with others", "sram: service", "pe_dma: service"))
    ]
    latency_ns: Annotated[float, time_ns(("sram: latency", "sram: service", "pe_dma: service"))]
    burst_nbytes: Annotated[int, Meta(ge=1)] = 64
    ports: Literal["shared", "separate"] = "shared"


class Sram(SingleChannelMemory[SramSpec]):
    """Each port serves requests in order of arrival. The latency of a request overlaps the bytes of the one before.

    Source: assumed (banks and bank conflicts are not modelled).
    """

    spec_type = SramSpec
    free_times = ("free_ps", "_write_free_ps")
    state: ClassVar[State] = {"_write_free_ps": DEADLINE}

    def __init__(self, spec: SramSpec, context: Context) -> None:
        super().__init__(spec, context)
        self._rate = Rate.from_gbs(spec.bw_gbs)
        self._latency_ps = ps_from_ns(spec.latency_ns)
        self._write_free_ps = 0

    @property
    def burst_nbytes(self) -> int:
        """The bytes of a burst, from the Spec."""
        return self.spec.burst_nbytes

    def latency_ps(self, nbytes: int, write: bool) -> int:
        """The same latency for reads and writes of any size."""
        return self._latency_ps

    def occupancy_ps(self, nbytes: int, write: bool) -> int:
        """Picoseconds that *nbytes* hold a port: bytes divided by the bandwidth of the port."""
        return self._rate.ps(nbytes)

    @property
    def parts(self) -> tuple[MemoryPart, ...]:
        """The shared port, or the port for reads and the port for writes."""
        if not self.has_write_port:
            return super().parts
        each = self._rate.ps_each
        return MemoryPart("", self.read_nbytes, 0, each), MemoryPart("", 0, self.written_nbytes, each)

    @property
    def has_write_port(self) -> bool:
        """Whether writes have a port of their own."""
        return self.spec.ports == "separate"

    def held_ps(self, memory: Rectangle, write: bool) -> tuple[int, int] | None:
        """The times from which and to which the request's bytes hold the shared port, or the port of the direction."""
        if not (write and self.has_write_port):
            return super().held_ps(memory, write)
        return self._write_free_ps - self.occupancy_ps(memory.nbytes, write), self._write_free_ps

    def read_latency_ps(self, nbytes: int) -> int | None:
        """The latency of a read, which is the same for any size and on either port."""
        return self._latency_ps

    def reserve(self, t_ps: int, memory: Rectangle, last_byte_ps: int, write: bool) -> tuple[int, int]:
        """Reserves the shared port, or the port of the direction, for a request.

        Requests are served in order of arrival.
        """
        if not write or self.spec.ports == "shared":
            return super().reserve(t_ps, memory, last_byte_ps, write)
        read_free_ps, self.free_ps = self.free_ps, self._write_free_ps
        served = super().reserve(t_ps, memory, last_byte_ps, write)
        self._write_free_ps, self.free_ps = self.free_ps, read_free_ps
        return served
