"""`sanitize` prints the hazards of a log."""

import json

import pytest
from dataexec_gemm_log import HBM, LogBuilder, move
from dataexec_log_lines import line_of
from dataexec_stored_log import PROBLEM
from dataexec_tables import table_of

from kb_dataexec.log.writer import write_log
from kb_messages import LOG_TABLES, DType, OpKind, Role, SyncReason


def hazardous(folder):
    """A log whose second record reads from 1500 ps on what the first, of another command, writes until 4000."""
    builder = LogBuilder()
    for number, (role, span) in enumerate([(Role.DST, (1000, 4000)), (Role.SRC, (1500, 2500))]):
        row = move(role, HBM, 64, 1, 8, 8, DType.U8)
        where = {"component": f"pe{number}.dma", "line": f"k.py:{5 + 2 * number}", "span_ps": span}
        builder.add((number, 0, 0), OpKind.MEMORY, "copy", [row], **where)
    write_log(folder / "hazardous", builder.log())
    return folder / "hazardous"


def test_sanitize_ends_with_1_and_both_lines(tmp_path, invoke):
    log = hazardous(tmp_path)
    code, out, err = invoke("sanitize", log)
    assert (code, err) == (1, "")
    assert out == (
        f"{log}: 1 found in 2 records\n"
        "  read race: k.py:7 (copy, pe1.dma) reads from 1.500 ns on what k.py:5 (copy, pe0.dma) writes until 4.000 ns, "
        "at sip0.die0.hbm0 + 0x40; nothing puts these two PEs in order: let one of them do both, launch twice, or "
        "send a message or a signal, where the language has them\n"
    )
    code, out, _ = invoke("sanitize", log, "--json", "--launch", "2501:4000", "--launch", "0:2500")
    (found,) = json.loads(out)["findings"]
    assert (code, found["hazard"], found["early_ps"]) == (1, "missing wait", 2500)
    assert (found["first"]["line"], found["second"]["line"]) == ("k.py:5", "k.py:7")


def test_a_clean_log_ends_with_0(folder, invoke):
    code, out, err = invoke("sanitize", folder / "log")
    assert (code, err) == (0, "")
    assert out == f"{folder}/log: 0 found in {PROBLEM.log().n_ops} records\n"
    code, out, _ = invoke("sanitize", folder / "log", "--json")
    assert (code, json.loads(out)["findings"], json.loads(out)["complete"]) == (0, [], True)


def test_a_log_that_was_cut_off_is_looked_at_as_far_as_it_goes(tmp_path, invoke):
    log = hazardous(tmp_path)
    (log / "manifest.json").unlink()
    code, out, _ = invoke("sanitize", log)
    assert code == 1
    assert out.startswith(f"{log}: 1 found in 2 records of a log that was cut off\n")


@pytest.mark.parametrize("window", ["5", "9:5", "a:b", "1:2:3", ":", "0:99999999999999999999", "\u0661:2\u00b2"])
def test_a_launch_that_is_no_window_is_refused(folder, invoke, window):
    code, out, err = invoke("sanitize", folder / "log", "--launch", window)
    assert (code, out) == (2, "")
    assert err == f"error: --launch: got {window}, needs START:END in picoseconds; write it like 0:1250000\n"


def test_a_log_without_times_cannot_be_looked_at(tmp_path, invoke):
    operands = [
        {"role": role, "owner": 0x400, "offset": at, "rows": 1, "row_nbytes": 4, "dtype": "f32"}
        for role, at in (("SRC", 0), ("DST", 4096))
    ]
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps({"kind": "memory", "operands": operands}) + "\n")
    code, out, err = invoke("sanitize", log)
    assert (code, out) == (2, "")
    assert err == (
        "error: op log: got records without times, needs t_start_ps and t_end_ps; hazards follow from times alone\n"
    )


@pytest.mark.parametrize("is_folder", [True, False])
def test_a_signal_of_the_log_of_another_simulator_puts_two_pes_in_order(tmp_path, invoke, is_folder):
    builder = LogBuilder()
    for text in ("pe0", "pe1", "flag"):
        builder.writer.intern(text)
    for number, (role, span) in enumerate([(Role.DST, (1000, 4000)), (Role.SRC, (5000, 6000))]):
        row = move(role, HBM, 64, 1, 8, 8, DType.U8)
        where = {"component": f"pe{number}.dma", "line": f"k.py:{5 + 2 * number}", "span_ps": span}
        builder.add((number, 0, 0), OpKind.MEMORY, "copy", [row], **where)
    log = builder.log()
    synced = {
        "signals": table_of("signals", [(0, 0, 1, 2, 1, 4000, 4000, 4500, 0, 1)]),
        "waits": table_of("waits", [(1, 0, SyncReason.SIGNAL, 100, 4500, 0, 1)]),
    }
    for name, tables, found in (("synced", synced, 0), ("alone", {}, 1)):
        log.tables = tables
        path = tmp_path / (name if is_folder else f"{name}.jsonl")
        if is_folder:
            write_log(path, log)
        else:
            path.write_text("".join(f"{line}\n" for line in [*map(line_of, log.records()), *lines_of(log)]))
        code, out, _ = invoke("sanitize", path)
        assert (code, out.splitlines()[0]) == (found, f"{path}: {found} found in 2 records")


def lines_of(log):
    """The rows of the auxiliary tables of *log* as lines of JSON."""
    for name, rows in log.tables.items():
        schema = LOG_TABLES[name]
        for row in rows:
            fields = {column: row[column].item() for column, _ in schema.columns}
            fields |= {column: log.strings[fields[column]] for column in schema.texts}
            fields |= {column: code(fields[column]).name.lower() for column, code in schema.codes.items()}
            yield json.dumps({"table": name, **fields})
