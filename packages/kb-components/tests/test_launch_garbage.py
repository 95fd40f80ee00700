"""A launch leaves nothing for Python's collector of cycles: hundreds of programs would be thousands of objects."""

import gc

import pytest
from components_two_cubes import HOST

from kb_engine import Engine, Host, TileShape


@pytest.mark.speed
@pytest.mark.parametrize("exact", ["isolated", "events"])
def test_programs_go_when_they_have_ended(chip, exact, monkeypatch):
    monkeypatch.setattr("kb_engine.fastforward.isolated.isolated_commands.LEAST_ISOLATED_STAGES", 1)

    def product(tl, a, b, c):
        tl.wait(tl.composite("gemm", a, b, out=c, tile=TileShape(16, 16, 16)))

    host = Host(Engine(chip(*HOST), exact=exact))
    operands = [host.empty(name, (32, 32), "f16") for name in "abc"]
    host.launch(product, *operands, pes="all")
    gc.collect()
    gc.disable()
    try:
        host.launch(product, *operands, pes="all")
        left = gc.collect()
    finally:
        gc.enable()
    assert left == 0
