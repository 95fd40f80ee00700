"""What only a run can find out is refused in a sentence, too."""

from importlib.metadata import entry_points

import msgspec
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


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ("clock_ghz: 1.0}", "clock_ghz: 1.0e+300}", r"pe_gemm\.clock_ghz: got 1e\+300, needs <= 1000000"),
        ("clock_ghz: 1.0}", "clock_ghz: 1.0e-300}", r"pe_gemm\.clock_ghz: got 1e-300, needs >= 0\.001"),
        ("lanes: 16, clock_ghz: 1}", "lanes: 16, clock_ghz: 1.0e+300}", r"pe_math\.clock_ghz: got 1e\+300, needs <= "),
        (
            "clock_ghz: 1.0}",
            "clock_ghz: 1.0, macs_per_cell: {f16: 1.0e+300}}",
            r"pe_gemm\.macs_per_cell\.f16: got 1e\+300, needs <= 1000000",
        ),
    ],
)
def test_clocks_and_rates_beyond_their_bounds_are_refused_at_their_place(chip, was, now, said):
    with pytest.raises(KbError, match=rf"^chip\.yaml:\d+:\d+: \$\.cube\.pe_template\.nodes\.{said}"):
        Engine(chip((was, now)))


def test_every_clock_of_a_built_in_block_has_bounds():
    found = 0
    for point in entry_points(group="kb.components"):
        if not point.name.startswith("builtin."):
            continue
        for field in msgspec.inspect.type_info(point.load().spec_type).fields:
            if "clock" in field.name:
                members = [getattr(each, "type", each) for each in getattr(field.type, "types", (field.type,))]
                (clock,) = [each for each in members if isinstance(each, msgspec.inspect.FloatType)]
                assert clock.ge > 0, (point.name, field.name)
                assert clock.le < 1e10, (point.name, field.name)
                found += 1
    assert found >= 5
