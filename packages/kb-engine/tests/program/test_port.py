"""The kernel language is one front end among several: the README's runs kernels over the same port."""

import re
from pathlib import Path

import engine_toys
import numpy as np
import pytest

from kb_engine.program import Completion
from kb_messages import KernelError, PlanError

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture
def copying():
    """The front end of the README, whose file is "README.md"."""
    section = README.read_text(encoding="utf-8").partition("## A kernel language of your own")[2].partition("\n## ")[0]
    (example,) = re.findall(r"^```py\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    namespace = {"__name__": "readme", "__file__": "README.md"}
    exec(compile(example, "README.md", "exec"), namespace)
    return namespace["MulticastFork"]


def test_another_front_end_runs_a_kernel_and_is_logged_at_the_kernels_line(toy_host, writer, copying):
    def kernel(copy, a, c):
        copy(a[0:8], c[8:16])
        copy(a[8:16], c[0:8])

    host = toy_host(writer=writer)
    data = np.arange(256, dtype=np.float16).reshape(16, 16)
    a, c = host.tensor("a", data, "f16"), host.empty("c", (16, 16), "f16")
    result = host.launch(kernel, a, c, front_end=copying)
    np.testing.assert_array_equal(host.read(c), np.concatenate([data[8:], data[:8]]))
    first = kernel.__code__.co_firstlineno
    lines = {f"test_port.py:{first + 1}", f"test_port.py:{first + 2}"}
    host.engine.close_log()
    assert {text for text in writer.strings if ".py:" in text} == lines
    again = host.launch(copy_in_tl, a, c)
    assert again.end_ps - again.start_ps == result.end_ps


def copy_in_tl(tl, a, c):
    for here, there in ((0, 8), (8, 0)):
        tl.store(c[there : there + 8], tl.load(a[here : here + 8]))


def test_the_engine_takes_a_front_end_too(toy_engine, tmp_path):
    seen = []
    toy_engine().launch(seen.append, [], ["sip0.cube0.pe0"], tmp_path, front_end=lambda port: port)
    assert [(port.program_id, port.num_programs) for port in seen] == [(0, 1)]


def test_a_command_that_a_block_refuses_is_an_error_at_the_kernels_line(toy_host, monkeypatch, copying):
    def refuse(self, submitted):
        raise PlanError("sip0.cube0.pe0.pe_dma", "a plan", "none")

    def kernel(copy, a):
        copy(a, a)

    monkeypatch.setattr(engine_toys.Scheduler, "plan", refuse)
    host = toy_host()
    with pytest.raises(KernelError) as caught:
        host.launch(kernel, host.tensor("a", np.zeros((16, 16), np.float16), "f16"), front_end=copying)
    line = f"test_port.py:{kernel.__code__.co_firstlineno + 1}"
    assert str(caught.value) == f"{line}: sip0.cube0.pe0.pe_dma: got a plan, needs none"


def test_a_completion_gives_its_waiter_once():
    completion, called = Completion(), []
    completion.when_done(called.append)
    waiter = completion.finish()
    assert completion.done
    assert waiter is not None
    waiter("done")
    assert called == ["done"]
    assert completion.finish() is None
