"""Queues and gates, on a toy PE: read and write 42240, fetch and store 700, multiply 5000, in picoseconds."""

import numpy as np
import pytest
from engine_toys import Gemm

from kb_engine.block.gates import ExclusivePort, Gate, WiringError
from kb_engine.testing import line as line_module
from kb_engine.testing.line import N_TILES, Line
from kb_engine.testing.subject import Subject
from kb_messages import DType, GemmCommand, Matrix, WaitReason

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
    from kb_dataexec import MemoryLogWriter

    def data(records):
        return {key: (r.op_id, r.kind, r.name, r.component, r.params, r.operands) for key, r in records.items()}

    other = MemoryLogWriter()
    usual, usual_records = times(toy_host(writer=writer), m=40, k=40)
    slow, slow_records = times(toy_host(("impl: toy.gemm}", "impl: toy.slow_gemm}"), writer=other), m=40, k=40)
    assert slow != usual
    assert data(slow_records) == data(usual_records)
    assert slow[0, 3][2] - slow[0, 3][1] == 45000


def test_a_wait_at_a_gate_is_logged_apart_from_the_queue(toy_host, writer):
    found, records = times(toy_host(*FAST_LINKS, writer=writer), m=128)
    # Fetches follow each other from 3002 on, 700 each, until tile 0 is multiplied and tiles 1 to 4 fill GEMM's queue:
    # fetch 5 ends at 7202 and its tile stays until 8702. Then STORE 0 takes the port, and fetch 6 waits for it.
    assert [found[tile, 2][1:] for tile in (4, 5, 6)] == [(5802, 6502, 6502), (6502, 7202, 8702), (9402, 10102, 13702)]
    assert found[0, 4] == (8702, 8702, 9402, 9402)
    # FETCH has a queue of four itself: tile 6 came in when tile 2 was taken, at 4402.
    assert found[6, 2][0] == 4402
    assert records[6, 2].waits_ps == (8702 - 4402, 700, 0, 0, 0, 0)


class Waiter:
    """A server that a gate lets in."""

    def __init__(self, seen):
        self.seen = seen

    def granted(self, token, gate):
        self.seen.append((token, gate))


def test_a_port_lets_waiters_in_one_by_one_in_order():
    port, seen = ExclusivePort(WaitReason.TCM_PORT), []
    waiter = Waiter(seen)
    assert port.admit("a")
    port.waiting.extend([(waiter.granted, "b"), (waiter.granted, "c")])
    port.leave("a")
    assert seen == [("b", port)]
    port.leave("b")
    assert seen == [("b", port), ("c", port)]
    port.leave("c")
    assert port.holder is None


def test_a_gate_that_admits_several_lets_all_of_them_in_and_stops_at_the_first_it_refuses():
    class Room(Gate):
        reason = WaitReason.REGISTER_FILE
        left = 0

        def admit(self, token):
            if token > self.left:
                return False
            self.left -= token
            return True

    gate, seen = Room(), []
    waiter = Waiter(seen)
    gate.waiting.extend([(waiter.granted, size) for size in (2, 1, 5, 1)])
    gate.left = 4
    gate.reopen()
    assert [token for token, _ in seen] == [2, 1]  # 1 is left, and the last waiter does not overtake the one of 5
    assert len(gate.waiting) == 2


def test_a_block_that_leads_nowhere_is_named_when_a_tile_has_to_go_on(toy_host):
    host = toy_host(("      - pe_fetch_store -> pe_gemm\n", ""))
    with pytest.raises(WiringError) as caught:
        times_without_log(host)
    assert str(caught.value) == (
        "sip0.cube0.pe0.pe_fetch_store: got a token whose next stage is GEMM on sip0.cube0.pe0.pe_gemm, "
        "needs a wire to a block that serves it; add the wire to pe_template"
    )


def times_without_log(host):
    tensors = [host.tensor(name, np.zeros((16, 16), np.float16), "f16") for name in "abc"]
    return host.launch(gemm, *tensors)


def test_a_server_counts_what_it_served_and_for_how_long(toy_host, writer):
    host = toy_host(*FAST_LINKS, writer=writer)
    times(host, k=80)
    counted = {server.stage_type.name: (server.served, server.busy_ps) for server in host.engine.servers}
    assert counted == {
        "DMA_READ": (10, 10),
        "DMA_WRITE": (1, 1),
        "FETCH": (5, 5 * 700),
        "STORE": (1, 700),
        "GEMM": (5, 5 * 5000),
    }


def test_reads_never_wait_behind_writes(toy_host, writer):
    found, _ = times(toy_host(writer=writer), m=64)
    reads = [found[tile, stage] for tile in range(4) for stage in (0, 1)]
    assert [start for _, start, _, _ in reads] == [START + number * READ for number in range(8)]
    # Tile 0 is ready to leave at 3000 + 2 x 42240 + 6400 = 93880 and leaves at once, although tile 1 is being read: at
    # the memory that read is first, from 3000 + 2 x 42240 + 1000 = 88480 to 98720. Then 10240, 30000, and 1000.
    assert found[0, 5] == (93880, 93880, 98720 + 41240, 139960)


class Signal(GemmCommand, frozen=True, kw_only=True, tag="signal"):
    """A command that takes its time in the pipeline and touches no data."""

    data_op = False


@pytest.mark.parametrize(("command", "recorded"), [(GemmCommand, True), (Signal, False)])
def test_only_a_command_that_works_on_data_leaves_records(command, recorded, monkeypatch):
    matrix = Matrix.packed(16, 16, DType.F16)
    monkeypatch.setattr(line_module, "COMMAND", command(a=matrix, b=matrix, out=matrix))
    line = Line(Subject(Gemm, {}, 0, (), {}))
    line.run()
    assert line.completed == 1
    assert len(line.outs) == (N_TILES * len(line.route) if recorded else 0)
