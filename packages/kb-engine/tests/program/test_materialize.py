"""Values computed from the log of the toy chip, whose GEMM takes 5000 ps and is pending until somebody asks."""

import numpy as np
import pytest

from kb_messages import KernelError

A, B = (np.arange(256, dtype=np.float32).reshape(16, 16) / 128 + start for start in (-1, 2))
EXPECTED = (A.astype(np.float64) @ B).round(3)


def tensors(host):
    return [host.tensor(name, data, "f32") for name, data in (("a", A), ("b", B), ("c", 0 * A))]


def test_a_composite_becomes_concrete_in_its_handle_and_in_memory(toy_host, writer):
    seen = []

    def kernel(tl, a, b, c):
        handle = tl.composite("gemm", a, b, out=c, tile=(16, 16, 16))
        seen.extend([tl.materialize(handle).data, tl.load(c).data])

    host = toy_host(writer=writer)
    a, b, c = tensors(host)
    host.launch(kernel, a, b, c)
    for got in (*seen, host.read(c)):
        np.testing.assert_allclose(got, EXPECTED, rtol=1e-5, atol=1e-3)


def test_the_log_says_the_same_whether_somebody_looks_or_not(toy_engine):
    from kb_dataexec import MemoryLogWriter
    from kb_engine.host import Host

    def kernel(tl, a, b, c, look):
        handle = tl.composite("gemm", a, b, out=c, tile=(8, 8, 8))
        look(tl, handle)
        tl.load(c)

    digests = []
    for look in (lambda tl, handle: tl.wait(handle), lambda tl, handle: tl.materialize(handle)):
        host = Host(toy_engine(writer=MemoryLogWriter()))
        host.launch(kernel, *tensors(host), look)
        log = host.engine.close_log()
        digests.append((log.ops.tobytes(), log.operands.tobytes()))
    assert digests[0] == digests[1]


def test_a_second_value_executes_no_command_twice(toy_host, writer):
    def kernel(tl, a, b, c):
        for _ in range(3):
            tl.materialize(tl.composite("gemm", a, b, out=c, tile=(8, 8, 8)))

    host = toy_host(writer=writer)
    host.launch(kernel, *tensors(host))
    assert host.engine.session.materialize._execution.n_executed == host.engine.session.n_ops


def test_a_value_that_depends_on_an_unfinished_command_is_refused(toy_host, writer):
    def kernel(tl, a, b, c):
        tl.composite("gemm", a, b, out=c, tile=(8, 8, 8))
        tl.materialize(tl.load(c[0:1, 0:1]))

    host = toy_host(writer=writer)
    with pytest.raises(KernelError) as caught:
        host.launch(kernel, *tensors(host))
    line = kernel.__code__.co_firstlineno
    assert str(caught.value) == (
        f"test_materialize.py:{line + 2}: got a look at a value that depends on the gemm of "
        f"test_materialize.py:{line + 1}, which is not done, needs finished commands; tl.wait for its handle first"
    )
