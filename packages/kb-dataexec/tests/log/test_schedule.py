import re

import numpy as np
import pytest
from dataexec_gemm_log import HBM, TCM, GemmProblem

from kb_dataexec.log.schedule import Schedule
from kb_dataexec.log.tables import OpLog
from kb_messages import LogError, Role


@pytest.fixture
def log():
    return GemmProblem(4, 4, 8, (4, 4, 4)).log()


def expect(text):
    return pytest.raises(LogError, match=f"^{re.escape(text)}$")


def test_order_is_that_of_commands_tiles_and_stages_whatever_the_log_order_and_the_times(log):
    shuffle = np.random.default_rng(0).permutation(log.n_ops)
    ops = log.ops[shuffle]
    for name in ("t_ready_ps", "t_start_ps", "t_end_ps", "t_out_ps"):
        ops[name] = 100 - ops["op_id"]
    schedule = Schedule(OpLog(ops, log.operands[::-1], log.strings))
    assert schedule.ops["op_id"].tolist() == list(range(log.n_ops))


def test_operands_keep_their_order_within_an_op(log):
    order = np.argsort(-log.operands["op_id"], kind="stable")
    schedule = Schedule(OpLog(log.ops, log.operands[order], log.strings))
    assert all((column == log.operands[name]).all() for name, column in schedule.operands.items())


def test_an_id_that_stands_twice_is_an_error(log):
    log.ops["op_id"][4] = 2
    with expect("op log: ops: got op 2 twice, needs each id once"):
        Schedule(log)


def test_two_records_at_one_place_are_an_error(log):
    log.ops["stage_index"][1] = 0
    with expect(
        "op log: ops: got ops 0 and 1 both at command_seq 0, tile_id 0, stage_index 0, needs one record at a place"
    ):
        Schedule(log)


@pytest.mark.parametrize("n_ops", [0, 9])
def test_an_operand_of_no_op_is_an_error(log, n_ops):
    lost = 9 if n_ops else 0
    with expect(f"op log: operands: got an operand of op {lost}, needs an op of that id"):
        Schedule(OpLog(log.ops[:n_ops], log.operands, log.strings))


def test_an_owner_of_another_space_is_an_error(log):
    log.operands["owner"][1] = HBM
    with expect(f"op 0 (dma_read, pe0, kernel.py:3): got owner {HBM:#x}, needs an owner in tcm"):
        Schedule(log)


def test_an_immediate_is_not_written_to(log):
    log.operands["space"][1], log.operands["owner"][1] = 5, 0
    assert log.operands["role"][1] == Role.DST
    with expect("op 0 (dma_read, pe0, kernel.py:3): got a write to an immediate, needs a memory"):
        Schedule(log)


def test_an_immediate_has_no_owner(log):
    log.operands["space"][0] = 5
    with expect(f"op 0 (dma_read, pe0, kernel.py:3): got owner {HBM:#x}, needs an owner in immediate"):
        Schedule(log)


def test_ops_are_decoded_in_order(log):
    op, _ = Schedule(log).iterate(2, 4)
    assert (op.op_id, op.name, op.where) == (2, "fetch", "op 2 (fetch, pe0, kernel.py:3)")
    assert (op.operands[0].role, op.operands[0].owner) == (Role.SRC, TCM)
