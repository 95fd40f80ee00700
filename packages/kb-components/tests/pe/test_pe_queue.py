"""What doorbells and credits cost, by hand; and chips whose queues are no good."""

import numpy as np
import pytest

from kb_components.pe.pe_queue import PeQueue, PeQueueSpec
from kb_dataexec import MemoryLogWriter
from kb_engine.block import Context
from kb_engine.timing import Clock
from kb_messages import KernelError, TopologyError

NODE = "pe_queue: {kind: pe_queue, impl: builtin.pe_queue, depth: 2, doorbell_ns: 3, credit_ns: 5}"
LINK = '{from: "pe[*].pe_queue", to: noc, bw_gbs: 1, length_mm: 0}'
QUEUE = (
    ("      pe_tcm: {", f"      {NODE}\n      pe_tcm: {{"),
    ('    - {from: "xbar[0]", to: "hbm[0]"', f'    - {LINK}\n    - {{from: "xbar[0]", to: "hbm[0]"'),
)
"""A queue in each PE of the round chip with a NOC."""
WAY = 3000  # from queue to queue, through the NOC
ONES = np.ones((4, 16), np.float16)  # 128 bytes


def one_message(tl, x):
    if tl.program_id() == 0:
        tl.send(tl.load(x), 1)
    else:
        tl.recv(0)


def one_signal(tl, x):
    if tl.program_id() == 0:
        tl.signal(1, "go")
    else:
        tl.wait_for("go")


def no_messages(tl, x):
    tl.load(x)


@pytest.fixture
def launched(chip_host, noc, two_pes):
    """Launches a kernel on both PEs of the round chip with queues and *changes*, and returns the log."""

    def launch(kernel, *changes):
        host = chip_host(*noc, *two_pes, *QUEUE, *changes, writer=MemoryLogWriter())
        host.launch(kernel, host.tensor("x", ONES, "f16"), pes=range(2))
        return host.engine.close_log()

    return launch


def test_a_message_rings_after_its_parts_and_its_credit_comes_after_the_queue_and_the_way(launched):
    (sent,) = launched(one_message).tables["sends"]
    call, decode, setup, noc, port = 3000, 4000, 2000, 3000, 4000
    assert sent["t_rung_ps"] - sent["t_credit_ps"] == call + decode + setup + noc + 128 * 20 + port + 3000
    assert sent["t_credited_ps"] - sent["t_freed_ps"] == 5000 + WAY


def test_a_signal_rings_after_the_way_and_the_doorbell(launched):
    (signal,) = launched(one_signal).tables["signals"]
    assert signal["t_rung_ps"] - signal["t_sent_ps"] == WAY + 3000


def test_times_are_rounded_up_to_picoseconds():
    queue = PeQueue(PeQueueSpec(doorbell_ns=0.0004, credit_ns=2.5), Context("pe0.pe_queue", Clock(), None, 0))
    assert (queue.depth, queue.doorbell_ps(), queue.credit_ps()) == (3, 1, 2500)


@pytest.mark.parametrize(
    ("new", "said"),
    [
        (NODE.replace("depth: 2", "depth: 0"), "pe_queue.depth: got 0, needs >= 1"),
        (NODE.replace("depth: 2", "depth: many"), "pe_queue.depth: got 'many', needs an int"),
        (NODE.replace("doorbell_ns: 3", "doorbell_ns: -1"), "pe_queue.doorbell_ns: got -1, needs >= 0"),
        (
            NODE.replace("depth:", "depht:"),
            "pe_queue.depht: got an unknown key, needs one of depth, doorbell_ns, credit",
        ),
        (f"{NODE}\n      second_{NODE}", "sip0.cube0.pe0: got 2 blocks that are a MessageQueue, needs at most one in"),
    ],
)
def test_a_queue_that_is_no_queue_is_refused_when_the_chip_is_built(launched, new, said):
    with pytest.raises(TopologyError) as caught:
        launched(no_messages, (NODE, new))
    assert said in str(caught.value)


def test_a_block_of_another_maker_without_slots_is_refused_too(launched, monkeypatch):
    monkeypatch.setattr(PeQueue, "depth", 0)
    with pytest.raises(TopologyError) as caught:
        launched(no_messages)
    assert str(caught.value) == "sip0.cube0.pe0.pe_queue: got a depth of 0, needs at least one slot for each channel"


@pytest.mark.parametrize(
    ("kernel", "new", "way"),
    [
        (one_message, "", "sip0.cube0.pe0.pe_queue -> sip0.cube0.pe1.pe_queue"),
        (one_message, LINK.replace("[*]", "[0]"), "sip0.cube0.pe0.pe_queue -> sip0.cube0.pe1.pe_queue"),
        (one_message, LINK.replace("[*]", "[1]"), "sip0.cube0.pe0.pe_queue -> sip0.cube0.pe1.pe_queue"),
        (one_message, LINK.replace("0}", "0, both_ways: false}"), "sip0.cube0.pe0.pe_queue -> sip0.cube0.pe1.pe_queue"),
        (one_signal, "", "sip0.cube0.pe0.pe_queue -> sip0.cube0.pe1.pe_queue"),
        # Doorbells come with the data, and need no link; the credit does.
        (
            one_message,
            (
                '{from: "pe[0].pe_queue", to: noc, bw_gbs: 1, length_mm: 0, both_ways: false}\n'
                '    - {from: noc, to: "pe[1].pe_queue", bw_gbs: 1, length_mm: 0, both_ways: false}'
            ),
            "sip0.cube0.pe1.pe_queue -> sip0.cube0.pe0.pe_queue",
        ),
    ],
)
def test_a_queue_without_a_way_to_the_other_is_an_error_at_the_line_that_sends(launched, kernel, new, way):
    line = f"test_pe_queue.py:{kernel.__code__.co_firstlineno + 2}"
    changes = (f"    - {LINK}\n", f"    - {new}\n" if new else "")
    with pytest.raises(KernelError) as caught:
        launched(kernel, changes)
    assert str(caught.value).startswith(
        f"{line}: {way}: got no path, needs links through bridge, io_noc, noc, pcie_ep, serdes, switch, ucie, xbar; "
        "add such a link of pe_queue to `cube.links`, both ways; "
    )
    launched(no_messages, changes)


def test_a_chip_without_queues_names_the_node_to_add(chip_host, noc, two_pes):
    host = chip_host(*noc, *two_pes)
    with pytest.raises(KernelError) as caught:
        host.launch(one_message, host.tensor("x", ONES, "f16"), pes=range(2))
    assert (
        "got tl.recv with sip0.cube0.pe1, which has no pe_queue, needs a chip whose PEs have one; add `pe_queue: {"
        in (str(caught.value))
    )
