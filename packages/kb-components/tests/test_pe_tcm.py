"""The port's cost, as a table."""

import pytest

from kb_components.pe.pe_tcm import PeTcm, PeTcmSpec
from kb_engine.clock import Clock
from kb_engine.component import Context
from kb_messages.oplog import WaitReason


@pytest.mark.parametrize(
    ("bw_gbs", "latency_ns", "nbytes", "expected_ps"),
    [
        (200, 1, 1024, 1000 + 5120),
        (200, 0, 1024, 5120),
        (512, 2, 512, 2000 + 1000),
        (512, 2, 1, 2000 + 2),  # 1.953125 ps, rounded up once
        (102.4, 0.5, 1024, 500 + 10000),  # 1000 / 102.4 is 9.765625 ps a byte exactly
        (3, 0, 3, 1000),  # and not three times 333.4
        (200, 0.0001, 0, 1),
    ],
)
def test_access_is_latency_and_bytes_over_bandwidth(bw_gbs, latency_ns, nbytes, expected_ps):
    block = PeTcm(PeTcmSpec(bw_gbs=bw_gbs, latency_ns=latency_ns), Context("pe0.pe_tcm", Clock(), None, 1 << 20))
    assert block.access_ps(nbytes) == expected_ps


def test_the_port_admits_one_at_a_time_and_says_why_others_wait():
    port = PeTcm(PeTcmSpec(bw_gbs=200), Context("pe0.pe_tcm", Clock(), None, 1 << 20)).port
    assert port.reason is WaitReason.TCM_PORT
    assert port.admit("first")
    assert not port.admit("second")
    port.leave("first")
    assert port.admit("second")
