"""What the built-in blocks say they wait for when a block that one of them needs never ends its service."""

import numpy as np
import pytest

from kb_components.pe.pe_dma import PeDma
from kb_components.pe.pe_fetch_store import PeFetchStore
from kb_components.pe.pe_gemm import PeGemm
from kb_components.pe.pe_math import PeMath
from kb_engine import Engine, Host
from kb_messages import SimulationStuckError, StageType

ONE_TILE = (16, 16, 16)
SQUARES = [(16, 16, "f16")] * 4
PE = "sip0.cube0.pe0"


def two_gemms(tl, a, b, c, d):
    tl.composite("gemm", a, b, out=c, tile=ONE_TILE)
    tl.wait(tl.composite("gemm", a, b, out=d, tile=ONE_TILE))


def report(simulate, kernel, *changes):
    """The lines that say who waits for whom, without what precedes the second command's tile."""
    with pytest.raises(SimulationStuckError) as caught:
        simulate(kernel, *SQUARES, changes=changes)
    lines = [line.strip() for line in str(caught.value).splitlines()]
    line = f"test_stuck.py:{kernel.__code__.co_firstlineno + 2}"
    assert lines[1] == f"{PE}: the kernel waits at {line} since 6 ns for command 1 (gemm of {line})"
    assert lines[2] == f"command 1 (gemm of {line}) has 1 of 1 tiles to go since 6 ns"
    return lines[3:]


@pytest.fixture
def stuck_gemm(monkeypatch):
    monkeypatch.setattr(PeGemm, "begin", lambda self, token, finish: None)


# Command 0 is decoded at 7000. Its tile is read until 7000 + 88480, fetched until 101600, and stays in GEMM.
SERVED = [
    f"tile 0 of command 0 is served by {PE}.pe_gemm (GEMM) since 101.6 ns",
    f"missing: the end of tile 0 of command 0 in {PE}.pe_gemm (GEMM)",
]


def test_the_register_file_names_the_tile_that_holds_it(simulate, stuck_gemm):
    # 1 KiB of operands and 1 KiB of accumulator. Command 1's tile is read until 7000 + 2 x 88480.
    found = report(simulate, two_gemms, ("size: 64 KiB", "size: 2048 B"))
    assert found == [
        (
            f"tile 0 of command 1 waits in {PE}.pe_fetch_store (FETCH) since 183.96 ns for its register file, "
            "with tile 0 of command 0"
        ),
        *SERVED,
    ]


def test_a_tile_buffer_names_the_tile_that_holds_it(simulate, stuck_gemm):
    # One output buffer of 512 bytes and one of 256: f32 outputs of 16 x 16 take the whole of output_kib.
    def kernel(tl, a, b, c, d):
        tl.composite("gemm", a, b, out=c, tile=ONE_TILE)
        tl.wait(tl.composite("gemm", a, b, out=d, tile=ONE_TILE))

    with pytest.raises(SimulationStuckError) as caught:
        simulate(kernel, *[(16, 16, "f32")] * 4, changes=(("output_kib: 64", "output_kib: 1"),))
    lines = [line.strip() for line in str(caught.value).splitlines()]
    # Command 1 is submitted at 6000, taken at 7000 and decoded at 11000.
    assert lines[3] == (
        f"tile 0 of command 1 waits to be fed since 11 ns for an output buffer of {PE}.pe_scheduler, "
        "with tile 0 of command 0"
    )
    # Reads of 54480 each, and a fetch of 1000 + 2048 x 5.
    assert lines[4] == f"tile 0 of command 0 is served by {PE}.pe_gemm (GEMM) since 127.2 ns"


def test_an_input_buffer_names_the_tile_that_holds_it(simulate, monkeypatch):
    monkeypatch.setattr(PeDma, "begin", lambda self, token, finish: None)
    found = report(simulate, two_gemms, ("input_kib: 64", "input_kib: 1"))
    assert found == [
        (
            f"tile 0 of command 1 waits to be fed since 11 ns for an input buffer of {PE}.pe_scheduler, "
            "with tile 0 of command 0"
        ),
        (
            f"tile 0 of command 0 is served by {PE}.pe_dma (DMA_READ) since 7 ns, which waits for sip0.cube0.hbm0 to "
            "answer a read of 512 bytes"
        ),
        f"missing: {PE}.pe_dma (DMA_READ) waits for a response of sip0.cube0.hbm0 that never came",
    ]


def lines_of(simulate, kernel, *changes, rows=16):
    with pytest.raises(SimulationStuckError) as caught:
        simulate(kernel, (rows, 16, "f16"), *SQUARES[1:], changes=changes)
    return [line.strip() for line in str(caught.value).splitlines()[3:]]


def test_a_full_first_queue_is_named(simulate, monkeypatch):
    monkeypatch.setattr(PeDma, "begin", lambda self, token, finish: None)

    def kernel(tl, a, b, c, d):
        tl.composite("gemm", a, b, tile=ONE_TILE)
        tl.wait(tl.composite("gemm", a[0:16], b, out=d, tile=ONE_TILE))

    found = lines_of(simulate, kernel, ("pe_dma, queue_depth: 4", "pe_dma, queue_depth: 1"), rows=32)
    queue = f"the DMA_READ queue of {PE}.pe_dma, 1 of 1 full"
    assert found == [
        f"tile 0 of command 1 waits to be fed since 11 ns for room in {queue}",
        (
            f"tile 0 of command 0 is served by {PE}.pe_dma (DMA_READ) since 7 ns, which waits for sip0.cube0.hbm0 to "
            "answer a read of 512 bytes"
        ),
        f"full queues: {queue} (tile 0 of command 1 waits)",
        f"missing: {PE}.pe_dma (DMA_READ) waits for a response of sip0.cube0.hbm0 that never came",
    ]


