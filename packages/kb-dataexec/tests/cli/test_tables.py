"""Auxiliary tables on the command line: `info` counts them, `diff` compares them, `convert` carries them along."""

import json

import pytest
from dataexec_log_lines import line_of
from dataexec_tables import ROWS, lines_of_tables, log_with_tables

from kb_dataexec.log.reader import read_log
from kb_dataexec.log.tables import OpLog
from kb_dataexec.log.writer import write_log
from kb_messages import LOG_TABLES

N_ROWS = {name: len(rows) for name, rows in ROWS.items()}


@pytest.fixture
def log(tmp_path):
    write_log(tmp_path / "log", log_with_tables())
    return tmp_path / "log"


def without(*names):
    log = log_with_tables()
    tables = {name: rows for name, rows in log.tables.items() if name not in names}
    return OpLog(log.ops, log.operands, log.strings, log.immediates, tables=tables)


def test_info_counts_tables_and_names_what_is_missing(tmp_path, log, invoke):
    found = json.loads(invoke("info", log, "--json")[1])
    assert (found["tables"], found["missing"], found["digest_ok"]) == (N_ROWS, [], True)
    counted = (
        "2 dependencies, 2 commands, 1 dispatches, 2 transfers, 1 kernels, 2 messages, 1 sends, 2 signals, 2 waits, "
        "2 calls, 1 reads"
    )
    assert f"\ntables   {counted}\n" in invoke("info", log)[1]
    write_log(tmp_path / "less", without("transfers", "kernels"))
    assert json.loads(invoke("info", tmp_path / "less", "--json")[1])["missing"] == ["transfers", "kernels"]
    assert "\nwithout  transfers, kernels\n" in invoke("info", tmp_path / "less")[1]


@pytest.mark.parametrize("name", ROWS)
def test_diff_names_a_table_that_differs(tmp_path, log, invoke, name):
    changed = log_with_tables()
    rows = changed.tables[name] = changed.tables[name].copy()
    rows[rows.dtype.names[-1]][-1] += 1
    write_log(tmp_path / "changed", changed)
    write_log(tmp_path / "less", without(name))
    for other in ("changed", "less"):
        code, out, _ = invoke("diff", log, tmp_path / other)
        assert (code, out.splitlines()[-1]) == (1, f"  tables that differ: {name}")
        found = json.loads(invoke("diff", log, tmp_path / other, "--json")[1])
        assert (found["same"], found["tables_differ"], found["changed"]) == (False, [name], 0)
        assert invoke("diff", log, tmp_path / other, "--ignore-times")[0] == int(name == "dependencies")


def test_diff_ignores_the_order_of_rows_and_of_strings(tmp_path, log, invoke):
    other = log_with_tables()
    other.strings.reverse()
    tables = {name: rows[::-1].copy() for name, rows in other.tables.items()}
    last = len(other.strings) - 1
    ops = other.ops.copy()
    for column in ("name", "component", "line", "params"):
        ops[column] = last - ops[column]
    for name, schema in LOG_TABLES.items():
        for column in schema.texts:
            tables[name][column] = last - tables[name][column]
    write_log(tmp_path / "other", OpLog(ops, other.operands, other.strings, other.immediates, tables=tables))
    assert invoke("diff", log, tmp_path / "other")[0] == 0


def test_convert_carries_the_tables_along(tmp_path, log, invoke):
    lines = [*map(json.dumps, lines_of_tables()), *map(line_of, log_with_tables().records())]
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    assert invoke("convert", tmp_path / "log.jsonl", tmp_path / "out")[0] == 0
    found = read_log(tmp_path / "out")
    assert {name: len(rows) for name, rows in found.tables.items()} == N_ROWS
    write_log(tmp_path / "plain", OpLog(*log_parts(), tables=log_with_tables().tables))
    assert invoke("diff", tmp_path / "plain", tmp_path / "out")[0] == 0


def log_parts():
    """The log without its immediates, which lines of JSON hold at their operands."""
    log = log_with_tables()
    return log.ops, log.operands, log.strings
