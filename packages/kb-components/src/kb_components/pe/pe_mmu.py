"""PE_MMU: translates the PE's virtual addresses, a page at a time, with a TLB of the pages that were used last."""

from __future__ import annotations

from collections import OrderedDict
from typing import Annotated

from msgspec import Meta, Struct

from kb_components.cost_fields import time_ns
from kb_engine.block import KIB, AddressTranslator, Context, ps_from_ns
from kb_messages import Rectangle


class PeMmuSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Pages of `page_kib`, and a TLB that holds `tlb_entries` of them and is looked up in `hit_ns`.

    A page that is not in the TLB adds a walk: `levels` accesses to page tables, one after the other, of `level_ns`
    each. Source: assumed, unless the topology states them.
    """

    page_kib: Annotated[int, Meta(ge=1)] = 4
    tlb_entries: Annotated[int, Meta(ge=1)]
    hit_ns: Annotated[float, time_ns(("pe_dma: setup", "pe_dma: service"), "hit time")] = 0.0
    levels: Annotated[int, Meta(ge=1)]
    level_ns: Annotated[float, time_ns(("pe_dma: setup", "pe_dma: service"), "walk time")]


class PeMmu(AddressTranslator[PeMmuSpec]):
    """One TLB for reads and writes, which replaces the page that was not used for the longest time.

    `tlb_hits` and `tlb_misses` count lookups. Lookups of reads and of writes do not wait for each other, and a walk
    takes no bandwidth. Source: assumed.
    """

    spec_type = PeMmuSpec
    state = ("_tlb", "tlb_hits", "tlb_misses")
    counters = ("tlb_hits", "tlb_misses")

    def __init__(self, spec: PeMmuSpec, context: Context) -> None:
        super().__init__(spec, context)
        self._hit_ps = ps_from_ns(spec.hit_ns)
        self._walk_ps = spec.levels * ps_from_ns(spec.level_ns)
        self._tlb: OrderedDict[int, None] = OrderedDict()
        self.tlb_hits = 0
        self.tlb_misses = 0

    @property
    def page_nbytes(self) -> int:
        """Bytes of a page, from `page_kib`."""
        return self.spec.page_kib * KIB

    def lookup_ps(self, memory: Rectangle) -> int:
        """The time of the lookups of all pages of *memory*, in order of their addresses.

        Each page takes `hit_ns`, and a page that is not in the TLB adds a walk.
        """
        total_ps = following = 0
        for row in range(memory.rows):
            start = memory.base + row * memory.stride
            end = (start + memory.row_nbytes - 1) // self.page_nbytes + 1
            for page in range(max(start // self.page_nbytes, following), end):
                total_ps += self._look_up(page)
            following = end
        return total_ps

    def forget(self, virtual: int, nbytes: int) -> None:
        """Removes the pages of the range from the TLB."""
        first, end = virtual // self.page_nbytes, (virtual + nbytes) // self.page_nbytes
        for page in [each for each in self._tlb if first <= each < end]:
            del self._tlb[page]

    def _look_up(self, page: int) -> int:
        if page in self._tlb:
            self._tlb.move_to_end(page)
            self.tlb_hits += 1
            return self._hit_ps
        self.tlb_misses += 1
        self._tlb[page] = None
        if len(self._tlb) > self.spec.tlb_entries:
            self._tlb.popitem(last=False)
        return self._hit_ps + self._walk_ps
