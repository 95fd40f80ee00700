"""The engine, its memory, and kernels that go on after a failed launch."""

import gc
import sys
from contextlib import suppress
from weakref import ref

import numpy as np
import pytest

from kb_dataexec import FolderLogWriter, MemoryLogWriter, read_log
from kb_engine.program.author.author_errors import UserCodeError
from kb_messages import KbError, LogError


def line(function, offset):
    """`file:line` of a line of *function*."""
    return f"test_failed_launches.py:{function.__code__.co_firstlineno + offset}"


def numbers(host):
    return host.tensor("a", np.arange(256, dtype=np.float16).reshape(16, 16), "f16")


def test_an_engine_takes_no_launch_after_one_that_failed(toy_host):
    def kernel(tl, a):
        tl.load(a)
        raise ValueError

    host = toy_host()
    a = numbers(host)
    for error, started in ((UserCodeError, kernel), (KbError, lambda tl, a: tl.load(a))):
        with pytest.raises(error) as caught:
            host.launch(started, a)
    assert str(caught.value).startswith("simulation: got a call after one that failed or got stuck")


@pytest.mark.parametrize("in_folder", [False, True])
def test_the_log_of_a_launch_that_failed_is_not_complete(toy_host, tmp_path, in_folder):
    """It may lack ops, because rows are written in the order of completion."""

    def kernel(tl, a):
        tl.load(a)
        raise ValueError

    host = toy_host(writer=FolderLogWriter(tmp_path / "log") if in_folder else MemoryLogWriter())
    with pytest.raises(UserCodeError):
        host.launch(kernel, numbers(host))
    log = host.engine.close_log()
    if in_folder:
        with pytest.raises(LogError, match="manifest"):
            read_log(tmp_path / "log")
        summary, log = log, read_log(tmp_path / "log", prefix=True)
        assert (summary.n_ops, summary.digest) == (log.n_ops, log.digest)
    assert not log.is_complete
    assert log.n_ops


@pytest.mark.parametrize("ends", [KeyboardInterrupt, SystemExit])
def test_keyboard_interrupt_and_system_exit_pass_through_a_kernel(toy_host, ends):
    def kernel(tl, a):
        tl.load(a)
        raise ends(3)

    host = toy_host()
    with pytest.raises(ends) as caught:
        host.launch(kernel, numbers(host))
    assert caught.value.args == (3,)
    assert host.engine.kernel_positions() == [
        f"sip0.cube0.pe0: the kernel ran at {line(kernel, 2)}, no commands in flight",
    ]


def test_an_engine_whose_launch_failed_goes_with_its_last_reference(toy_host):
    """Kernels of two PEs wait in their greenlets when the third one fails."""

    def kernel(tl, a):
        if tl.program_id(0) == 2:
            raise ValueError
        tl.load(a)

    host = toy_host(("pe_layout: {count: 1}", "pe_layout: {count: 3}"))
    engine = ref(host.engine)
    with pytest.raises(UserCodeError):
        host.launch(kernel, numbers(host), pes="all")
    standing = host.engine.kernel_positions()
    assert standing[0].startswith(
        f"sip0.cube0.pe0 (and 1 more PE at the same line, up to sip0.cube0.pe1): the kernel waits at "
        f"{line(kernel, 3)} since 0 ns"
    )
    del host
    gc.collect()
    assert engine() is None


def test_a_kernel_that_catches_every_exception_is_a_note_of_the_error(toy_host, capfd):
    def kernel(tl, a):
        if tl.program_id(0) == 1:
            raise ValueError
        while True:
            with suppress(BaseException):
                tl.load(a)

    host = toy_host(("pe_layout: {count: 1}", "pe_layout: {count: 2}"))
    with pytest.raises(UserCodeError, match="ValueError") as caught:
        host.launch(kernel, numbers(host), pes="all")
    assert caught.value.__notes__[-1] == (
        f"{line(kernel, 5)}: the kernel catches every exception, the end of its launch too, so its memory stays with "
        "the process; catch Exception instead"
    )
    del host
    gc.collect()
    assert capfd.readouterr().err == ""


def store(tl, a, x):
    tl.store(a, x)


def wait_and_store_again(tl, a, x):
    for _ in range(3):
        try:
            tl.wait(tl.load(a))
            tl.store(a, x)
        except BaseException:  # noqa: BLE001  # as bare `except:` does
            tl.store(a, x)


def leave(tl, a, x):
    sys.exit(3)


@pytest.mark.parametrize("grid", [{}, {"grid": (6,)}], ids=["one each", "grid"])
@pytest.mark.parametrize("in_the_end", [store, wait_and_store_again, leave])
def test_calls_of_kernels_after_a_failed_launch_change_nothing(toy_host, in_the_end, grid):
    """The kernels of two PEs wait in `try` when the third one fails."""

    def kernel(tl, a, b, finish):
        x = tl.load(a)
        if tl.program_id(0) == 2:
            tl.load(a)
            raise ValueError
        try:
            for _ in range(9):
                tl.load(a)
        finally:
            finish(tl, b, x)

    def failed(finish):
        host = toy_host(("pe_layout: {count: 1}", "pe_layout: {count: 3}"), writer=MemoryLogWriter())
        engine, a, b = host.engine, numbers(host), host.tensor("b", np.zeros((16, 16), np.float16), "f16")
        with pytest.raises(UserCodeError, match="ValueError"):
            host.launch(kernel, a, b, finish, pes="all", **grid)
        (_, matrix), *_ = b.every_block()
        return engine.kernel_positions(), engine.memory.read(matrix).max(), engine.close_log().digest

    assert failed(in_the_end) == failed(lambda *_: None)
