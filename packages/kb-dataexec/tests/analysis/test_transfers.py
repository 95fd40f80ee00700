"""Rows of `transfers` that a log leaves out, and the parts of services, by hand."""

import numpy as np
import pytest
from dataexec_written_log import expect

from kb_dataexec.analysis import DmaOps, DmaOpsOnTheWay, LazyServices, all_transfers, memory_spans, service_parts
from kb_dataexec.log import OPERAND_DTYPE, OPS_DTYPE, TABLE_DTYPES, OpLog

STRINGS = ["dma_read", "dma_write", "fetch", "pe0.dma", "pe1.dma", "hbm0"]
HBM, IMMEDIATE = (1, 1024), (5, 0)


def log_of(ops, transfers):
    """*ops*: (op, name, component, [(role, (space, owner), bytes)], start, end), in any order."""
    rows, operands = np.zeros(len(ops), OPS_DTYPE), []
    for row, (op_id, name, component, of, start, end) in zip(rows, ops, strict=True):
        row["op_id"], row["name"], row["component"] = op_id, STRINGS.index(name), STRINGS.index(component)
        row["t_start_ps"], row["t_end_ps"] = start, end
        for role, (space, owner), nbytes in of:
            operand = np.zeros((), OPERAND_DTYPE)
            operand["op_id"], operand["role"], operand["space"], operand["owner"] = op_id, role, space, owner
            operand["rows"], operand["row_nbytes"] = 2, nbytes // 2
            operands.append(operand)
    table = np.array([(op_id, 5, *more) for op_id, *more in transfers], TABLE_DTYPES["transfers"])
    return OpLog(rows, np.array(operands, OPERAND_DTYPE), STRINGS, tables={"transfers": table})


def read(op_id, start, end, nbytes=8, component="pe0.dma", more=()):
    return op_id, "dma_read", component, [(0, HBM, nbytes), (1, (3, 3000), nbytes), *more], start, end


def write(op_id, start, end):
    return op_id, "dma_write", "pe0.dma", [(0, (3, 3000), 8), (1, HBM, 8)], start, end


ALONE = (10, 13, 13, 20, 28, 3, 0, -1)
"""A read from 8 to 31: set-up 2, request 3, latency 7, bytes 8, back 3."""


def tail(log):
    return {row["op_id"].item(): row.item()[2:] for row in all_transfers(log)}


def test_services_of_one_kind_go_as_the_first_one_that_met_nobody():
    ops = [read(4, 100, 123), read(2, 8, 31), read(3, 48, 75, component="pe1.dma"), (9, "fetch", "pe0.dma", [], 0, 5)]
    later = (101, 104, 110, 117, 125, 3, 0, 7)
    log = log_of([*ops, read(5, 99, 128), read(6, 0, 30, nbytes=10)], [(2, *ALONE), (5, *later)])
    # Op 3 is another PE's and op 6 has other bytes: nothing is told of them.
    assert tail(log) == {2: ALONE, 4: (102, 105, 105, 112, 120, 3, 0, -1), 5: later}


def test_ops_that_are_found_chunk_by_chunk_are_those_of_the_whole_log():
    """Of two chunks, with ids that ascend in neither of them."""
    ops = [read(4, 100, 123), read(2, 8, 31), read(7, 48, 75, nbytes=24, more=[(0, IMMEDIATE, 8)])]
    ops += [(9, "fetch", "pe0.dma", [(0, HBM, 8)], 0, 5), write(3, 5, 9), (6, "dma_read", "pe1.dma", [], 1, 2)]
    parts, found = [log_of(ops[:4], []), log_of(ops[4:], [])], DmaOpsOnTheWay()
    for part in parts:
        found.look(part)
    whole, ops_of_chunks = DmaOps.of(log_of(ops, [])), found.ops()
    for name in ("row", "op_id", "component", "name", "params", "start_ps", "end_ps", "is_read"):
        assert getattr(ops_of_chunks, name).tolist() == getattr(whole, name).tolist(), name
    assert ops_of_chunks.row.tolist() == [1, 4, 0, 5, 2]
    assert [each.tolist() for each in ops_of_chunks.far] == [each.tolist() for each in whole.far]
    assert whole.far.nbytes.tolist() == [8, 8, 8, 0, 24]
    log = log_of(ops, [(2, *ALONE)])
    assert memory_spans(log, LazyServices(log, ops_of_chunks)).tolist() == memory_spans(log).tolist()


def test_the_first_row_of_a_kind_that_met_nobody_counts():
    second = (50, 53, 53, 60, 69, 3, 0, -1)
    waited = (10, 13, 14, 21, 29, 3, 0, 8)
    shared = (10, 13, 13, 20, 28, 3, 1, -1)
    log = log_of(
        [read(number, 40 * number, 40 * number + 32) for number in range(5)],
        [(0, *waited), (1, *shared), (3, *ALONE), (2, *second)],
    )
    assert tail(log)[4] == (*(each + 40 for each in ALONE[:5]), 3, 0, -1)


