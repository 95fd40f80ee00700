"""Arguments that host code makes: descriptors, named tuples; and what it asks of a kernel."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl
from kb_messages import KernelError
from kb_topology import load_topology
from kb_triton.host import Device, TensorDescriptor, using
from kb_triton.runtime import DRIVER


@triton.jit
def doubled(source, target, rows, M: tl.constexpr, N: tl.constexpr):
    for row in range(0, rows, M):
        target.store([row, 0], source.load([row, 0]) * 2)


def test_descriptors_of_the_host_load_and_store():
    x = np.random.default_rng(0).standard_normal((13, 7), np.float32)
    y = np.zeros_like(x)
    doubled[1,](TensorDescriptor.from_tensor(x, [4, 8]), TensorDescriptor.from_tensor(y, [4, 8]), 13, M=4, N=8)
    np.testing.assert_array_equal(y, x * 2)


@triton.jit
def filled(out, value, more, N: tl.constexpr):
    tl.store(out + tl.arange(0, N), value)


NUMBERS = [
    np.int64(3),
    np.uint8(200),
    np.bool_(True),
    np.float16(0.5),
    np.float64(2.5),
    np.float32("inf"),
    np.str_("x"),
]


def test_numbers_of_numpy_are_shown_by_their_value(one_cube):
    found = []
    # Triton takes no integer of numpy for a size.
    with using(Device(one_cube, on_launch=lambda launched: found.append(launched.arguments), lenient=True)):
        for number in NUMBERS:
            filled[1,](np.zeros(8, np.float32), 1.0, (number,), N=np.int32(8))
    assert [each["more"] for each in found] == [[3], [200], [True], [0.5], [2.5], ["inf"], ["x"]]
    assert [type(each["more"][0]) for each in found] == [int, int, bool, float, float, str, str]
    assert {each["N"] for each in found} == {8}


class Pair(NamedTuple):
    array: Any
    factor: Any


@triton.jit
def scaled(pair, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(pair.array + at) * pair.factor)


def test_a_named_tuple_keeps_its_names():
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    scaled[1,](Pair(x, 3), out, N=8)
    np.testing.assert_array_equal(out, x * 3)


def test_a_kernel_has_the_attributes_that_host_code_reads():
    launched = scaled[1,](Pair(np.zeros(8, np.float32), 3), np.zeros(8, np.float32), N=8, num_warps=2)
    assert list(scaled.cache[0].values())[-1] is launched
    assert list(scaled.device_caches[0][0].values())[-1].metadata.num_warps == 2
    assert scaled.starting_line_number == scaled.fn.__code__.co_firstlineno


class Place(NamedTuple):
    array: Any
    count: Any


class Work(NamedTuple):
    shift: Any
    place: Any
    B: Any


@triton.jit
def shifted(work, out):
    at = tl.arange(0, work.B)
    tl.store(out + at, tl.load(work.place.array + at, mask=at < work.place.count) + work.shift)


def test_a_named_tuple_may_hold_named_tuples_and_constants():
    out = np.zeros(8, np.int32)
    shifted[1,](Work(2, Place(np.arange(8, dtype=np.int32), 5), tl.constexpr(8)), out)
    assert out.tolist() == [2, 3, 4, 5, 6, 2, 2, 2]


@triton.jit
def counted(out, sizes, nested):
    tl.store(out + tl.arange(0, sizes[0]), tl.arange(0, sizes[0]) * sizes[1] + nested[0][1])


def test_constants_in_tuples_of_the_host_stay_constants():
    for size in (4, 8):  # another constant of the same type is another kernel
        out = np.full(8, -1, np.int32)
        counted[1,](out, (tl.constexpr(size), 5), ((tl.constexpr(1), 7),))
        assert out.tolist() == [5 * at + 7 for at in range(size)] + [-1] * (8 - size)


def test_code_that_does_not_exist_is_refused_in_a_sentence():
    kernel = scaled.warmup(Pair(np.zeros(8, np.float32), 3), np.zeros(8, np.float32), N=8)
    with pytest.raises(KernelError) as caught:
        kernel.asm["ptx"]
    assert str(caught.value) == ("asm of scaled: got the code 'ptx', needs kernel[grid](...): nothing is compiled here")
    with pytest.raises(KeyError):
        kernel.asm["ttgir"]
    assert kernel.asm.get("ttir") is None
    assert "sass" not in kernel.asm
    assert kernel.hash == scaled.warmup(Pair(np.ones(8, np.float32), 4), np.zeros(8, np.float32), N=8).hash
    for name in ("function", "module", "src", "packed_metadata", "run"):
        assert not hasattr(kernel, name)
        with pytest.raises(KernelError, match=f"{name} of scaled: got compiled code, needs kernel"):
            getattr(kernel, name)
    with pytest.raises(AttributeError, match="a compiled kernel has no 'speed'"):
        kernel.speed  # noqa: B018 - the look-up raises
    with pytest.raises(KernelError, match="kernel scaled: got preload of compiled code"):
        scaled.preload("{}")


def test_facts_of_the_device(device):
    facts = DRIVER.active.utils.get_device_properties(0)
    names = {"max_shared_mem", "max_num_regs", "multiprocessor_count", "warpSize", "sm_clock_rate", "mem_clock_rate"}
    assert set(facts) == names | {"mem_bus_width"}
    assert facts["sm_clock_rate"] == device.clock_ghz * 1e6
    # Triton computes the bandwidth of the memory so, in GB/s
    assert facts["mem_clock_rate"] * facts["mem_bus_width"] * 2 / 1e6 / 8 == pytest.approx(device.hbm_gbs)
    assert device.cache_nbytes == 0
    cached = Device(load_topology(Path(__file__).parents[3] / "topologies" / "devices" / "v100.yaml"))
    assert cached.cache_nbytes == 6 << 20
    with pytest.raises(KernelError, match=r"got driver.active.utils.load_binary, needs get_device_properties"):
        DRIVER.active.utils.load_binary("name", b"", 0, 0)
