"""`@kernbench.benchmark`: a function that answers a call is a benchmark that `kb run` takes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Invoke = Callable[..., Result]

FILE = '''\
import numpy as np
import kernbench as kb


def add(tl, x, y, z):
    tl.store(z, tl.load(x) + tl.load(y))


@kb.benchmark
def adding(rng, n: int = 64, dtype: kb.DType = kb.DType.F16):
    """Adds two vectors."""
    x, y = (kb.cast(rng.standard_normal(n, dtype=np.float32), dtype) for _ in range(2))
    return kb.call(add, x, y, kb.empty(n, dtype), reference=np.add, flops=n, pes=[0])
'''


HEAD = "rng, n: int = 64, dtype: kb.DType = kb.DType.F16"
ANSWER = "return kb.call(add, x, y, kb.empty(n, dtype), reference=np.add, flops=n, pes=[0])"
TWO = "@kb.benchmark\ndef other(rng): ...\n\n\n@kb.benchmark"


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    def write(*replacements: str) -> str:
        text = FILE
        for old, new in zip(replacements[::2], replacements[1::2], strict=True):
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "adding.py").write_text(text)
        return "./adding.py"

    return write


def test_a_stated_footprint_is_asked_before_the_function(invoke: Invoke, write: Callable[..., str]) -> None:
    stated = "@kb.benchmark(footprint=lambda p: 3 * p.n * p.dtype.nbytes)"
    file = write("@kb.benchmark", stated, "    x, y = (", "    print(n)\n    x, y = (")
    right = invoke("run", file, "-p", "n=32", "--topology", "one_pe")
    assert right.exit_code == 0
    assert right.stdout.startswith("32\n")
    done = invoke("run", file, "-p", "n=1000000000000", "--topology", "one_pe")
    assert done.exit_code == 2
    # 6e12 B / 2^20 B = 5,722,045.9; one_pe has 2 GiB of HBM and 2 MiB of TCM
    assert "adding on one_pe: got 5,722,046 MiB of tensors, needs at most the 2,050 MiB that all" in done.stderr
    assert done.stdout == ""


def test_kb_run_takes_the_function(invoke: Invoke, write: Callable[..., str]) -> None:
    done = invoke("run", write(), "-p", "n=32", "-p", "dtype=f32", "--json", "--topology", "one_pe")
    found = json.loads(done.stdout)
    assert (found["benchmark"], found["verified"], found["flops"]) == ("adding", True, 32)
    assert found["params"] == {"n": 32, "dtype": "f32"}


def test_the_folder_repeats_the_benchmark(invoke: Invoke, write: Callable[..., str]) -> None:
    folder = json.loads(invoke("run", write(), "--json").stdout)["run_dir"]
    assert invoke("verify", folder).exit_code == 0
    assert invoke("whatif", folder, "--set", "$.cube.nodes.hbm.bw_gbs=10").exit_code == 0


def test_another_seed_makes_other_inputs(invoke: Invoke, write: Callable[..., str]) -> None:
    first, second = (json.loads(invoke("run", write(), "--json", "--seed", seed).stdout) for seed in ("0", "1"))
    assert first["latency_ps"] == second["latency_ps"]
    assert first["log_digest"] == second["log_digest"]
    assert first["run_dir"] != second["run_dir"]


@pytest.mark.parametrize(
    ("replacements", "text"),
    [
        (
            ("reference=np.add, ", ""),
            "adding: got a call without a reference, needs reference=...; state the expected result",
        ),
        ((ANSWER, "pass"), "adding: got adding that answers a NoneType, needs kernbench.call(kernel, ...)"),
        (("n: int = 64", "n=64"), "adding: n: got a parameter without a type, needs a type; n: int"),
        ((HEAD, ""), "adding: got a benchmark without parameters, needs a random generator as the first; adding(rng)"),
        (("rng,", "rng, *more,"), "adding: more: got the parameter *more, needs one that is given by its name"),
        (("flops=n", "flops=-1"), "adding.py: flops(): got a negative one, needs a whole number"),
        (("@kb.benchmark", TWO), "adding.py: got 2 benchmarks (other, adding), needs exactly one"),
        (("@kb.benchmark\n", ""), "adding.py: got no Benchmark subclass, needs exactly one; derive a class from kb"),
    ],
)  # fmt: skip
def test_unusable_functions_are_refused(
    invoke: Invoke, write: Callable[..., str], replacements: tuple[str, ...], text: str
) -> None:
    done = invoke("run", write(*replacements))
    assert done.exit_code == 2
    assert text in done.stderr


def test_arguments_that_depend_on_the_chip_are_asked_before_the_launch(
    invoke: Invoke, write: Callable[..., str]
) -> None:
    kernel = "def add(tl, x, y, z):\n    tl.store(z, tl.load(x) + tl.load(y))"
    parts = """def add(tl, x, y, size, z, twice):
    for start in range(tl.program_id() * size, x.shape[0], tl.num_programs() * size):
        part = slice(start, start + size)
        tl.store(z[part], tl.load(x[part]) + tl.load(y[part]))


def sizes(host, n, size):
    found = host.fitted(lambda size: 3 * 2 * size, size=(size, 16))
    return {**found, "grid": n // found["size"]}"""
    answer = (
        "return kb.call(add, x, y, z=kb.empty(n, dtype), twice=2, reference=np.add, "
        "chosen=lambda host: sizes(host, n, size))"
    )
    file = write(kernel, parts, HEAD, f"{HEAD}, size: int | None = None", ANSWER, answer)
    found = json.loads(invoke("run", file, "--json", "--topology", "one_pe").stdout)
    assert (found["verified"], found["chose"], found["params"]["size"]) == (True, {"size": 16}, None)
    given = json.loads(invoke("run", file, "--json", "--topology", "one_pe", "-p", "size=8").stdout)
    assert (given["verified"], "chose" in given) == (True, False)
    assert invoke("verify", found["run_dir"]).exit_code == 0


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ('{"z": 1}', "kernel add: got z twice, by chosen= too, needs each once"),
        ('{"pes": [0]}', "kernel add: got pes twice, by chosen= too, needs each once"),
        ('{"size": 1}', "kernel add: got an unknown argument size, needs one of x, y, z"),
    ],
)
def test_wrong_arguments_of_the_chip_are_refused(
    invoke: Invoke, write: Callable[..., str], chosen: str, said: str
) -> None:
    answer = ANSWER.replace("pes=[0])", f"pes=[0], chosen=lambda host: {chosen})")
    done = invoke("run", write(ANSWER, answer), "--topology", "one_pe")
    assert (done.exit_code, said in done.stderr) == (2, True), done.stderr


def test_a_missing_argument_of_the_chip_and_a_parameter_with_a_star_are_refused(
    invoke: Invoke, write: Callable[..., str]
) -> None:
    answer = ANSWER.replace("kb.empty(n, dtype), ", "").replace("pes=[0])", "chosen=lambda host: {})")
    done = invoke("run", write(ANSWER, answer), "--topology", "one_pe")
    assert "got arguments that do not fit (missing a required argument: 'z')" in done.stderr
    answer = ANSWER.replace("pes=[0])", "chosen=lambda host: {})")
    done = invoke("run", write("def add(tl, x, y, z)", "def add(tl, x, *y)", ANSWER, answer), "--topology", "one_pe")
    assert "kernel add: got a parameter with * beside chosen=, needs parameters with names" in done.stderr