def test_reads_and_writes_and_operands_that_are_immediates_are_told_apart():
    filled = read(3, 100, 123, more=[(0, IMMEDIATE, 6), (1, (3, 3000), 6)])
    wrote = (10, 13, 13, 21, 28, 3, 0, -1)
    log = log_of([read(1, 8, 31), write(2, 8, 31), filled, write(4, 108, 131)], [(1, *ALONE), (2, *wrote)])
    assert tail(log)[3] == (102, 105, 105, 112, 120, 3, 0, -1)
    assert tail(log)[4] == (110, 113, 113, 121, 128, 3, 0, -1)


def parts(log):
    found = service_parts(log, all_transfers(log))
    return [tuple(row)[1:] for row in found.tolist()]


@pytest.mark.parametrize(
    ("op", "row", "expected"),
    [
        # set-up, request, bytes on links, shared, wait, service, latency, bytes at the memory, response
        (read(0, 8, 31), ALONE, (2, 3, 0, 0, 0, 0, 7, 8, 3)),
        (read(0, 8, 44), (10, 13, 17, 24, 32, 3, 2, -1), (2, 3, 15, 2, 4, 0, 7, 0, 3)),
        (read(0, 8, 31), (10, 13, -1, 20, 28, 3, 0, -1), (2, 3, 0, 0, 0, 7, 0, 8, 3)),
        (write(0, 8, 60), (10, 25, 30, 38, 57, 3, 4, 9), (2, 3, 8, 4, 5, 0, 19, 8, 3)),
        (write(0, 8, 60), (10, 25, 25, 25, 57, 3, 4, -1), (2, 3, 8, 4, 0, 0, 32, 0, 3)),
        (write(0, 8, 60), (10, 25, -1, -1, 57, 3, 4, -1), (2, 3, 8, 4, 0, 32, 0, 0, 3)),
    ],
)
def test_the_parts_of_a_service(op, row, expected):
    assert parts(log_of([op], [(0, *row)])) == [expected]
    assert sum(expected) == op[5] - op[4]


@pytest.mark.parametrize(
    ("op", "row", "span"),
    [
        (read(0, 8, 31), ALONE, (13, 21)),  # the next request is served while this one's latency of 7 goes on
        (read(0, 8, 44), (10, 13, 17, 24, 32, 3, 2, -1), (17, 25)),
        (read(0, 8, 31), (10, 13, -1, 20, 28, 3, 0, -1), (13, 20)),
        (write(0, 8, 60), (10, 25, 30, 38, 57, 3, 4, 9), (30, 38)),
        (write(0, 8, 60), (10, 25, 25, 25, 57, 3, 4, -1), (17, 25)),  # its bytes came from 10 + 3 + 4 to 25
        (write(0, 8, 60), (10, 25, -1, -1, 57, 3, 4, -1), (25, 57)),
    ],
)
def test_when_bytes_held_their_memory(op, row, span):
    log = log_of([op], [(0, *row)])
    assert memory_spans(log).tolist() == [(0, 5, *span)]


def test_the_spans_of_equal_services_are_as_much_later_as_they_are():
    log = log_of([read(4, 100, 123), (9, "fetch", "pe0.dma", [], 0, 5), read(2, 8, 31)], [(2, *ALONE)])
    assert memory_spans(log).tolist() == [(2, 5, 13, 21), (0, 5, 105, 113)]


@pytest.mark.parametrize("far", [3, 10**15, -(10**15), 2**63 - 200])
def test_ids_may_lie_far_apart(far):
    ops = [read(1, 8, 31), read(far, 48, 71), read(far + 100, 108, 131)]
    log = log_of(ops, [(1, *ALONE), (far - 1, *ALONE), (far + 101, *ALONE)])
    assert tail(log) == {
        number: (*(each + later for each in ALONE[:5]), 3, 0, -1)
        for number, later in ((1, 0), (far, 40), (far + 100, 100))
    }


def test_rows_of_ops_without_a_record_and_logs_without_ops_give_nothing():
    assert tail(log_of([read(1, 8, 31)], [(7, *ALONE)])) == {}
    for transfers in ([], [(7, *ALONE)]):
        empty = log_of([], transfers)
        assert tail(empty) == {}
        assert parts(empty) == []
        assert memory_spans(empty).tolist() == []


def test_a_log_without_the_table_is_refused():
    log = log_of([read(1, 8, 31)], [])
    with expect(
        "op log: got no table transfers, needs the transfers of the run; "
        "logs of version 1 and logs from elsewhere may be without it; kb run writes one"
    ):
        all_transfers(OpLog(log.ops, log.operands, log.strings))
