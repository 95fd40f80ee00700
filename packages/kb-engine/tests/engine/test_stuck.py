"""A run that cannot go on says who waits for whom, since when, and what it ends in; a block that breaks the rules is
named. A tile of the toy chip takes two reads of 42240, 700 for its fetch and 5000 for its product."""

import re

import numpy as np
import pytest

from kb_engine.block.in_flight import PipelineError
from kb_engine.engine.wait_graph import queue_change
from kb_engine.program.port import Completion
from kb_messages import KbError, SimulationStuckError


def waits(tl, a, b, c):
    handle = tl.composite("gemm", a, b, out=c, tile=(16, 16, 16))
    tl.wait(handle)


def does_not_wait(tl, a, b, c):
    tl.composite("gemm", a, b, out=c, tile=(16, 16, 16))


def waits_for_nothing(tl, a, b, c):
    loaded = tl.load(b[0:16])
    loaded.completion = Completion()
    tl.wait(loaded)


def launch(host, kernel, k=48):
    shapes = {"a": (16, k), "b": (k, 16), "c": (16, 16)}
    host.launch(kernel, *(host.tensor(name, np.zeros(shape, np.float16), "f16") for name, shape in shapes.items()))


def line(kernel, offset):
    return f"test_stuck.py:{kernel.__code__.co_firstlineno + offset}"


def report(ns, *lines, who="1 of 1", kind="deadlock", why="no event is scheduled"):
    first = f"{kind} at {ns} ns: {who} kernels cannot go on, and {why}; needs an event that lets one of them go on; "
    return first + "\n  ".join(["who waits for whom:", *lines])


def stuck(host, kernel, k=48):
    with pytest.raises(SimulationStuckError) as caught:
        launch(host, kernel, k)
    assert caught.value.exit_code == 3
    return str(caught.value)


STUCK = ("impl: toy.gemm}", "impl: toy.stuck_gemm}")
PE = "sip0.cube0.pe0"
COMMAND = f"command 0 (gemm of {line(waits, 1)})"
WAITS = f"{PE}: the kernel waits at {line(waits, 2)} since 3 ns for {COMMAND}"


def test_a_block_that_never_finishes_is_what_is_missing(toy_host):
    # Tile 0 of three is done. Tile 1 has been read at 3000 + 4 x 42240 and fetched 700 later, and stays in GEMM. The
    # last that happens is tile 2's fetch, at 3000 + 6 x 42240 + 700.
    assert stuck(toy_host(STUCK), waits) == report(
        "257.14",
        WAITS,
        f"{COMMAND} has 2 of 3 tiles to go since 3 ns",
        f"tile 1 of command 0 is served by {PE}.pe_gemm (GEMM) since 172.66 ns",
        f"missing: the end of tile 1 of command 0 in {PE}.pe_gemm (GEMM)",
    )


def test_an_engine_takes_no_launch_after_one_that_got_stuck(toy_host):
    host = toy_host(STUCK)
    stuck(host, waits)
    with pytest.raises(KbError, match="simulation: got a call after one that failed or got stuck, needs a new engine"):
        host.launch(lambda tl: None)


def test_a_kernel_that_has_returned_waits_for_its_commands(toy_host):
    command = f"command 0 (gemm of {line(does_not_wait, 1)})"
    assert stuck(toy_host(STUCK), does_not_wait) == report(
        "257.14",
        f"{PE}: the kernel has returned and waits for {command}",
        f"{command} has 2 of 3 tiles to go since 3 ns",
        f"tile 1 of command 0 is served by {PE}.pe_gemm (GEMM) since 172.66 ns",
        f"missing: the end of tile 1 of command 0 in {PE}.pe_gemm (GEMM)",
    )


LOSING = ("impl: toy.dma}", "impl: toy.losing_dma}")


