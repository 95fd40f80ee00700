"""`kernbench.run`: arrays in, arrays out, times, and where they went."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

import kernbench as kb

Invoke = Callable[..., Result]
X = np.arange(32, dtype=np.float32).reshape(4, 8)
EMPTY = kb.empty(X.shape, "f32")


def add_one(tl: Any, x: Any, y: Any) -> None:
    tl.store(y, tl.load(x) + 1)


def scale(tl: Any, x: Any, factor: float, y: Any, z: Any = None) -> None:
    tl.store(y, tl.load(x) * factor)
    if z is not None:
        tl.store(z, tl.load(x))


def join(tl: Any, parts: Any, out: Any) -> None:
    for number, part in enumerate(parts):
        tl.store(out[number * 4 : number * 4 + 4, :], tl.load(part))


def looks(tl: Any, x: Any) -> None:
    tl.load(x)


def double(tl: Any, x: Any) -> None:
    tl.store(x, tl.load(x) + tl.load(x))


def test_outputs_come_from_pass_2() -> None:
    r = kb.run(add_one, X, kb.empty(X.shape, "f32"), chip="one_pe")
    assert list(r.outputs) == ["y"]
    assert r.output.dtype == np.float32
    assert np.array_equal(r.output, X + 1)
    assert r.folder is None
    assert r.verified is None


def test_keyword_only_arguments_keep_the_defaults_of_the_kernel_or_partial() -> None:
    def shift(tl: Any, x: Any, y: Any, *, by: float = 2) -> None:
        tl.store(y, tl.load(x) + by)

    for kernel, by in ((shift, 2), (partial(shift, by=5), 5)):
        assert np.array_equal(kb.run(kernel, X, EMPTY, chip="one_pe").output, X + by)


def test_names_that_a_partial_sets_are_arguments() -> None:
    tripled = partial(scale, factor=3.0, z=EMPTY)
    r = kb.run(tripled, X, y=EMPTY, chip="one_pe")
    assert repr(r).startswith("scale on one_pe: ")
    assert list(r.outputs) == ["y", "z"]
    assert np.array_equal(r.outputs["y"], X * 3)
    assert np.array_equal(kb.run(tripled, X, y=EMPTY, factor=2.0, z=None, chip="one_pe").output, X * 2)
    with pytest.raises(kb.KbError, match=r"^kernel scale: got arguments that do not fit \(multiple values for"):
        kb.run(tripled, X, EMPTY, chip="one_pe")


def test_times_equal_the_times_of_kb_run(invoke: Invoke, tmp_path: Path) -> None:
    """The kernel waits for nothing else, so all of its time is on one line, and adds up."""
    r = kb.run(add_one, X, kb.empty(X.shape, "f32"), chip="one_pe", folder=tmp_path)
    assert r.latency_ps == r.latency_ns * 1000 == r.result.latency_ps > 0
    assert [(each.line, each.ps) for each in r.lines] == [("test_run.py:26", r.latency_ps)]
    assert sum(each.ps for each in r.where) == r.latency_ps
    assert f'latency_ns": {r.latency_ns}' in invoke("report", str(r.folder), "--json").stdout or r.latency_ps


def test_numbers_names_and_defaults_reach_the_kernel() -> None:
    r = kb.run(scale, X, 3.0, y=kb.empty(X.shape, np.float32), chip="one_pe")
    assert np.array_equal(r.output, 3 * X)
    two = kb.run(scale, X, np.float64(2.0), kb.empty(X.shape, "f32"), kb.zeros(X.shape, "f32"), chip="one_pe")
    assert np.array_equal(two.outputs["y"], 2 * X)
    assert np.array_equal(two.outputs["z"], X)


def test_lists_of_arrays_are_lists_of_tensors() -> None:
    r = kb.run(join, [X, X + 1], kb.empty((8, 8), "f32"), chip="one_pe")
    assert np.array_equal(r.output, np.concatenate([X, X + 1]))


def test_a_tensor_may_be_input_and_output() -> None:
    r = kb.run(double, kb.tensor(X, output=True), chip="one_pe")
    assert np.array_equal(r.outputs["x"], 2 * X)


def test_blocks_lie_in_the_slices_that_are_named() -> None:
    """Eight programs read one slice, or each its own: the second is faster, and the numbers are the same."""
    x = np.ones((64, 256), np.float16)
    whole = kb.run(rows, x, kb.empty(x.shape, "f16"))
    spread = kb.run(rows, kb.tensor(x, blocks=(8, 1)), kb.empty(x.shape, "f16", blocks=(8, 1)))
    assert spread.latency_ps < whole.latency_ps
    assert np.array_equal(spread.output, whole.output)
    sharded = kb.run(rows, kb.tensor(x, shard="row"), kb.empty(x.shape, "f16", shard="row"))
    assert sharded.latency_ps == spread.latency_ps


def rows(tl: Any, x: Any, y: Any) -> None:
    part = slice(tl.program_id() * 8, tl.program_id() * 8 + 8)
    tl.store(y[part, :], tl.load(x[part, :]))


def test_pes_choose_where_the_kernel_runs() -> None:
    r = kb.run(add_one, X, kb.empty(X.shape, "f32"), pes=[2])
    assert r.result.launches[0].pes == 1


def one_row(tl: Any, x: Any, y: Any) -> None:
    tl.store(y[tl.program_id(), :], tl.load(x[tl.program_id(), :]) + 1)


@pytest.mark.parametrize("grid", [4, (4,), np.int64(4), np.array([4, 1])])
def test_a_grid_has_programs_by_the_problem(grid: Any) -> None:
    r = kb.run(one_row, X, kb.empty(X.shape, "f32"), grid=grid, pes=[0, 3])
    r.check(X.astype(np.float64) + 1)
    assert r.result.launches[0].pes == 2


def test_a_grid_that_is_none_and_an_unknown_schedule_are_refused() -> None:
    with pytest.raises(kb.KbError, match=r"got grid=0, needs a number of programs"):
        kb.run(one_row, X, kb.empty(X.shape, "f32"), grid=0)
    with pytest.raises(kb.KbError, match=r"got schedule='first', needs 'dynamic' or 'static'"):
        kb.run(one_row, X, kb.empty(X.shape, "f32"), grid=4, schedule="first")


def test_check_compares_with_a_reference_of_float64() -> None:
    r = kb.run(add_one, X, kb.empty(X.shape, "f32"), chip="one_pe")
    within = "the default tolerance of f32 for sums of 1 term; state another with tolerance=, or in the benchmark's"
    ok = f"y: ok, 32 elements, largest error 0, within {within} tolerance()"
    assert r.check(X.astype(np.float64) + 1) == ok
    assert r.check({"y": X + 1.5}, tolerance=0.5).endswith(
        "largest error 0.5, within the tolerance that the benchmark or the caller states"
    )
    said = r"^y: 32 of 32 elements wrong \(100 %\), in \[0:4, 0:8\]; at \[0, 0\] got 1, expected 3 .*test_run\.py:26"
    with pytest.raises(kb.WrongResult, match=said):
        r.check(X + 3)
    with pytest.raises(kb.KbError, match=r"reference\(\): got shape \(3,\) for y, needs \(4, 8\)$"):
        r.check(np.zeros(3))
    with pytest.raises(kb.KbError, match=r"^check: got no reference, needs one; give one to check"):
        r.check()


def test_a_reference_of_the_call_is_a_function_of_the_inputs_in_float64() -> None:
    kinds = []

    def reference(x: np.ndarray) -> np.ndarray:
        kinds.append(x.dtype)
        return x + 1

    r = kb.run(add_one, X, kb.empty(X.shape, "f32"), chip="one_pe", reference=reference)
    assert kinds == [np.float64]
    assert r.verified is True
    assert r.check().startswith("y: ok, 32 elements, largest error 0, within the default tolerance of f32")
    wrong = kb.run(add_one, X, kb.empty(X.shape, "f32"), chip="one_pe", reference=X)
    assert wrong.verified is False
    with pytest.raises(kb.WrongResult):
        wrong.check()


def test_integers_of_numpy_are_integers(tmp_path: Path) -> None:
    zero, one = np.int64(0), np.int64(1)
    target = kb.CubeTarget(sip=zero, cube=zero, pes=(zero,))
    placed = kb.empty((np.int64(4), np.int64(8)), "f32", blocks=(one, one), slices=[zero])
    r = kb.run(add_one, X, placed, chip="one_cube", folder=tmp_path, targets=[target], flops=np.int64(32), seed=one)
    assert np.array_equal(r.output, X + 1)
    assert kb.read_report(str(r.folder)).seed == 1
    by_name = kb.run("gemm", chip="one_pe", folder=tmp_path, M=np.int64(16), N=16, K=np.uint8(16))
    assert by_name.verified


def test_bytes_that_the_kernel_never_wrote_are_no_output() -> None:
    r = kb.run(scale, X, 1.0, kb.empty(X.shape, "f32"), chip="one_pe", compute=False)
    with pytest.raises(kb.KbError, match=r"^a run with compute=False: got no results, needs them"):
        _ = r.outputs
    half = kb.run(double, kb.tensor(X, output=True), chip="one_pe")
    assert half.output.shape == (4, 8)

    def nothing(tl: Any, x: Any, y: Any) -> None:
        tl.load(x)

    with pytest.raises(
        kb.KbError, match=r"^output y: got a read of 4 x 8 f32 whose bytes .* first that of y\[0, 0\], .*"
    ) as caught:
        _ = kb.run(nothing, X, kb.empty(X.shape, "f32"), chip="one_pe").outputs
    assert str(caught.value).endswith(
        "; look at the grid and at the masks of the stores, or pass kernbench.zeros(shape, dtype)"
    )
    assert len([each for each in caught.traceback if each.path == Path(__file__)]) == 1
    assert len(caught.traceback) <= 3


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: kb.run(add_one, X),
            r"^kernel add_one: got arguments that do not fit \(missing .*'y'\), needs the parameters of add_one",
        ),
        (
            lambda: kb.run(scale, X, y=X, facter=3),
            r"^kernel scale: got an unknown argument facter, needs one of x, factor, y, z; did you mean 'factor'\?$",
        ),
        (lambda: kb.run(3), r"^kernbench\.run: got int 3, needs a kernel, which is a function, or a benchmark$"),
        (
            lambda: kb.run(add_one, X.astype(np.float64), X),
            r"^a tensor: got an array of float64, needs one of .*astype",
        ),
        (
            lambda: kb.run(add_one, X, kb.empty(4, "f33")),
            r"^a tensor's dtype: got 'f33', needs .*did you mean 'f32'\?$",
        ),
        (
            lambda: kb.run(add_one, X, X, chip="one_pee"),
            r"^topology 'one_pee': got an unknown .*did you mean 'one_pe'\?$",
        ),
        (lambda: kb.run("gem"), r"^benchmark 'gem': got an unknown name, .*did you mean 'gemm'\?$"),
        (lambda: kb.run("gemm", X), r"^gemm: got 1 arguments without names, needs parameters by name \(M, N, K"),
        (
            lambda: kb.run("gemm", topology="one_pe"),
            r"^kernbench\.run: got topology=, needs chip=; write chip='one_pe'$",
        ),
        (lambda: kb.run(add_one, X, X, topology="one_pe"), r"^kernbench\.run: got topology=, needs chip=; write"),
        (lambda: kb.run("-"), r"^benchmark '-': got standard input, needs a name or a file, because no benchmark is"),
        (lambda: kb.run("gemm", chip="-"), r"^topology '-': got standard input, needs a name or a file, because no"),
        (lambda: kb.run("gemm", m=4), r"^-p m: got an unknown parameter, .*did you mean 'M'\?$"),
        (lambda: kb.run(add_one, X, X, folder=1), r"^folder: got 1, needs the path of a folder for runs$"),
        (lambda: kb.run(add_one, X, X, folder="x", keep="some"), r"^keep: got 'some', needs one of auto, all, none$"),
        (lambda: kb.run(kb.call(add_one, X, X), X), r"^kernbench\.run: got arguments beside a call, needs the call al"),
        (lambda: kb.run(keyword_only, X, y=X), r"^kernel keyword_only: got arguments by keyword alone \(y\)"),
        (
            lambda: kb.run(looks, X).output,
            r"^looks: got no result, needs kernbench\.empty\(shape, dtype\), or kernbench\.tensor\(x, output=True",
        ),
        (
            lambda: kb.run(looks, X).check(X),
            r"^check: got a run without a result, needs kernbench\.empty\(shape, dtype\), or",
        ),
        (
            lambda: kb.run(add_one, X, EMPTY).check({"nobody": X}),
            r"got outputs \['nobody'\], needs the outputs of launch\(\)",
        ),
        (lambda: kb.run("gemm", seed=None), r"^seed: got None, needs an integer of 0 or more$"),
        (lambda: kb.run("gemm", seed=True), r"^seed: got True, needs an integer of 0 or more$"),
        (lambda: kb.run("gemm", seed=2.5), r"^seed: got 2\.5, needs an integer of 0 or more$"),
        (lambda: kb.run("gemm", seed=-1), r"^seed: got -1, needs an integer of 0 or more$"),
        (lambda: kb.run(add_one, X, EMPTY, keep=1), r"^keep: got 1, needs one of auto, all, none$"),
        (lambda: kb.run(add_one, X, EMPTY, compute="no"), r"^compute: got 'no', needs True or False$"),
        (lambda: kb.run(add_one, X, EMPTY, sanitize=1), r"^sanitize: got 1, needs True or False$"),
        (
            lambda: kb.run(add_one, X, EMPTY, chip=kb.chip("one_pe", {3: 3})),
            r"^values of a chip: got the place 3, needs a",
        ),
        (
            lambda: kb.run(add_one, X, EMPTY, reference=lambda: X),
            r"^test_run\.py: got TypeError: .*, needs reference\(\) to",
        ),
        (
            lambda: kb.run(add_one, X, EMPTY, compute=False, reference=X + 1).check(),
            r"^a run with compute=False: got no results, needs them; run it with compute=True$",
        ),
        (lambda: kb.read_report(3), r"^folder: got 3, needs the path of a run folder$"),
        (lambda: kb.levers("nothing here"), r"^nothing here: got no such folder, needs the folder of a run"),
        (lambda: kb.run(two_names, [X], X), r"^tensor x_0: got two tensors of that name, needs one; rename"),
    ],
)
def test_errors_of_wrong_calls(call: Callable[[], object], text: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kb.KbError, match=text):
        call()


def keyword_only(tl: Any, x: Any, *, y: Any) -> None: ...


def two_names(tl: Any, x: Any, x_0: Any) -> None: ...


def test_a_benchmark_runs_by_name_class_or_file(bench_file: Callable[..., Path]) -> None:
    by_name = kb.run("gemm", chip="one_pe", M=16, N=16, K=16, tile=(16, 16, 16), dtype=kb.DType.F32)
    assert by_name.verified is True
    assert by_name.result.params["tile"] == "16x16x16"
    assert kb.run(str(bench_file()), chip="one_pe", size=4).outputs["c"].shape == (4, 4)


def test_one_way_to_simulate(invoke: Invoke) -> None:
    """`kb run` and `kernbench.run` give the same log and the same figures."""
    said = json.loads(
        invoke("run", "gemm", "-p", "M=32", "-p", "N=32", "-p", "K=32", "--topology", "one_pe", "--json").stdout
    )
    r = kb.run("gemm", chip="one_pe", M=32, N=32, K=32)
    assert (r.result.log_digest, r.latency_ps) == (said["log_digest"], said["latency_ps"])


def test_importing_kernbench_loads_little() -> None:
    heavy = ["numpy", "simpy", "yaml", "rich", "kb_engine", "kb_cli"]
    code = f"import sys, kernbench; print(sorted(set({heavy}) & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_text_of_a_run_has_its_time_and_lines() -> None:
    r = kb.run(add_one, X, kb.empty(X.shape, "f32"), chip="one_pe")
    assert repr(r) == str(r)
    assert "test_run.py:26" in str(r)
    assert r.bounded_by in str(r)


def test_a_chip_may_have_other_values() -> None:
    x = np.ones((64, 256), np.float16)
    slow = kb.chip("one_cube", {"$.cube.nodes.hbm.bw_gbs": 10})
    assert (
        kb.run(rows, x, kb.empty(x.shape, "f16"), chip=slow).latency_ps
        > kb.run(rows, x, kb.empty(x.shape, "f16"), chip="one_cube").latency_ps
    )
    assert kb.chip(slow) is slow
    for place, value, text in (("bw_gb", 10, "did you mean 'bw_gbs'"), ("bw_gbs", -1, "needs > 0")):
        with pytest.raises(kb.KbError, match=text):
            kb.run(rows, x, kb.empty(x.shape, "f16"), chip=kb.chip(slow, {f"$.cube.nodes.hbm.{place}": value}))
    with pytest.raises(kb.KbError, match="nowhere"):
        kb.chip("one_cube", {"$.nowhere.at.all": 10})
    with pytest.raises(kb.KbError, match=r"chip: got 3, needs a bundled name, the path of a YAML file, or a Topology"):
        kb.run(rows, x, kb.empty(x.shape, "f16"), chip=3)  # type: ignore[arg-type]
    with pytest.raises(kb.KbError, match=r"values of a chip: got \['a'\], needs a dict of places and values"):
        kb.chip("one_cube", ["a"])  # type: ignore[arg-type]


def test_on_a_chip_that_interleaves_a_tensor_lies_over_all_slices() -> None:
    """Eight programs then read eight slices at once, without a word about placement."""
    x = np.ones((64, 1024), np.float16)
    contiguous = kb.chip("one_cube", {"$.hbm_interleave_nbytes": 0})
    whole, flat = (kb.run(rows, x, kb.empty(x.shape, "f16"), chip=chip) for chip in (contiguous, "one_cube"))
    assert flat.latency_ps < whole.latency_ps / 2
    assert np.array_equal(flat.output, whole.output)
    one = kb.run(rows, kb.tensor(x, slices=[0]), kb.empty(x.shape, "f16", slices=[1]), chip="one_cube")
    assert one.latency_ps == whole.latency_ps, "tensors take the slices in turn"


def over_each_other(tl: Any, x: Any, y: Any) -> None:
    tl.store(y, tl.load(x))


def test_the_text_of_a_run_has_the_findings_of_the_sanitizer() -> None:
    r = kb.run(over_each_other, X, EMPTY, pes=[0, 1], sanitize=True)
    line = f"test_run.py:{over_each_other.__code__.co_firstlineno + 1}"
    assert f"\nsanitizer: write race: {line} (dma_write, program 1, sip0.cube0.pe1.pe_dma) overwrites" in str(r)
    assert str(kb.run(over_each_other, X, EMPTY, pes=[0], sanitize=True)).endswith("\nsanitizer: clean")
    assert "sanitizer" not in str(kb.run(over_each_other, X, EMPTY, pes=[0]))


def test_a_run_looks_for_races_unless_it_is_told_not_to() -> None:
    r = kb.run(over_each_other, X, EMPTY, pes=[0, 1])
    line = f"test_run.py:{over_each_other.__code__.co_firstlineno + 1}"
    assert f"\nwrite race: {line} (dma_write, program 1, sip0.cube0.pe1.pe_dma) overwrites" in str(r)
    assert "race" not in str(kb.run(over_each_other, X, EMPTY, pes=[0, 1], sanitize=False))
    assert "race" not in str(kb.run(over_each_other, X, EMPTY, pes=[0]))


@pytest.mark.parametrize("name", ["seed", "grid", "tolerance", "flops", "chip", "verify", "keep"])
def test_a_parameter_with_the_name_of_an_option_is_given_in_order(name: str) -> None:
    space: dict[str, Any] = {}
    exec(f"def times(tl, x, y, {name}=1): tl.store(y, tl.load(x) * {name})", space)
    times, y = space["times"], kb.empty(X.shape, "f32")
    assert np.array_equal(kb.run(times, X, y, 3, pes=[0]).output, X * 3)
    with pytest.raises(kb.KbError, match=rf"a parameter {name}, which is the name of an option too"):
        kb.run(times, X, y, pes=[0])
    if name in ("grid", "tolerance", "flops"):
        with pytest.raises(kb.KbError, match=rf"{name}, which is the name of an option too"):
            kb.call(times, X, y)
    else:
        assert kb.call(times, X, y, **{name: 5}).arguments[name] == 5


def test_parts_of_a_run_are_pickled_and_the_run_says_so() -> None:
    r = kb.run(add_one, X, kb.empty(X.shape, "f32"), chip="one_pe")
    parts = r.result, r.lines, r.where, r.latency_ps
    assert pickle.loads(pickle.dumps(parts)) == parts
    with pytest.raises(kb.KbError, match=r"a KernelRun: got pickling, needs one of its parts \(.result, .outputs"):
        pickle.dumps(r)
