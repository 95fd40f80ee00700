"""Bad input to the installed `kb`: the whole sentence, exit code 2, nothing on standard output; 3 for a stuck run."""

import re
from pathlib import Path

import pytest
from python_copies import kb

from kb_cli.benchmark import bundled

ONE_CUBE = bundled.find("topologies", "one_cube").read_text()

RAISING = """\
import numpy as np
from msgspec import Struct

from kb_engine import Benchmark


def helper(n):
    return 1 // n


def kernel(tl, a):
    helper(tl.program_id())


class Params(Struct):
    pass


class Raising(Benchmark[Params]):
    Params = Params

    def inputs(self, p, rng):
        return {"a": np.ones((4, 4), np.float32)}

    def launch(self, host, p, tensors):
        a = host.tensor("a", tensors["a"], "f32")
        host.launch(kernel, a)
        return {"a": a}

    def reference(self, p, inputs):
        return inputs

    def flops(self, p):
        return 1
"""


def edited(folder: Path, old: str, new: str, bad: str) -> str:
    """Write chip.yaml, the bundled chip with *old* replaced once; `chip.yaml:LINE:COLUMN` of *bad* in it."""
    assert ONE_CUBE.count(old) >= 1
    text = ONE_CUBE.replace(old, new, 1)
    (folder / "chip.yaml").write_text(text)
    at = text.index(new) + new.index(bad)
    return f"chip.yaml:{text.count(chr(10), 0, at) + 1}:{at - text.rfind(chr(10), 0, at)}"


NAMES = "hbm, sram, xbar, bridge, noc, " + ", ".join(
    f"pe[...].{name}"
    for name in ("pe_cpu", "pe_scheduler", "pe_dma", "pe_fetch_store", "pe_gemm", "pe_math", "pe_tcm", "pe_queue")
)


@pytest.mark.parametrize(
    ("old", "new", "bad", "message"),
    [
        pytest.param(
            "bw_gbs: 102.4, latency_ns: 45", "bw_gbs: 102.4, latencyns: 45", "latencyns",
            "$.cube.nodes.hbm.latencyns: got an unknown key, needs one of bw_gbs, latency_ns, burst_nbytes, kind, "
            "impl, count, memory; did you mean 'latency_ns'?", id="unknown key"),
        pytest.param(
            "rows: 64", "rows: many", "rows",
            "$.cube.pe_template.nodes.pe_gemm.rows: got 'many', needs an int", id="wrong type"),
        pytest.param(
            "rows: 64", "rows: 0", "rows",
            "$.cube.pe_template.nodes.pe_gemm.rows: got 0, needs >= 1", id="out of range"),
        pytest.param(
            "impl: builtin.pe_gemm", "impl: builtin.pe_gem", "impl",
            "$.cube.pe_template.nodes.pe_gemm.impl: got 'builtin.pe_gem', needs the name of an installed component; "
            "did you mean 'builtin.pe_gemm'?", id="unknown impl"),
        pytest.param(
            "kind: pe_gemm, impl: builtin.pe_gemm", "kind: pe_gemm, impl: builtin.pe_math", "impl",
            "$.cube.pe_template.nodes.pe_gemm.impl: got builtin.pe_math as a pe_gemm, needs a block that serves GEMM; "
            "name a block of that kind", id="a block that does not serve its kind's stage"),
        pytest.param(
            "to: bridge,", "to: brigde,", "to",
            f"$.cube.links[4].to: got the unknown node 'brigde', needs one of {NAMES}; did you mean 'bridge'?",
            id="link to a node that is not there"),
    ],
)  # fmt: skip
def test_a_chip_that_cannot_be(tmp_path: Path, old: str, new: str, bad: str, message: str) -> None:
    where = edited(tmp_path, old, new, bad)
    for args in (["topology", "check", "chip.yaml"], ["run", "gemm", "--topology", "chip.yaml", "--json"]):
        done = kb(tmp_path, *args)
        assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error: {where}: {message}\n")


def test_a_key_that_is_there_twice(tmp_path: Path) -> None:
    where = edited(tmp_path, "pe_layout: {count: 8}", "pe_layout: {COUNT: 8, count: 4}", "count")
    text = (tmp_path / "chip.yaml").read_text().replace("COUNT", "count")
    (tmp_path / "chip.yaml").write_text(text)
    line, column = where.split(":")[1:]
    first = f"{line}:{int(column) - len('count: 8, ')}"
    done = kb(tmp_path, "topology", "check", "chip.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: {where}: $.cube.pe_layout.count: got a key that is already at {first}, needs each key once; "
        "remove one\n"
    )


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["topology", "check", "missing.yaml"],
         "missing.yaml: got no such file, needs a topology file or a bundled name"),
        (["run", "gemm", "--topology", "missing.yaml"],
         "missing.yaml: got no such file, needs a topology file or a bundled name"),
        (["run", "missing.py"], "missing.py: got no such file, needs a benchmark file or a bundled name"),
        (["run", "gemm", "-p", "M=0"], "-p M: got 0, needs >= 1"),
        (["run", "gemm", "-p", "M=abc"], "-p M: got 'abc', needs an int"),
        (["run", "gemm", "-p", "M=1", "-p", "M=2"], "-p M: got '1' and '2', needs one value; give it once"),
        (["run", "gemm", "-p", "M"], "-p: got 'M', needs KEY=VALUE; write it like -p M=512"),
        (["verify", "nope"], "nope: got no such folder, needs the folder of a run; kb run prints its name"),
    ],
)  # fmt: skip
def test_a_command_line_that_cannot_be(tmp_path: Path, args: list[str], message: str) -> None:
    done = kb(tmp_path, *args)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error: {message}\n")
    assert not list(tmp_path.iterdir())