def test_the_compute_slot_names_the_tile_that_holds_it(simulate, monkeypatch):
    monkeypatch.setattr(PeMath, "begin", lambda self, token, finish: None)

    def kernel(tl, a, b, c, d):
        tl.composite("gemm", a, b, out=c, tile=ONE_TILE, epilogue=[tl.relu()])
        tl.wait(tl.composite("gemm", a, b, out=d, tile=ONE_TILE, epilogue=[tl.relu()]))

    # Command 0's product ends at 101600 + 46000. Command 1's operands are fetched at 7000 + 2 x 88480 + 6120.
    assert lines_of(simulate, kernel) == [
        (
            f"tile 0 of command 1 waits in {PE}.pe_gemm (GEMM) since 190.08 ns for its compute slot, "
            "with tile 0 of command 0"
        ),
        f"tile 0 of command 0 is served by {PE}.pe_math (MATH) since 147.6 ns",
        f"missing: the end of tile 0 of command 0 in {PE}.pe_math (MATH)",
    ]


def test_a_tile_that_must_not_overtake_says_whom(simulate, stuck_gemm):
    def kernel(tl, a, b, c, d):
        x = tl.load(b)
        tl.composite("gemm", a, b, tile=ONE_TILE)
        tl.wait(tl.composite("gemm", x, x, out=d, tile=ONE_TILE))

    # The load ends at 51240, and the composite is fed at 58240. Its tiles are read until 58240 + 2 x 88480 = 235200;
    # the first is fetched from 146720 to 152840 and fills the register file. Command 2 is submitted at 57240, taken at
    # 58240 and decoded at 62240.
    assert lines_of(simulate, kernel, ("size: 64 KiB", "size: 2048 B"), rows=32) == [
        (
            "tile 0 of command 2 waits to be fed since 62.24 ns for the tiles before it to have registers, "
            "with tile 1 of command 1"
        ),
        (
            f"tile 1 of command 1 waits in {PE}.pe_fetch_store (FETCH) since 235.2 ns for its register file, "
            "with tile 0 of command 1"
        ),
        f"tile 0 of command 1 is served by {PE}.pe_gemm (GEMM) since 152.84 ns",
        f"missing: the end of tile 0 of command 1 in {PE}.pe_gemm (GEMM)",
    ]


def test_a_port_names_the_tile_that_holds_it(simulate, monkeypatch):
    def begin(self, token, finish):
        if token.stages[token.index].stage_type is StageType.FETCH:
            self.clock.call_at(self.clock.now + 1000, finish, token)

    monkeypatch.setattr(PeFetchStore, "begin", begin)

    def kernel(tl, a, b, c, d):
        tl.composite("gemm", a, b, out=c, tile=ONE_TILE)
        tl.wait(tl.composite("gemm", a, b, out=d, tile=ONE_TILE))

    # Command 0 is stored from 7000 + 88480 + 1000 + 46000 on; command 1's operands are there at 7000 + 2 x 88480.
    assert lines_of(simulate, kernel) == [
        (
            f"tile 0 of command 1 waits in {PE}.pe_fetch_store (FETCH) since 183.96 ns for its tcm port, "
            "with tile 0 of command 0"
        ),
        f"tile 0 of command 0 is served by {PE}.pe_fetch_store (STORE) since 142.48 ns",
        f"missing: the end of tile 0 of command 0 in {PE}.pe_fetch_store (STORE)",
    ]


@pytest.mark.parametrize(
    ("changes", "change"),
    [
        # A slot holds a tile's 1 KiB of A and B, or its 512 bytes of C.
        ((("input_kib: 64", "input_kib: 2"),), f"input_kib of {PE}.pe_scheduler from 2 to 3 may break it"),
        ((("output_kib: 64", "output_kib: 1"),), f"output_kib of {PE}.pe_scheduler from 1 to 2 may break it"),
    ],
)
def test_a_tile_buffer_more_is_the_smallest_change(chip, monkeypatch, changes, change):
    monkeypatch.setattr(PeDma, "begin", lambda self, token, finish: None)
    engine = stuck_engine(chip(*changes, ("pe_dma, queue_depth: 4", "pe_dma, queue_depth: 9")))
    assert engine.pes[PE].scheduler.feeder_wait().change == change


@pytest.mark.parametrize(
    ("nbytes", "needs"),
    [
        # Operands and accumulator of a tile are 1 KiB each. One of each; 3 KiB would be two accumulators and one slot.
        (2048, 4096),
        # Two accumulators, and one slot or two.
        (3072, 4096),
        (4096 + 1023, 5120),
    ],
)
def test_an_operand_slot_more_is_the_smallest_change(chip, stuck_gemm, nbytes, needs):
    engine = stuck_engine(chip(("size: 64 KiB", f"size: {nbytes} B")))
    registers = engine.components[f"{PE}.pe_fetch_store"].registers
    change = f"the register file of {PE}.pe_fetch_store from {nbytes} to {needs} bytes may break it"
    assert registers.change(registers.waiting[0][1]) == change


def stuck_engine(topology):
    """An engine whose kernel waits for six tiles for ever."""
    engine = Engine(topology)
    host = Host(engine)
    shapes = {"a": (96, 16), "b": (16, 16), "c": (96, 16)}
    tensors = [host.tensor(name, np.zeros(shape, np.float16), "f16") for name, shape in shapes.items()]
    with pytest.raises(SimulationStuckError):
        host.launch(lambda tl, a, b, c: tl.composite("gemm", a, b, out=c, tile=ONE_TILE), *tensors)
    return engine
