"""Tensors at virtual addresses, as the host maps them."""

import numpy as np
import pytest

from kb_engine import Host, read_tensor
from kb_messages import KbError, MmuMap, MmuUnmap

PAGE = 4096
PE = "sip0.cube0.pe0"
SQUARE = np.arange(64 * 64).reshape(64, 64).astype(np.float16)  # two pages


def refused(call):
    with pytest.raises(KbError) as caught:
        call()
    return str(caught.value)


def mapping(host, pe=0):
    return host.engine.pes[f"sip0.cube0.pe{pe}"].mmu.pages.describe()


def test_pages_are_given_out_from_the_second_on_and_never_twice(chip_host, mmu):
    host = chip_host(*mmu)
    a, b = (host.map(host.tensor(name, SQUARE, "f16")) for name in "ab")
    assert (a.virtual, b.virtual) == ((((PAGE,),),), (((3 * PAGE,),),))
    host.unmap(a)
    assert host.map(host.empty("c", (1,), "i8")).virtual == (((5 * PAGE,),),)


def test_every_block_of_every_copy_is_mapped_for_every_pe(chip_host, mmu, two_pes):
    host = chip_host(*mmu, *two_pes)
    physical = host.tensor("a", SQUARE, "f16", shard="replica")
    a = host.map(physical, virtual=1 << 30)
    first, second = physical.addresses[0][0], physical.copies[0][0][0]
    expected = f"0x40000000 to 0x40002000 -> {first:#x}, 0x40002000 to 0x40004000 -> {second:#x}"
    assert [mapping(host, pe) for pe in range(2)] == [expected] * 2
    seen = []
    host.launch(lambda tl, a: seen.append(tl.load(a.shard(tl.program_id())[63, 63]).data.item()), a)
    assert seen == [4095 + 1] * 2  # f16 rounds 4095 to 4096
    host.unmap(a)
    assert [mapping(host, pe) for pe in range(2)] == ["nothing"] * 2


def test_hosts_of_one_chip_know_each_others_virtual_addresses(chip_host, mmu):
    host = chip_host(*mmu)
    other = Host(host.engine)
    physical = host.tensor("a", SQUARE, "f16")
    a = host.map(physical)
    assert "a tensor at virtual addresses" in refused(lambda: other.free(physical))
    assert other.map(other.tensor("b", SQUARE, "f16")).virtual == (((3 * PAGE,),),)
    other.unmap(a)
    other.free(physical)
    assert (host.map_ps > 0, other.map_ps > 0) == (host.engine.host_calls is not None,) * 2


def test_the_host_reads_and_writes_both(chip_host, mmu):
    host = chip_host(*mmu)
    physical = host.tensor("a", SQUARE, "f16", (2, 2))
    a = host.map(physical)
    host.write(a, SQUARE + 1)
    np.testing.assert_array_equal(host.read(physical), SQUARE + 1)
    np.testing.assert_array_equal(host.read(a), SQUARE + 1)
    np.testing.assert_array_equal(read_tensor(host.engine.memory.store, a), SQUARE + 1)


def test_tensors_take_whole_pages_where_there_is_an_mmu(chip_host, mmu, noc):
    host = chip_host(*mmu, *noc)
    for memory in ("hbm", "sram"):
        a, b = (host.empty(name, (3,), "i8", memory=memory).addresses[0][0] for name in "ab")
        assert b - a == PAGE


def test_what_a_page_table_refuses_changes_none(chip_host, mmu, two_pes):
    host = chip_host(*mmu, *two_pes)
    taken = MmuMap(virtual=2 * PAGE, physical=(1 << 48) + 8 * PAGE, nbytes=PAGE, pes=("sip0.cube0.pe1",))
    host.send(taken)
    a = host.tensor("a", SQUARE, "f16", (2, 1))  # a page each: the second meets what PE 1 has
    assert refused(lambda: host.map(a, virtual=PAGE)) == (
        "sip0.cube0.pe1.pe_mmu: map: got virtual bytes 0x2000 to 0x3000, of which some are mapped already "
        f"(0x2000 to 0x3000 -> {taken.physical:#x}), needs each byte mapped once; unmap it first"
    )
    assert mapping(host, 0) == "nothing"
    assert host.map(a, virtual=PAGE, pes=[0]).virtual == (((PAGE,), (2 * PAGE,)),)


