"""A closed log that lacks an op is not read: each id between its first and its last op has a row."""

import json

import numpy as np
import pytest
from dataexec_compressed_log import ChunkTables, memory
from dataexec_gemm_log import HBM, GemmProblem

from kb_dataexec import Executor, dependencies, sanitize
from kb_dataexec.analysis import backward_slice
from kb_dataexec.log import LogFolder
from kb_dataexec.log.row_checks import TIMES, OpIds
from kb_dataexec.log.table_dtypes import OPS_DTYPE, TABLE_DTYPES
from kb_dataexec.log.tables import OpLog
from kb_dataexec.logfile import read_log, write_log
from kb_dataexec.verify import debug
from kb_messages import DType, LogError

PROBLEM = GemmProblem(24, 8, 8, (8, 8, 8))
WAYS = {
    "tile": lambda log: Executor(log, PROBLEM.memory(), "tile").run(),
    "fused": lambda log: Executor(log, PROBLEM.memory(), "fused", fuse_from=2).run(),
    "debug": lambda log: debug(log, PROBLEM.memory()),
}


OUT = {"role": "OUT", "owner": HBM, "offset": 0, "rows": 1, "row_nbytes": 16, "dtype": str(DType.F32)}
OP = {"kind": "math", "operands": [OUT], "params": {"op": "copy", "scalars": [1.0]}}


def without(log, lost, is_complete=True, tables=None):
    """*log* without the ops with the ids *lost*, and without their operands."""
    ops, operands = (rows[~np.isin(rows["op_id"], lost)] for rows in (log.ops, log.operands))
    return OpLog(ops, operands, log.strings, log.immediates, is_complete, tables)


def last_op(log):
    return int(log.ops["op_id"].max())


@pytest.mark.parametrize("way", WAYS)
def test_a_closed_log_without_some_of_its_ops_is_refused(way):
    log = PROBLEM.log()
    last = last_op(log)
    with pytest.raises(LogError) as error:
        WAYS[way](without(log, [last - 1]))
    assert str(error.value) == (
        f"op log: ops: got no row of 1 of the ops 0 to {last}, the first of them op {last - 1}, "
        "needs a row for each op of a closed log; run again to write the whole log"
    )


@pytest.mark.parametrize(("at", "missing"), [(slice(1, None), 0), (slice(-1), 17)])
def test_a_command_states_its_first_and_its_last_op(at, missing):
    log = PROBLEM.log()
    commands = np.zeros(1, TABLE_DTYPES["commands"])
    commands["n_ops"] = log.n_ops
    lost = np.setdiff1d(log.ops["op_id"], log.ops["op_id"][at])
    shorter = without(log, lost, tables={"commands": commands})
    with pytest.raises(LogError, match=f"no row of 1 of the ops 0 to 17, the first of them op {missing},"):
        WAYS["tile"](shorter)


def test_the_ops_of_a_command_without_rows_are_missing_and_ids_may_be_any_number():
    log = PROBLEM.log()
    commands = np.zeros(1, TABLE_DTYPES["commands"])
    commands["first_op_id"], commands["n_ops"] = 100, 2
    nothing = OpLog(log.ops[:0], log.operands[:0], log.strings, tables={"commands": commands})
    with pytest.raises(LogError, match="no row of 2 of the ops 100 to 101, the first of them op 100,"):
        WAYS["tile"](nothing)
    ops, operands = log.ops[:2].copy(), log.operands[:0]
    ops["op_id"] = -(1 << 61), 1 << 61
    with pytest.raises(LogError, match=f"the first of them op {1 - (1 << 61)},"):
        WAYS["tile"](OpLog(ops, operands, log.strings))


@pytest.mark.parametrize("way", WAYS)
def test_ids_may_begin_at_any_number_and_stand_in_any_order(way):
    log = PROBLEM.log()
    rows = log.ops[::-1].copy(), log.operands.copy()
    for table in rows:
        table["op_id"] += 1000
    WAYS[way](OpLog(*rows, log.strings, log.immediates))


@pytest.mark.parametrize("way", WAYS)
def test_a_log_that_was_cut_off_may_lack_ops(way):
    """Rows are written in the order of completion. Here the second of three output tiles was not done."""
    log = PROBLEM.log()
    of_tile = log.ops["op_id"][log.ops["tile_id"] == 1]
    WAYS[way](without(log, of_tile, is_complete=False))


