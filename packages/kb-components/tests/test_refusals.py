"""What only a run can find out is refused in a sentence, too."""

import numpy as np
import pytest

from kb_dataexec import MemoryLogWriter
from kb_engine import Engine, Host
from kb_messages import KbError


def load_once(topology, tmp_path):
    def kernel(tl, a):
        tl.load(a)

    engine = Engine(topology, MemoryLogWriter())
    host = Host(engine, tmp_path)
    host.launch(kernel, host.tensor("a", np.ones((16, 16), dtype=np.float16), "f16"))
    engine.close_log()


def refusal(chip, *changes, tmp_path):
    topology = chip(*changes)
    with pytest.raises(KbError) as caught:
        load_once(topology, tmp_path)
    return str(caught.value)


def test_a_time_beyond_64_bits_is_refused(chip, tmp_path):
    # 1e7 s = 1e19 ps, and 2^63 is 9.2e18
    assert refusal(chip, ("latency_ns: 30", "latency_ns: 1e16"), tmp_path=tmp_path) == (
        "op log: got a time that does not fit 64 bits, needs less than 106 days of simulated time; "
        "look for a latency or bandwidth of that size"
    )


def test_a_memory_whose_block_is_no_memory_is_refused(chip, tmp_path):
    memory = "count: 1, memory: {space: hbm, size: 1 MiB}"
    was = f"impl: builtin.hbm_fixed, {memory}, bw_gbs: 50, latency_ns: 30"
    assert refusal(chip, (was, f"impl: builtin.transit, {memory}"), tmp_path=tmp_path).endswith(
        "sip0.cube0.pe0.pe_dma -> sip0.cube0.hbm0: got a Transit, which takes no requests, needs a MemoryComponent"
    )
