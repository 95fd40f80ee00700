"""The host's reads, writes and page maps on the two-cube chip, by hand, in picoseconds.

A call costs 100000. To the slice of cube 0 it is 20000 (pcie_ep) + 3000 (io_noc) + 5000 (ucie) + 2000 (noc) + 1000
(xbar) = 31000, as far back, and 5000 more to that of cube 1. PCIe takes 20 a byte, as does the slice, which adds 30000.
"""

import numpy as np
import pytest
from components_two_cubes import TWO_SIPS, nothing

from kb_dataexec import MemoryLogWriter
from kb_engine.block import AddressTranslator
from kb_engine.observe import Callbacks
from kb_engine.timing.units import ns_text
from kb_messages import FabricTransfer, KbError, KernelError, MmuMap, Refusal, SimulationStuckError, TopologyError

DATA = np.arange(256, dtype=np.float16).reshape(16, 16)
CALL, WAY, BYTES, HBM = 100000, 31000, 512 * 20, 30000
ONE = CALL + WAY + BYTES + HBM + WAY
START, BACK = 157000, 40000
"""A message's way to the PEs of cube 1, and its answer's, as in test_launch_path.py."""


def test_a_write_is_done_when_it_is_acknowledged(host):
    chip = host()
    chip.tensor("a", DATA, "f16", slices=[0])
    assert chip.write_ps == chip.engine.clock.now == ONE


def test_a_read_takes_a_request_the_slice_and_the_way_back(host):
    chip = host()
    a = chip.tensor("a", DATA, "f16", slices=[0])
    assert np.array_equal(chip.read(a), DATA)
    assert (chip.write_ps, chip.read_ps) == (ONE, ONE)


def test_blocks_under_way_at_once_share_the_bus(host):
    # Two of 512 bytes: both have left after 1024 x 20. The one to cube 1 has 5000 more each way.
    trace = []
    chip = host(observers=[Callbacks(on_trace=trace.append)])
    chip.tensor("a", np.zeros((32, 16), np.float16), "f16", blocks=(2, 1))
    assert chip.write_ps == ONE + BYTES + 2 * 5000
    assert [(each.src, each.dst, each.nbytes, each.t_start_ps, each.t_end_ps) for each in trace] == [
        ("host", "sip0.cube0.hbm0", 512, CALL, ONE + BYTES),
        ("host", "sip0.cube1.hbm0", 512, CALL, ONE + BYTES + 10000),
    ]
    assert all(isinstance(each, FabricTransfer) for each in trace)


def test_a_block_waits_for_one_of_the_hosts_channels(host):
    chip = host(("dma_channels: 2", "dma_channels: 1"))
    chip.tensor("a", np.zeros((32, 16), np.float16), "f16", blocks=(2, 1))
    assert chip.write_ps == ONE + (ONE - CALL + 2 * 5000)


def test_host_and_kernels_do_not_meet(host):
    chip = host()
    a = chip.tensor("a", DATA, "f16", slices=[0])
    launched = chip.launch(lambda tl, a: tl.load(a), a)
    chip.write(a, DATA)
    assert launched.call_ps == ONE
    assert chip.engine.clock.now == launched.response_ps + ONE


def test_a_write_between_launches_is_logged_with_its_times(host):
    writer = MemoryLogWriter()
    chip = host(writer=writer)
    a = chip.tensor("a", DATA, "f16", slices=[0])
    launched = chip.launch(nothing, a)
    chip.write(a, 2 * DATA)
    chip.engine.close_log()
    (record,) = writer.close().records()
    began = launched.response_ps + CALL
    assert (record.name, record.t_ready_ps, record.t_start_ps) == ("host_write", began, began)
    assert (record.t_end_ps, record.t_out_ps) == (began + ONE - CALL, began + ONE - CALL)


def test_a_memory_that_no_link_leads_to_is_refused(host):
    with pytest.raises(TopologyError) as caught:
        host().tensor("a", DATA, "f16", memory="tcm", slices=[0])
    assert str(caught.value).startswith("host -> sip0.cube0.pe0.pe_tcm: got no path, needs links through ")


def test_a_page_map_goes_to_the_pes_and_is_answered(host, mmu):
    chip = host(*mmu)
    a = chip.empty("a", (16, 16), "f16", slices=[0])
    chip.map(a)
    assert chip.map_ps == chip.engine.clock.now == START + BACK


def test_a_processor_reads_one_message_after_the_other(host, mmu):
    # The second message is read by io_cpu 10000 after the first; m_cpu is done with the first by then.
    chip = host(*mmu)
    chip.map(chip.empty("a", (32, 16), "f16", blocks=(2, 1)))
    assert chip.map_ps == START + 10000 + BACK


def test_a_map_for_a_near_pe_is_answered_earlier(host, mmu):
    chip = host(*mmu)
    chip.unmap(chip.map(chip.empty("a", (16, 16), "f16"), pes=[0]))
    assert chip.map_ps == 2 * (START + BACK - 2 * 5000)


def test_a_map_over_sips_is_answered_when_all_are(host, mmu):
    chip = host(*TWO_SIPS, *mmu)
    chip.map(chip.empty("a", (16, 16), "f16"))
    start = (133000 + 40000) + 86000 + 10000 + 24000  # as in test_launch_path.py
    assert chip.map_ps == start + (2000 + 15000) + 86000 + (23000 + 40000)


def test_what_was_mapped_over_the_fabric_is_translated(host, mmu):
    chip = host(*mmu)
    a = chip.map(chip.tensor("a", DATA, "f16", slices=[1]))
    seen = []
    chip.launch(lambda tl, a: seen.append(np.asarray(tl.load(a)).copy()), a, pes=[0])
    assert np.array_equal(seen[0], DATA)


def test_an_mmu_that_refuses_is_an_error(host, mmu, monkeypatch):
    def refuse(self, message):
        raise KernelError(self.node_id, "a map", "none")

    chip = host(*mmu)
    monkeypatch.setattr(AddressTranslator, "apply", refuse)
    with pytest.raises(KernelError) as caught:
        chip.map(chip.empty("a", (16, 16), "f16"), pes=[1])
    assert str(caught.value) == "sip0.cube0.pe1.pe_mmu: got a map, needs none"


def test_a_pe_that_is_not_there_is_answered_by_io_cpu(host):
    engine = host().engine
    message = MmuMap(virtual=0, physical=1 << 48, nbytes=4096, pes=("sip0.cube0.pe0", "sip0.cube0.pe9"))
    assert engine.host_calls.call([message]).refusal == Refusal(
        where="sip0.io0.io_cpu",
        got="a message for sip0.cube0.pe9",
        needs="one of sip0.cube0.pe0 to sip0.cube1.pe1",
    )


def test_a_message_that_is_lost_is_a_deadlock(host, monkeypatch):
    chip = host()
    monkeypatch.setattr(chip.engine.components["sip0.cube1.m_cpu"], "receive", lambda request: None)
    with pytest.raises(SimulationStuckError) as caught:
        chip.launch(nothing)
    assert str(caught.value) == (
        f"deadlock at {ns_text(chip.engine.clock.now_ps)}: no event is scheduled, and messages have no answer: host "
        "waits for answers to 1 message, sip0.io0.io_cpu waits for 1 answers; needs an answer to every request"
    )
    with pytest.raises(KbError, match="simulation: got a call after one that failed or got stuck"):
        chip.launch(nothing)
