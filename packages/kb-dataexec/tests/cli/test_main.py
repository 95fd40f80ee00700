import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from dataexec_gemm_log import HBM, GemmProblem, LogBuilder, move

from kb_dataexec.log.tables import OpLog
from kb_dataexec.logfile import FolderLogWriter, write_log
from kb_dataexec.memory.store import MemoryStore
from kb_messages import DType, OpKind, Role

PROBLEM = GemmProblem(12, 10, 16, (8, 8, 8))
AT_C = f"{HBM << 32 | PROBLEM.at_c:#x}"

LIKE = f"write it like c=0x40000000000:64x64:f16; types are {', '.join(DType)}"
TORCH = "kb-dataexec[torch]"


@pytest.fixture
def folder(tmp_path):
    """A log, its memory and the reference of its output."""
    write_log(tmp_path / "log", PROBLEM.log())
    PROBLEM.memory().save(tmp_path / "memory")
    reference, allowed = PROBLEM.reference()
    np.save(tmp_path / "c.npy", reference)
    np.save(tmp_path / "allowed.npy", allowed)
    return tmp_path


def run_args(folder, *more):
    return ("run", folder / "log", "--memory", folder / "memory", "--output", f"c={AT_C}:12x10:f16", *more)


def rewritten(folder, change):
    """The log with its tables changed, under another name."""
    log = PROBLEM.log()
    change(log)
    write_log(folder / "other", log)
    return folder / "other"


@pytest.mark.parametrize("more", [(), ("--mode", "tile"), ("--debug",), ("--backend", "numpy")])
def test_run_compares_an_output_with_its_reference(folder, invoke, more):
    given = ("--reference", f"c={folder / 'c.npy'}", "--allowed", f"c={folder / 'allowed.npy'}")
    code, out, err = invoke(*run_args(folder, *given, *more))
    assert (code, err) == (0, "")
    assert re.fullmatch(rf"{folder}/log: ok, \d+ records\n  c: ok, 120 elements, largest error [\d.e-]+\n", out)


def test_a_wrong_output_names_its_element_and_who_wrote_and_computed_it(folder, invoke):
    reference = np.load(folder / "c.npy")
    reference[9, 3] += 1
    np.save(folder / "c.npy", reference)
    code, out, _ = invoke(*run_args(folder, "--reference", f"c={folder / 'c.npy'}", "--json"))
    found = json.loads(out)
    assert (code, found["ok"]) == (1, False)
    (output,) = found["outputs"]
    assert (output["ok"], output["n_wrong"]) == (False, 1)
    assert output["text"].startswith("c: 1 of 120 elements wrong; at [9, 3] got ")
    names = [(record.op_id, record.name) for record in PROBLEM.log().records()]
    write = [op_id for op_id, name in names if name == "dma_write"][2]
    gemm = [op_id for op_id, name in names if name == "gemm"][5]
    assert output["origin"] == (
        f"written by op {write} (dma_write, pe0, kernel.py:3), computed by op {gemm} (gemm, pe0, kernel.py:3)"
    )
    text = invoke(*run_args(folder, "--reference", f"c={folder / 'c.npy'}"))[1]
    assert f"{folder}/log: FAILED, " in text
    assert f"    that element: {output['origin']}\n" in text


def test_outputs_and_the_memory_are_written(folder, invoke):
    more = ("--out", folder / "out", "--save", folder / "after")
    code, out, _ = invoke(*run_args(folder, *more))
    assert code == 0
    assert "  c: 12 x 10 elements from " in out
    got = np.load(folder / "out" / "c.npy")
    assert got.dtype == np.float16
    assert (MemoryStore.load(folder / "after").read(HBM, PROBLEM.at_c, 12, 20, 20, DType.F16) == got).all()
    assert np.allclose(got, np.load(folder / "c.npy"), rtol=1e-2)


def test_a_log_that_reads_what_nobody_wrote_fails(folder, invoke):
    def drop(log):
        log._chunks = (log.ops[1:], log.operands[log.operands["op_id"] != 0])
        del log.ops, log.operands

    other = rewritten(folder, drop)
    code, out, err = invoke("run", other, "--memory", folder / "memory")
    assert (code, err) == (1, "")
    assert re.fullmatch(
        rf"{other}: FAILED, \d+ records\n  op 2 \(fetch, pe0, kernel.py:3\): tcm \+ 0x0 .* were never written, needs "
        r"initialised bytes; only later written, by op \d+ \(dma_read, pe0, kernel.py:3\)\n",
        out,
    )


