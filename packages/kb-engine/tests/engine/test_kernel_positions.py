"""Where the kernels of an interrupted simulation stand."""

import numpy as np
import pytest

from kb_engine.observe import Callbacks

THREE = ("pe_layout: {count: 1}", "pe_layout: {count: 3}")
K = 16 * 3000


def line(kernel, offset):
    return f"test_kernel_positions.py:{kernel.__code__.co_firstlineno + offset}"


def multiplies(tl, a, b, c):
    if tl.program_id(0) == 2:
        return
    tl.wait(tl.composite("gemm", a, b, out=c, tile=(16, 16, 16)))


def interrupt():
    raise KeyboardInterrupt


def interrupted(host, kernel):
    shapes = {"a": (16, K), "b": (K, 16), "c": (16, 16)}
    tensors = [host.tensor(name, np.zeros(shape, np.float16), "f16") for name, shape in shapes.items()]
    with pytest.raises(KeyboardInterrupt):
        host.launch(kernel, *tensors, pes="all")
    return host.engine.kernel_positions()


LARGE = ("size: 1 MiB", "size: 16 MiB")


def test_kernels_at_one_line_have_one_report_and_ended_ones_are_counted(toy_host):
    host = toy_host(THREE, LARGE, observers=[Callbacks(on_housekeeping=interrupt)])
    assert host.engine.kernel_positions() == []
    assert host.engine.programs == (0, 0)
    first, ended = interrupted(host, multiplies)
    at = line(multiplies, 3)
    assert first.startswith(
        f"sip0.cube0.pe0 (and 1 more PE at the same line, up to sip0.cube0.pe1): the kernel waits at {at} since 3 ns, "
        f"1 command in flight: gemm of {at} with "
    )
    assert first.endswith(" of 3000 tiles done")
    assert ended == "1 of 3 kernels have ended"
    assert host.engine.programs == (1, 3)


def test_a_kernel_that_a_signal_hits_names_its_own_line(toy_host):
    def spins(tl, a, b, c):
        if tl.program_id(0) == 1:
            next(spinning())
        multiplies(tl, a, b, c)

    def spinning():
        yield interrupt_in_a_loop()

    def interrupt_in_a_loop():
        import signal

        while True:
            signal.raise_signal(signal.SIGINT)

    host = toy_host(THREE, LARGE)
    lines = interrupted(host, spins)
    assert f"sip0.cube0.pe1: the kernel ran at {line(interrupt_in_a_loop, 4)}, no commands in flight" in lines
    assert "sip0.cube0.pe2: the kernel has not begun, no commands in flight" in lines
    assert lines[0].startswith(f"sip0.cube0.pe0: the kernel waits at {line(multiplies, 3)} since 0 ns, 1 command in ")
