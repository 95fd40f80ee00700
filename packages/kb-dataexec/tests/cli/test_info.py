"""`info` counts the contents of a log, and checks its digest."""

import json

import numpy as np
import pytest
from dataexec_stored_log import PROBLEM


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
    code, out, err = invoke("info", folder / "log")
    assert code == 2
    assert err.startswith(f"error: {folder}/log/manifest.json: digest: got ")
    assert err.endswith("; the log was changed or is damaged\n")
    assert "(WRONG)\n" in out
    assert "the log was changed or is damaged\n" in out


def test_info_reads_a_log_that_was_cut_off(folder, invoke):
    (folder / "log" / "manifest.json").unlink()
    code, out, _ = invoke("info", folder / "log", "--json")
    assert (code, json.loads(out)["complete"], json.loads(out)["digest_ok"]) == (0, False, None)


@pytest.mark.parametrize("data", [b"", b"\n", b"garbage", bytes(range(256)), b"[1, 2]\n", b"\0" * 5000])
@pytest.mark.parametrize("command", ["info", "sanitize", "run", "convert", "diff"])
def test_a_file_that_is_no_log_is_told_in_a_sentence(tmp_path, invoke, command, data):
    path = tmp_path / "log.jsonl"
    path.write_bytes(data)
    more = {"convert": (tmp_path / "out",), "diff": (path,)}.get(command, ())
    code, out, err = invoke(command, path, *more)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {path}")
    assert err.count("\n") == 1


def test_a_folder_of_garbage_is_told_in_a_sentence(tmp_path, invoke):
    (tmp_path / "strings.jsonl").write_bytes(b"garbage\n")
    code, out, err = invoke("info", tmp_path)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {tmp_path}/strings.jsonl:1: got no JSON (")


def test_names_do_not_steer_the_terminal(tmp_path, invoke):
    out = {"role": "OUT", "owner": 0x400, "offset": 0, "rows": 1, "row_nbytes": 4, "dtype": "f32"}
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps({"kind": "math", "name": "\x1b[31m\n", "component": "a\r\x07", "operands": [out]}))
    code, said, _ = invoke("info", log)
    assert code == 0
    assert "\\x1b[31m\\n" in said
    assert not set("\x1b\r\x07") & set(said)
