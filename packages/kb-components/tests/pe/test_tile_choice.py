"""The scheduler chooses tiles by the times of its blocks. Times by hand are those of conftest's chip."""

import pytest

from kb_components.pe.scheduling import tile_choice
from kb_engine import Engine
from kb_messages import (
    DmaParams,
    DType,
    GemmCommand,
    Matrix,
    Rectangle,
    StageType,
    SubmittedCommand,
    TileShape,
    TransferParams,
)
from kb_plans import estimate, generate_gemm_plan


def scheduler_of(topology):
    engine = Engine(topology)
    (pe,) = engine.pes.values()
    region = next(each for each in topology.address_map.regions if each.space == "hbm")
    return pe.scheduler, region.base


def gemm(base, m, n, k, tile=None):
    a, b, out = (Matrix.packed(*shape, DType.F16, base) for shape in ((m, k), (k, n), (m, n)))
    return GemmCommand(a=a, b=b, out=out, tile=tile)


def test_times_of_transfers_are_those_of_an_idle_chip(chip):
    scheduler, base = scheduler_of(chip())
    read = DmaParams(Rectangle(base, 16, 32, 128))
    # set-up 2000, way 1000, latency 30000, 512 bytes at 20, way back 1000; a write takes the same ways
    times = [scheduler.tile_costs.stage_time(kind, read) for kind in (StageType.DMA_READ, StageType.DMA_WRITE)]
    assert times == [(44240, 44240, 10240)] * 2
    assert scheduler.tile_costs.stage_time(StageType.FETCH, TransferParams(nbytes=512)) == (3560, 3560, 0)


def test_stages_that_share_a_port_take_turns(chip):
    turns = {frozenset(each) for each in scheduler_of(chip())[0].tile_costs.turns}
    assert turns == {
        frozenset({StageType.FETCH, StageType.STORE}),
        frozenset({StageType.GEMM, StageType.MATH}),
    }
    apart = scheduler_of(chip(("output_kib: 64", "output_kib: 64, compute_slots: independent")))[0]
    assert [set(each) for each in apart.tile_costs.turns] == [{StageType.FETCH, StageType.STORE}]


def test_the_estimate_is_what_the_simulation_takes(simulate, chip):
    def kernel(tl, a, b, c):
        tl.wait(tl.composite("gemm", a, b, out=c, tile=(32, 32, 32)))

    run = simulate(kernel, (64, 96, "f16"), (96, 64, "f16"), (64, 64, "f16"))
    scheduler, base = scheduler_of(chip())
    plan = generate_gemm_plan(gemm(base, 64, 64, 96, TileShape(32, 32, 32)), "pe")
    estimated_ps = estimate(plan, scheduler.tile_room, scheduler.tile_costs).latency_ps
    assert estimated_ps == pytest.approx(run.end_ps - 7000, rel=0.03)  # 7000: issue and command


def test_pes_that_are_alike_share_the_choice(chip, monkeypatch):
    asked = []
    original = tile_choice.suggest_tile
    monkeypatch.setattr(tile_choice, "suggest_tile", lambda *args: asked.append(args) or original(*args))
    monkeypatch.setattr(tile_choice, "_known", {})
    first, base = scheduler_of(chip())
    other, _ = scheduler_of(chip())
    faster, _ = scheduler_of(chip(("rows: 16, cols: 16", "rows: 32, cols: 16")))
    for scheduler, at in ((first, base), (other, base), (first, base + 4096)):
        command = SubmittedCommand(command_seq=0, pe="sip0.cube0.pe0", line="", command=gemm(at, 100, 90, 80))
        scheduler.plan(command)
    assert len(asked) == 1
    faster.plan(SubmittedCommand(command_seq=0, pe="sip0.cube0.pe0", line="", command=gemm(base, 100, 90, 80)))
    first.plan(SubmittedCommand(command_seq=0, pe="sip0.cube0.pe0", line="", command=gemm(base, 100, 90, 81)))
    assert len(asked) == 3
