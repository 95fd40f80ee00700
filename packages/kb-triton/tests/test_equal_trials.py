"""Configurations of an autotuner whose launches are equal, such as those that differ in options of a GPU alone."""

import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl
from kb_triton.runtime import Config, autotune, heuristics


@triton.jit
def add(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) + tl.load(out_ptr + at, mask=at < n), mask=at < n)


def launched(kernel, n=2048):
    x, out = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
    kernel[lambda meta: (-(-n // meta["BLOCK"]),)](x, out, n)
    return x, out


def trials_of(device):
    return [
        (each.config.split(", num_ctas")[0], each.ps is not None, each.same_as) for each in device.tunings[-1].tried
    ]


def counted(device, monkeypatch):
    """The grids of launches that are simulated from here on."""
    grids, simulated = [], device.time_ps
    monkeypatch.setattr(device, "time_ps", lambda fn, grid, named: grids.append(grid) or simulated(fn, grid, named))
    return grids


def test_configurations_that_launch_the_same_are_simulated_once(device, monkeypatch):
    grids = counted(device, monkeypatch)
    configs = [Config({"BLOCK": n}, num_warps=w, num_stages=s) for n in (512, 64) for w in (4, 8) for s in (2, 3)]
    kernel = autotune(configs, ["n"])(add)
    x, out = launched(kernel)
    np.testing.assert_array_equal(out, x + 1)
    assert grids == [(4,), (32,)]
    tuning = device.tunings[0]
    assert tuning.idle == ("num_warps", "num_stages")
    firsts = [str(configs[0]), str(configs[4])]
    assert [each.same_as for each in tuning.tried] == ["", *firsts[:1] * 3, "", *firsts[1:] * 3]
    assert [len({each.ps for each in tuning.tried[at : at + 4]}) for at in (0, 4)] == [1, 1]
    assert (kernel.best_config is configs[0], tuning.best) == (True, firsts[0])
    assert [*kernel.configs_timings.values()] == [each.ps / 1e9 for each in tuning.tried]


def test_a_configuration_beyond_tcm_is_tried_once(device, monkeypatch):
    grids, n = counted(device, monkeypatch), 1 << 18
    configs = [Config({"BLOCK": each}, num_warps=warps) for each in (n, 1 << 15) for warps in (4, 8)]
    launched(autotune(configs, ["n"])(add), n)
    assert grids == [(1,), (8,)]
    assert [each.ps is None for each in device.tunings[0].tried] == [True, True, False, False]
    assert len({each.why_not for each in device.tunings[0].tried[:2]}) == 1


def test_an_option_that_a_heuristic_reads_counts(device):
    made = heuristics({"BLOCK": lambda args: 64 if args["num_stages"] > 3 else 512})(add)
    configs = [Config({}, num_stages=stages) for stages in (2, 3, 4)]
    kernel = autotune(configs, ["n"])(made)
    launched(kernel)
    assert trials_of(device) == [
        ("num_warps: 4", True, ""),
        ("num_warps: 4", True, str(configs[0])),
        ("num_warps: 4", True, ""),
    ]
    assert device.tunings[0].idle == ()  # 3 and 4 stages differ
    launched(autotune([Config({"BLOCK": 512}, num_stages=stages) for stages in (2, 3, 4)], ["n"])(add))
    assert device.tunings[1].idle == ("num_stages",)


@pytest.mark.parametrize(
    "hooks", [{"pre_hook": lambda arguments: None}, {"post_hook": lambda arguments, exception: None}]
)
def test_each_trial_between_hooks_is_simulated(device, monkeypatch, hooks):
    """A hook may change what a kernel loads."""
    grids = counted(device, monkeypatch)
    launched(autotune([Config({"BLOCK": 64}, num_warps=warps) for warps in (4, 8)], ["n"], **hooks)(add))
    assert grids == [(32,), (32,)]
    assert [each.same_as for each in device.tunings[0].tried] == ["", ""]


def test_a_configuration_with_a_hook_is_simulated(device, monkeypatch):
    grids = counted(device, monkeypatch)
    configs = [Config({"BLOCK": 64}, num_warps=warps, pre_hook=lambda arguments: None) for warps in (4, 8)]
    launched(autotune(configs, ["n"])(add))
    assert grids == [(32,), (32,)]


@triton.jit
def times(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) * factor, mask=at < n)


@pytest.mark.parametrize(("factors", "n_simulated"), [((0.5, 0.5), 1), ((0.0, -0.0), 2), ((1, 1.0), 2), ((1, True), 2)])
def test_launches_with_other_values_are_other_launches(device, monkeypatch, factors, n_simulated):
    grids = counted(device, monkeypatch)
    made = heuristics({"factor": lambda args: factors[args["num_stages"] - 2]})(times)
    kernel = autotune([Config({"BLOCK": 512}, num_stages=stages) for stages in (2, 3)], ["n"])(made)
    x, out = np.arange(2048, dtype=np.float32), np.ones(2048, np.float32)
    kernel[(4,)](x, out, 2048)
    assert len(grids) == n_simulated
