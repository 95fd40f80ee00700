"""Lines of JSON that are rows of auxiliary tables, and dependencies at the lines of ops."""

import json

import numpy as np
import pytest
from dataexec_log_lines import line_of
from dataexec_tables import lines_of_tables, log_with_tables
from dataexec_written_log import expect

from kb_dataexec.log.lines import log_lines as loglines
from kb_dataexec.log.reader import open_log, read_log

LOG = log_with_tables()
LINES = lines_of_tables()
COMMAND = LINES[2]
CAUSES = "start, submission, completion, queued, message, credit, signal"
OP = {"kind": "memory", "operands": []}
TWICE = json.dumps(next(line for line in LINES if line["table"] == "kernels")).replace("}", ', "launch": 1}')


def written(tmp_path, *lines):
    path = tmp_path / "log.jsonl"
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path


def texts(log, name, column):
    return [log.strings[index] for index in log.table(name)[column].tolist()]


@pytest.mark.parametrize("chunk_nbytes", [1000, 1 << 22])
def test_rows_stand_among_the_ops(tmp_path, monkeypatch, chunk_nbytes):
    monkeypatch.setattr(loglines, "_CHUNK_NBYTES", chunk_nbytes)
    ops = [line_of(record) for record in LOG.records()]
    log = read_log(written(tmp_path, *LINES[:3], *ops[:20], *LINES[3:], *ops[20:]))
    assert log.ops["t_end_ps"].tolist() == LOG.ops["t_end_ps"].tolist()
    assert (log.missing, log.is_complete) == ((), True)
    for name, rows in LOG.tables.items():
        for column in rows.dtype.names:
            if rows.dtype[column] == np.dtype("<i4"):
                assert texts(log, name, column) == texts(LOG, name, column)
            else:
                assert log.table(name)[column].tolist() == rows[column].tolist()


def test_a_table_without_a_line_is_missing(tmp_path):
    source = open_log(written(tmp_path, OP, COMMAND))
    assert [chunk.n_ops for chunk in source.chunks()] == [1]
    assert source.missing == ("dependencies", "dispatches", "transfers", "kernels", "messages")


def test_an_op_says_on_which_others_it_depends(tmp_path):
    log = read_log(
        written(tmp_path, OP, OP, OP | {"depends_on": [1, 0]}, {"table": "dependencies", "op_id": 1, "depends_on": 0})
    )
    assert log.table("dependencies").tolist() == [(2, 1), (2, 0), (1, 0)]


def test_a_word_in_the_parameters_of_an_op_makes_no_row_of_it(tmp_path):
    log = read_log(written(tmp_path, OP | {"params": {"table": "kernels"}}))
    assert (log.n_ops, log.tables) == (1, {})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (COMMAND | {"table": "queues"}, ("table: got 'queues', needs one of dependencies, commands, dispatches, "
         "transfers, kernels, messages, sends, signals, waits, calls, reads")),
        (COMMAND | {"wait": 1}, ('got an unknown field "wait", needs no others than command_seq, pe, line, name, '
         "n_tiles, first_op_id, n_ops, t_call_ps, t_issued_ps, t_submitted_ps, t_taken_ps, t_decoded_ps, t_fed_ps, "
         "t_done_ps, after_seq, after, operand_seq, operand_ps")),
        ({"table": "dispatches", "op_id": 0, "t_in_order_ps": 1},
         "got no field t_claimed_ps, needs op_id, t_in_order_ps, t_claimed_ps in every one"),
        (COMMAND | {"after": "luck"}, f'after: got "luck", needs one of {CAUSES}'),
        (COMMAND | {"after": 1}, f"after: got 1, needs one of {CAUSES}"),
        ({"table": "waits", "pe": "pe0", "line": "k.py:1", "reason": "luck", "from_ps": 0, "to_ps": 1, "by_seq": 0,
          "next_seq": 0, "other": "pe1", "issue_ps": 0, "queue_ps": 0, "way_ps": 0, "cause": "start", "cause_seq": -1},
         'reason: got "luck", needs one of message, credit, signal, barrier, pe_busy, event'),
        (COMMAND | {"pe": 0}, "pe: got 0, needs a string"),
        (COMMAND | {"t_done_ps": 1.5}, f"t_done_ps: got 1.5, needs an integer from -1 to {2**63 - 1}"),
        (COMMAND | {"n_ops": 2**63}, f"n_ops: got {2**63}, needs an integer from -1 to {2**63 - 1}"),
        (COMMAND | {"t_taken_ps": 3}, ("got the times 0, 4, 4, 3, 8, 8, 90, "
         "needs times that never fall from t_call_ps to t_done_ps")),
        (OP | {"depends_on": 3}, "depends_on: got 3, needs a JSON list of integers"),
        (OP | {"depends_on": ["3"]}, 'depends_on: got ["3"], needs a JSON list of integers'),
        (TWICE, "got no JSON (key 'launch' stands twice in one object), needs JSON in UTF-8"),
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_used_is_named(tmp_path, line, message):
    path = written(tmp_path, OP, line)
    with expect(f"{path}: line 2: {message}"):
        read_log(path)