def test_a_lost_response_is_what_is_missing(toy_host):
    # Tile 1 is read from 3000 + 2 x 42240 on. Its bytes arrive 42240 later, which is the last that happens, and nobody
    # hears of it. Tiles 2 to 5 fill the queue behind it, and tile 6 of seven waits for room there.
    assert stuck(toy_host(LOSING), waits, k=7 * 16) == report(
        "129.72",
        WAITS,
        f"{COMMAND} has 6 of 7 tiles to go since 3 ns",
        (
            f"tile 1 of command 0 is served by {PE}.pe_dma (DMA_READ) since 87.48 ns, "
            "which waits for sip0.cube0.hbm0 to answer a read of 512 bytes"
        ),
        f"full queues: the DMA_READ queue of {PE}.pe_dma, 4 of 4 full (tile 6 of command 0 waits)",
        f"missing: {PE}.pe_dma (DMA_READ) waits for a response of sip0.cube0.hbm0 that never came",
    )


def repeating(fetch_depth=1):
    """Every tile goes through FETCH, GEMM, FETCH and GEMM, each of which has a short queue."""
    return (
        ("impl: toy.scheduler", "impl: toy.repeating_scheduler"),
        ("- pe_scheduler -> pe_dma", "- pe_scheduler -> pe_fetch_store"),
        ("impl: toy.mover", f"impl: toy.mover, queue_depth: {fetch_depth}"),
        ("impl: toy.gemm", "impl: toy.gemm, queue_depth: 1"),
    )


def circle(tiles, change):
    # Tile 0 is fetched until 3700 and multiplied until 8700. Tile 1 queues for GEMM, tile 2 is fetched until
    # 3000 + 3 x 700 and finds that queue full; tile 3 queues for FETCH, which tile 0 finds full.
    return report(
        "8.7",
        WAITS,
        f"{COMMAND} has {tiles} of {tiles} tiles to go since 3 ns",
        (
            f"tile 0 of command 0 is held by {PE}.pe_gemm (GEMM) since 8.7 ns for room in "
            f"the FETCH queue of {PE}.pe_fetch_store, 1 of 1 full"
        ),
        (
            f"tile 2 of command 0 is held by {PE}.pe_fetch_store (FETCH) since 5.1 ns for room in "
            f"the GEMM queue of {PE}.pe_gemm, 1 of 1 full"
        ),
        "a circle: the last 2 links wait for each other",
        f"the smallest change: queue_depth of {PE}.pe_fetch_store from 1 to 2 {change}",
    )


def test_two_full_queues_that_wait_for_each_other_are_a_circle(toy_host):
    change = "may break it; 4 does, as the 5 tiles to go cannot fill the queue then"
    assert stuck(toy_host(*repeating()), waits, k=5 * 16) == circle(5, change)
    launch(toy_host(*repeating(fetch_depth=4)), waits, k=5 * 16)


@pytest.mark.parametrize(
    ("to_go", "change"),
    [
        (4, "from 1 to 2 may break it; 3 does, as the 4 tiles to go cannot fill the queue then"),
        (3, "from 1 to 2 breaks it: the 3 tiles to go cannot fill the queue"),
    ],
)
def test_a_depth_that_is_enough_is_counted(toy_host, to_go, change):
    # Besides the tile that wants in there are to_go - 1, one of them in service; so the queue holds to_go - 2 at most.
    engine = toy_host(*repeating()).engine
    queue = next(server for server in engine.servers if server.node_id == f"{PE}.pe_gemm")
    assert queue_change(queue, to_go) == f"queue_depth of {PE}.pe_gemm {change}"


def test_a_handle_that_nobody_completes_is_what_is_missing(toy_host):
    # The load is submitted at 3000 and done 42240 later.
    waiting = line(waits_for_nothing, 3)
    assert stuck(toy_host(), waits_for_nothing) == report(
        "45.24",
        f"{PE}: the kernel waits at {waiting} since 45.24 ns for a handle that no command in flight completes",
        f"missing: the end of the handle at {waiting}, because no command in flight completes it",
    )


MANY = ("pe_layout: {count: 1}", "pe_layout: {count: 512}")


def test_many_pes_that_are_stuck_in_the_same_way_have_one_report(toy_host):
    *chain, missing, others = stuck(toy_host(LOSING, MANY), waits).splitlines()
    assert len(chain) == 4
    assert re.fullmatch(report(r"[\d.]+", who="512 of 512"), chain[0])
    assert chain[1] == f"  {WAITS}"
    assert missing == f"  missing: {PE}.pe_dma (DMA_READ) waits for a response of sip0.cube0.hbm0 that never came"
    assert others == (
        "  and 511 more PEs wait in the same way: sip0.cube0.pe1, sip0.cube0.pe2, sip0.cube0.pe3 and 508 more"
    )