def test_debug_shows_the_first_wrong_op(folder, invoke, monkeypatch):
    from kb_dataexec.backends.numpy_backend import NumpyBackend

    right = NumpyBackend.matmul
    monkeypatch.setattr(NumpyBackend, "matmul", lambda self, a, b: right(self, a, b) + np.float32(0.5))
    code, out, _ = invoke(*run_args(folder, "--debug"))
    assert code == 1
    assert "  op 3 (gemm, pe0, kernel.py:3): OUT 8 x 8 f32: 64 of 64 elements wrong; at [" in out


def test_a_log_that_was_cut_off_runs_as_far_as_it_goes(folder, invoke):
    (folder / "log" / "manifest.json").unlink()
    code, _, err = invoke("run", folder / "log", "--memory", folder / "memory")
    assert (code, "needs a closed log" in err) == (2, True)
    code, out, _ = invoke("run", folder / "log", "--memory", folder / "memory", "--prefix")
    assert code == 0
    assert out.endswith("records of a log that was cut off\n")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--output", "d=5:3"), f"--output: got 'd=5:3', needs NAME=ADDRESS:ROWSxCOLS:DTYPE[:STRIDE]; {LIKE}"),
        (("--reference", "d=c.npy"), "--reference d: got no output of that name, needs one; give --output d=... once"),
        (("--reference", "c"), "--reference: got 'c', needs NAME=FILE.npy, each name once"),
        (("--reference", "c=none.npy"), "none.npy: got no such file, needs a .npy file"),
        (("--allowed", "c=c.npy"),
         "--allowed c: got no reference of that name, needs one; give --reference c=FILE.npy"),
        (("--reference", "c=short.npy"), "--reference c: got an array of shape (3,), needs 12 x 10 elements"),
        (("--device", "gpu"), "backend numpy: got device 'gpu', needs 'cpu'; use the backend torch for other devices"),
        (("--backend", "torch"), f"backend torch: got no module torch, needs the extra torch; pip install '{TORCH}'"),
    ],
)  # fmt: skip
def test_bad_arguments_are_one_sentence(folder, invoke, monkeypatch, more, message):
    monkeypatch.chdir(folder)
    monkeypatch.setitem(sys.modules, "torch", None)
    np.save("short.npy", np.zeros(3))
    assert invoke(*run_args(folder, *more)) == (2, "", f"error: {message}\n")


@pytest.mark.parametrize("args", [("info", "LOG"), ("export", "LOG", "out"), ("diff", "LOG", "LOG")])
def test_a_folder_without_a_log_is_one_sentence(tmp_path, invoke, args):
    missing = [tmp_path / "no" if arg == "LOG" else arg for arg in args]
    assert invoke(*missing) == (2, "", f"error: {tmp_path / 'no'}: got no such folder, needs a log\n")
    empty = [tmp_path if arg == "LOG" else arg for arg in args]
    assert invoke(*empty) == (2, "", f"error: {tmp_path}: got a folder without an op log, needs a log\n")


