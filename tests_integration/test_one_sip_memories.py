"""Every memory of one_sip from a kernel: data, times by hand, virtual addresses, and what is said when it is full.

A load takes 4 ns to issue, 8 ns to plan and 5 ns to set up, then what a probe of the same bytes takes.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from kb_dataexec import Executor, MemoryLogWriter
from kb_engine import Engine, Host, Sharding, Tensor, read_tensor
from kb_engine.probe import probe
from kb_messages import KbError, MmuMap
from kb_topology import load_topology

ROOT = Path(__file__).parents[1]
ONE_SIP = load_topology(ROOT / "topologies" / "one_sip.yaml")
COMMAND = 4000 + 8000 + 5000
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
DATA = np.arange(32 * 64, dtype=np.float32).reshape(32, 64)


@pytest.fixture
def host() -> Host:
    return Host(Engine(ONE_SIP, MemoryLogWriter()), Path(__file__).parent)


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(KbError) as caught:
        call()
    return str(caught.value)


def line_of(kernel: Callable[..., None], after: int) -> str:
    return f"{Path(__file__).name}:{kernel.__code__.co_firstlineno + after}"


PLACES = {
    "own slice": ("hbm", 0, "hbm0"),
    "a slice of the other half": ("hbm", 6, "hbm6"),
    "a slice of the next cube": ("hbm", 8, "sip0.cube1.hbm0"),
    "a slice of the farthest cube": ("hbm", 127, "sip0.cube15.hbm7"),
    "own SRAM": ("sram", 0, "sram"),
    "the SRAM of the cube below": ("sram", 4, "sip0.cube4.sram"),
    "own TCM": ("tcm", 0, "pe0"),
    "the TCM of another PE": ("tcm", 5, "pe5"),
    "the TCM of another cube": ("tcm", 9, "sip0.cube1.pe1"),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_kernel_reads_and_writes_every_memory_in_the_time_of_a_probe(host: Host, place: str) -> None:
    memory, number, node = PLACES[place]
    a = host.tensor("a", DATA, "f32", slices=[number], memory=memory)
    b = host.empty("b", DATA.shape, "f32", slices=[number], memory=memory)

    def kernel(tl: Any, a: Any, b: Any) -> None:
        tl.store(b, tl.load(a) * 2.0)

    def load(tl: Any, a: Any) -> None:
        tl.load(a)

    timed = host.launch(load, a, pes=[0])
    assert timed.end_ps - timed.start_ps == COMMAND + probe(ONE_SIP, "pe0", node, DATA.nbytes).latency_ps
    host.launch(kernel, a, b, pes=[0])
    log = host.engine.close_log()
    assert host.engine.initial_memory is not None
    np.testing.assert_array_equal(read_tensor(Executor(log, host.engine.initial_memory, "tile").run(), b), 2 * DATA)  # type: ignore[arg-type]


def test_a_gemm_takes_each_operand_from_another_memory(host: Host) -> None:
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((40, 50), np.float32), rng.standard_normal((50, 30), np.float32)
    bias = rng.standard_normal((1, 30), np.float32)
    operands = (
        host.tensor("a", a, "f32", slices=[12]),
        host.tensor("b", b, "f32", slices=[3], memory="sram"),
        host.tensor("bias", bias, "f32", slices=[7], memory="tcm"),
    )
    c = host.empty("c", (40, 30), "f32", slices=[6])

    def kernel(tl: Any, a: Any, b: Any, bias: Any, c: Any) -> None:
        tl.wait(tl.composite("gemm", a, b, out=c, tile=(16, 16, 32), epilogue=(tl.bias(bias),), b_stream=True))

    host.launch(kernel, *operands, c, pes=[1])
    log = host.engine.close_log()
    assert host.engine.initial_memory is not None
    got = read_tensor(Executor(log, host.engine.initial_memory, "fused").run(), c)  # type: ignore[arg-type]
    np.testing.assert_allclose(got, a.astype(np.float64) @ b + bias, rtol=0, atol=50 * 2.0**-24 * 50)


HIT, WALK = 1000, 2 * 50000
ROW = 32 * KIB  # f16 elements of a page


def span_ps(host: Host, kernel: Callable[..., None], *arguments: object) -> int:
    result = host.launch(kernel, *arguments, pes=[0])
    return result.end_ps - result.start_ps


def test_the_first_load_of_a_page_waits_for_a_walk_and_the_second_does_not(host: Host) -> None:
    physical = host.tensor("a", DATA, "f32", slices=[0])
    virtual = host.map(physical)

    def kernel(tl: Any, a: Any) -> None:
        tl.load(a)

    alone = span_ps(host, kernel, physical)
    assert alone == COMMAND + 2 * (14 + 2000 + 21) + 45000 + DATA.nbytes * 10000 // 1024
    assert span_ps(host, kernel, virtual) == alone + HIT + WALK
    assert span_ps(host, kernel, virtual) == alone + HIT


@pytest.mark.parametrize(("pages", "walks"), [(2, 0), (64, 0), (65, 65)])
def test_a_tlb_of_64_pages_keeps_64_and_none_of_65(host: Host, pages: int, walks: int) -> None:
    a = host.map(host.tensor("a", np.zeros((pages, ROW), np.float16), "f16", slices=[0]))

    def kernel(tl: Any, a: Any) -> None:
        for row in range(pages):
            tl.load(a[row, 0:32])

    first, second = span_ps(host, kernel, a), span_ps(host, kernel, a)
    assert first - second == (pages - walks) * WALK


def test_a_virtual_address_changes_no_data(host: Host) -> None:
    owners = range(32)  # of four cubes: each has a row in its slice, and writes the row of another
    rows = Sharding(owners=tuple(owners))
    tensors = [host.tensor("a", DATA, "f32", shard=rows), host.empty("b", DATA.shape, "f32", shard=rows)]

    def kernel(tl: Any, a: Any, b: Any) -> None:
        mine = tl.program_id()
        tl.store(b[31 - mine], tl.load(a[mine]))

    host.launch(kernel, *map(host.map, tensors), pes=owners)
    np.testing.assert_array_equal(host.read(tensors[1]), DATA[::-1])


def test_a_full_hbm_slice_says_how_much_it_has_and_who_holds_it(host: Host) -> None:
    host.empty("weights", (3 * GIB // 2,), "i8", slices=[9])
    host.empty("cache", (256 * MIB,), "i8", slices=[9])
    assert refused(lambda: host.empty("more", (GIB,), "i8", slices=[9])) == (
        "tensor more in sip0.cube1.hbm1: got a request for 1073741824 bytes, needs at most 268435456 in one piece "
        "(268435456 of 2147483648 are free, weights holds 1610612736, cache holds 268435456); use smaller tensors or a "
        "larger memory"
    )


def test_a_full_sram_says_so_too(host: Host) -> None:
    host.empty("table", (10 * MIB,), "i8", memory="sram", slices=[2])
    assert refused(lambda: host.empty("more", (8 * MIB,), "i8", memory="sram", slices=[2])) == (
        "tensor more in sip0.cube2.sram: got a request for 8388608 bytes, needs at most 6291456 in one piece "
        "(6291456 of 16777216 are free, table holds 10485760); use smaller tensors or a larger memory"
    )


def test_a_full_tcm_tells_the_host_and_a_kernel_what_tile_buffers_leave(host: Host) -> None:
    # 2048 KiB less 768 KiB of tile buffers
    host.empty("pinned", (MIB,), "i8", memory="tcm", slices=[3])
    assert refused(lambda: host.empty("more", (512 * KIB,), "i8", memory="tcm", slices=[3])) == (
        "tensor more in sip0.cube0.pe3.pe_tcm: got a request for 524288 bytes, needs at most 262144 in one piece "
        "(262144 of 1310720 are free, pinned holds 1048576); use smaller tensors or a larger memory"
    )
    a = host.tensor("a", np.zeros((64, 2048), np.float16), "f16")

    def kernel(tl: Any, a: Any) -> None:
        first = tl.load(a[0:32])
        tl.load(a)
        tl.store(a[0:32], first)

    assert refused(lambda: host.launch(kernel, a, pes=[3])) == (
        f"{line_of(kernel, 2)}: sip0.cube0.pe3.pe_tcm: got a request for 262144 bytes, needs at most 131072 in one "
        f"piece (131072 of 1310720 are free, pinned holds 1048576, {line_of(kernel, 1)} holds 131072); keep "
        "fewer values at a time, or smaller ones"
    )


def test_an_address_without_memory_is_named_beside_the_map(host: Host) -> None:
    a = host.tensor("a", DATA, "f32", slices=[0])
    nowhere = a.addresses[0][0] + 2 * GIB
    there = f"address {nowhere:#x}: got no memory there, needs an address in {ONE_SIP.address_map.describe()}"
    message = MmuMap(virtual=64 * KIB, physical=nowhere, nbytes=64 * KIB, pes=("sip0.cube0.pe0",))
    assert refused(lambda: host.send(message)) == there
    lost: Tensor = replace(a, addresses=((nowhere,),))
    virtual = host.map(a)
    host.unmap(virtual)

    def kernel(tl: Any, a: Any) -> None:
        tl.load(a)

    assert refused(lambda: host.launch(kernel, lost, pes=[0])) == (
        "launch of a: got a tensor after host.free, or of another chip, needs one that holds memory of this chip"
    )
    assert refused(lambda: host.launch(kernel, virtual, pes=[0])) == (
        f"{line_of(kernel, 1)}: a[0:32, 0:64] in sip0.cube0.pe0.pe_mmu: got virtual address 0x10000, which is not "
        "mapped, needs a mapped address, and none is; map it for this PE with host.map"
    )
