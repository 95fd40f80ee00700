"""`sanitize` prints the hazards of a log."""

import json

import pytest
from dataexec_gemm_log import HBM, LogBuilder, move
from dataexec_stored_log import PROBLEM

from kb_dataexec.log.writer import write_log
from kb_messages import DType, OpKind, Role


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
