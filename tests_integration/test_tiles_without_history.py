"""The tile that the scheduler chooses follows from the command and the chip, whatever was asked for before."""

from pathlib import Path

import pytest
from chip_specs import changed_chip, chip_spec

from kb_engine import Engine, Host, Language, TensorRef
from kb_topology import Topology, load_topology

TOPOLOGIES = Path(__file__).parents[1] / "topologies"
_KNOWN = "kb_components.pe.scheduling.tile_choice._known"
"""The tiles that a process knows."""


def product(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef) -> None:
    """c = a b. The scheduler chooses the tile."""
    tl.wait(tl.composite("gemm", a, b, out=c))


def latency_ps(topology: Topology, wide: int) -> int:
    """A product of 512 x 32 x 32, of which A is a part of a tensor *wide* columns wide."""
    host = Host(Engine(topology), TOPOLOGIES)
    a, b, c = (host.empty(*each, "f16") for each in (("a", (512, wide)), ("b", (32, 32)), ("c", (512, 32))))
    return host.launch(product, a.ref[:, 0:32], b, c, pes=[0]).end_ps


def interleaved(granule_nbytes: int) -> Topology:
    """`one_cube` with granules of *granule_nbytes*."""
    return changed_chip(chip_spec("one_cube") | {"hbm_interleave_nbytes": granule_nbytes})


def test_rows_that_are_far_apart_do_not_take_the_tile_of_rows_that_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    topology = load_topology(TOPOLOGIES / "one_cube.yaml")
    monkeypatch.setattr(_KNOWN, {})
    alone_ps = latency_ps(topology, 1024)
    monkeypatch.setattr(_KNOWN, {})
    packed_ps = latency_ps(topology, 32)
    assert latency_ps(topology, 1024) == alone_ps
    assert latency_ps(topology, 32) == packed_ps


@pytest.mark.parametrize(("before", "after"), [(256, 2048), (2048, 256), (64, 4096)])
def test_a_chip_does_not_take_the_tile_of_another_one(monkeypatch: pytest.MonkeyPatch, before: int, after: int) -> None:
    monkeypatch.setattr(_KNOWN, {})
    alone_ps = latency_ps(interleaved(after), 96)
    monkeypatch.setattr(_KNOWN, {})
    latency_ps(interleaved(before), 96)
    assert latency_ps(interleaved(after), 96) == alone_ps
