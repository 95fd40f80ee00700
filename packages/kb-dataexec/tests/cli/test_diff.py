"""`diff` finds the records in which two logs differ."""

import json

import numpy as np
import pytest
from dataexec_stored_log import PROBLEM, rewritten

from kb_dataexec.log.tables import OpLog
from kb_dataexec.log.writer import FolderLogWriter, write_log


def test_equal_logs_are_the_same_however_they_are_cut_and_ordered(folder, invoke):
    log, writer = PROBLEM.log(), FolderLogWriter(folder / "other")
    strings = [writer.intern(text) for text in reversed(log.strings)]
    ops = log.ops[::-1].copy()
    for column in ("name", "component", "line", "params"):
        ops[column] = np.array(strings)[::-1][ops[column]]
    for low in range(0, len(ops), 7):
        mine = ops[low : low + 7]
        writer.append(mine, log.operands[np.isin(log.operands["op_id"], mine["op_id"])])
    writer.close()
    assert invoke("diff", folder / "log", folder / "other") == (0, f"the same: {log.n_ops} records\n", "")


def set_offset(log):
    log.operands["offset"][np.flatnonzero(log.operands["op_id"] == 7)[1]] += 64


def set_time(log):
    log.ops["t_out_ps"][4] += 1


@pytest.mark.parametrize(
    ("change", "op_id", "field"), [(set_offset, 7, "operands"), (set_time, 4, "t_out_ps")], ids=["offset", "time"]
)
def test_a_changed_record_is_found(folder, invoke, change, op_id, field):
    other = rewritten(folder, change)
    code, out, _ = invoke("diff", folder / "log", other, "--json")
    found = json.loads(out)
    assert (code, found["changed"], found["only_in_a"], found["only_in_b"]) == (1, 1, 0, 0)
    assert (found["first"]["op_id"], list(found["first"]["fields"])) == (op_id, [field])
    assert invoke("diff", folder / "log", other, "--ignore-times")[0] == (0 if change is set_time else 1)


def test_a_missing_record_is_found(folder, invoke):
    log = PROBLEM.log()
    last = int(log.ops["op_id"].max())
    kept = OpLog(log.ops[log.ops["op_id"] != last], log.operands[log.operands["op_id"] != last], log.strings)
    write_log(folder / "other", kept)
    code, out, _ = invoke("diff", folder / "log", folder / "other")
    assert code == 1
    assert out == (
        f"different: {log.n_ops} records in {folder}/log, {log.n_ops - 1} in {folder}/other\n"
        "  only in a 1, only in b 0, changed 0\n"
        "  first op 39 (dma_write, pe0, kernel.py:3) is in a alone\n"
    )


def test_a_log_that_is_no_log_is_bad_input_for_diff(folder, invoke):
    assert invoke("diff", folder / "log", folder / "nothing")[0] == 2
