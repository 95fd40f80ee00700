"""Where two runs of the same kernels first serve in another order, read from their op logs.

An improved part of a chip can make a run slower where a block or a memory serves two things the other way round.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kb_dataexec import OpLog
from kb_messages import MemorySpace, OpKind, OpRecord
from kb_topology import Topology

Service = tuple[str, int, int, int]
"""(PE, number of the command within the PE, tile, stage of the tile): the name of a service in both runs."""
TRANSFERS = ("dma_read", "dma_write")
Order = list[tuple[Service, OpRecord]]


class Swap(NamedTuple):
    """The first difference in the order of services of *place*: at *t_ps* the first run served *before*, the second
    run *after*."""

    t_ps: int
    place: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.place} at {self.t_ps} ps: {self.before}; now {self.after}"


def first_swap(before: OpLog, after: OpLog, topology: Topology) -> Swap | None:
    """The swap with the earliest time in *before*; None where every place of *topology* serves in the same order.

    A place is a channel of a DMA, the port of a TCM, a compute slot, or a memory outside the PEs. Services of a memory
    are ordered by their ends, services of other places by their starts. Raises ValueError where the runs hold different
    services, as with tiles of another size.
    """
    first, second = list(_services(before)), list(_services(after))
    if sorted(service for service, _ in first) != sorted(service for service, _ in second):
        raise ValueError("the runs hold different services")
    orders, others = _orders(first, topology), _orders(second, topology)
    swaps = [swap for place, order in orders.items() if (swap := _compare(place, order, others[place])) is not None]
    return min(swaps, default=None)


def first_longer(before: OpLog, after: OpLog) -> str:
    """The first service of *after* that takes longer than in *before*, and the transfers that newly overlap it.

    Transfers that overlap may share links. Raises ValueError where the runs hold different services.
    """
    first, second = dict(_services(before)), dict(_services(after))
    if first.keys() != second.keys():
        raise ValueError("the runs hold different services")
    longer = [each for each in first if _took_ps(second[each]) > _took_ps(first[each])]
    if not longer:
        return "no service takes longer, but some wait longer"
    service = min(longer, key=lambda each: (second[each].t_start_ps, each))
    overlaps = (_overlapping(service, run) for run in (first, second))
    was, now = (sorted(each) for each in overlaps)
    new = "; ".join(_said(each, second[each]) for each in now if each not in was) or "no other transfer"
    took = f"{_took_ps(first[service])} ps before, {_took_ps(second[service])} ps now"
    return f"{_said(service, second[service])} takes {took}; newly beside it: {new}"


def _took_ps(record: OpRecord) -> int:
    return record.t_end_ps - record.t_start_ps


def _overlapping(service: Service, run: dict[Service, OpRecord]) -> list[Service]:
    """The other transfers during *service*."""
    record = run[service]
    return [
        each
        for each, other in run.items()
        if each != service
        and other.name in TRANSFERS
        and other.t_start_ps < record.t_end_ps
        and record.t_start_ps < other.t_end_ps
    ]


def _compare(place: str, order: Order, other: Order) -> Swap | None:
    for (service, record), (instead, later) in zip(order, other, strict=True):
        if service != instead:
            return Swap(record.t_start_ps, place, _said(service, record), _said(instead, later))
    return None


def _said(service: Service, record: OpRecord) -> str:
    pe, command, tile, _ = service
    return f"{record.name} of {pe}, command {command}, tile {tile}"


def _services(log: OpLog) -> Iterator[tuple[Service, OpRecord]]:
    """Each record with its name. Commands of a PE count in the order in which the PE issued them."""
    numbers: dict[str, dict[int, int]] = {}
    for record in sorted(log.records(), key=lambda each: each.command_seq):
        pe = record.component.rpartition(".")[0]
        commands = numbers.setdefault(pe, {})
        number = commands.setdefault(record.command_seq, len(commands))
        yield (pe, number, record.tile_id, record.stage_index), record


def _orders(services: Order, topology: Topology) -> dict[str, Order]:
    """The services of each place, in order. Services at equal times are ordered by their names."""
    places: dict[str, Order] = {}
    for each in services:
        for place in _places(each[1], topology):
            places.setdefault(place, []).append(each)
    for place, order in places.items():
        ends = place in topology.graph.nodes
        order.sort(key=lambda each: (each[1].t_end_ps if ends else each[1].t_start_ps, each[1].t_end_ps, each[0]))
    return places


def _places(record: OpRecord, topology: Topology) -> list[str]:
    pe = record.component.rpartition(".")[0]
    if record.kind in (OpKind.GEMM, OpKind.MATH):
        spec = topology.graph.nodes[f"{pe}.pe_scheduler"].attrs
        shared = spec.get("compute_slots", "shared") == "shared"
        return [f"the compute slot of {pe}" if shared else record.component]
    outside = {each.owner for each in record.operands if each.space in (MemorySpace.HBM, MemorySpace.SRAM)}
    if not outside:
        return [f"the TCM port of {pe}"]
    return [f"the {record.name} channel of {pe}", *sorted(_memory(owner, topology) for owner in outside)]


def _memory(owner: int, topology: Topology) -> str:
    return next(region.node_id for region in topology.address_map.regions if region.owner == owner)
