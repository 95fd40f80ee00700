"""Run folders of `kernbench.run`: what other commands make of them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from python_copies import python

import kernbench as kb
from kb_dataexec import read_log

Invoke = Callable[..., Result]

SCRIPT = """\
import numpy as np
import kernbench as kb


def shift(tl, xs, y, by, dtype):
    tl.store(y, (tl.load(xs[0]) + tl.load(xs[1]) + by).to(dtype))


def main():
    x = np.arange(32, dtype=np.float16).reshape(4, 8)
    y = kb.empty(x.shape, "f16", memory="sram")
    r = kb.run(shift, [x, kb.tensor(x, slices=[3])], y, 2, kb.DType.F16, reference=REFERENCE, folder="kb-runs", pes=[1])
    print(r.folder)


if __name__ == "__main__":
    main()
"""


INNER = "def made():\n    def shift("


@pytest.fixture
def run_script(tmp_path: Path) -> Callable[..., str]:
    """Runs the script, with another reference or text, in an empty folder, and gives the path of its run folder."""

    def run(reference: str = "lambda x, y: x + y + 2", *replacements: str) -> str:
        text = SCRIPT.replace("REFERENCE", reference)
        for old, new in zip(replacements[::2], replacements[1::2], strict=True):
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "mine.py").write_text(text)
        done = python(tmp_path, "mine.py")
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


def test_verify_report_trace_and_compare_take_the_folder(invoke: Invoke, run_script: Callable[..., str]) -> None:
    folder = run_script()
    assert invoke("verify", folder).exit_code == 0
    assert "mine.py:6" in invoke("report", folder).stdout
    assert "tl.store(y, (tl.load(xs[0])" in invoke("report", folder).stdout
    assert invoke("trace", folder, "-o", "x.pftrace").exit_code == 0
    assert invoke("compare", folder, folder).exit_code == 0


def test_whatif_repeats_the_call_from_the_folder_alone(
    invoke: Invoke, run_script: Callable[..., str], tmp_path: Path
) -> None:
    folder = run_script()
    (tmp_path / "mine.py").unlink()
    done = invoke("whatif", folder, "--set", "$.cube.nodes.hbm.bw_gbs=10", "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["latency_ps"] > found["before_ps"]
    same = json.loads(invoke("whatif", folder, "--set", "$.cube.nodes.hbm.bw_gbs=102.4", "--json").stdout)
    assert same["latency_ps"] == same["before_ps"]


def test_whatif_repeats_the_grid_of_a_call(invoke: Invoke, run_script: Callable[..., str]) -> None:
    folder = run_script("lambda x, y: x + y + 2", "pes=[1]", "grid=(2, 3), schedule='static'")
    before = json.loads((Path(folder) / "run.json").read_text())["call"]["launch"]
    assert before == {"grid": [2, 3], "schedule": "static"}
    same = json.loads(invoke("whatif", folder, "--set", "$.cube.nodes.hbm.bw_gbs=102.4", "--json").stdout)
    assert same["latency_ps"] == same["before_ps"]


def test_other_inputs_make_another_folder(run_script: Callable[..., str]) -> None:
    first, again = run_script(), run_script()
    other = run_script("lambda x, y: x + y + 2", "np.arange(32", "1 + np.arange(32")
    assert first == again != other


def test_verify_says_that_there_was_no_reference(invoke: Invoke, run_script: Callable[..., str]) -> None:
    done = invoke("verify", run_script("None"))
    assert done.exit_code == 2
    assert done.stderr.endswith(
        "got no expected outputs (kernbench.run had no reference), needs them; run again with reference=...\n"
    )


def test_a_damaged_input_is_seen(invoke: Invoke, run_script: Callable[..., str], tmp_path: Path) -> None:
    folder = run_script()
    path = tmp_path / folder / "inputs" / "000000.npy"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert invoke("whatif", folder, "--set", "$.cube.nodes.hbm.bw_gbs=10").exit_code == 2
    done = invoke("verify", folder)
    assert (done.exit_code, "000000.npy: got other bytes than the run wrote" in done.stdout) == (1, True)


@pytest.mark.parametrize(
    ("replacements", "text"),
    [
        (
            (
                "def shift(",
                INNER,
                "\n\n\ndef main",
                "\n    return shift\nshift = made()\n\ndef main",
                "    tl.",
                "      tl.",
            ),
            "got a run of a kernel that is no function of its file's top level (made.<locals>.shift)",
        ),
        (
            (
                "by, dtype",
                "by, dtype, more=print",
            ),
            "got a run of arguments that JSON cannot hold (more)",
        ),
        (("    main()\n", "    main()\nmain()\n"), "got a call of kernbench.run while kb imports the file"),
        (('folder="kb-runs"', 'folder="kb-runs", keep="none"'), "got no inputs (--keep none), needs them"),
    ],
)
def test_whatif_refuses_calls_that_the_folder_cannot_repeat(
    invoke: Invoke, run_script: Callable[..., str], replacements: tuple[str, ...], text: str
) -> None:
    folder = run_script("None", *replacements).splitlines()[0]
    done = invoke("whatif", folder, "--set", "$.cube.nodes.hbm.bw_gbs=10")
    assert done.exit_code == 2
    assert text in done.stderr


def test_a_prompt_has_no_file_and_its_folder_says_so(invoke: Invoke, tmp_path: Path) -> None:
    text = SCRIPT.replace("REFERENCE", "lambda x, y: x + y + 2")
    done = subprocess.run([sys.executable, "-"], input=text, capture_output=True, text=True, cwd=tmp_path, check=True)
    folder = done.stdout.strip()
    assert invoke("verify", folder).exit_code == 0
    refused = invoke("whatif", folder, "--set", "$.cube.nodes.hbm.bw_gbs=10")
    assert "got a run of a kernel without source, needs a call that its folder can repeat" in refused.stderr


def test_the_source_of_a_notebook_cell_is_kept(invoke: Invoke, tmp_path: Path) -> None:
    """A notebook puts the text of a cell into linecache under a name that is no file."""
    cell = SCRIPT.replace("REFERENCE", "None").replace('"__main__"', '"__cell__"')
    code = (
        "import linecache; cell = open('cell.txt').read(); name = '/tmp/ipykernel_1/42.py'\n"
        "linecache.cache[name] = (len(cell), None, cell.splitlines(True), name)\n"
        "space = {'__name__': '__cell__'}\n"
        "exec(compile(cell, name, 'exec'), space)\n"
    )
    (tmp_path / "cell.txt").write_text(cell)
    done = python(tmp_path, "-c", code)
    assert done.returncode == 0, done.stderr
    folder = done.stdout.strip()
    assert (tmp_path / folder / "bench.py").read_text() == cell
    assert "42.py:6" in invoke("report", folder).stdout
    assert "tl.store(y, (tl.load(xs[0])" in invoke("report", folder).stdout
    refused = invoke("whatif", folder, "--set", "$.cube.nodes.hbm.bw_gbs=10")
    assert "got a run of a kernel of a notebook or a prompt" in refused.stderr


def test_debugging_says_when_no_op_is_to_blame(invoke: Invoke, run_script: Callable[..., str]) -> None:
    folder = run_script("lambda x, y: x + y + 3")
    plain, debugged = invoke("verify", folder), invoke("verify", folder, "--debug")
    assert (plain.exit_code, debugged.exit_code) == (1, 1)
    note = "; each op agrees with float64 on its inputs, so the kernel asks for something else than the reference"
    assert (note in plain.stdout, note in debugged.stdout) == (False, True)


def test_a_wrong_result_names_the_op_before_the_cast(invoke: Invoke, run_script: Callable[..., str]) -> None:
    """The kernel ends with `.to(dtype)` from f16 to f16 here; the sum before it is what is wrong."""
    folder = run_script("lambda x, y: x + y + 3", "kb.DType.F16", "kb.DType.BF16", '"f16", memory', '"bf16", memory')
    text = invoke("verify", folder).stdout
    record = text.partition("computed by op ")[2]
    log = read_log(Path(folder) / "log") if Path(folder).is_absolute() else read_log(Path.cwd() / folder / "log")
    op = log.record(int(np.flatnonzero(log.ops["op_id"] == int(record.split()[0]))[0]))
    assert '"op":"add"' in op.params


def test_runs_that_differ_in_values_around_the_kernel_have_folders_of_their_own(tmp_path: Path) -> None:
    table = np.ones(3)

    def made(factor: object, helper: Callable[[int], int]) -> Callable[..., None]:
        def scale(tl: Any, x: Any, y: Any) -> None:
            assert helper(1) or factor is not None
            tl.store(y, tl.load(x) * table[0])

        return scale

    def folder(factor: object, helper: Callable[[int], int]) -> Path:
        x = np.ones((4, 8), np.float32)
        found = kb.run(made(factor, helper), x, kb.empty(x.shape, "f32"), chip="one_pe", folder=tmp_path).folder
        assert found is not None
        return found

    first = folder(2, lambda n: n + 1)
    assert first == folder(2, lambda n: n + 1)
    assert len({first, folder(3, lambda n: n + 1), folder(2, lambda n: n + 2), folder(np.ones(2), abs)}) == 4
    table[0] = 5
    assert folder(2, lambda n: n + 1) != first
