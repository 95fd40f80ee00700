"""Launches that repeat others are not simulated, and leave what they would have left."""

import gc
from functools import partial
from pathlib import Path
from types import ModuleType
from weakref import ref

import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl
from kb_messages import KbError, KernelError
from kb_topology import load_topology
from kb_triton.host import Device, using
from kb_triton.host.kept_launches import KeptLaunch, KeptLaunches

TOPOLOGIES = Path(__file__).parents[3] / "topologies"
SCALE = 3
WIDE = tl.constexpr(2)


@triton.jit
def scaled(x):
    return x * SCALE * WIDE


@triton.jit
def scale_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr, by=1.0):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, scaled(x) * by, mask=at < n)


@triton.jit
def applied_kernel(x_ptr, y_ptr, n, function: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, function(tl.load(x_ptr + at, mask=at < n)), mask=at < n)


@triton.jit
def times_kernel(times_ptr, y_ptr):
    total = tl.zeros((16,), dtype=tl.float32)
    for _ in range(tl.load(times_ptr)):
        total += 1
    tl.store(y_ptr + tl.arange(0, 16), total)


@triton.jit
def loop_by_sum_kernel(x_ptr, y_ptr):
    total = tl.zeros((16,), dtype=tl.float32)
    while tl.sum(tl.load(x_ptr + tl.arange(0, 16)) + total) < 100:
        total += 1
    tl.store(y_ptr + tl.arange(0, 16), total)


@triton.jit
def by_address_kernel(x_ptr, y_ptr):
    is_odd = x_ptr.to(tl.int64) // 4 % 2
    tl.store(y_ptr + tl.arange(0, 16), tl.zeros((16,), dtype=tl.float32) + is_odd)


@triton.jit
def says_kernel(x_ptr, y_ptr):
    tl.device_print("here")
    tl.store(y_ptr + tl.arange(0, 16), tl.load(x_ptr + tl.arange(0, 16)))


@triton.jit
def count_kernel(counts_ptr):
    tl.atomic_add(counts_ptr + tl.program_id(0) % 2, 1.0)


@triton.jit
def stuck_kernel(flag_ptr):
    while tl.load(flag_ptr) == 0:
        pass


@pytest.fixture
def alone(one_cube):
    """A device that simulates each launch of a function, for comparison: picoseconds and results."""

    def simulated(launch):
        device = Device(one_cube, templates=False)
        with using(device):
            return launch(), device.elapsed_ps

    return simulated