def test_a_shapes_file_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "shapes.csv").write_text("layer,M,N,K\nq,8,8,8\n" + "\n" * 4 + "k,x,8,8\n")
    done = kb(tmp_path, "run", "gemm", "--shapes", "shapes.csv", "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: shapes.csv:7: M: got 'x', needs an int >= 1\n"


def test_a_kernel_that_raises_shows_its_own_frames(tmp_path: Path) -> None:
    (tmp_path / "raising.py").write_text(RAISING)
    done = kb(tmp_path, "run", "raising.py", "--json")
    assert (done.returncode, done.stdout) == (2, "")
    first, *frames = done.stderr.splitlines()
    assert first == (
        "error: raising.py:8: got ZeroDivisionError: integer division or modulo by zero, needs a kernel that returns; "
        "see the frames below"
    )
    assert re.findall(r'File "(.*)", line (\d+), in (\w+)', "\n".join(frames)) == [
        (str(tmp_path / "raising.py"), "12", "kernel"),
        (str(tmp_path / "raising.py"), "8", "helper"),
    ]
    assert not [line for line in frames if "kb_" in line]


TALKING = """\
import numpy as np

import kernbench as kb


def kernel(tl, x, y):
    value = tl.load(x)
    if tl.program_id() == 0:
        tl.send(value, 1, "sum")
    tl.store(y, value)


x = np.ones(64, np.float32)
kb.run(kernel, x, kb.empty(x.shape, "f32"), pes=[0, 1])
"""


def test_a_script_whose_message_nobody_received_ends_with_3(tmp_path: Path) -> None:
    (tmp_path / "talking.py").write_text(TALKING)
    done = kb(tmp_path, "exec", "talking.py")
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1] == (
        "error: talking.py:9: got a message of 256 bytes from sip0.cube0.pe0 to sip0.cube0.pe1, tag sum, that nobody "
        "received (of 1 sent there, 0 were received), needs a tl.recv for each tl.send"
    )


@pytest.mark.parametrize(
    ("call", "first"),
    [
        ("tl.recv(1 - tl.program_id() % 2) if tl.program_id() < 2 else None",
         r"error: deadlock at 0 ns: 2 of 8 kernels cannot go on, .*"),
        ("tl.send(tl.load(a), 1) if tl.program_id() == 0 else None",
         r"error: raising\.py:12: got a message of 64 bytes from sip0\.cube0\.pe0 to sip0\.cube0\.pe1, tag 0, .*"),
    ],
    ids=["deadlock", "lost message"],
)  # fmt: skip
def test_a_run_whose_programs_wait_for_each_other_for_ever_ends_with_3(tmp_path: Path, call: str, first: str) -> None:
    (tmp_path / "raising.py").write_text(RAISING.replace("helper(tl.program_id())", call))
    done = kb(tmp_path, "run", "raising.py")
    assert (done.returncode, done.stdout) == (3, "")
    assert re.fullmatch(first, done.stderr.splitlines()[0])


def test_a_run_that_is_stuck_says_who_waits_for_what_and_ends_with_3(tmp_path: Path) -> None:
    waiting = """\
    loaded = tl.load(a)
    loaded.completion = type(loaded.completion)()
    tl.wait(loaded)
"""
    (tmp_path / "waiting.py").write_text(RAISING.replace("    helper(tl.program_id())\n", waiting))
    done = kb(tmp_path, "run", "waiting.py", "--trace", "trace.jsonl")
    assert (done.returncode, done.stdout) == (3, "")
    first, *lines, others, kept = done.stderr.splitlines()
    assert re.fullmatch(
        r"error: deadlock at [\d.]+ ns: 8 of 8 kernels cannot go on, and no event is scheduled; needs an event that "
        r"lets one of them go on; who waits for whom:",
        first,
    )
    assert re.fullmatch(
        r"  sip0\.cube0\.pe0: the kernel waits at waiting\.py:14 since [\d.]+ ns for a handle that no command in "
        r"flight completes",
        lines[0],
    )
    assert lines[1:] == ["  missing: the end of the handle at waiting.py:14, because no command in flight completes it"]
    assert others == "  and 7 more PEs wait in the same way: sip0.cube0.pe1, sip0.cube0.pe2, sip0.cube0.pe3 and 4 more"
    assert (tmp_path / "trace.jsonl").read_text().count("command_complete") == 8
    [folder] = (tmp_path / "kb-runs").iterdir()
    assert kept.endswith(f"the files written so far are in kb-runs/{folder.name}")
    assert folder.name.endswith("-interrupted")


def test_a_tile_that_does_not_fit_names_the_kernel_line(tmp_path: Path) -> None:
    sizes = [text for name in "MNK" for text in ("-p", f"{name}=1024")]
    done = kb(tmp_path, "run", "gemm", *sizes, "-p", "tile=1024x1024x1024", "--topology", "one_pe")
    lines = bundled.find("benchmarks", "gemm").read_text().splitlines()
    line = next(number for number, text in enumerate(lines, start=1) if "tl.composite(" in text)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: gemm.py:{line}: sip0.cube0.pe0.pe_tcm: got a tile whose input buffer takes 4096 KiB, "
        "needs at most the 512 KiB of input_kib; use a smaller tile\n"
    )
    assert not (tmp_path / "kb-runs").exists()