READERS = {
    "analysis of dependencies": dependencies,
    "slice": lambda log: backward_slice(log, ()),
    "sanitizer": sanitize,
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_nothing_is_concluded_from_a_closed_log_without_some_of_its_ops(reader):
    log = PROBLEM.log()
    with pytest.raises(LogError, match="got no row of 2 of the ops 0 to 17, the first of them op 3,"):
        reader(without(log, [3, 4]))
    cut_off = without(log, [3, 4], is_complete=False)
    for column in TIMES:
        cut_off.ops[column] = 1
    reader(cut_off)


def test_an_id_that_comes_twice_does_not_stand_for_a_missing_one():
    ids = OpIds()
    ids.add(ops_of(4, 1, 2), None)
    ids.add(ops_of(2, 5), None)
    with pytest.raises(LogError, match=r"^log: ops: got no row of 1 of the ops 1 to 5, the first of them op 3,"):
        ids.check("log")
    ids.add(ops_of(3), None)
    ids.check("log")


def ops_of(*ids):
    ops = np.zeros(len(ids), OPS_DTYPE)
    ops["op_id"] = ids
    return ops


LOST = "got no row of 2 of the ops 0 to {last}, the first of them op 3, needs a row for each op of a closed log"


@pytest.mark.parametrize("command", ["run", "info", "sanitize", "diff"])
def test_kb_dataexec_refuses_a_folder_without_some_ops(command, folder, invoke):
    """Whoever wrote the log: its digest and its counts are those of the rows that are there."""
    log = read_log(folder / "log")
    write_log(folder / "other", without(log, [3, 4]))
    options = {"run": ("--memory", folder / "memory"), "diff": (folder / "log",)}
    code, out, err = invoke(command, folder / "other", *options.get(command, ()))
    assert code
    assert LOST.format(last=last_op(log)) in out + err


def test_logs_that_were_cut_off_are_shown_without_some_ops(folder, invoke):
    write_log(folder / "other", without(read_log(folder / "log"), [3, 4]))
    (folder / "other" / "manifest.json").unlink()
    code, out, _ = invoke("info", folder / "other")
    assert code == 0, out


def test_compressed_rows_that_lack_records_are_refused(tmp_path):
    """The commands of the log have 8 ops, and the chunks have the records of 4 of them."""
    tables = ChunkTables()
    tables.chunks[0]["parts"] = [[-1, 0, 2, 0, 0, 0]]
    source = LogFolder(tables.write(tmp_path / "log"))
    lost = "got no row of 4 of the ops 0 to 7, the first of them op 2,"
    for read in (source.whole, lambda: list(source.chunks()), source.by_command):
        with pytest.raises(LogError, match=lost):
            read()


def test_lines_of_another_simulator_that_lack_an_op_are_refused(tmp_path, invoke):
    (tmp_path / "log.jsonl").write_text("\n".join(json.dumps(OP | {"op_id": n, "tile_id": n}) for n in (7, 8, 10)))
    lost = "got no row of 1 of the ops 7 to 10, the first of them op 9,"
    with pytest.raises(LogError, match=lost):
        read_log(tmp_path / "log.jsonl")
    for command in (("run", tmp_path / "log.jsonl", "--memory", tmp_path), ("info", tmp_path / "log.jsonl")):
        code, out, err = invoke(*command)
        assert code
        assert lost in out + err


def test_a_folder_is_not_made_of_lines_whose_numbers_leave_ids_out(tmp_path, invoke):
    """A folder has no lines, so nothing would tell there that no op is missing."""
    (tmp_path / "log.jsonl").write_text("\n\n".join([json.dumps(OP)] * 2))
    code, out, err = invoke("convert", tmp_path / "log.jsonl", tmp_path / "folder")
    assert code
    assert "needs a row for each op of a closed log; give each op an op_id, one after the other" in out + err
    assert list((tmp_path / "folder").iterdir()) == []


@pytest.mark.parametrize(("ids", "is_refused"), [((None, None), False), ((0, 2), True), ((0, 1), False)])
def test_lines_without_ids_have_the_numbers_of_their_lines(ids, is_refused, tmp_path):
    """An empty line between two ops counts. Ids that a line states are those of the log."""
    lines = [json.dumps(OP if number is None else OP | {"op_id": number, "tile_id": number}) for number in ids]
    (tmp_path / "log.jsonl").write_text("\n\n".join(lines))
    if is_refused:
        with pytest.raises(LogError, match="the first of them op 1,"):
            read_log(tmp_path / "log.jsonl")
    else:
        log = read_log(tmp_path / "log.jsonl")
        assert (Executor(log, memory()).run().read(HBM, 0, 1, 16, 16, DType.F32) == 1).all()