def test_pages_apart_in_memory_are_no_matrix(chip_host, mmu):
    host = chip_host(*mmu)
    physical = host.tensor("a", SQUARE, "f16")
    a = host.map(physical)
    base = physical.addresses[0][0]
    host.send(MmuUnmap(virtual=2 * PAGE, nbytes=PAGE, pes=(PE,)))
    host.send(MmuMap(virtual=2 * PAGE, physical=base + 5 * PAGE, nbytes=PAGE, pes=(PE,)))

    def kernel(tl, a):
        tl.load(a[0:32])
        tl.load(a)

    assert refused(lambda: host.launch(kernel, a)) == (
        f"test_virtual_memory.py:{kernel.__code__.co_firstlineno + 2}: a[0:64, 0:64] in {PE}.pe_mmu: got virtual "
        "address 0x1000, whose 64 rows are in pages apart from each other, needs pages that follow each other in "
        "physical memory as they do in virtual memory; map them so, or access them one by one; mapped are "
        f"0x1000 to 0x2000 -> {base:#x}, 0x2000 to 0x3000 -> {base + 5 * PAGE:#x}"
    )


def test_a_mapped_tensor_is_not_freed(chip_host, mmu):
    host = chip_host(*mmu)
    physical = host.empty("a", (3,), "i8")
    a = host.map(physical)
    message = "free of a: got a tensor at virtual addresses, needs an unmapped one; unmap it"
    assert [refused(lambda each=each: host.free(each)) for each in (physical, a)] == [message] * 2
    host.unmap(a)
    host.free(physical)


def test_what_makes_no_sense_is_refused(chip_host, mmu):
    host = chip_host(*mmu)
    a = host.empty("a", (3,), "i8")
    virtual = host.map(a)
    tcm = [host.empty(name, (3,), "i8", memory="tcm") for name in "bc"][1]
    top = (1 << 48) + (1 << 20)
    assert refused(lambda: host.map(virtual)) == (
        "map of a: got a tensor at virtual addresses, needs one at physical ones"
    )
    assert refused(lambda: host.map(a, pes=[1])) == "map: got PE 1, needs 0 to 0"
    assert refused(lambda: host.map(a, virtual=5)) == (
        f"{PE}.pe_mmu: got virtual 0x5, needs a multiple of the page's 0x1000 bytes"
    )
    assert refused(lambda: host.map(tcm)) == (
        f"{PE}.pe_mmu: got physical {tcm.addresses[0][0]:#x}, needs a multiple of the page's 0x1000 bytes"
    )
    assert refused(lambda: host.unmap(a)) == "unmap of a: got a tensor that is not mapped, needs one from host.map"
    assert refused(lambda: host.send(MmuUnmap(virtual=0, nbytes=PAGE, pes=("pe0",)))) == (
        "map: got PE 'pe0', needs the id of a PE; did you mean 'sip0.cube0.pe0'?"
    )
    assert refused(lambda: host.send(MmuMap(virtual=0, physical=top - PAGE, nbytes=2 * PAGE, pes=(PE,)))) == (
        "map to sip0.cube0.hbm0: got bytes 0xff000 to 0x101000, needs a range within its 0x100000 bytes"
    )
    assert refused(lambda: host.send(MmuMap(virtual=0, physical=top, nbytes=PAGE, pes=(PE,)))).startswith(
        f"address {top:#x}: got no memory there, needs an address in sip0.cube0.hbm0 (1 MiB from 0x1000000000000)"
    )
    host.unmap(virtual)
    assert refused(lambda: host.unmap(virtual)) == (
        "unmap of a: got a tensor that is not mapped, needs one from host.map"
    )


def test_without_an_mmu_nothing_is_mapped(chip_host):
    host = chip_host()
    assert refused(lambda: host.map(host.empty("a", (3,), "i8"))) == (
        f"map: got {PE}, which has no MMU, needs a pe_mmu in pe_template"
    )
