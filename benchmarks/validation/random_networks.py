"""Random chips whose networks have packets, ports, buffers of a size and interleaved memories, drawn by a seed."""

from __future__ import annotations

import copy
import random
from typing import Any

from random_chips import ChipCase


def with_network(case: ChipCase, buffers: bool = True) -> ChipCase:
    """*case* on a chip with some of packets, ports of DMAs, and a memory over all slices of HBM.

    With *buffers*, some chips have buffers of a size too. Nothing else of *case* changes, so that its other draws stay.
    """
    rng = random.Random(f"{case.seed} network")
    spec = copy.deepcopy(case.spec)
    nodes, dma = spec["cube"]["nodes"], spec["cube"]["pe_template"]["nodes"]["pe_dma"]
    has_buffers = buffers and rng.random() < 0.4
    if has_buffers or rng.random() < 0.6:
        spec["packets"] = {"payload_nbytes": rng.choice((32, 100, 256)), "header_nbytes": rng.choice((0, 8, 32))}
    if has_buffers:
        for name in ("xbar", "noc"):
            if name in nodes and rng.random() < 0.8:
                nodes[name] |= _buffers(rng, spec["packets"])
    if rng.random() < 0.5:
        dma |= {"port_nbytes": rng.choice((16, 32, 128)), "port_clock_ghz": rng.choice((0.5, 1, 1.7))}
    if nodes["hbm"]["count"] > 1 and rng.random() < 0.7:
        granule_nbytes = rng.choice((64, 256, 4096))
        spec["interleaved"] = {"both": {"slices": "sip[0].cube[0].hbm[*]", "granule_nbytes": granule_nbytes}}
    return case._replace(spec=spec)


def _buffers(rng: random.Random, packets: dict[str, int]) -> dict[str, Any]:
    """The attributes of a node with buffers for one to eight packets."""
    nbytes = int(rng.choice((1, 1.5, 2, 8)) * sum(packets.values()))
    return {"impl": "builtin.transit_credits", "buffer_nbytes": nbytes, "credit_ns": rng.choice((0, 1, 7.5))}
