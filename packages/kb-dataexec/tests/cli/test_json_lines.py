"""All commands on a log that is lines of JSON."""

import json
import re

import pytest
from dataexec_gemm_log import HBM

from kb_dataexec.log.lines import log_lines as loglines
from kb_dataexec.logfile import read_log
from kb_messages import DType

N_OPS = 50


def operand(role, offset):
    return {"role": role, "owner": HBM, "offset": offset, "rows": 1, "row_nbytes": 16, "dtype": str(DType.F32)}


def op(number):
    """Fills the first four floats, then adds 1 to them, each op a picosecond after the other."""
    read = [operand("IN", 0)] if number else []
    params = {"op": "add" if number else "copy", "scalars": [1.0]}
    fields = {"kind": "math", "operands": [*read, operand("OUT", 0)], "params": params}
    return fields | {"name": params["op"], "t_start_ps": number, "t_end_ps": number + 1}


@pytest.fixture
def lines(tmp_path):
    return write(tmp_path / "log.jsonl", [op(number) for number in range(N_OPS)])


def write(path, ops, torn=""):
    path.write_text("".join(f"{json.dumps(each)}\n" for each in ops) + torn)
    return path


def test_run(lines, invoke):
    code, out, err = invoke("run", lines, "--output", f"x={HBM << 38:#x}:1x4:f32")
    assert (code, err) == (0, "")
    assert out == f"{lines}: ok, {N_OPS} records\n  x: 1 x 4 elements from {N_OPS} to {N_OPS}, not compared\n"


def test_an_op_that_cannot_run_is_told_without_what_it_does_not_say(tmp_path, invoke):
    lines = write(tmp_path / "log.jsonl", [op(1)])
    code, out, _ = invoke("run", lines)
    assert code == 1
    assert "\n  op 0 (add): sip0.die0.hbm0 + 0x0 (address 0x1000000000000): got a read of " in out


