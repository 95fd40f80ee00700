"""Kernels as plain functions: their arguments, calls that are refused, and the texts of their errors."""

import numpy as np
import pytest

from kb_engine.observe import Callbacks
from kb_engine.program.author.author_errors import UserCodeError
from kb_messages import CommandComplete, CommandSubmitted, KernelError, PlanError

HERE = "test_runner.py"
READ = 42240  # 512 bytes, see test_fabric.py


def line(function, offset=1):
    """`file:line` of a line of *function*."""
    return f"{HERE}:{function.__code__.co_firstlineno + offset}"


def numbers(host, name="a", shape=(16, 16), dtype=np.float16):
    kinds = {np.float16: "f16", np.float32: "f32", np.int32: "i32"}
    return host.tensor(name, np.arange(np.prod(shape)).reshape(shape).astype(dtype), kinds[dtype])


def refused(host, kernel, *arguments):
    with pytest.raises(KernelError) as caught:
        host.launch(kernel, *arguments)
    return str(caught.value)


def pending_touch(touch_line, producer_line, touch):
    return (
        f"{touch_line}: composite gemm of {producer_line}: got {touch} of its pending result, needs a value that "
        "exists while the kernel runs; results of compute ops are known only after the run, "
        "or where a kernel looks at them in a run with an op log"
    )


def test_a_load_blocks_until_its_data_is_there(toy_host):
    events = []

    def kernel(tl, a):
        tl.load(a)
        tl.load(a)

    host = toy_host(observers=[Callbacks(on_trace=events.append)])
    result = host.launch(kernel, numbers(host))
    # 3000 to issue, then the read; twice.
    assert result.end_ps == 2 * (3000 + READ)
    assert [event.t_ps for event in events if isinstance(event, CommandSubmitted)] == [3000, 3000 + READ + 3000]
    assert [event.t_ps for event in events if isinstance(event, CommandComplete)] == [45240, 90480]


def test_a_composite_returns_at_once_and_the_kernel_ends_with_it(toy_host):
    seen = []

    def kernel(tl, a, c):
        handle = tl.composite("gemm", a, a, out=c)
        seen.append(handle.completion.done)
        tl.wait(handle)
        seen.append(handle.completion.done)
        tl.composite("gemm", a, a, out=c)

    host = toy_host()
    result = host.launch(kernel, numbers(host), numbers(host, "c"))
    one = 3000 + 2 * READ + 700 + 5000 + 700 + READ
    assert seen == [False, True]
    assert result.end_ps == 2 * one == 272240


def test_a_second_wait_and_a_wait_for_a_load_return_at_once(toy_host):
    def kernel(tl, a, c):
        handle = tl.composite("gemm", a, a, out=c)
        for _ in range(3):
            tl.wait(handle)
        x = tl.load(a)
        tl.wait(x)

    host = toy_host()
    result = host.launch(kernel, numbers(host), numbers(host, "c"))
    assert result.end_ps == 136120 + 3000 + READ


def test_programs_know_their_number(toy_host):
    seen = []
    host = toy_host(("pe_layout: {count: 1}", "pe_layout: {count: 3}"))
    result = host.launch(lambda tl: seen.append((tl.program_id(), tl.num_programs())), pes=[2, 0])
    assert seen == [(0, 2), (1, 2)]
    assert list(result.pe_end_ps) == ["sip0.cube0.pe2", "sip0.cube0.pe0"]


def test_a_second_launch_begins_where_the_first_ended(toy_host):
    host = toy_host()
    a = numbers(host)
    for _ in range(2):
        host.launch(lambda tl, a: tl.load(a), a)
    assert [(each.start_ps, each.end_ps) for each in host.launches] == [(0, 45240), (45240, 90480)]


def test_a_load_gives_the_data_and_later_stores_do_not_change_it(toy_host):
    seen = []

    def kernel(tl, a, c):
        x = tl.load(c)
        tl.store(c, tl.load(a))
        seen.append((x[1, 2], tl.load(c)[1, 2]))

    host = toy_host()
    host.launch(kernel, numbers(host), host.tensor("c", np.zeros((16, 16), np.float16), "f16"))
    assert seen == [(0.0, 18.0)]


def test_a_store_is_seen_by_other_programs_from_the_call_on(toy_host):
    seen = []

    def kernel(tl, a, c):
        if tl.program_id() == 0:
            tl.store(c, tl.load(a))
        else:
            tl.load(a)
            seen.append(tl.load(c)[0, 5])

    # Both have loaded at much the same time; program 0 then issues its store before program 1 issues its second load.
    host = toy_host(("pe_layout: {count: 1}", "pe_layout: {count: 2}"))
    host.launch(kernel, numbers(host), host.tensor("c", np.zeros((16, 16), np.float16), "f16"))
    assert seen == [5.0]


def test_a_load_of_bytes_that_a_composite_makes_is_pending(toy_host):
    def kernel(tl, a, c):
        tl.wait(tl.composite("gemm", a, a, out=c))
        x = tl.load(c[3:5, 0:2])
        assert x.is_pending
        if x[0, 0] > 0:
            pass

    host = toy_host()
    message = refused(host, kernel, numbers(host), numbers(host, "c"))
    assert message == pending_touch(line(kernel, 4), line(kernel), "indexing")


