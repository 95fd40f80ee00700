"""The roofline, by hand arithmetic."""

import pytest

from kb_cli.run.base.result import Traffic
from kb_cli.run.observe.metrics import roofline

TRAFFIC = {"hbm": Traffic(read=3000, write=1000), "reg": Traffic(read=0, write=8000), "tcm": Traffic(read=9, write=9)}
BANDWIDTH = {"hbm": 100.0, "reg": 400.0}


def test_the_limiting_memory_is_the_one_whose_bytes_take_longest() -> None:
    # HBM: 4000 B / 100 GB/s = 40 ns; TCM ports: 8000 / 400 = 20 ns; compute: 16,000 / 1 TFLOP/s = 16 ns; 80 ns passed.
    found = roofline(16_000, 80_000, TRAFFIC, BANDWIDTH, 1e12)
    assert found is not None
    assert (found.bound, found.memory, found.memory_gbs) == ("hbm", "hbm", 100.0)
    assert found.least_ns == pytest.approx(40)
    assert found.memory_share == pytest.approx(0.5)
    assert found.compute_share == pytest.approx(0.2)


def test_compute_bounds_where_the_operations_take_longer() -> None:
    found = roofline(60_000, 80_000, TRAFFIC, BANDWIDTH, 1e12)
    assert found is not None
    assert (found.bound, found.memory, found.least_ns) == ("compute", "hbm", pytest.approx(60))


def test_limits_that_a_chip_does_not_state_are_left_out() -> None:
    no_peak = roofline(16_000, 80_000, TRAFFIC, BANDWIDTH, None)
    assert no_peak is not None
    assert (no_peak.bound, no_peak.compute_share) == ("hbm", None)
    no_bandwidth = roofline(16_000, 80_000, TRAFFIC, {}, 1e12)
    assert no_bandwidth is not None
    assert (no_bandwidth.bound, no_bandwidth.memory, no_bandwidth.memory_share) == ("compute", None, None)
    assert roofline(16_000, 80_000, TRAFFIC, {}, None) is None
    assert roofline(16_000, 0, TRAFFIC, BANDWIDTH, 1e12) is None
    assert roofline(0, 80_000, {"hbm": Traffic(read=0, write=0)}, BANDWIDTH, None) is None
