"""The error of a load of unwritten bytes names the tensor and the first unwritten element."""

import re

import numpy as np
import pytest

from kb_dataexec import StoreError
from kb_messages import KernelError

SAID = (
    r"test_unwritten_loads\.py:\d+: sip0\.cube0\.hbm\d \+ 0x\w+ \(address 0x\w+\){where}: got a read of {read} whose "
    r"bytes from 0x\w+ on were never written, first that of {element}, needs initialised bytes; store to these "
    r"elements before, or give the tensor data when it is made"
)


def said(host, kernel, *arguments, **how):
    with pytest.raises(KernelError) as caught:
        host.launch(kernel, *arguments, **how)
    return str(caught.value)


def expected(read, element, where=""):
    return SAID.format(read=read, element=re.escape(element), where=where)


@pytest.mark.parametrize(
    ("shape", "written", "blocks", "read", "element"),
    [
        ((6, 8), (slice(0, 3),), (1, 1), "6 x 8 f32", "c[3, 0]"),
        ((2, 3, 4), (0,), (1, 1), "6 x 4 f32", "c[1, 0, 0]"),
        ((20,), (slice(0, 10),), (1, 1), "1 x 20 f32", "c[10]"),
        ((6, 8), (slice(0, 3), slice(0, 4)), (2, 2), "3 x 4 f32", "c[0, 4]"),
    ],
)
def test_a_load_names_the_first_unwritten_element(toy_host, shape, written, blocks, read, element):
    host = toy_host()
    slices = [0] * (blocks[0] * blocks[1])
    tensors = [
        host.tensor("a", np.ones(shape, np.float32), "f32"),
        host.empty("b", shape, "f32"),
        host.empty("c", shape, "f32", blocks=blocks, slices=slices),
    ]
    host.launch(lambda tl, a, b, c: tl.store(c[written], tl.load(a[written])), *tensors, pes=[0])
    assert re.fullmatch(expected(read, element), said(host, lambda tl, a, b, c: tl.load(c), *tensors, pes=[0]))


@pytest.mark.parametrize("templates", [True, False])
def test_a_replayed_program_has_the_error_of_a_run_one(toy_host, templates):
    def kernel(tl, a, c):
        row = tl.program_id(0)
        tl.store(c[row, :], tl.load(a[row, :]))

    host = toy_host(templates=templates)
    ones = host.tensor("ones", np.ones((13, 16), np.float16), "f16")
    a, c = host.empty("a", (16, 16), "f16"), host.empty("c", (16, 16), "f16")
    host.launch(lambda tl, ones, a: tl.store(a[0:13, :], tl.load(ones)), ones, a, pes=[0])
    told = said(host, kernel, a, c, pes=[0], grid=16)
    assert re.fullmatch(expected("1 x 16 f16", "a[13, 0]", r", in program 13 on sip0\.cube0\.pe0"), told), told


def test_an_atomic_on_unwritten_bytes_names_the_element(toy_host):
    host = toy_host()
    c = host.empty("c", (4, 4), "i32")
    told = said(host, lambda tl, c: tl.atomic_add(c[2, 1], 1), c, pes=[0])
    assert re.fullmatch(expected("1 x 1 i32", "c[2, 1]"), told), told


def test_a_load_that_is_refused_for_another_reason_has_no_fix_about_writes(toy_host):
    host = toy_host()
    a = host.tensor("a", np.ones((4, 4), np.float32), "f32")
    matrix = a.block(0, 0)
    with pytest.raises(StoreError) as caught:
        host.engine.memory.load([type(matrix).packed(1, 2, matrix.dtype, matrix.address + 2)], None)
    assert str(caught.value).endswith("needs offset, rows and stride in multiples of f32's 4 bytes")


def test_a_write_without_values_takes_the_time_of_a_write(toy_host):
    def kernel(tl, a, b):
        tl.store(b, tl.load(a))

    times = []
    for needs_data in (True, False):
        host = toy_host()
        a, b = host.empty("a", (6, 8), "f32"), host.empty("b", (6, 8), "f32")
        if needs_data:
            host.write(a, np.ones((6, 8), np.float32))
        else:
            host.write_unknown(a)
        host.launch(kernel, a, b, pes=[0])
        times.append((host.write_ps, host.launches[0].end_ps))
    assert times[0] == times[1]


def test_a_kernel_cannot_look_at_a_value_that_was_left_out(toy_host):
    host = toy_host()
    a = host.empty("a", (8,), "i32")
    host.write_unknown(a)
    with pytest.raises(KernelError, match=r"the host's write of a: got .* of its pending result"):
        host.launch(lambda tl, a: int(tl.load(a[0:1])), a, pes=[0])