def scale(n=100, rng=0, by=1.0, block=64, kind=np.float32):
    x = np.random.default_rng(rng).standard_normal(n).astype(kind)
    y = np.full(n, 7, kind)
    scale_kernel[(-(-n // block),)](x, y, n, BLOCK=block, by=by)
    np.testing.assert_array_equal(y, (x.astype(np.float32) * 6 * by).astype(kind))
    return y


def test_a_launch_that_repeats_another_leaves_its_own_data_and_takes_as_long(device, alone):
    scale(rng=1)
    for rng in (2, 3):
        before = device.elapsed_ps
        found, took_ps = alone(partial(scale, rng=rng))
        np.testing.assert_array_equal(scale(rng=rng), found)
        assert device.elapsed_ps - before == took_ps
    assert (device.n_launches, device.n_repeated) == (3, 2)


@pytest.mark.parametrize(
    "other",
    [
        partial(scale, n=101),
        partial(scale, by=2.0),
        partial(scale, by=1),
        partial(scale, block=32),
        partial(scale, kind=np.float16),
    ],
)
def test_a_launch_with_another_argument_is_simulated(other, device, alone):
    scale()
    first_ps = device.elapsed_ps
    other()
    assert device.n_repeated == 0
    assert device.elapsed_ps - first_ps == alone(other)[1]
    scale()
    other()
    assert device.n_repeated == 2


def test_each_grid_is_a_launch_of_its_own(device):
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
    for programs in (4, 2, 4, 2):
        y[:] = 0
        scale_kernel[(programs,)](x, y, 64, BLOCK=16)
        np.testing.assert_array_equal(y, np.repeat([6.0, 0.0], [16 * programs, 64 - 16 * programs]))
    assert device.n_repeated == 2


def test_a_constant_that_the_kernel_uses_decides(device, monkeypatch):
    scale()
    monkeypatch.setattr(f"{__name__}.SCALE", 5)
    x, y = np.ones(100, np.float32), np.zeros(100, np.float32)
    scale_kernel[(2,)](x, y, 100, BLOCK=64)
    np.testing.assert_array_equal(y, np.full(100, 10.0))
    assert device.n_repeated == 0
    monkeypatch.undo()
    scale()
    assert device.n_repeated == 1


def test_functions_among_the_arguments_decide(device):
    def made(by):
        @triton.jit
        def function(x):
            return x + by

        return function

    one, two = made(1), made(2)
    x, y = np.ones(16, np.float32), np.zeros(16, np.float32)
    for function, wanted in ((one, 2), (two, 3), (one, 2), (made(1), 2)):
        applied_kernel[(1,)](x, y, 16, function, BLOCK=16)
        np.testing.assert_array_equal(y, np.full(16, wanted))
    assert device.n_repeated == 1, "of one function; two of equal code are two"


def test_views_of_one_array_are_told_from_arrays(device):
    whole = np.arange(64, dtype=np.float32)
    x, y = whole[:32], whole[32:]
    apart = np.ones(32, np.float32), np.zeros(32, np.float32)
    for _ in range(2):
        scale_kernel[(1,)](x, y, 32, BLOCK=32)
        np.testing.assert_array_equal(y, np.arange(32) * 6.0)
        scale_kernel[(1,)](*apart, 32, BLOCK=32)
        np.testing.assert_array_equal(apart[1], np.full(32, 6.0))
    assert device.n_repeated == 2


def test_where_an_array_begins_in_its_storage_decides(device):
    whole, y = np.arange(64, dtype=np.float32), np.zeros(32, np.float32)
    for first in (0, 16, 0):
        scale_kernel[(1,)](whole[first : first + 32], y, 32, BLOCK=32)
        np.testing.assert_array_equal(y, (np.arange(32) + first) * 6.0)
    assert device.n_repeated == 1


def test_traced_programs_that_look_at_integers_keep_their_launch_from_being_repeated():
    device, y = Device(load_topology(TOPOLOGIES / "one_pe.yaml")), np.zeros(16, np.float32)
    with using(device):
        for times in (3, 5):
            times_kernel[(2,)](np.array([times], np.int32), y)
            np.testing.assert_array_equal(y, np.full(16, times))


def test_a_launch_whose_programs_look_at_integers_is_simulated(device):
    y = np.zeros(16, np.float32)
    for times in (3, 5, 5):
        times_kernel[(1,)](np.array([times], np.int32), y)
        np.testing.assert_array_equal(y, np.full(16, times))
    assert device.n_repeated == 0


def test_a_launch_whose_programs_look_at_what_they_compute_is_simulated(device):
    y = np.zeros(16, np.float32)
    for x, wanted in ((0, 7), (6, 1)):  # 16 * 7 = 112 is the first sum from 100 on, and 16 * (6 + 1)
        loop_by_sum_kernel[(1,)](np.full(16, x, np.float32), y)
        np.testing.assert_array_equal(y, np.full(16, wanted))
    assert device.n_repeated == 0


def test_a_launch_whose_programs_look_at_addresses_of_the_process_is_simulated(device):
    whole, y = np.zeros(18, np.float32), np.zeros(16, np.float32)
    first = whole.ctypes.data // 4 % 2
    for at in (0, 1):
        by_address_kernel[(1,)](np.array(whole[at : at + 16], copy=False), y)
        np.testing.assert_array_equal(y, np.full(16, (first + at) % 2))
    by_address_kernel[(1,)](whole[1:17], y)
    assert device.n_repeated == 0


def test_each_print_is_printed(device, capsys):
    for _ in range(3):
        says_kernel[(1,)](np.ones(16, np.float32), np.zeros(16, np.float32))
    assert capsys.readouterr().out.count("here") == 3
    assert device.n_repeated == 0


def test_atomics_add_to_the_bytes_of_each_launch(device):
    counts = np.zeros(2, np.float32)
    for number in range(3):
        count_kernel[(10,)](counts)
        np.testing.assert_array_equal(counts, np.full(2, 5 * (number + 1)))
    assert device.n_repeated == 2


def test_a_read_only_array_is_refused_again(device):
    x, y = np.ones(100, np.float32), np.zeros(100, np.float32)
    scale_kernel[(2,)](x, y, 100, BLOCK=64)
    y.flags.writeable = False
    with pytest.raises(KernelError, match="a store into y_ptr, a read-only array"):
        scale_kernel[(2,)](x, y, 100, BLOCK=64)
    np.testing.assert_array_equal(y, np.full(100, 6.0))


def test_errors_say_the_times_of_a_device_that_simulated_each_launch():
    def error(templates):
        device = Device(load_topology(TOPOLOGIES / "one_pe.yaml"), templates=templates)
        with using(device):
            for _ in range(3):
                scale()
            with pytest.raises(KbError, match="loads that only repeat") as raised:
                stuck_kernel[(1,)](np.zeros(1, np.int32))
        assert device.n_repeated == (2 if templates else 0)
        return str(raised.value)

    assert error(True) == error(False)


def test_whoever_is_told_of_launches_sees_each_of_them_run(one_cube):
    for given in ({"on_launch": lambda _: None}, {"watched": lambda: ()}, {"transfers": True}, {"templates": False}):
        device = Device(one_cube, **given)
        with using(device):
            scale()
            scale()
        assert (device.n_launches, device.n_repeated) == (2, 0)


def test_a_memory_that_keeps_rows_open_has_each_launch_simulated(one_cube):
    device = Device(load_topology(TOPOLOGIES / "one_cube_banked.yaml"))
    with using(device):
        scale()
        scale()
    assert device.n_repeated == 0


SOURCE = """
import kb_triton as triton
import kb_triton.language as tl

@triton.jit
def larger(a, b):
    return a if a > b and not a <= b else b

@triton.jit
def twice(x):
    return x * 2

@triton.jit
def kernel(x_ptr, y_ptr):
    x = tl.load(x_ptr + tl.arange(0, 16))
    tl.store(y_ptr, twice(tl.reduce(x, 0, larger)))
"""


def test_a_module_of_a_kernel_that_was_launched_goes(device, tmp_path):
    path, x, y = tmp_path / "kernels.py", np.arange(16, dtype=np.float32), np.zeros(1, np.float32)
    path.write_text(SOURCE, encoding="utf-8")
    module = ModuleType("kernels")
    exec(compile(SOURCE, path, "exec"), vars(module))
    for _ in range(2):
        module.kernel[(1,)](x, y)
    assert (y[0], device.n_repeated) == (30, 1)
    gone = [ref(module.larger.fn), ref(module.twice), ref(module.kernel.fn)]
    del module
    scale()  # the chip keeps the last launch that it simulated
    gc.collect()
    assert [each() for each in gone] == [None, None, None]


def test_launches_used_long_ago_are_forgotten(monkeypatch, device):
    scale()
    (kept,) = device._known._kept.values()
    monkeypatch.setattr("kb_triton.host.kept_launches._MOST_NBYTES", 2 * kept.nbytes)
    known = KeptLaunches()
    for key in ("a", "b"):
        known.keep(key, KeptLaunch.of(kept.log, 5))
    assert known.find("a") is not None
    known.keep("c", kept)
    assert [known.find(key) is None for key in "abc"] == [False, True, False]


def test_launches_with_few_records_count_with_their_keys_and_texts(monkeypatch, device):
    monkeypatch.setattr("kb_triton.host.kept_launches._MOST_NBYTES", 1 << 16)
    for n in range(1, 33):
        scale(n)
    assert 8 <= len(device._known._kept) <= 16
