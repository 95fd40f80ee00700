"""Registers of tiles from claim to free, on the round chip: nothing is left, whatever the commands were."""

import pytest

TILE = (16, 16, 16)


def plain(tl, a, b, c, bias):
    tl.composite("gemm", a, b, out=c, tile=TILE)


def streamed(tl, a, b, c, bias):
    tl.composite("gemm", a, b, out=c, tile=TILE, b_stream=True)


def with_epilogue(tl, a, b, c, bias):
    ops = (tl.dequant(bias, scope="k_tile"), tl.bias(bias), tl.relu())
    tl.composite("gemm", a, b, out=c, tile=TILE, b_stream=True, epilogue=ops)


def weight_stationary(tl, a, b, c, bias):
    tl.composite("gemm", a, b, out=c, tile=TILE, loop_order="weight_stationary")


def input_stationary(tl, a, b, c, bias):
    ops = (tl.dequant(bias, scope="k_tile"), tl.bias(bias), tl.relu())
    tl.composite("gemm", a, b, out=c, tile=TILE, b_stream=True, epilogue=ops, loop_order="input_stationary")


def all_of_them(tl, a, b, c, bias):
    for kernel in (
        *(plain, streamed, weight_stationary, with_epilogue, input_stationary),
        *(plain, with_epilogue, input_stationary, weight_stationary, streamed),
    ):
        kernel(tl, a, b, c, bias)
    tl.store(c, tl.exp(tl.load(c)))


@pytest.mark.parametrize("kernel", [plain, streamed, with_epilogue, weight_stationary, input_stationary, all_of_them])
@pytest.mark.parametrize("registers", ["64 KiB", "4 KiB"])
def test_all_registers_and_buffers_are_free_after_the_last_command(simulate, kernel, registers):
    shapes = (40, 40, "f16"), (40, 24, "f16"), (40, 24, "f16"), (1, 24, "f16")
    run = simulate(kernel, *shapes, changes=(("size: 64 KiB", f"size: {registers}"),))
    blocks = run.engine.components
    scheduler, fetch_store = (blocks[f"sip0.cube0.pe0.{name}"] for name in ("pe_scheduler", "pe_fetch_store"))
    regions = fetch_store.registers._region, scheduler._buffers.inputs, scheduler._buffers.outputs
    assert [region.live_nbytes for region in regions] == [0, 0, 0]
    assert not fetch_store.registers.waiting
