"""GPUs behind a switch, made from the chip of one GPU, and an all-reduce over them by `kb_engine.collectives`."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import measured
import yaml

from kb_engine import Engine, Host, Language
from kb_engine.collectives import all_reduce
from kb_topology import Topology, loads_topology

NOC: Final = {"a100": "l2_fabric", "h100": "dsmem"}
"""The node over which the PEs of a chip send messages."""
SWITCH_NS: Final = 100.0
"""Nanoseconds in the port of a GPU, and in the switch. Source: assumed."""
MOST_NBYTES: Final = 8 * 2**20
"""The most bytes of an all-reduce that are simulated."""
CHANNELS: Final = 64
"""The most rings of one all-reduce, each of one PE of every GPU. Source: measured; a GPU of 24 rings, as libraries have
them, adds up 160 GB/s at most, because its values lie in TCM and not in registers."""
BYTES_OF_A_CHANNEL: Final = 8192
"""The bytes for which there is one more ring. Source: assumed; libraries take fewer rings for few bytes, too."""


@cache
def gpus(device: str, count: int, gbs: float) -> Topology:
    """*count* chips *device*, each with *gbs* GB/s to a switch and as many back.

    HBM has no cache here, because tensors of an all-reduce pass through once, and its latency is that of a miss.
    """
    path = measured.TOPOLOGIES / f"{device}.yaml"
    chip = yaml.safe_load(path.read_text(encoding="utf-8"))
    chip.pop("fidelity", None)
    cube, noc = chip["cube"], NOC[device]
    hbm = cube["nodes"]["hbm"]
    latency_ns = hbm["latency_ns"] + hbm["cache_latency_ns"]
    kept = {name: hbm[name] for name in ("kind", "memory", "bw_gbs")}
    cube["nodes"]["hbm"] = {**kept, "impl": "builtin.hbm_fixed", "latency_ns": latency_ns}
    node = {"kind": "switch", "impl": "builtin.transit", "overhead_ns": SWITCH_NS}
    cube["nodes"]["nvlink"] = node
    cube["links"].append({"from": "nvlink", "to": noc, "bw_gbs": gbs, "length_mm": 0})
    link = {"from": "sip[*].cube[0].nvlink", "to": "nvswitch", "bw_gbs": gbs, "length_mm": 0}
    chip |= {"sips": count, "system": {"nodes": {"nvswitch": {**node}}, "links": [link]}}
    return loads_topology(yaml.safe_dump(chip), f"{count} x {device}")


def kernel(tl: Language, tensors: Any, groups: Any, cuts: list[slice], algorithm: str) -> None:
    """A program reduces the part of its channel: the first tensors of a GPU are added up into its second ones."""
    gpu, channel = divmod(tl.program_id(), len(cuts))
    x, y = tensors[gpu]
    all_reduce(tl, groups[channel], x[cuts[channel]], out=y[cuts[channel]], algorithm=algorithm)


def long_all_reduce_us(device: str, count: int, gbs: float, nbytes: int) -> float:
    """The microseconds of an all-reduce on `gpus`, of which at most `MOST_NBYTES` are simulated.

    Rings repeat the same rounds, so each further byte takes as long as those between half of these bytes and all. From
    4 and 8 MiB of 24 rings, 16 MiB of two A100 follow within 1 %.
    """
    if nbytes <= MOST_NBYTES:
        return _found_us(device, count, gbs, nbytes)
    half, whole = (_found_us(device, count, gbs, each) for each in (MOST_NBYTES // 2, MOST_NBYTES))
    return whole + (nbytes - MOST_NBYTES) * (whole - half) / (MOST_NBYTES // 2)


@cache
def _found_us(device: str, count: int, gbs: float, nbytes: int) -> float:
    return all_reduce_us(gpus(device, count, gbs), nbytes, "ring" if nbytes >= MOST_NBYTES // 2 else "auto")


def all_reduce_us(topology: Topology, nbytes: int, algorithm: str) -> float:
    """The microseconds of an all-reduce of *nbytes* of f16 of each GPU of *topology*, without data and start-up."""
    host, n = Host(Engine(topology, None)), nbytes // 2
    by_gpu = [pes for cubes in host.pes_by_cube for pes in cubes]
    channels = min(CHANNELS, max(1, nbytes // BYTES_OF_A_CHANNEL))
    tensors = []
    for gpu in range(len(by_gpu)):
        pair = [host.empty(f"{name}{gpu}", (n,), "f16", slices=[gpu]) for name in "xy"]
        host.write_unknown(pair[0])
        tensors.append(pair)
    rings = [[pes[channel] for pes in by_gpu] for channel in range(channels)]
    pes = [ring[gpu] for gpu in range(len(by_gpu)) for ring in rings]
    groups = [host.group(ring, of=pes) for ring in rings]
    cuts = [slice(channel * n // channels, (channel + 1) * n // channels) for channel in range(channels)]
    host.launch(kernel, tensors, groups, cuts, algorithm, pes=pes)
    (launch,) = host.launches
    return (launch.end_ps - launch.start_ps) / 1e6
