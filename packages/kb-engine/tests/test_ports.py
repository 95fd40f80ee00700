"""Queues and gates, on a toy PE: read and write 42240, fetch and store 700, multiply 5000, in picoseconds."""

import numpy as np
import pytest

from kb_engine.ports import ExclusivePort, Gate, WiringError
from kb_messages.oplog import WaitReason

READ = 1000 + 30000 + 512 * 20 + 1000
START = 3000


def gemm(tl, a, b, c):
    tl.composite("gemm", a, b, out=c, tile=(16, 16, 16))


def times(host, m=16, k=16, kernel=gemm, pes=None):
    """(tile, stage) -> (t_ready, t_start, t_end, t_out), and the records themselves."""
    shapes = (m, k), (k, 16), (m, 16)
    tensors = [host.tensor(name, np.zeros(shape, np.float16), "f16") for name, shape in zip("abc", shapes, strict=True)]
    host.launch(kernel, *tensors, pes=pes)
    log = host.engine.close_log()
    records = {(record.tile_id, record.stage_index): record for record in log.records()}
    return {key: (r.t_ready_ps, r.t_start_ps, r.t_end_ps, r.t_out_ps) for key, r in records.items()}, records


def test_one_tile_goes_from_block_to_block(toy_host, writer):
    found, _ = times(toy_host(writer=writer))
    read = START + 2 * READ
    assert found == {
        (0, 0): (START, START, START + READ, START + READ),
        (0, 1): (START + READ, START + READ, read, read),
        (0, 2): (read, read, read + 700, read + 700),
        (0, 3): (read + 700, read + 700, read + 5700, read + 5700),
        (0, 4): (read + 5700, read + 5700, read + 6400, read + 6400),
        (0, 5): (read + 6400, read + 6400, read + 6400 + READ, read + 6400 + READ),
    }


FAST_READS = (
    ("ps_per_byte: 20, latency_ps: 30000", "ps_per_byte: 0, latency_ps: 0"),
    ("overhead_ps: 1000", "overhead_ps: 0"),
)
FAST_LINKS = (*FAST_READS, ("bw_gbs: 100", "bw_gbs: 1000000"))
# 512 bytes at 1000000 GB/s are 0.512 ps, rounded up: a link takes 1, two links in a row still 1.


@pytest.mark.parametrize("impl", ["toy.gemm", "toy.gemm_by_process", "toy.gemm_by_callback"])
def test_a_full_queue_keeps_the_tile_and_its_block(toy_host, writer, impl):
    depth_1 = ("impl: toy.gemm}", f"impl: {impl}, queue_depth: 1}}")
    found, records = times(toy_host(*FAST_LINKS, depth_1, writer=writer), k=80)
    # Tile i is read at 3000 + 2 (i + 1); five tiles of one output. Fetches take 700, multiplications 5000.
    fetch_ready = [3002, 3004, 3006, 3008, 3010]
    assert [found[tile, 2] for tile in range(5)] == [
        (3002, 3002, 3702, 3702),
        (3004, 3702, 4402, 4402),  # into the queue of one
        (3006, 4402, 5102, 8702),  # full until tile 0 is multiplied
        (3008, 8702, 9402, 13702),
        (3010, 13702, 14402, 18702),
    ]
    assert [found[tile, 3] for tile in range(5)] == [
        (3702, 3702, 8702, 8702),
        (4402, 8702, 13702, 13702),
        (8702, 13702, 18702, 18702),
        (13702, 18702, 23702, 23702),
        (18702, 23702, 28702, 28702),
    ]
    assert [found[tile, 2][0] for tile in range(5)] == fetch_ready
    assert records[4, 2].waits_ps == (13702 - 3010, 0, 0, 0, 0, 0)


def test_a_third_partys_block_changes_time_and_no_data(toy_host, writer):
    from kb_dataexec.logfile import MemoryLogWriter

    def data(records):
        return {key: (r.op_id, r.kind, r.name, r.component, r.params, r.operands) for key, r in records.items()}

    other = MemoryLogWriter()
    usual, usual_records = times(toy_host(writer=writer), m=40, k=40)
    slow, slow_records = times(toy_host(("impl: toy.gemm}", "impl: toy.slow_gemm}"), writer=other), m=40, k=40)
    assert slow != usual
    assert data(slow_records) == data(usual_records)
    assert slow[0, 3][2] - slow[0, 3][1] == 45000


def test_waiters_at_a_gate_are_admitted_in_order_and_the_wait_is_logged(toy_host, writer):
    # STORE 0 wants the port 5000 after FETCH 0 ended; with 8 tiles of fetches at 700 each, the port is taken then.
    found, records = times(toy_host(*FAST_LINKS, writer=writer), m=128)
    fetches = [found[tile, 2][1] for tile in range(8)]
    assert fetches[:7] == [3002 + 700 * tile for tile in range(6)] + [8702 + 700 * 0]
