"""HBM with rows and banks: the time of a request depends on the addresses of its bytes and on earlier requests."""

from __future__ import annotations

from typing import Any, ClassVar

from kb_components.memory.hbm.access_pattern import runs_of
from kb_components.memory.hbm.address_bits import address_mapping
from kb_components.memory.hbm.pseudo_channel import PseudoChannel, RequestPart
from kb_components.memory.hbm.timing import HbmBankedSpec, RefreshClock, Timing
from kb_engine.block import Context, MemoryComponent, MemoryPart, Rate, exact, ps_from_ns
from kb_messages import OFFSET_MASK, CountedPieces, Rectangle, TopologyError

_MOST_PATTERNS = 1 << 12


def _total(count: str) -> Any:
    """A property of a memory: the sum of the attribute *count* of its pseudo-channels."""
    return property(lambda memory: sum(getattr(channel, count) for channel in memory.channels))


class HbmBanked(MemoryComponent[HbmBankedSpec]):
    """Pseudo-channels side by side. Each serves its part of a request in order, and the last burst ends the request.

    A service needs no event, because its length follows from the visits of the request to banks. `busy_ps` is the time
    in which data buses move bursts, averaged over the pseudo-channels.

    Source: timing rules of JEDEC JESD235 as DRAMsim3 and Ramulator 2 apply them; the order of service is assumed.
    """

    spec_type = HbmBankedSpec
    state = ("_bursts", "channels")
    caches = ("_known", "mapping")
    counters: ClassVar[tuple[str, ...]] = ("row_hits", "row_closed", "row_misses", "turnarounds", "refreshes")

    row_hits = _total("hits")
    """Bursts that found their row open."""
    row_closed = _total("closed")
    """Bursts that found their bank without an open row."""
    row_misses = _total("misses")
    """Bursts that found another row open in their bank."""
    turnarounds = _total("turnarounds")
    """Changes between reading and writing on the data buses of pseudo-channels."""
    refreshes = _total("refreshes")
    """Refreshes of all pseudo-channels, each counted up to its last command."""

    def __init__(self, spec: HbmBankedSpec, context: Context) -> None:
        super().__init__(spec, context)
        self.mapping = address_mapping(spec.mapping)
        self.mapping.check(self.node_id, spec.burst_nbytes, context.memory_nbytes)
        self._timing = timing = Timing(spec)
        if 0 < timing.refi <= timing.rfc:
            got = f"{timing.refi} cycles, of which refresh takes {timing.rfc}"
            raise TopologyError(f"{self.node_id}.trefi_ns", got, "time between refreshes", "raise trefi_ns")
        self._refresh = RefreshClock(timing.refi, timing.rfc)
        banks = self.mapping.n_banks, self.mapping.banks_per_group
        self.channels = [PseudoChannel(timing, self._refresh, *banks) for _ in range(self.mapping.n_channels)]
        self._cycle = Rate(1_000_000 / exact(spec.clock_mhz))
        self._latency_ps = ps_from_ns(spec.latency_ns)
        self._bursts = 0
        self._known: dict[tuple[int, int, int, int], list[RequestPart]] = {}

    @property
    def burst_nbytes(self) -> int:
        """The bytes of a burst, from the Spec."""
        return self.spec.burst_nbytes

    @property
    def parts(self) -> tuple[MemoryPart, ...]:
        """The pseudo-channels, with the bytes of whole bursts, at the rate of their data buses."""
        burst = self.spec.burst_nbytes
        ps_each = self._cycle.ps_each * self.spec.tccd_s_cycles / burst
        bursts = [(each.hits + each.closed + each.misses, each.written) for each in self.channels]
        return tuple(MemoryPart("", (n - written) * burst, written * burst, ps_each) for n, written in bursts)

    @property
    def sends_in_order(self) -> bool:
        """Whether reads leave one after the other.

        With several pseudo-channels they do not: data of one leave while another waits for its rows.
        """
        return len(self.channels) == 1

    def idle_ps(self, memory: Rectangle, write: bool) -> tuple[int, int]:
        """Returns (latency with the opening of a row, time of the bytes at the bandwidth of all data buses) of a
        request.

        More rows to open, banks that collide and refreshes make a request longer.
        """
        spec = self.spec
        column = spec.wl_cycles if write else spec.rl_cycles
        latency_ps = self._cycle.ps(self._timing.rcd + column) + self._latency_ps
        return latency_ps, Rate.from_gbs(spec.bw_gbs).ps(memory.nbytes)

    def reserve(self, t_ps: int, memory: Rectangle, last_byte_ps: int, write: bool) -> tuple[int, int]:
        """Every pseudo-channel that *memory* touches serves the bursts of its part in the order of their addresses.

        Pieces are served in their order.
        """
        nbytes = memory.rows * memory.row_nbytes
        if write:
            self.written_nbytes += nbytes
        else:
            self.read_nbytes += nbytes
        if not nbytes:
            return t_ps + self._latency_ps, max(t_ps, last_byte_ps) + self._latency_ps
        pieces = memory.pieces if isinstance(memory, CountedPieces) else (memory,)
        arrival = self._refresh.active(self._cycle_at(t_ps))
        last_byte = arrival if last_byte_ps <= t_ps else self._refresh.active(self._cycle_at(last_byte_ps))
        commands = []
        for piece in pieces:
            row, parts = self._parts(piece.base & OFFSET_MASK, piece.rows, piece.row_nbytes, piece.stride)
            least = last_byte if piece is pieces[-1] else arrival
            commands += [self.channels[part.channel].serve(arrival, part, row, least, write) for part in parts]
            self._bursts += sum(part.n_bursts for part in parts)
        self.busy_ps = self._cycle.ps(-(-self._bursts * self.spec.tccd_s_cycles // len(self.channels)))
        first = min(command for command, _ in commands)
        last = max(command for _, command in commands)
        return self._data_ps(first, last, write)

    def _data_ps(self, first: int, last: int, write: bool) -> tuple[int, int]:
        """The times at which the data of column commands *first* and *last* are out (read).

        For a write, both are the time at which all data are written.
        """
        wall, spec = self._refresh.wall, self.spec
        if write:
            committed = self._cycle.ps(wall(last) + spec.wl_cycles + spec.tccd_s_cycles) + self._latency_ps
            return committed, committed
        first_byte = self._cycle.ps(wall(first) + spec.rl_cycles) + self._latency_ps
        last_byte = self._cycle.ps(wall(last) + spec.rl_cycles + spec.tccd_s_cycles) + self._latency_ps
        return first_byte, last_byte

    def _cycle_at(self, t_ps: int) -> int:
        """The first cycle that begins at or after *t_ps*."""
        each = self._cycle.ps_each
        return -(-t_ps * each.denominator // each.numerator)

    def _parts(self, offset: int, rows: int, row_nbytes: int, stride: int) -> tuple[int, list[RequestPart]]:
        """The row from which the rows of parts count, and the part of each pseudo-channel.

        Rectangles that are whole rows of the memory apart have the same parts, unless one crosses the end of the rows.
        """
        mapping, burst = self.mapping, self.spec.burst_nbytes
        period, top = mapping.below_row * burst, mapping.below_top * burst
        end = offset + (rows - 1) * stride + row_nbytes - 1
        row = offset % top // period if offset // top == end // top else 0
        key = offset - row * period, rows, row_nbytes, stride
        parts = self._known.get(key)
        if parts is None:
            if len(self._known) >= _MOST_PATTERNS:
                self._known.clear()
            parts = [RequestPart(*each) for each in runs_of(mapping, self._timing, burst, key)]
            self._known[key] = parts
        return row, parts
