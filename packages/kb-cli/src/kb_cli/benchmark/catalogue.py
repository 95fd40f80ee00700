"""The catalogue of bundled benchmarks, models and topologies, with a line on each. None is executed for it."""

from __future__ import annotations

import ast

from msgspec import Struct

from kb_cli.benchmark import bundled
from kb_cli.benchmark.workloads import workload_names, workload_source
from kb_topology import count_kinds, load_topology


class CatalogueEntry(Struct, frozen=True, kw_only=True):
    """One bundled benchmark, model or topology, with its first sentence. `pes` is of a topology alone."""

    name: str
    description: str
    pes: int | None = None


class Catalogue(Struct, frozen=True, kw_only=True):
    """All bundled benchmarks and topologies, and the models of installed packages, as `kb list --json` prints them."""

    benchmarks: list[CatalogueEntry]
    models: list[CatalogueEntry]
    topologies: list[CatalogueEntry]


def catalogue() -> Catalogue:
    """Returns everything that is bundled, by name."""
    return Catalogue(
        benchmarks=[_benchmark(name) for name in bundled.names("benchmarks")],
        models=[_model(name) for name in workload_names()],
        topologies=[_topology(name) for name in bundled.names("topologies")],
    )


def _benchmark(name: str) -> CatalogueEntry:
    return _described(name, bundled.find("benchmarks", name).read_text(encoding="utf-8"))


def _model(name: str) -> CatalogueEntry:
    found = workload_source(name)
    assert found is not None, "a package knows its names"
    return _described(name, found[1])


def _described(name: str, source: str | bytes) -> CatalogueEntry:
    described = ast.get_docstring(ast.parse(source)) or ""
    return CatalogueEntry(name=name, description=described.partition("\n")[0])


def _topology(name: str) -> CatalogueEntry:
    topology = load_topology(bundled.find("topologies", name))
    pes = count_kinds(topology.graph).get("pe_cpu", 0)
    return CatalogueEntry(name=name, description=topology.description, pes=pes)
