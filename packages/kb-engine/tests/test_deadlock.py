"""A run that cannot go on says who waits, where and for what; a block that breaks the rules is named."""

import numpy as np
import pytest

from kb_engine.pipeline import PipelineError
from kb_messages.errors import SimulationStuckError


def waits(tl, a, b, c):
    handle = tl.composite("gemm", a, b, out=c, tile=(16, 16, 16))
    tl.wait(handle)


def does_not_wait(tl, a, b, c):
    tl.composite("gemm", a, b, out=c, tile=(16, 16, 16))


def launch(host, kernel, k=48):
    shapes = {"a": (16, k), "b": (k, 16), "c": (16, 16)}
    host.launch(kernel, *(host.tensor(name, np.zeros(shape, np.float16), "f16") for name, shape in shapes.items()))


def line(kernel, offset):
    return f"test_deadlock.py:{kernel.__code__.co_firstlineno + offset}"


STUCK = ("impl: toy.gemm}", "impl: toy.stuck_gemm}")


def test_a_block_that_never_finishes_is_reported_with_pe_line_and_queue(toy_host):
    # Tile 0 of three is done, tile 1 stays in GEMM, tile 2 waits behind it.
    with pytest.raises(SimulationStuckError) as caught:
        launch(toy_host(STUCK), waits)
    assert str(caught.value) == (
        f"simulation: got nothing left to happen while kernels wait: sip0.cube0.pe0 waits at {line(waits, 2)}; "
        f"sip0.cube0.pe0: gemm of {line(waits, 1)} has 2 tiles to go; "
        "sip0.cube0.pe0.pe_gemm GEMM holds 2 tiles, 0 senders wait for room in its queue of 4, "
        "needs an event that lets one of them go on"
    )
    assert caught.value.exit_code == 3


def test_a_kernel_that_has_returned_is_not_said_to_wait(toy_host):
    with pytest.raises(SimulationStuckError) as caught:
        launch(toy_host(STUCK), does_not_wait)
    assert str(caught.value) == (
        "simulation: got nothing left to happen while kernels wait: "
        f"sip0.cube0.pe0: gemm of {line(does_not_wait, 1)} has 2 tiles to go; "
        "sip0.cube0.pe0.pe_gemm GEMM holds 2 tiles, 0 senders wait for room in its queue of 4, "
        "needs an event that lets one of them go on"
    )


def test_blocked_senders_are_counted(toy_host):
    # Of 7 tiles 1 is done and 1 is stuck; 1 waits in GEMM's queue, 1 in FETCH for room there, 4 - 1 behind it.
    with pytest.raises(SimulationStuckError) as caught:
        launch(toy_host(("impl: toy.gemm}", "impl: toy.stuck_gemm, queue_depth: 1}")), waits, k=7 * 16)
    assert str(caught.value) == (
        f"simulation: got nothing left to happen while kernels wait: sip0.cube0.pe0 waits at {line(waits, 2)}; "
        f"sip0.cube0.pe0: gemm of {line(waits, 1)} has 6 tiles to go; "
        "sip0.cube0.pe0.pe_fetch_store FETCH holds 4 tiles, 0 senders wait for room in its queue of 4; "
        "sip0.cube0.pe0.pe_gemm GEMM holds 2 tiles, 1 senders wait for room in its queue of 1, "
        "needs an event that lets one of them go on"
    )


def test_a_block_that_completes_a_tile_twice_is_named_with_tile_and_command(toy_host):
    with pytest.raises(PipelineError) as caught:
        launch(toy_host(("impl: toy.dma}", "impl: toy.twice_dma}")), waits)
    assert str(caught.value) == (
        f"sip0.cube0.pe0.pe_dma: tile 2 of {line(waits, 1)}: got a second end of its DMA_WRITE, needs "
        "exactly one; the block must call finish once for each token it serves"
    )
    assert caught.value.exit_code == 3
