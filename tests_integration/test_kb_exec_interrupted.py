"""`kb exec` that a signal ends: what it says, and what it leaves."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from python_copies import kb, python

ENDLESS = """
import numpy as np
import triton
import triton.language as tl


@triton.jit
def once_kernel(x_ptr):
    tl.store(x_ptr, tl.load(x_ptr) + 1)


@triton.jit
def endless_kernel(x_ptr):
    i = 0
    while i < 10:
        tl.store(x_ptr, tl.load(x_ptr) + 1)
        i = i * 1


x = np.ones(1, np.float32)
once_kernel[(1,)](x)
endless_kernel[(1,)](x)
"""
KB = str(Path(sys.executable).with_name("kb"))


def stopped(folder: Path, number: signal.Signals) -> subprocess.CompletedProcess[str]:
    """`kb exec` of `ENDLESS`, which gets the signal *number* when its second launch has stored a hundred times."""
    (folder / "endless.py").write_text(ENDLESS, encoding="utf-8")
    command = [KB, "exec", "endless.py"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        until_s = time.monotonic() + 60
        while not any(is_under_way(path) for path in folder.glob("kb-runs/.*/progress.json")):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < until_s
            time.sleep(0.05)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def is_under_way(path: Path) -> bool:
    told = json.loads(path.read_text(encoding="utf-8"))
    return told["what"] == "launch 0001" and (told["done"] or 0) > 100


def test_ctrl_c_says_where_the_kernel_stood_and_keeps_what_there_is(tmp_path: Path) -> None:
    done = stopped(tmp_path, signal.SIGINT)
    assert done.returncode == 130
    (folder,) = (tmp_path / "kb-runs").iterdir()
    run = f"kb-runs/{folder.name}"
    assert folder.name.endswith("-interrupted")
    said = done.stderr.splitlines()
    assert re.fullmatch(r"interrupted: in pass 1 \(time\): launch 0001, [\d.]+ .s, [\d,]+ of [\d,]+ stages", said[0])
    assert re.match(r"  program 0 on sip0\.cube0\.pe0: the kernel (waits|ran) at endless\.py:\d+", said[1])
    assert said[2:] == [f"  the files written so far are in {run}"]
    assert re.search(r"^0000 +once_kernel", done.stdout, re.MULTILINE)
    *_, total, frame, last, failed = done.stdout.splitlines()
    assert (total.endswith(" in all"), frame.startswith("frame: blocking issue")) == (True, True)
    assert (last, failed) == (f"run folder {run}", "FAILED: the script ended with exit code 130")
    assert sorted(path.name for path in folder.iterdir()) == ["0000", "0001", "progress.json"]
    assert [path.name for path in (folder / "0001").iterdir()] == ["log"]
    info = python(tmp_path, "-m", "kb_dataexec", "info", str(folder / "0001" / "log"), "--json")
    assert info.returncode == 0, info.stderr
    told = json.loads(info.stdout)
    assert (told["records"] > 100, told["complete"]) == (True, False)
    report = kb(tmp_path, "report", f"{run}/0000", "--json")
    assert report.returncode == 0, report.stderr
    assert json.loads(report.stdout)["latency_ps"] > 0
    assert json.loads(kb(tmp_path, "runs", "--json").stdout)[0]["state"] == "interrupted"


def test_sigterm_leaves_nothing(tmp_path: Path) -> None:
    done = stopped(tmp_path, signal.SIGTERM)
    assert (done.returncode, done.stdout, done.stderr) == (143, "", "")
    assert not (tmp_path / "kb-runs").exists()


HOST_CODE = """
import os
import signal

{before}
    os.kill(os.getpid(), signal.SIGINT)
{after}
"""


def test_ctrl_c_outside_of_launches_names_the_line_of_the_script(tmp_path: Path) -> None:
    text = HOST_CODE.format(before=f"{ENDLESS.replace('endless_kernel[(', '#')}\nif True:", after="")
    (tmp_path / "script.py").write_text(text, encoding="utf-8")
    done = kb(tmp_path, "exec", "--json", "--keep=none", "script.py")
    result = json.loads(done.stdout)
    run = result["run_dir"]
    assert (done.returncode, result["exit_code"]) == (130, 130)
    line = text.splitlines().index("    os.kill(os.getpid(), signal.SIGINT)") + 1
    assert done.stderr == f"interrupted: in the script: script.py:{line}\n  the files written so far are in {run}\n"
    assert [each["run_dir"] for each in result["launches"]] == [f"{run}/0000"]
    assert (tmp_path / run / "0000" / "run.json").is_file()


def test_a_script_may_go_on_after_ctrl_c(tmp_path: Path) -> None:
    once = ENDLESS.replace("endless_kernel[(", "#")
    text = HOST_CODE.format(before=f"{once}\ntry:", after="except KeyboardInterrupt:\n    once_kernel[(1,)](x)")
    (tmp_path / "script.py").write_text(text, encoding="utf-8")
    done = kb(tmp_path, "exec", "--json", "script.py")
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(done.stdout)
    assert len(result["launches"]) == 2
    assert not list((tmp_path / "kb-runs").rglob("progress.json"))
