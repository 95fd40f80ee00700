"""Sizes that no memory holds are refused before an array is made."""

import math
import resource
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kb_cli.benchmark import author_calls, bundled
from kb_cli.benchmark.author_calls import check_capacity, inputs_of
from kb_cli.benchmark.call_benchmark import FunctionBenchmark
from kb_cli.benchmark.code import machine_memory
from kb_cli.benchmark.code.machine_memory import limited_memory
from kb_cli.benchmark.load import execute_source, load_benchmark
from kb_cli.benchmark.setup import Setup
from kb_cli.benchmark.values.params import build_params
from kb_dataexec.files import available_nbytes, free_memory
from kb_messages import BenchmarkError
from kb_topology import load_topology

Write = Callable[..., Path]
DECLARED = "def footprint(self, p):\n        return {}\n\n    def flops"


def setup_of(bench: str, **texts: str) -> Setup:
    loaded = load_benchmark(bench)
    chip = load_topology(bundled.find("topologies", "one_pe"))
    return Setup(loaded, build_params(loaded.bench.Params, texts), chip, 0, verify=True, log=True)


@pytest.mark.parametrize(
    ("bench", "sizes"),
    [("gemm", "MNK"), ("softmax", "MN"), ("vector_add", "N"), ("power_iteration", "N")],
)
def test_bundled_benchmarks_are_refused_before_their_inputs(bench: str, sizes: str) -> None:
    check_capacity(setup_of(bench))
    for size in sizes:
        with pytest.raises(
            BenchmarkError, match=rf"^{bench} on one_pe: got .* of tensors, needs at most the .* that all"
        ):
            check_capacity(setup_of(bench, **{size: "1000000000000"}))


@pytest.mark.parametrize("bench", ["gemm", "softmax", "vector_add", "power_iteration"])
def test_the_footprint_is_no_more_than_the_tensors(bench: str) -> None:
    setup = setup_of(bench)
    stated = setup.loaded.bench.footprint(setup.params)
    made = inputs_of(setup)
    reference = setup.loaded.bench.reference(setup.params, made)
    outputs = sum(math.prod(np.shape(each)) for each in reference.values())
    held = sum(each.nbytes for each in made.values())
    assert held + outputs <= stated <= held + 4 * outputs


CALLS = {
    "cross_entropy": {"tokens": "9", "vocabulary": "50"},
    "decode_attention": {"context": "9", "heads": "3", "kv_heads": "3", "head_dim": "7"},
    "decode_gemv": {"N": "30", "K": "20"},
    "embedding": {"tokens": "9", "vocabulary": "50", "width": "7"},
    "int8_gemm": {"M": "9", "N": "30", "K": "20"},
    "layer_norm": {"rows": "9", "width": "50"},
    "linear": {"M": "9", "N": "30", "K": "20"},
    "rms_norm": {"rows": "9", "width": "50"},
    "rope": {"positions": "9", "heads": "3", "head_dim": "14"},
    "split_k_gemm": {"M": "9", "N": "30", "K": "20"},
    "stencil": {"rows": "9", "width": "7"},
    "tensor_parallel_mlp": {"tokens": "9", "width": "7", "hidden": "5"},
}


@pytest.mark.parametrize("bench", CALLS)
def test_the_footprint_of_a_call_is_that_of_its_tensors(bench: str) -> None:
    setup = setup_of(bench, **CALLS[bench])
    stated = setup.loaded.bench.footprint(setup.params)
    function = load_defined_function(bench)
    call = function(np.random.default_rng(0), **{name: getattr(setup.params, name) for name in CALLS[bench]})
    assert stated == sum(math.prod(each.shape) * each.dtype.nbytes for each in call.tensors.values())
    size = next(name for name in CALLS[bench] if name in "MNK" or name in ("tokens", "rows", "positions", "context"))
    with pytest.raises(BenchmarkError, match=rf"^{bench} on one_pe: got .* of tensors, needs at most the .* that all"):
        check_capacity(setup_of(bench, **CALLS[bench] | {size: "1000000000000"}))


def load_defined_function(bench: str) -> FunctionBenchmark:
    """The function under `@kernbench.benchmark` in the file of *bench*."""
    path = bundled.find("benchmarks", bench)
    module = execute_source(path, path.read_bytes())
    found = getattr(module, bench)
    assert isinstance(found, FunctionBenchmark)
    return found


def test_every_bundled_function_has_a_footprint() -> None:
    with_functions = {
        path.stem
        for path in bundled.find("benchmarks", "gemm").parent.glob("*.py")
        if "@kb.benchmark" in path.read_text(encoding="utf-8")
    }
    assert with_functions == set(CALLS)


def test_a_footprint_that_is_no_count_is_refused(bench_file: Write) -> None:
    for answer in ("-1", "None", "'x'", "1.5", "float('nan')"):
        with pytest.raises(BenchmarkError, match=r"^small.py: footprint\(\): got .*, needs a whole number from 0"):
            check_capacity(setup_of(str(bench_file("def flops", DECLARED.format(answer)))))
    check_capacity(setup_of(str(bench_file())))


def test_this_machine_counts_too(bench_file: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(author_calls, "available_nbytes", lambda: 1000)
    setup = setup_of(str(bench_file("def flops", DECLARED.format(1001))))
    with pytest.raises(
        BenchmarkError, match=r"1,001 B of tensors, needs at most the 1,000 B that this machine has left"
    ):
        check_capacity(setup)
    monkeypatch.setattr(author_calls, "available_nbytes", lambda: None)
    check_capacity(setup)


def test_inputs_beyond_this_machine_are_a_memory_error(bench_file: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (available_nbytes() or 1) > 0
    monkeypatch.setattr(machine_memory, "available_nbytes", lambda: 64 << 20)
    before = resource.getrlimit(resource.RLIMIT_DATA)
    setup = setup_of(str(bench_file("return {name: rng", "np.ones(1 << 28)\n        return {name: rng")))
    with pytest.raises(BenchmarkError, match=r"^small.py:21: got MemoryError: Unable to allocate 2.00 GiB"):
        inputs_of(setup)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_a_system_without_a_memory_figure_has_no_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(free_memory, "_MEMINFO", tmp_path / "none")
    assert available_nbytes() is None
    with limited_memory():
        pass
