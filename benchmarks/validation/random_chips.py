"""Random small chips: one cube of a few PEs at one or two HBM slices, whose numbers and options are drawn by a seed."""

from __future__ import annotations

import copy
import random
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import random_kernels
import yaml

from kb_dataexec import OpLog
from kb_engine import DType, Host, Tensor
from kb_topology import Topology, loads_topology

Spec = dict[str, Any]
Place = tuple[str | int, ...]

PE, NODES, LINKS = ("cube", "pe_template", "nodes"), ("cube", "nodes"), ("cube", "links")
KIB = 1024


class Knob(NamedTuple):
    """A number of the chip: its kind, the place of it in the YAML, and its values from the worst to the best."""

    kind: str
    place: Place
    values: tuple[Any, ...]

    def read(self, spec: Spec) -> Any:
        """The value in *spec*; None where the chip has no such number."""
        found: Any = spec
        for key in self.place:
            if isinstance(key, str) and key not in found:
                return None
            if isinstance(key, int) and key >= len(found):
                return None
            found = found[key]
        return found

    def set(self, spec: Spec, value: Any) -> Spec:
        """A copy of *spec* with another value."""
        changed = copy.deepcopy(spec)
        parent: Any = changed
        for key in self.place[:-1]:
            parent = parent[key]
        parent[self.place[-1]] = value
        return changed


def _kib(*sizes: int) -> tuple[str, ...]:
    return tuple(f"{size} KiB" for size in sizes)


WIDTHS_GBS = (16, 25.6, 51.2, 64, 100, 102.4, 128, 256)
LENGTHS_MM = (40, 17.5, 5, 2, 0)
DEPTHS = (1, 2, 4, 8)
CLOCKS_GHZ = (0.25, 0.5, 1.0, 1.7, 3.0)
KNOBS = (
    Knob("link bandwidth", (*LINKS, 0, "bw_gbs"), WIDTHS_GBS),
    Knob("link bandwidth", (*LINKS, 1, "bw_gbs"), WIDTHS_GBS),
    Knob("link bandwidth", (*LINKS, 2, "bw_gbs"), WIDTHS_GBS),
    Knob("link bandwidth", (*LINKS, 3, "bw_gbs"), WIDTHS_GBS),
    Knob("link length", (*LINKS, 0, "length_mm"), LENGTHS_MM),
    Knob("link length", (*LINKS, 1, "length_mm"), LENGTHS_MM),
    Knob("link length", (*LINKS, 2, "length_mm"), LENGTHS_MM),
    Knob("link length", (*LINKS, 3, "length_mm"), LENGTHS_MM),
    Knob("wire latency", ("wire_ps_per_mm",), (66.7, 20.0, 7.0, 0)),
    Knob("hop overhead", (*NODES, "xbar", "overhead_ns"), (9, 4.5, 2, 1, 0)),
    Knob("hop overhead", (*NODES, "noc", "overhead_ns"), (9, 4.5, 2, 1, 0)),
    Knob("memory bandwidth", (*NODES, "hbm", "bw_gbs"), (12.8, 25.6, 51.2, 102.4, 204.8)),
    Knob("memory bandwidth", (*NODES, "sram", "bw_gbs"), (32, 64, 100, 256)),
    Knob("memory latency", (*NODES, "hbm", "latency_ns"), (120, 60, 45, 16.25, 5, 0)),
    Knob("memory latency", (*NODES, "sram", "latency_ns"), (40, 12, 5, 0)),
    Knob("command overhead", (*PE, "pe_cpu", "issue_ns"), (25, 10, 4, 1, 0)),
    Knob("command overhead", (*PE, "pe_scheduler", "command_ns"), (40, 16, 8, 2, 0)),
    Knob("queue depth", (*PE, "pe_scheduler", "submission_depth"), DEPTHS),
    Knob("queue depth", (*PE, "pe_dma", "queue_depth"), DEPTHS),
    Knob("queue depth", (*PE, "pe_fetch_store", "queue_depth"), DEPTHS),
    Knob("queue depth", (*PE, "pe_gemm", "queue_depth"), DEPTHS),
    Knob("queue depth", (*PE, "pe_math", "queue_depth"), DEPTHS),
    Knob("buffer size", (*PE, "pe_scheduler", "input_kib"), (6, 8, 12, 24, 64, 512)),
    Knob("buffer size", (*PE, "pe_scheduler", "output_kib"), (4, 8, 12, 16, 64, 256)),
    Knob("register file size", (*PE, "pe_fetch_store", "memory", "size"), _kib(12, 16, 24, 32, 64, 512)),
    Knob("set-up", (*PE, "pe_dma", "setup_ns"), (40, 15, 5, 1, 0)),
    Knob("clock", (*PE, "pe_gemm", "clock_ghz"), CLOCKS_GHZ),
    Knob("clock", (*PE, "pe_math", "clock_ghz"), CLOCKS_GHZ),
    Knob("lanes", (*PE, "pe_math", "lanes"), (4, 16, 32, 128)),
    Knob("TCM bandwidth", (*PE, "pe_tcm", "bw_gbs"), (32, 64, 100, 512)),
    Knob("TCM latency", (*PE, "pe_tcm", "latency_ns"), (10, 4, 2, 1, 0)),
    Knob("MMU", (*PE, "pe_mmu", "tlb_entries"), (1, 2, 4, 64)),
    Knob("MMU", (*PE, "pe_mmu", "hit_ns"), (8, 2, 1, 0)),
    Knob("MMU", (*PE, "pe_mmu", "levels"), (4, 2, 1)),
    Knob("MMU", (*PE, "pe_mmu", "level_ns"), (500, 120, 50, 10)),
)