def test_export_without_its_extra_says_so(folder, invoke, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert invoke("export", folder / "log", folder / "out") == (
        2,
        "",
        "error: export: got no module duckdb, needs the extra parquet; pip install 'kb-dataexec[parquet]'\n",
    )


def test_info_counts_what_is_there(folder, invoke):
    code, out, _ = invoke("info", folder / "log", "--json")
    found, log = json.loads(out), PROBLEM.log()
    assert code == 0
    assert (found["complete"], found["digest_ok"], found["digest"]) == (True, True, log.digest)
    assert (found["records"], found["operands"]) == (log.n_ops, log.n_operands)
    names = [record.name for record in log.records()]
    assert found["ops"] == {name: names.count(name) for name in ("dma_read", "fetch", "gemm", "dma_write", "store")}
    assert found["kinds"] == {"memory": log.n_ops - names.count("gemm"), "gemm": names.count("gemm")}
    assert found["components"] == {"pe0": log.n_ops}
    assert (found["start_ps"], found["end_ps"]) == (0, log.n_ops)
    memories = {each["name"]: each for each in found["memories"]}
    assert set(memories) == {"sip0.die0.hbm0", "sip0.die0.tcm0", "sip0.die0.reg0"}
    hbm = memories["sip0.die0.hbm0"]
    # A is read twice, for two tiles of N, and B for two of M: 2 (12 x 16 + 16 x 10) of 2 bytes; C is 12 x 10 of 2
    assert (hbm["read_nbytes"], hbm["written_nbytes"]) == (1408, 240)
    assert (hbm["low"], hbm["high"]) == (PROBLEM.at_a, PROBLEM.at_c + 240)
    assert f"{folder}/log: complete, {log.n_ops} records" in invoke("info", folder / "log")[1]


def test_info_tells_a_damaged_log(folder, invoke):
    table = np.load(folder / "log" / "ops-000000.npy")
    table["t_out_ps"][0] += 1
    np.save(folder / "log" / "ops-000000.npy", table)
    code, out, _ = invoke("info", folder / "log")
    assert code == 2
    assert "(WRONG)\n" in out
    assert "the log was changed or is damaged\n" in out


def test_info_reads_a_log_that_was_cut_off(folder, invoke):
    (folder / "log" / "manifest.json").unlink()
    code, out, _ = invoke("info", folder / "log", "--json")
    assert (code, json.loads(out)["complete"], json.loads(out)["digest_ok"]) == (0, False, None)


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
    log.ops["t_end_ps"][4] += 1


@pytest.mark.parametrize(
    ("change", "op_id", "field"), [(set_offset, 7, "operands"), (set_time, 4, "t_end_ps")], ids=["offset", "time"]
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
    kept = OpLog(log.ops[log.ops["op_id"] != 5], log.operands[log.operands["op_id"] != 5], log.strings)
    write_log(folder / "other", kept)
    code, out, _ = invoke("diff", folder / "log", folder / "other")
    assert code == 1
    assert out == (
        f"different: {log.n_ops} records in {folder}/log, {log.n_ops - 1} in {folder}/other\n"
        "  only in a 1, only in b 0, changed 0\n"
        "  first op 5 (dma_read, pe0, kernel.py:3) is in a alone\n"
    )


def test_a_log_that_is_no_log_is_bad_input_for_diff(folder, invoke):
    assert invoke("diff", folder / "log", folder / "nothing")[0] == 2


def test_it_runs_as_a_module(folder):
    command = [sys.executable, "-m", "kb_dataexec", "info", str(folder / "log")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{folder}/log: complete, ")


def readme_script():
    text = (Path(__file__).parents[2] / "README.md").read_text()
    return re.search(r"```python\n(import json.*?)```", text, re.DOTALL).group(1)


FOREIGN = (Path(__file__).parents[1] / "foreign_log.py").read_text()
ON_FOREIGN = (
    "--input 0x40000000000=a.npy --input 0x40000000080=b.npy --output c=0x40000001000:4x4:f32 --reference c=c.npy "
    "--length 8"
)


@pytest.mark.parametrize(("script", "log"), [(readme_script(), "log.jsonl"), (FOREIGN, "log")], ids=["lines", "folder"])
def test_a_log_written_with_numpy_alone_is_verified(tmp_path, script, log):
    """Scripts that import nothing of kb, the README's and that for a folder, then `run` on what they wrote."""
    assert "kb_" not in script
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
    command = [sys.executable, "-m", "kb_dataexec", "run", log, *ON_FOREIGN.split(), "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["ok"] is True
    assert json.loads(done.stdout)["outputs"][0]["n_elements"] == 16
    np.save(tmp_path / "c.npy", np.load(tmp_path / "c.npy") + 1)
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1


def test_the_readmes_script_takes_ten_lines_and_its_command_is_the_one_tested():
    lines = [line for line in readme_script().splitlines() if line.strip()]
    assert len(lines) <= 10
    assert max(map(len, lines)) <= 120
    assert not any(";" in line for line in lines)
    assert f"kb_dataexec run log.jsonl {ON_FOREIGN}\n" in (Path(__file__).parents[2] / "README.md").read_text()


def test_an_input_comes_on_top_of_a_saved_memory(folder, invoke):
    np.save(folder / "wrong.npy", np.full((1, 4), 7, np.float16))
    given = ("--reference", f"c={folder / 'c.npy'}", "--allowed", f"c={folder / 'allowed.npy'}")
    code, out, _ = invoke(*run_args(folder, *given), "--input", f"{HBM << 32 | PROBLEM.at_a:#x}={folder / 'wrong.npy'}")
    assert code == 1
    assert "10 of 120 elements wrong" in out  # the first row of C follows from that of A


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("0x400", "--input: got '0x400', needs ADDRESS=FILE.npy; write it like 0x40000000000=a.npy"),
        ("there=a.npy", "--input: got 'there=a.npy', needs ADDRESS=FILE.npy; write it like 0x40000000000=a.npy"),
        ("0x40000000000=none.npy", "none.npy: got no such file, needs a .npy file"),
    ],
)
def test_an_input_that_is_none_is_refused(folder, invoke, given, sentence):
    code, _, err = invoke("run", folder / "log", "--input", given)
    assert (code, err) == (2, f"error: {sentence}\n")


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
        "at sip0.die0.hbm0 + 0x40; nothing puts two PEs of a launch in order: let one of them do both, or launch "
        "twice\n"
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


@pytest.mark.parametrize("window", ["5", "9:5", "a:b", "1:2:3", ":"])
def test_a_launch_that_is_no_window_is_refused(folder, invoke, window):
    code, out, err = invoke("sanitize", folder / "log", "--launch", window)
    assert (code, out) == (2, "")
    assert err == f"error: --launch: got {window}, needs START:END in picoseconds; write it like 0:1250000\n"
