"""Formulas for the time of each service of one PE, from the topology file alone. No code of the engine is used."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ONE_PE = Path(__file__).parents[2] / "topologies" / "one_pe.yaml"
ELEMENT, ACCUMULATOR, ALIGNMENT, KIB = 2, 4, 64, 1024  # f16 operands summed in f32, one MAC a cell and cycle


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def aligned(nbytes: int) -> int:
    return ceil_div(nbytes, ALIGNMENT) * ALIGNMENT


def ps(ns: float) -> int:
    return math.ceil(Fraction(str(ns)) * 1000)


def wire_ps(nbytes: int, gbs: float) -> int:
    return math.ceil(nbytes * 1000 / Fraction(str(gbs)))


class Transfer(NamedTuple):
    """Picoseconds of a transfer: `lead` to the slice, `service` in it, and `tail` after it.

    The service ends at the earliest `spread` after the arrival.
    """

    lead: int
    service: int
    spread: int
    tail: int


class Tile(NamedTuple):
    """The time that a tile takes in each block, in picoseconds. `first` and `last` are its place in the K loop.

    `written` is the bytes of its output, and of a row of it.
    """

    first: bool
    last: bool
    read_a: Transfer
    read_b: Transfer
    fetch: int
    gemm: int
    store: int
    write: Transfer
    written: tuple[int, int]


class Chip:
    """The numbers of a one-PE topology file, and the time of each service by formula."""

    def __init__(self, path: Path = ONE_PE) -> None:
        spec = yaml.safe_load(path.read_text())
        cube = spec["cube"]
        self.pe: dict[str, Any] = cube["pe_template"]["nodes"]
        self.hbm = cube["nodes"]["hbm"]
        wires = [math.ceil(Fraction(str(spec["wire_ps_per_mm"])) * link["length_mm"]) for link in cube["links"]]
        xbar = ps(cube["nodes"]["xbar"]["overhead_ns"])
        gbs = [link["bw_gbs"] for link in cube["links"]]
        self.away = [(gbs[0], wires[0] + xbar), (gbs[1], wires[1])]
        self.back = [(gbs[1], wires[1] + xbar), (gbs[0], wires[0])]
        self.burst_nbytes: int = self.hbm.get("burst_nbytes", 64)
        self.command_ps = ps(self.pe["pe_cpu"]["issue_ns"]) + ps(self.pe["pe_scheduler"]["command_ns"])

    def read(self, nbytes: int) -> Transfer:
        latency, service = ps(self.hbm["latency_ns"]), wire_ps(nbytes, self.hbm["bw_gbs"])
        lead = ps(self.pe["pe_dma"]["setup_ns"]) + sum(after for _, after in self.away)
        _, last_byte = cut_through(self.back, nbytes, latency, latency + service)
        return Transfer(lead, service, 0, last_byte - service)

    def write(self, nbytes: int) -> Transfer:
        head, last_byte = cut_through(self.away, nbytes, 0, 0)
        tail = ps(self.hbm["latency_ns"]) + sum(after for _, after in self.back)
        service = wire_ps(nbytes, self.hbm["bw_gbs"])
        return Transfer(ps(self.pe["pe_dma"]["setup_ns"]) + head, service, last_byte - head, tail)

    def slice_ps(self, nbytes: int) -> int:
        return wire_ps(nbytes, self.hbm["bw_gbs"])

    def port(self, nbytes: int) -> int:
        return ps(self.pe["pe_tcm"]["latency_ns"]) + wire_ps(nbytes, self.pe["pe_tcm"]["bw_gbs"])

    def gemm(self, m: int, n: int, k: int) -> int:
        rows: int = self.pe["pe_gemm"]["rows"]
        cols: int = self.pe["pe_gemm"]["cols"]
        cycles = ceil_div(m, rows) * ceil_div(n, cols) * k + rows + cols - 2
        return math.ceil(cycles * 1000 / Fraction(str(self.pe["pe_gemm"]["clock_ghz"])))

    def tile(self, m: int, n: int, k: int, first: bool, last: bool) -> Tile:
        a, b, out = m * k * ELEMENT, k * n * ELEMENT, m * n * ELEMENT
        moved, product = self.port(a + b), self.gemm(m, n, k)
        return Tile(
            first, last, self.read(a), self.read(b), moved, product, self.port(out), self.write(out), (out, n * ELEMENT)
        )


def cut_through(hops: list[tuple[float, int]], nbytes: int, head: int, tail: int) -> tuple[int, int]:
    for gbs, after in hops:
        head, tail = head + after, max(head + wire_ps(nbytes, gbs), tail) + after
    return head, tail