def test_info(lines, invoke, monkeypatch):
    monkeypatch.setattr(loglines, "_CHUNK_NBYTES", 2000)
    code, out, err = invoke("info", lines)
    assert (code, err) == (0, "")
    n_chunks = -(-lines.stat().st_size // 2000)
    assert out == (
        f"{lines}: complete, {N_OPS} records, {2 * N_OPS - 1} operands, {n_chunks} chunks\n"
        f"time     0 ps to {N_OPS} ps\n"
        "without  dependencies, commands, dispatches, transfers, kernels, messages\n"
        "kind\n          50  math\nop\n          49  add\n           1  copy\ncomponent\n          50  (none)\n"
        "memory\n  sip0.die0.hbm0: 0x0 to 0x10, 784 bytes read, 800 written\n"
    )
    found = json.loads(invoke("info", lines, "--json")[1])
    assert (found["complete"], found["digest"], found["digest_ok"], found["problem"]) == (True, None, None, None)


def test_convert_gives_a_folder_of_the_same_records(lines, tmp_path, invoke, monkeypatch):
    monkeypatch.setattr(loglines, "_CHUNK_NBYTES", 2000)
    folder = tmp_path / "folder"
    assert invoke("convert", lines, folder) == (0, f"{folder}: {N_OPS} records, {2 * N_OPS - 1} operands\n", "")
    assert invoke("diff", lines, folder) == (0, f"the same: {N_OPS} records\n", "")
    code, out, _ = invoke("info", folder, "--json")
    assert (code, json.loads(out)["digest_ok"], json.loads(out)["digest"]) == (0, True, read_log(lines).digest)
    code, out, _ = invoke("convert", lines, tmp_path / "other", "--json")
    assert json.loads(out) == {
        "out": f"{tmp_path}/other", "complete": True, "records": N_OPS, "operands": 99,
        "digest": read_log(folder).digest,
    }  # fmt: skip


def test_convert_keeps_immediates(tmp_path, invoke):
    constant = operand("IN", 0) | {"immediate": "0000803f" * 4}
    del constant["owner"], constant["offset"]
    fields = {"kind": "math", "operands": [constant, operand("OUT", 0)], "params": {"op": "neg"}}
    lines = write(tmp_path / "log.jsonl", [fields, fields])
    assert invoke("convert", lines, tmp_path / "folder")[0] == 0
    for log in (lines, tmp_path / "folder"):
        code, out, _ = invoke("run", log, "--output", f"x={HBM << 38:#x}:1x4:f32")
        assert (code, out.splitlines()[1]) == (0, "  x: 1 x 4 elements from -1 to -1, not compared")
    assert read_log(tmp_path / "folder").immediates == read_log(lines).immediates


def test_diff_finds_a_line_that_was_changed(lines, tmp_path, invoke):
    ops = [op(number) for number in range(N_OPS)]
    ops[7]["params"]["scalars"] = [2.0]
    code, out, _ = invoke("diff", lines, write(tmp_path / "other.jsonl", ops))
    assert code == 1
    assert out.splitlines()[2:] == [
        "  first op 7 (add):",
        '    params in a: {"op":"add","scalars":[1.0]}',
        '    params in b: {"op":"add","scalars":[2.0]}',
    ]


def test_sanitize_calls_ops_without_a_line_by_their_ids(tmp_path, invoke):
    ops = [op(number) | {"command_seq": number} for number in range(3)]
    ops[2]["t_start_ps"] = 1
    lines = write(tmp_path / "log.jsonl", ops)
    code, out, err = invoke("sanitize", lines)
    assert (code, err) == (1, "")
    assert out.startswith(
        f"{lines}: 1 found in 3 records\n"
        "  missing wait: op 2 (add) reads from 0.001 ns on what op 1 (add) writes until 0.002 ns, at "
        "sip0.die0.hbm0 + 0x0"
    )
    assert out.endswith("; let op 2 wait for op 1\n")
    assert invoke("sanitize", write(lines, ops[:2])) == (0, f"{lines}: 0 found in 2 records\n", "")


def test_a_torn_last_line(lines, tmp_path, invoke):
    torn = write(tmp_path / "torn.jsonl", [op(0), op(1)], '{"kind": "ma')
    text = (
        f"error: {torn}: line 3: got no JSON (Input data was truncated), needs a JSON object a line; a torn last line "
        "is left out with --prefix, or read_log(file, prefix=True)\n"
    )
    assert invoke("run", torn) == (2, "", text)
    assert invoke("convert", torn, tmp_path / "out") == (2, "", text)
    assert list((tmp_path / "out").iterdir()) == []
    assert invoke("run", torn, "--prefix") == (0, f"{torn}: ok, 2 records of a log that was cut off\n", "")
    assert re.match(rf"{torn}: cut off: it was never closed, 2 records", invoke("info", torn)[1])
    text = f"{tmp_path}/out: 2 records, 3 operands, of a log that was cut off\n"
    assert invoke("convert", torn, tmp_path / "out", "--prefix") == (0, text, "")
    assert not (tmp_path / "out" / "manifest.json").exists()
    assert invoke("diff", torn, tmp_path / "out") == (0, "the same: 2 records\n", "")


@pytest.mark.parametrize("command", ["run", "info", "diff", "sanitize", "convert"])
def test_a_bad_line_is_one_sentence(tmp_path, invoke, command):
    lines = write(tmp_path / "log.jsonl", [op(0), op(1) | {"tiles": 3}])
    more = {"diff": [lines], "convert": [tmp_path / "out"]}
    code, out, err = invoke(command, lines, *more.get(command, []))
    assert (code, out) == (2, "")
    assert err.startswith(
        f'error: {lines}: line 2: got an unknown field "tiles", needs no others than kind, operands, '
    )


def test_convert_wants_lines_and_an_empty_folder(lines, tmp_path, invoke):
    folder = tmp_path / "folder"
    assert invoke("convert", lines, folder)[0] == 0
    text = f"error: {folder}: got a file, or a folder with files in it, needs a new or empty folder\n"
    assert invoke("convert", lines, folder) == (2, "", text)
    text = f"error: {folder}: got no file of that ending, needs lines of JSON, .jsonl\n"
    assert invoke("convert", folder, tmp_path / "other") == (2, "", text)
    text = f"error: {tmp_path}/no.jsonl: got no such file, needs a file\n"
    assert invoke("convert", tmp_path / "no.jsonl", tmp_path / "other") == (2, "", text)
    assert not (tmp_path / "other").exists()
