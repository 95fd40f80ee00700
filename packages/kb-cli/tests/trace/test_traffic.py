"""Counters of links and memories, by hand."""

import numpy as np
import pytest

from kb_cli.benchmark import bundled
from kb_cli.trace.traffic import traffic
from kb_cli.trace.transfers import flows_of
from kb_cli.trace.window import Window
from kb_dataexec import OpLog
from kb_dataexec.log import OPERAND_DTYPE, OPS_DTYPE
from kb_messages import LogError, MemorySpace, Role
from kb_topology import load_topology

CHIP = load_topology(bundled.find("topologies", "one_cube"))
HBM, TCM = (CHIP.address_map.region_of_node(f"sip0.cube0.{name}").owner for name in ("hbm0", "pe0.pe_tcm"))
TEXTS = ["sip0.cube0.pe0.pe_dma", "dma_read", "dma_write", "fetch", "line"]
ALL = Window(0, 2**63 - 1)


def log_of(*rows: tuple[str, int, int, int], owner: int = HBM) -> OpLog:
    """Services of (stage, start, end, bytes) between HBM 0 and the TCM of PE 0; ids fall, so that none is a row."""
    ops, operands = np.zeros(len(rows), OPS_DTYPE), np.zeros(2 * len(rows), OPERAND_DTYPE)
    for at, (stage, start, end, nbytes) in enumerate(rows):
        op_id = 10_000_000 - at
        texts = {"component": TEXTS.index(TEXTS[0]), "name": TEXTS.index(stage), "line": TEXTS.index("line")}
        for column, value in {**texts, "op_id": op_id, "t_start_ps": start, "t_end_ps": end}.items():
            ops[at][column] = value
        far, near = (Role.DST, Role.SRC) if stage == "dma_write" else (Role.SRC, Role.DST)
        operands[2 * at : 2 * at + 2]["op_id"] = op_id
        operands[2 * at : 2 * at + 2]["rows"], operands[2 * at : 2 * at + 2]["row_nbytes"] = 2, nbytes // 2
        operands[2 * at : 2 * at + 2]["role"] = far, near
        operands[2 * at : 2 * at + 2]["owner"] = owner, TCM
    return OpLog(ops, operands, TEXTS)


def values(log: OpLog, window: Window = ALL) -> dict[str, list[tuple[int, float]]]:
    """(time, value) by the title of each counter."""
    found = traffic(log, CHIP, window, None)
    titles = [found.places[track].title for track in found.track.tolist()]
    shown: dict[str, list[tuple[int, float]]] = {}
    for title, t, value in zip(titles, found.t_ps.tolist(), found.value.tolist(), strict=True):
        shown.setdefault(title, []).append((t, value))
    return shown


def test_a_read_is_a_share_of_the_bandwidth_of_its_memory_and_its_links() -> None:
    """640 bytes in 64 ns are 10 bytes a nanosecond, of 102.4 at the HBM and of 128 at the DMA. Each of the 64 windows
    is 2 ns long, and half of the first one and of the last one is without a transfer."""
    fetch = "fetch", 0, 128_000, 4096
    found = values(log_of(fetch, ("dma_read", 1000, 65_000, 640), fetch))
    memory = [(0, 4.883), (2000, 9.766), (64_000, 4.883), (66_000, 0.0)]
    assert found == {
        "sip0.cube0.hbm0": memory,
        "sip0.cube0.hbm0 -> sip0.cube0.xbar0": memory,
        "sip0.cube0.xbar0 -> sip0.cube0.pe0.pe_dma": [(0, 3.906), (2000, 7.812), (64_000, 3.906), (66_000, 0.0)],
    }


def test_a_write_takes_the_other_way_and_ends_at_zero() -> None:
    found = values(log_of(("dma_write", 0, 64_000, 640)))
    assert list(found) == [
        "sip0.cube0.hbm0",
        "sip0.cube0.pe0.pe_dma -> sip0.cube0.xbar0",
        "sip0.cube0.xbar0 -> sip0.cube0.hbm0",
    ]
    assert found["sip0.cube0.hbm0"] == [(0, 9.766), (64_000, 0.0)]


def test_services_that_overlap_add_up_and_one_without_length_counts_too() -> None:
    log = log_of(("dma_read", 0, 100, 10), ("dma_read", 50, 150, 20), ("dma_read", 200, 200, 6))
    (flow,) = flows_of(log)
    at = np.array([-5, 0, 50, 100, 150, 199, 201, 500])
    np.testing.assert_allclose(flow.moved_until(at), [0, 0, 5, 20, 30, 30, 36, 36], atol=1e-12)
    assert (flow.dma, flow.stage, flow.owner) == ("sip0.cube0.pe0.pe_dma", "dma_read", HBM)


def test_a_window_has_the_mean_of_its_own_time() -> None:
    log = log_of(("dma_read", 0, 100_000, 1000), ("dma_read", 100_000, 200_000, 500))
    found = values(log, Window(80_000, 144_000))["sip0.cube0.hbm0"]
    assert found == [(80_000, 9.766), (100_000, 4.883), (144_000, 0.0)]


def test_a_log_without_transfers_has_no_counters() -> None:
    assert values(log_of(("fetch", 0, 10, 64))) == {}


def test_a_transfer_inside_a_pe_uses_no_link() -> None:
    assert list(values(log_of(("dma_read", 0, 64_000, 640), owner=TCM))) == ["sip0.cube0.pe0.pe_tcm"]


def test_constants_of_the_log_come_from_no_memory() -> None:
    """A masked load reads bytes of HBM, and fills the rest of its tile with constants of the log."""
    read = "dma_read", 1000, 65_000, 640
    plain = log_of(read)
    constants = plain.operands[:1].copy()
    constants["owner"], constants["space"], constants["row_nbytes"] = 0, MemorySpace.IMMEDIATE.code, 64
    filled = OpLog(plain.ops, np.concatenate((plain.operands, constants)), TEXTS)
    assert values(filled) == values(plain)
    assert values(log_of(read, owner=0)) == {}


def test_a_memory_that_the_chip_lacks_is_named() -> None:
    with pytest.raises(LogError) as error:
        values(log_of(("dma_read", 0, 10, 64), owner=12345))
    assert str(error.value) == (
        "sip0.cube0.pe0.pe_dma: dma_read: got a transfer with memory 0x3039, needs a block and a memory of the chip "
        "one_cube"
    )
