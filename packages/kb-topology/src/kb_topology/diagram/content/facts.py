"""Facts about a chip that a picture states in words: slow PEs, packets, multicast, memories over slices of HBM."""

from __future__ import annotations

from collections import defaultdict

from msgspec import UnsetType

from kb_messages import OFFSET_BITS
from kb_topology.chip.slow_pes import slow_text
from kb_topology.memory.address_map import AddressMap
from kb_topology.text.sizes import format_nbytes
from kb_topology.topology import Topology


def facts(topology: Topology) -> tuple[str, ...]:
    """A line for slow PEs, for packets, for multicast, for the HBM of all cubes, and for each memory with a name."""
    lines, packets, spec = [], topology.spec.packets, topology.spec
    interleaved = topology.address_map.interleaved.values()
    if topology.slow:
        lines.append(f"Slow PEs: {slow_text(topology.slow)}.")
    if not isinstance(packets, UnsetType):
        payload, header = format_nbytes(packets.payload_nbytes), format_nbytes(packets.header_nbytes)
        lines.append(f"Packets: up to {payload} of payload, and a header of {header}.")
    if not isinstance(spec.multicast, UnsetType):
        lines.append(f"Multicast: up to {spec.multicast.receivers} readers of the same bytes.")
    if spec.hbm_interleave_nbytes:
        lines.append(f"HBM: {format_nbytes(spec.hbm_interleave_nbytes)} in each slice of a cube, in turn.")
    of_sip = next((each for each in interleaved if not each.is_named and not each.is_of_cube), None)
    if of_sip is not None and topology.address_map.default_memory == of_sip.memory:
        granule = format_nbytes(of_sip.interleaving.granule_nbytes)
        lines.append(f"Tensors without a place: {granule} in each slice of a SIP, in turn.")
    named = {region.memory: region for region in interleaved if region.is_named}
    for name, region in named.items():
        slices = f"each of its {len(region.slices)} slices of HBM, in turn"
        lines.append(f"{name}: {format_nbytes(region.interleaving.granule_nbytes)} in {slices}.")
    return tuple(lines)


def memories_over(address_map: AddressMap) -> dict[str, list[str]]:
    """The names of the interleaved memories that lie over each slice of HBM, by the id of the slice."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for region in address_map.interleaved.values():
        for base in region.slices if region.is_named else ():
            names = found[address_map.by_owner[base >> OFFSET_BITS].node_id]
            if region.memory not in names:
                names.append(region.memory)
    return found