def test_a_stored_pending_value_makes_its_target_pending_with_the_same_origin(toy_host):
    def kernel(tl, a, c, d):
        tl.composite("gemm", a, a, out=c)
        tl.store(d, tl.load(c))
        float(tl.load(d[0, 0]))

    host = toy_host()
    message = refused(host, kernel, numbers(host), numbers(host, "c"), numbers(host, "d"))
    assert message == pending_touch(line(kernel, 3), line(kernel), "`float()`")


def test_a_concrete_store_makes_bytes_concrete_again(toy_host):
    seen = []

    def kernel(tl, a, c):
        tl.wait(tl.composite("gemm", a, a, out=c))
        tl.store(c[0:4], tl.load(a[0:4]))
        seen.append(tl.load(c[1:3])[0, 7])
        seen.append(tl.load(c[1:5]).is_pending)

    host = toy_host()
    host.launch(kernel, numbers(host), numbers(host, "c"))
    assert seen == [16 + 7.0, True]


def test_a_pending_value_in_an_if_names_the_op_and_both_its_lines(toy_host):
    def kernel(tl, a, c):
        h = tl.composite("gemm", a, a)
        if h:
            pass

    host = toy_host()
    message = refused(host, kernel, numbers(host), numbers(host, "c"))
    assert message == pending_touch(line(kernel, 2), line(kernel), "the truth value")


def test_an_exception_of_a_kernel_shows_the_frames_of_the_kernel(toy_host):
    def kernel(tl, a):
        tl.load(a)
        helper(0)

    host = toy_host()
    with pytest.raises(UserCodeError) as caught:
        host.launch(kernel, numbers(host))
    first, *frames = str(caught.value).splitlines()
    assert first == (
        f"{line(helper)}: got ZeroDivisionError: division by zero, needs a kernel that returns; see the frames below"
    )
    assert [frame.strip() for frame in frames if frame.startswith("  File")] == [
        f'File "{__file__}", line {kernel.__code__.co_firstlineno + 2}, in kernel',
        f'File "{__file__}", line {helper.__code__.co_firstlineno + 1}, in helper',
    ]
    assert "1 / value" in frames[-1] or "1 / value" in frames[-2]
    assert caught.value.exit_code == 2


def helper(value):
    return 1 / value


def test_an_exception_of_a_library_names_the_line_of_the_kernel(toy_host):
    def kernel(tl):
        np.linalg.inv(np.zeros((2, 2)))

    with pytest.raises(UserCodeError) as caught:
        toy_host().launch(kernel)
    assert str(caught.value).startswith(f"{line(kernel)}: got LinAlgError: Singular matrix, ")


def test_an_error_of_the_language_names_the_line_once(toy_host):
    def kernel(tl, a):
        a[3:3]

    host = toy_host()
    assert refused(host, kernel, numbers(host)) == (
        f"{line(kernel)}: a[0:16, 0:16]: got an empty slice 3:3 of 16 elements, needs at least one element"
    )


def test_bytes_that_were_never_written_cannot_be_loaded(toy_host):
    def kernel(tl, c):
        tl.load(c)

    host = toy_host()
    message = refused(host, kernel, host.empty("c", (16, 16), "f16"))
    assert message == (
        f"{line(kernel)}: sip0.cube0.hbm0 + 0x0 (address 0x1000000000000): got a read of 16 x 16 f16 "
        "whose bytes from 0x0 on were never written, first that of c[0, 0], needs initialised bytes; "
        "store to these elements before, or give the tensor data when it is made"
    )


def test_a_plan_that_a_block_refuses_is_an_error_at_the_kernels_line(toy_engine, monkeypatch):
    from pathlib import Path

    import engine_toys

    from kb_engine.host import Host

    def refuse(self, submitted):
        raise PlanError("sip0.cube0.pe0.pe_gemm", "a plan", "none", "use another")

    def kernel(tl, a):
        tl.load(a)

    monkeypatch.setattr(engine_toys.Scheduler, "plan", refuse)
    host = Host(toy_engine(), Path(__file__).parent)
    assert refused(host, kernel, numbers(host)) == (
        f"{line(kernel)}: sip0.cube0.pe0.pe_gemm: got a plan, needs none; use another"
    )


def test_allocations_end_with_the_kernel(toy_host):
    # 128 of 256 KiB are the allocator's: 8192 x 16 bytes.
    def kernel(tl, a):
        assert tl.load(a).matrix.nbytes == 128 * 1024

    host = toy_host()
    a = host.tensor("a", np.zeros((4096, 16), np.float16), "f16")
    for _ in range(2):
        host.launch(kernel, a)


def test_an_empty_kernel_ends_at_once(toy_host):
    assert toy_host().launch(lambda tl: None).end_ps == 0


def test_a_freed_value_cannot_be_stored_or_multiplied(toy_host):
    def store(tl, a, c):
        x = tl.load(a)
        tl.free(x)
        tl.store(c, x)

    def multiply(tl, a, c):
        x = tl.load(a)
        tl.free(x)
        tl.composite("gemm", x, a, out=c)

    for kernel in (store, multiply):
        host = toy_host()
        message = refused(host, kernel, numbers(host), host.empty("c", (16, 16), "f16"))
        assert message.endswith("got a LoadedTensor after tl.free, needs one that still holds TCM")
