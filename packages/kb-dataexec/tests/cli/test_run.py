"""`run` executes a log, and compares or writes its outputs."""

import json
import re
import sys

import numpy as np
import pytest
from dataexec_gemm_log import HBM
from dataexec_stored_log import PROBLEM, rewritten, run_args

from kb_dataexec.memory.store import MemoryStore
from kb_messages import DType

LIKE = f"write it like c=0x1000000000000:64x64:f16; types are {', '.join(DType)}"
TORCH = "kb-dataexec[torch]"


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
    assert "  op 3 (gemm, pe0, kernel.py:3): OUT 8 x 8 f32: 64 of 64 elements wrong (100 %), in [0:8, 0:8]; at [" in out


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
        (("--reference", "c=none.npy"), "none.npy: got no such file, needs a file"),
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
