"""A PE_TCM of another make: two banks, one that is read and one that is written, without a port to wait for."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from kb_engine.block import Context, Gate, Scratchpad, ps_from_ns
from kb_messages import Rectangle, StageType


class AcmeTcmSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line of `line_nbytes` moves in `line_ns`. The size is the node's `memory`."""

    line_nbytes: Annotated[int, Meta(ge=1)]
    line_ns: Annotated[float, Meta(gt=0)]


class AcmeTcm(Scratchpad[AcmeTcmSpec]):
    """FETCH and STORE never wait for each other. Transfers of DMAs do: reads for reads, and writes for writes."""

    spec_type = AcmeTcmSpec
    state = ("free_ps",)

    def __init__(self, spec: AcmeTcmSpec, context: Context) -> None:
        super().__init__(spec, context)
        self.free_ps = [0, 0]

    def access_gates(self, stage_type: StageType) -> tuple[Gate, ...]:
        """None."""
        return ()

    def access_ps(self, nbytes: int) -> int:
        """`line_ns` for each line that has begun. Source: assumed."""
        return -(-nbytes // self.spec.line_nbytes) * ps_from_ns(self.spec.line_ns)

    def reserve(self, t_ps: int, memory: Rectangle, last_byte_ps: int, write: bool) -> tuple[int, int]:
        """Line after line, as soon as the requests before are through."""
        nbytes = memory.rows * memory.row_nbytes
        start = max(t_ps, self.free_ps[write])
        busy = self.access_ps(nbytes)
        self.free_ps[write] = start + busy
        end = max(start + busy, last_byte_ps)
        self.busy_ps += busy
        if write:
            self.written_nbytes += nbytes
            return end, end
        self.read_nbytes += nbytes
        return start, end
