"""Autotuning, heuristics, and wrappers of kernels."""

from pathlib import Path

import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl
from kb_messages import KernelError
from kb_topology import load_topology
from kb_triton.host import Device, OutOfResources, current, use
from kb_triton.language.compile_errors import CompilationError, CompileTimeAssertionFailure
from kb_triton.runtime import Autotuner, Config, autotune, heuristics
from kb_triton.runtime.testing import do_bench

TOPOLOGIES = Path(__file__).parents[3] / "topologies"
pytestmark = pytest.mark.usefixtures("lenient")  # kernels write into a list of their module

CALLS = []


def copy(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    CALLS.append(BLOCK.value)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) + tl.load(out_ptr + at, mask=at < n), mask=at < n)


def launched(kernel, n=2048, **named):
    x, out = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
    CALLS.clear()
    kernel[lambda meta: (-(-n // meta["BLOCK"]),)](x, out, n, **named)
    return x, out


def tuned(blocks=(16, 512, 64), **options):
    configs = [Config({"BLOCK": each}) for each in blocks]
    return autotune(configs, **{"key": ["n"], **options})(triton.jit(copy))


def test_the_fastest_configuration_is_taken_and_remembered_by_key(device):
    kernel = tuned()
    x, out = launched(kernel)
    np.testing.assert_array_equal(out, x + 1)  # trials ran on copies: the output was added to once
    assert kernel.best_config.kwargs == {"BLOCK": 512}
    assert set(CALLS) == {16, 64, 512}
    launched(kernel)
    assert set(CALLS) == {512}
    launched(kernel, 64)
    assert len(kernel.cache) == 2
    (first, second) = device.tunings
    assert (first.kernel, first.key, second.key) == ("copy", {"n": 2048}, {"n": 64})
    assert [each.config for each in first.tried] == [
        f"BLOCK: {each}, num_warps: 4, num_ctas: 1, num_stages: 3" for each in (16, 512, 64)
    ]
    times = [each.ps for each in first.tried]
    assert times[0] > times[2] > times[1]
    assert first.best == first.tried[1].config


def test_the_time_of_a_trial_is_that_of_the_launch(device):
    kernel = tuned()
    before = device.elapsed_ps
    launched(kernel)
    assert device.elapsed_ps - before == device.tunings[0].tried[1].ps
    assert device.n_launches == 1


def test_another_type_of_an_array_is_another_key():
    kernel = tuned()
    launched(kernel)
    x, out = np.arange(2048, dtype=np.float16) % 7, np.ones(2048, np.float16)
    kernel[lambda meta: (-(-2048 // meta["BLOCK"]),)](x, out, 2048)
    assert [key[1:] for key in kernel.cache] == [("float32", "float32"), ("float16", "float16")]


@pytest.mark.parametrize(("limit", "tried"), [(1, {16}), (2, {16, 512}), (None, {16, 64, 512})])
def test_as_many_configurations_are_tried_as_the_device_says(one_cube, limit, tried):
    use(Device(one_cube, autotune=limit, lenient=True))
    launched(tuned())
    assert set(CALLS) == tried


def test_configurations_are_pruned():
    kernel = tuned(prune_configs_by={"early_config_prune": lambda configs, named_args, **kwargs: configs[:2]})
    launched(kernel)
    assert set(CALLS) == {16, 512}
    model = {"perf_model": lambda BLOCK, n, **more: abs(BLOCK - 64) * n, "top_k": 1}
    launched(tuned(prune_configs_by=model))
    assert set(CALLS) == {64}


def test_hooks_and_resets():
    seen = []
    configs = [Config({"BLOCK": each}, pre_hook=lambda args: seen.append(args["BLOCK"])) for each in (64, 512)]
    kernel = autotune(configs, ["n"], reset_to_zero=["out_ptr"])(triton.jit(copy))
    x, out = launched(kernel)
    assert seen == [64, 512, 512]
    np.testing.assert_array_equal(out, x)


def test_values_that_a_hook_changes_are_restored():
    def spoil(args):
        args["x_ptr"][...] = -1

    x, out = launched(tuned(restore_value=["x_ptr"], pre_hook=spoil))
    np.testing.assert_array_equal(x, np.arange(2048))
    np.testing.assert_array_equal(out, x + 1)


def test_a_configuration_beyond_tcm_is_skipped(device):
    n = 1 << 18
    kernel = tuned((n, 1 << 15))
    x, out = launched(kernel, n)
    np.testing.assert_array_equal(out, x + 1)
    assert [each.ps is None for each in device.tunings[0].tried] == [True, False]
    with pytest.raises(OutOfResources) as caught:
        launched(tuned((n, 2 * n)), n)
    assert str(caught.value).startswith("autotune of copy: got test_tuning.py:")
    with pytest.raises(OutOfResources) as caught:
        launched(triton.jit(copy), n, BLOCK=n)
    assert (caught.value.required, caught.value.name) == (4 * n, "TCM")
    assert caught.value.limit < 4 * n
    launched(kernel, 2048)


@triton.jit
def at_most(x_ptr, out_ptr, n, LIMIT: tl.constexpr, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK <= LIMIT, "too long")
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


@pytest.mark.parametrize("lenient", [False, True])
def test_a_configuration_whose_static_assert_does_not_hold_is_skipped(one_cube, lenient):
    use(Device(one_cube, lenient=lenient))
    ended = []
    kernel = autotune(
        [Config({"BLOCK": each}) for each in (256, 64)],
        key=["n"],
        post_hook=lambda arguments, exception: ended.append(type(exception).__name__),
    )(at_most)
    x, out = launched(kernel, LIMIT=128)
    np.testing.assert_array_equal(out, x)
    assert kernel.best_config.kwargs == {"BLOCK": 64}
    assert ended == ["CompileTimeAssertionFailure", "NoneType"]
    assert [*kernel.configs_timings.values()].count(float("inf")) == 1
    skipped = current().tunings[0].tried[0]
    assert skipped.ps is None
    assert skipped.why_not.endswith(": got a tl.static_assert that does not hold: too long, needs a true condition")
    assert skipped.why_not.startswith("test_tuning.py:")
    with pytest.raises(CompileTimeAssertionFailure, match="too long"):
        launched(kernel, 64, LIMIT=8)
    with pytest.raises(CompilationError, match="too long"):
        launched(at_most, LIMIT=8, BLOCK=16)
    assert issubclass(CompileTimeAssertionFailure, KernelError)


@pytest.mark.parametrize("chip", ["one_sip", "devices/v100", "one_cube_banked"])
def test_a_trial_takes_the_time_of_a_launch_on_every_chip(chip):
    launches = []
    device = Device(load_topology(TOPOLOGIES / f"{chip}.yaml"), lenient=True, on_launch=launches.append)
    use(device)
    kernel = tuned((512, 256, 512))
    for _ in range(2):
        launched(kernel)
    times = [each.ps for each in device.tunings[0].tried]
    assert times[0] == times[2]  # caches are empty and rows are closed when a trial begins
    rows = {each.result.end_ps - each.result.start_ps for each in launches}
    assert rows == {min(times)}
    assert do_bench(lambda: launched(kernel)) == min(times) / 1e9
    assert device.elapsed_ps == 3 * min(times)


def test_arguments_that_are_given_twice_are_refused():
    with pytest.raises(KernelError) as caught:
        launched(tuned(), BLOCK=16)
    assert str(caught.value) == (
        "launch of copy: got the arguments BLOCK twice, needs once; leave them out of the launch, because the "
        "configurations set them"
    )


def test_heuristics_make_arguments():
    made = heuristics({"BLOCK": lambda args: 256 if args["n"] > 1000 else 32})(triton.jit(copy))
    x, out = launched_by(made, 2048)
    np.testing.assert_array_equal(out, x + 1)
    assert set(CALLS) == {256}
    launched_by(made, 64)
    assert set(CALLS) == {32}


def launched_by(kernel, n):
    x, out = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
    CALLS.clear()
    kernel[lambda meta: (-(-n // meta["BLOCK"]),)](x, out, n)
    return x, out


def test_wrappers_have_the_attributes_of_the_kernel():
    kernel = tuned()
    wrapped = heuristics({"BLOCK": lambda args: 16})(kernel)
    assert wrapped.arg_names == ["x_ptr", "out_ptr", "n", "BLOCK"]
    assert [each.name for each in wrapped.params if each.is_constexpr] == ["BLOCK"]
    assert wrapped.base_fn is copy
    assert wrapped.configs is kernel.configs
    assert wrapped.__name__ == "copy"
    with pytest.raises(AttributeError):
        wrapped.nothing_of_that_name  # noqa: B018 - the look is what fails


def test_warmup_launches_nothing_and_says_that_a_program_has_a_pe_for_itself(device):
    found = triton.jit(copy).warmup(None, None, 1, BLOCK=4, grid=(1,), num_warps=8, extern_libs={"libdevice": "x.bc"})
    chip = device.properties
    assert (device.n_launches, found.metadata.num_warps) == (0, 8)
    assert chip["max_num_regs"] // (found.n_regs * chip["warpSize"] * found.metadata.num_warps) == 1
    assert chip["max_shared_mem"] // found.metadata.shared == 1


def test_registers_are_refused_where_a_pe_has_fewer_than_threads():
    most = 512 * 256 // 32  # one_cube has 512 KiB of registers in a PE, which are 4096 warps of 32 threads
    assert triton.jit(copy).warmup(None, None, 1, BLOCK=4, num_warps=most).n_regs == 1
    with pytest.raises(KernelError) as caught:
        triton.jit(copy).warmup(None, None, 1, BLOCK=4, num_warps=2 * most).n_regs  # noqa: B018 - the look fails
    assert str(caught.value) == (
        "n_regs of copy: got 131072 registers of 4 bytes in a PE, needs one for each of 262144 threads (num_warps=8192)"
    )


def test_the_result_of_a_warmup_keeps_its_constants_for_launches(device):
    x, out = np.arange(7, dtype=np.float32), np.zeros(7, np.float32)
    found = triton.jit(copy).warmup(x, out, 7, 4, grid=(1,))
    found[(2, 1, 1)](x, out, 7)
    np.testing.assert_array_equal(out, x)
    out[:] = 0
    found[(2,)](x, out, n=7, BLOCK=4)
    np.testing.assert_array_equal(out, x)


@triton.jit
def scaled(x_ptr, BLOCK: tl.constexpr, out_ptr, FACTOR: tl.constexpr, n):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) * FACTOR, mask=at < n)


@pytest.mark.parametrize("has_constants", [True, False])
def test_arguments_of_a_warmup_s_launch_may_leave_out_the_constants(has_constants):
    x, out = np.arange(7, dtype=np.float32), np.zeros(7, np.float32)
    found = scaled.warmup(x, 4, out, 3.0, 7, grid=(1,))
    arguments = (x, 4, out, 3.0, 7) if has_constants else (x, out, 7)
    found[(2,)](*arguments)
    np.testing.assert_array_equal(out, x * 3)


def test_other_numbers_of_arguments_of_a_warmup_s_launch_are_refused():
    found = scaled.warmup(None, 4, None, 3.0, 7, grid=(1,))
    with pytest.raises(KernelError) as error:
        found[(1,)](np.zeros(4, np.float32))
    assert str(error.value) == (
        "launch of scaled: got arguments that do not fit (missing a required argument: 'out_ptr'), needs those of "
        "scaled(x_ptr, BLOCK: tl.constexpr, out_ptr, FACTOR: tl.constexpr, n)"
    )
    with pytest.raises(KernelError, match=r"^launch of scaled: got arguments that do not fit \(too many positional"):
        found[(1,)](0, 4, 2, 3.0, 4, 5)


@triton.jit
def filled(out_ptr, BLOCK: tl.constexpr, n, FACTOR: tl.constexpr = 1.0):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, at.to(tl.float32) * FACTOR, mask=at < n)


@pytest.mark.parametrize(
    ("arguments", "named", "got", "kept"),
    [
        ((32,), {"n": 64}, "BLOCK=32", "BLOCK=16"),
        ((), {"n": 64, "BLOCK": 32}, "BLOCK=32", "BLOCK=16"),
        ((64,), {"BLOCK": 32}, "BLOCK=32", "BLOCK=16"),
        ((16, 64, 2.0), {}, "FACTOR=2.0", "FACTOR=1.0"),
        ((), {"n": 64, "FACTOR": 2.0, "BLOCK": 32}, "BLOCK=32", "BLOCK=16"),
        ((np.ones(2), 64), {"FACTOR": 1}, "BLOCK=array([1., 1.])", "BLOCK=16"),
    ],
)
def test_a_warmup_s_launch_refuses_another_constant(device, arguments, named, got, kept):
    out = np.zeros(64, np.float32)
    found = filled.warmup(out, 16, 64, grid=(1,))
    with pytest.raises(KernelError) as caught:
        found[(1,)](out, *arguments, **named)
    assert str(caught.value) == (
        f"launch of filled, which is compiled: got {got}, needs the constant that it was compiled with, {kept}; "
        "launch filled itself with another"
    )
    assert device.n_launches == 0


def test_a_warmup_s_launch_binds_named_arguments_by_name():
    found = filled.warmup(None, 16, 64)
    for arguments, named in [((16,), {"n": 8}), ((8,), {}), ((8,), {"BLOCK": 16}), ((), {"n": 8})]:
        out = np.zeros(64, np.float32)
        found[(1,)](out, *arguments, **named)
        np.testing.assert_array_equal(out, np.where(np.arange(64) < 8, np.arange(64), 0))


@triton.jit
def defaulted(out_ptr, BLOCK: tl.constexpr, n=8):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, at, mask=at < n)


def test_arguments_of_a_warmup_s_launch_that_can_be_read_both_ways_are_refused():
    out = np.zeros(64, np.int32)
    found = defaulted.warmup(out, 16)
    with pytest.raises(KernelError) as caught:
        found[(1,)](out, 16)
    assert str(caught.value) == (
        "launch of defaulted, which is compiled: got arguments that can be out_ptr, BLOCK or out_ptr, n, needs all "
        "arguments, or names for them"
    )
    for arguments, named, n in [((16, 4), {}, 4), ((), {"n": 4}, 4), ((4,), {"BLOCK": 16}, 4), ((), {}, 8)]:
        out[:] = 0
        found[(1,)](out, *arguments, **named)
        assert out.tolist() == [at if at < n else 0 for at in range(64)]


def test_launches_with_other_contents_have_one_entry_of_the_cache():
    kernel = triton.jit(copy)
    found = kernel.warmup(None, None, 7, 4, num_warps=8)
    for seed in range(3):
        x, out = np.full(7, seed, np.float32), np.zeros(7, np.float32)
        again = found[(2,)](x, out, 7)
        kernel[(2,)](x_ptr=x, out_ptr=out, n=7, BLOCK=4, num_warps=8)
    assert list(kernel.cache[0]) == ["{'num_warps': 8, 'BLOCK': 4}"]
    assert again.metadata.num_warps == 8
    kernel[(1,)](x, out, 7, 8)
    assert len(kernel.cache[0]) == 2


@pytest.mark.parametrize("grid", [(1, 1, 1, 1), (-1,), ("2",), None, ()])
def test_a_wrong_grid_is_refused(grid):
    with pytest.raises(KernelError) as caught:
        triton.jit(copy)[grid](np.zeros(4, "f"), np.zeros(4, "f"), 4, BLOCK=4)
    assert str(caught.value) == f"launch of copy: got a grid of {grid!r}, needs one to three integers of 0 or more"


def test_a_grid_without_programs_launches_nothing(device):
    triton.jit(copy)[(4, 0)](np.zeros(4, "f"), np.zeros(4, "f"), 4, BLOCK=4)
    assert device.n_launches == 0


class Slowest(Autotuner):
    """A tuner as libraries derive them: with a choice of its own, on the methods of Triton's class."""

    def __init__(self, fn, arg_names, configs, key, reset_to_zero, restore_value, *more, **options):
        super().__init__(fn, arg_names, configs, key, reset_to_zero, restore_value, *more, 25, 100, False)
        self.options = options

    def run(self, *args, **kwargs):
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        timings = {config: self._bench(*args, config=config, **kwargs) for config in self.prune_configs(kwargs)}
        self.best_config = max(timings, key=timings.get)
        self.pre_hook({**self.nargs, **kwargs, **self.best_config.all_kwargs()}, reset_only=True)
        return self.fn.run(*args, **kwargs, **self.best_config.all_kwargs())


def test_tuners_of_others_derive_from_this_one():
    function = triton.jit(copy)
    configs = [Config({"BLOCK": each}) for each in (512, 16, 64)]
    kernel = Slowest(function, function.arg_names, configs, ["n"], None, None, None, None, None, policy="slowest")
    x, out = launched(kernel)
    np.testing.assert_array_equal(out, x + 1)
    assert kernel.best_config.kwargs == {"BLOCK": 16}
