"""The reference that sends burst after burst, against arithmetic by hand."""

from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from kb_topology import loads_topology

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(Path(__file__).parent / "contention")
    bursts, chips = (import_module(f"contention_{name}") for name in ("bursts", "chips"))

TINY = Fraction(1, 32)
"""Bytes of a burst; one takes 3 ps at 10 GB/s."""
NEAR_PS = 20


def ends(
    links: list[tuple[str, str, float]],
    transfers: list[tuple[str, str, str, int, int]],
    memory: tuple[float, float] = (50, 0),
    overhead_ns: float = 0,
    length_mm: float = 0,
    ports: str = "",
    burst: Fraction = TINY,
) -> list[Fraction]:
    """When *transfers* end, as (kind, source, destination, bytes, start), over *links*, as (from, to, GB/s) both ways.

    *memory* is the bandwidth and the latency in ns of two HBMs, or of two SRAMs if they have *ports*.
    """
    names = sorted({end for link in links for end in link[:2]})
    nodes = tuple(chips.Forwarder(name, "noc", overhead_ns) for name in names if name.startswith("n"))
    kind = chips.Memory("sram" if ports else "hbm_fixed", 2, *memory, ports)
    both = tuple(chips.ChipLink(*pair, bw, length_mm) for a, b, bw in links for pair in ((a, b), (b, a)))
    chip = chips.Chip(7, 0, 8, nodes, (kind,), both)
    topology = loads_topology(chips.yaml_of(chip), "contention.yaml")
    sent = [bursts.Transfer(kind, full(src), full(dst), *more) for kind, src, dst, *more in transfers]
    found = bursts.BurstSimulation(topology, burst).run(sent)
    assert isinstance(found, list)
    return found


def full(name: str) -> str:
    end = {"c": "pe_cpu", "d": "pe_dma"}.get(name[0])
    return f"sip0.cube0.pe{name[1:]}.{end}" if end else f"sip0.cube0.{name}"


def pe(kind: str, number: int) -> str:
    return f"pe{number}.pe_{kind}"


def near(*expected_ps: float) -> Any:
    return pytest.approx(expected_ps, abs=NEAR_PS)


ONE_WAY_PS = 21 + 1000 + 21
"""3 mm of 7 ps, a node, 3 mm."""


@pytest.mark.parametrize("burst", [Fraction(64), Fraction(7), Fraction(1, 2)])
def test_a_message_alone_takes_the_same_time_in_bursts_of_any_size(burst: Fraction) -> None:
    links = [(pe("cpu", 0), "n0", 100), ("n0", pe("cpu", 1), 40)]
    found = ends(links, [("message", "c0", "c1", 400, 5)], overhead_ns=1, length_mm=3, burst=burst)
    assert found == [5 + ONE_WAY_PS + 400 * 25]


def test_no_bytes_pay_the_latency_alone() -> None:
    links = [(pe("cpu", 0), "n0", 100), ("n0", pe("cpu", 1), 40)]
    transfers = [("message", "c0", "c1", 400, 0), ("message", "c0", "c1", 0, 3)]
    assert ends(links, transfers, overhead_ns=1, length_mm=3)[1] == 3 + ONE_WAY_PS


@pytest.mark.parametrize("widths", [(100, 40), (40, 100), (16, 16)])
def test_a_read_alone_pays_both_ways_the_latency_and_the_slowest_of_all(widths: tuple[int, int]) -> None:
    links = [(pe("dma", 0), "n0", widths[0]), ("n0", "hbm0", widths[1])]
    found = ends(links, [("read", "d0", "hbm0", 400, 0)], (50, 30), 1, 3)
    slowest_ps = 1000 / min(*widths, 50)
    assert found == near(2 * ONE_WAY_PS + 30_000 + 400 * slowest_ps)


@pytest.mark.parametrize("widths", [(100, 40), (40, 100), (16, 16)])
def test_a_write_alone_does_too(widths: tuple[int, int]) -> None:
    links = [(pe("dma", 0), "n0", widths[0]), ("n0", "hbm0", widths[1])]
    found = ends(links, [("write", "d0", "hbm0", 400, 0)], (50, 30), 1, 3)
    slowest_ps = 1000 / min(*widths, 50)
    assert found == near(2 * ONE_WAY_PS + 30_000 + 400 * slowest_ps)


@pytest.mark.parametrize("flows", [2, 3, 4])
def test_equal_flows_take_equal_parts_of_a_link(flows: int) -> None:
    links = [(pe("cpu", number), "n0", 100) for number in range(flows)] + [("n0", pe("cpu", 7), 100)]
    found = ends(links, [("message", f"c{number}", "c7", 600, 0) for number in range(flows)])
    assert found == near(*[flows * 6000] * flows)


