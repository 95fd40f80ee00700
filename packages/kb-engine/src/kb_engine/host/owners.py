"""The cubes that own the tensors of a launch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kb_engine.program.values.tensors import Tensor, TensorRef
from kb_messages import CubeTarget
from kb_topology import Topology


def owning_cubes(topology: Topology, arguments: Iterable[Any]) -> list[CubeTarget]:
    """The cubes whose memories hold a part of a tensor in *arguments*, in the topology's order.

    *arguments* are those of a kernel. Tensors inside lists and tuples count too.
    """
    owners = {matrix.owner for tensor in _tensors(arguments) for _, matrix in tensor.every_block()}
    nodes = topology.graph.nodes
    memories = topology.address_map
    found = {(nodes[each.node_id].sip, nodes[each.node_id].cube) for each in memories.regions if each.owner in owners}
    found |= {place for each in memories.interleaved.values() if each.owner in owners for place in each.cubes}
    cubes = [cube for cube in dict.fromkeys((node.sip, node.cube) for node in nodes.values()) if cube in found]
    return [CubeTarget(sip=sip, cube=cube) for sip, cube in cubes if sip is not None and cube is not None]


def _tensors(arguments: Iterable[Any]) -> Iterator[Tensor]:
    for argument in arguments:
        if isinstance(argument, TensorRef):
            yield argument.tensor
        elif isinstance(argument, (list, tuple)):
            yield from _tensors(argument)