def test_different_ways_of_being_stuck_have_a_report_each_up_to_a_limit(toy_host):
    def kernel(tl, a, b, c):
        handle = tl.composite("gemm", a, b, out=c, tile=(16, 16, 16))
        if tl.program_id(0) == 1:
            tl.wait(handle)
        if tl.program_id(0) == 2:
            tl.wait(handle)
        if tl.program_id(0) == 3:
            tl.wait(handle)
        if tl.program_id(0) == 4:
            tl.wait(handle)
        if tl.program_id(0) == 5:
            tl.wait(handle)
        if tl.program_id(0) == 6:
            tl.wait(handle)
        if tl.program_id(0) == 7:
            tl.wait(handle)

    found = stuck(toy_host(STUCK, ("pe_layout: {count: 1}", "pe_layout: {count: 9}")), kernel).splitlines()
    assert found[1].startswith("  sip0.cube0.pe0: the kernel has returned")
    assert found[5] == "  and 1 more PE waits in the same way: sip0.cube0.pe8"
    assert [text.split(":")[0] for text in found if "the kernel" in text] == [f"  sip0.cube0.pe{n}" for n in range(6)]
    assert found[-1] == "  and 2 more PEs in 2 other ways"


POLLING = ("impl: toy.gemm}", "impl: toy.polling_gemm}")


def test_events_that_lead_nowhere_are_a_stuck_simulation(toy_host):
    # Tile 1 polls from 172660 on, once a picosecond, and tile 2 is fetched at 257140; then nothing ends any more.
    # 20000 events are two housekeepings of 16384. At the fourth nothing has ended since the second for the first time
    # if all else took less than 2 x 16384 events from 172660 on; it took 257140 - 172660 > 5 x 16384.
    text = stuck(toy_host(POLLING, no_progress_events=20000), waits)
    first, *chain = text.splitlines()
    at = float(first.removeprefix("livelock at ").split()[0])
    assert 257.14 + 32.768 <= at <= 257.14 + 2 * 32.768
    assert text == report(
        f"{at:g}",
        WAITS,
        f"{COMMAND} has 2 of 3 tiles to go since 3 ns",
        f"tile 1 of command 0 is served by {PE}.pe_gemm (GEMM) since 172.66 ns",
        f"missing: the end of tile 1 of command 0 in {PE}.pe_gemm (GEMM)",
        kind="livelock",
        why="no stage has ended for 32,768 events",
    )
    assert len(chain) == 4


def test_a_run_that_gets_on_is_left_alone_however_long(toy_host):
    def kernel(tl, a, b, c):
        for _ in range(40):
            tl.composite("gemm", a, b, out=c, tile=(16, 16, 16))

    # 40 x 256 tiles of four stages are more than two times 16384 events.
    host = toy_host(no_progress_events=1)
    launch(host, kernel, k=256 * 16)
    assert sum(server.served for server in host.engine.servers) > 2 * 16384


def test_a_block_that_completes_a_tile_twice_is_named_with_tile_and_command(toy_host):
    with pytest.raises(PipelineError) as caught:
        launch(toy_host(("impl: toy.dma}", "impl: toy.twice_dma}")), waits)
    assert str(caught.value) == (
        f"sip0.cube0.pe0.pe_dma: tile 2 of {line(waits, 1)}: got a second end of its DMA_WRITE, needs "
        "exactly one; the block must call finish once for each token it serves"
    )
    assert caught.value.exit_code == 3


def test_a_command_that_waits_for_its_operands_names_the_command_that_makes_them(toy_host):
    def loads_what_never_comes(tl, a, b, c):
        tl.composite("gemm", a, b, out=c, tile=(16, 16, 16))
        tl.load(c)

    text = stuck(toy_host(STUCK, ("impl: toy.cpu,", "impl: toy.ahead_cpu,")), loads_what_never_comes)
    first, second = (line(loads_what_never_comes, offset) for offset in (1, 2))
    assert f"{PE}: the kernel waits at {second} since 3 ns for command 0 (gemm of {first})\n" in text
