"""The catalogue of bundled benchmarks and topologies, with a line on each. No benchmark is executed for it."""

from __future__ import annotations

import ast

from msgspec import Struct

from kb_cli.benchmark import bundled
from kb_topology import count_kinds, load_topology


class CatalogueEntry(Struct, frozen=True, kw_only=True):
    """One bundled benchmark or topology, with its first sentence. `pes` is missing for a benchmark."""

    name: str
    description: str
    pes: int | None = None


class Catalogue(Struct, frozen=True, kw_only=True):
    """All bundled benchmarks and topologies, as `kb list --json` prints them."""

    benchmarks: list[CatalogueEntry]
    topologies: list[CatalogueEntry]


def catalogue() -> Catalogue:
    """Returns everything that is bundled, by name."""
    return Catalogue(
        benchmarks=[_benchmark(name) for name in bundled.names("benchmarks")],
        topologies=[_topology(name) for name in bundled.names("topologies")],
    )


def _benchmark(name: str) -> CatalogueEntry:
    text = bundled.find("benchmarks", name).read_text(encoding="utf-8")
    described = ast.get_docstring(ast.parse(text)) or ""
    return CatalogueEntry(name=name, description=described.partition("\n")[0])


def _topology(name: str) -> CatalogueEntry:
    topology = load_topology(bundled.find("topologies", name))
    pes = count_kinds(topology.graph).get("pe_cpu", 0)
    return CatalogueEntry(name=name, description=topology.description, pes=pes)