class ChipCase(NamedTuple):
    """A chip, the kernel on its first `programs` PEs, and the seed of inputs and places."""

    spec: Spec
    kernel: random_kernels.Case
    seed: int


def draw(seed: int, most_pes: int) -> ChipCase:
    """The case of *seed*: a chip of up to *most_pes* PEs, all of which run the kernel."""
    rng = random.Random(seed)
    pes = rng.randint(1, most_pes)
    spec = copy.deepcopy(_base("one_pe"))
    cube, pe = spec["cube"], spec["cube"]["pe_template"]
    cube["pe_layout"]["count"] = pes
    cube["links"][0]["from"], cube["links"][1]["to"] = "pe[*].pe_dma", "hbm[*]"
    if rng.random() < 0.2:
        cube["nodes"]["hbm"] = copy.deepcopy(_base("one_cube_banked")["cube"]["nodes"]["hbm"])
        cube["nodes"]["hbm"]["page_policy"] = rng.choice(("open", "closed"))
    cube["nodes"]["hbm"]["count"] = rng.choice((1, 1, 2))
    if rng.random() < 0.3:
        _add_sram(cube)
    if rng.random() < 0.4:
        page_kib = rng.choice((4, 64))
        pe["nodes"]["pe_mmu"] = {"kind": "pe_mmu", "impl": "builtin.pe_mmu", "page_kib": page_kib}
        pe["nodes"]["pe_mmu"] |= {"tlb_entries": 64, "hit_ns": 1, "levels": 2, "level_ns": 50}
        pe["wires"].append("pe_dma -> pe_mmu")
    pe["nodes"]["pe_cpu"]["issue"] = rng.choice(("blocking", "scoreboard", "decoupled"))
    pe["nodes"]["pe_scheduler"]["compute_slots"] = rng.choice(("shared", "shared", "independent"))
    pe["nodes"]["pe_gemm"] |= {"rows": rng.choice((8, 16, 64)), "cols": rng.choice((8, 16, 64))}
    for knob in KNOBS:
        value = rng.choice(knob.values)
        if knob.read(spec) is not None:
            spec = knob.set(spec, value)
    return ChipCase(spec, replace(random_kernels.draw(seed), chip="random", programs=pes), seed)


def _add_sram(cube: Spec) -> None:
    """An SRAM for all PEs, behind a NOC."""
    memory = {"space": "sram", "size": "1 MiB"}
    cube["nodes"]["sram"] = {"kind": "sram", "impl": "builtin.sram", "memory": memory, "bw_gbs": 256, "latency_ns": 12}
    cube["nodes"]["noc"] = {"kind": "noc", "impl": "builtin.transit", "overhead_ns": 2}
    cube["links"] += [
        {"from": "pe[*].pe_dma", "to": "noc", "bw_gbs": 64, "length_mm": 4},
        {"from": "sram", "to": "noc", "bw_gbs": 256, "length_mm": 4},
    ]


@cache
def _base(name: str) -> Spec:
    loaded = yaml.safe_load((random_kernels.TOPOLOGIES / f"{name}.yaml").read_text(encoding="utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def topology_of(spec: Spec) -> Topology:
    """The chip of *spec*. Raises TopologyError for a chip that cannot be built."""
    return loads_topology(yaml.safe_dump(spec, sort_keys=False), "random.yaml")


def memories_of(spec: Spec) -> list[dict[str, Any]]:
    """Where a tensor can lie on the chip, as arguments of `Host.tensor`: one slice, or an interleaved memory."""
    nodes = spec["cube"]["nodes"]
    found: list[dict[str, Any]] = [{"memory": "hbm", "slices": [number]} for number in range(nodes["hbm"]["count"])]
    found += [{"memory": "sram", "slices": [0]}] if "sram" in nodes else []
    return found + [{"memory": name} for name in spec.get("interleaved", ())]


def run(case: ChipCase) -> OpLog:
    """The op log of *case*. Raises KbError for a kernel that does not fit the chip."""
    return random_kernels.simulate(case.kernel, topology_of(case.spec), case.seed, placing(case))


def placing(case: ChipCase) -> random_kernels.Place:
    """The function that gives each tensor of *case* a memory."""
    cube, memories = case.spec["cube"], memories_of(case.spec)
    rng = random.Random(case.seed)

    def place(host: Host, name: str, data: np.ndarray) -> Tensor:
        tensor = host.tensor(name, data, DType.F32, **rng.choice(memories))
        virtual = rng.random() < 0.6 and "pe_mmu" in cube["pe_template"]["nodes"]
        return host.map(tensor, pes=range(case.kernel.programs)) if virtual else tensor

    return place