def test_flows_from_one_source_share_its_link() -> None:
    # 10 ps a byte: half each until the short one's 100 bytes are through at 2000; 500 of the other are left.
    links = [(pe("cpu", 0), "n0", 100), ("n0", pe("cpu", 1), 1000), ("n0", pe("cpu", 2), 1000)]
    assert ends(links, [("message", "c0", "c1", 600, 0), ("message", "c0", "c2", 100, 0)]) == near(7000, 2000)


def test_a_slow_flow_leaves_the_rest_of_a_link_to_the_others() -> None:
    # Of 200 GB/s the first takes its 50, the others 75 each, 600 bytes in 8000 ps.
    links = [(pe("cpu", 0), "n0", 50), (pe("cpu", 1), "n0", 100), (pe("cpu", 2), "n0", 100), ("n0", pe("cpu", 7), 200)]
    found = ends(links, [("message", f"c{number}", "c7", 600, 0) for number in range(3)])
    assert found == near(12_000, 8000, 8000)


@pytest.mark.parametrize(("last_gbs", "end_ps"), [(100, 12_500), (30, 13_333)])
def test_a_flow_that_catches_up_is_held_by_the_link_behind(last_gbs: int, end_ps: int) -> None:
    # The shared link has 40 GB/s, 20 for each flow, until 200 bytes of the second are through at 10 ns. The first comes
    # in at 25 GB/s: 250 of its 300 bytes are there, 200 are through, and 100 go on at 40 GB/s or by the link behind.
    links = [
        (pe("cpu", 0), "n0", 25),
        (pe("cpu", 1), "n0", 1000),
        ("n0", "n1", 40),
        ("n1", pe("cpu", 2), last_gbs),
        ("n1", pe("cpu", 3), 1000),
    ]
    found = ends(links, [("message", "c0", "c2", 300, 0), ("message", "c1", "c3", 200, 0)])
    assert found == near(end_ps, 10_000)


TWO_TO_ONE = [(pe("dma", 0), "hbm0", 10), (pe("dma", 1), "hbm0", 1000)]
"""A DMA of 100 ps a byte, and one that is always faster than the memory, both without a node between."""


@pytest.mark.parametrize(("read_at_ps", "write_ends_ps"), [(40_000, 100_000), (90_000, 115_000), (101_000, 100_000)])
def test_a_read_parts_a_write(read_at_ps: int, write_ends_ps: int) -> None:
    # The write comes in at 10 GB/s for 100 ns, the memory takes 20 GB/s. The read holds it for 400 x 50 ps. At 40 ns,
    # the 200 bytes that wait meanwhile are made up for by 80 ns. At 90 ns, the last 100 bytes wait until 110 ns.
    transfers = [("write", "d0", "hbm0", 1000, 0), ("read", "d1", "hbm0", 400, read_at_ps)]
    assert ends(TWO_TO_ONE, transfers, (20, 0)) == near(write_ends_ps, read_at_ps + 20_000)


def test_separate_ports_do_not_part() -> None:
    links = [(a, "sram0", bw) for a, _, bw in TWO_TO_ONE]
    transfers = [("write", "d0", "sram0", 1000, 0), ("read", "d1", "sram0", 400, 90_000)]
    assert ends(links, transfers, (20, 0), ports="separate") == near(100_000, 110_000)


def test_bytes_of_two_writes_are_served_as_they_come() -> None:
    # Two times 10 GB/s come in, 10 are served: when the short one's last byte comes at 10 ns, 100 bytes wait.
    links = [(pe("dma", 0), "hbm0", 10), (pe("dma", 1), "hbm0", 10)]
    assert ends(links, [("write", "d0", "hbm0", 100, 0), ("write", "d1", "hbm0", 300, 0)], (10, 0)) == near(
        20_000, 40_000
    )


def test_a_memory_sends_one_read_after_the_other() -> None:
    # The memory serves 100 bytes in 1 ns, and the two DMAs' data leave by one link of 10 ns each.
    links = [(pe("dma", 0), "n0", 100), (pe("dma", 1), "n0", 100), ("n0", "hbm0", 10)]
    found = ends(links, [("read", "d0", "hbm0", 100, 0), ("read", "d1", "hbm0", 100, 0)], (100, 0))
    assert found == near(10_000, 20_000)


def test_of_two_reads_at_once_the_first_that_was_called_goes_first() -> None:
    transfers = [("read", "d1", "hbm0", 400, 0), ("read", "d0", "hbm0", 100, 0)]
    links = [(pe("dma", 0), "hbm0", 1000), (pe("dma", 1), "hbm0", 1000)]
    assert ends(links, transfers, (20, 0)) == near(20_000, 25_000)
    assert ends(links, transfers[::-1], (20, 0)) == near(5000, 25_000)


def test_a_dma_sends_one_transfer_after_the_other() -> None:
    links = [(pe("dma", 0), "n0", 10), ("n0", "hbm0", 1000), ("n0", "hbm1", 1000)]
    transfers = [("write", "d0", "hbm0", 100, 0), ("write", "d0", "hbm1", 100, 0)]
    assert ends(links, transfers, (1000, 0)) == near(10_000, 20_000)
