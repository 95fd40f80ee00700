"""`tl.print`, `tl.capture`, the repr of values, and names that `tl` does not have."""

import re

import numpy as np
import pytest

from kb_dataexec import Executor
from kb_dataexec.execute import Look
from kb_engine.observe import Callbacks
from kb_messages import KernelError

A = np.arange(256, dtype=np.float16).reshape(16, 16) / 16


def launch(host, kernel):
    a = host.tensor("a", A, "f16")
    c = host.empty("c", (16, 16), "f16")
    return host.launch(kernel, a, c, pes=[0])


def test_known_elements_are_printed_at_once(toy_host, capsys):
    def kernel(tl, a, c):
        tl.print("here")
        tl.print("number", 3, "text")
        tl.print("range", tl.arange(0, 4) * 2)
        tl.print("one", tl.load(a[0:1, 1:2]))
        tl.print("mask", tl.arange(0, 3) > 1)

    launch(toy_host(), kernel)
    first = kernel.__code__.co_firstlineno
    where = [f"test_inspection.py:{first + number} sip0.cube0.pe0: " for number in range(1, 6)]
    lines = capsys.readouterr().out.splitlines()
    assert [line.rpartition("/")[2] for line in lines] == [
        f"{where[0]}here",
        f"{where[1]}number 3",
        f"{where[1]}number text",
        f"{where[2]}range [0 2 4 6]",
        f"{where[3]}one 0.0625",
        f"{where[4]}mask [False False  True]",
    ]


def test_large_arrays_are_cut(toy_host, capsys):
    launch(toy_host(), lambda tl, a, c: tl.print("all", tl.load(a)))
    text = capsys.readouterr().out
    assert "..." in text
    assert len(text.splitlines()) < 12


def test_a_pending_value_that_is_not_computed_names_its_op(toy_host, capsys):
    def kernel(tl, a, c):
        tl.wait(tl.composite("gemm", a, a, out=c))
        tl.print("product", tl.load(c))
        tl.print("memory", c[0:2, 0:4])

    launch(toy_host(), kernel)
    first, second = capsys.readouterr().out.splitlines()
    line = kernel.__code__.co_firstlineno + 1
    assert first.endswith(
        f"test_inspection.py:{line + 1}, pending: composite gemm of {first.partition(':')[0]}:{line}>"
    )
    assert ": product pending <f16 16 x 16 of " in first
    assert second.endswith(": memory pending c[0:2, 0:4] of f16")


def steps(tl, a, c, looks):
    """Products whose TCM is used again: each goes when the next one has its name."""
    for number in range(4):
        tl.wait(tl.composite("gemm", a[0 : 4 + number, :], a, out=c[0 : 4 + number, :]))
        y = tl.load(c[0 : 4 + number, :])
        if looks:
            tl.capture(f"y{number}", y)
            tl.capture("known", tl.arange(0, number + 1))
            tl.print("sum", y)
        del y


def test_observers_are_notified_and_the_log_and_the_times_stay(toy_host, writer):
    found, without = [], type(writer)()
    watched = toy_host(writer=writer, observers=[Callbacks(on_capture=found.append)])
    plain = toy_host(writer=without)
    times = [launch(host, lambda tl, a, c, do=do: steps(tl, a, c, do)) for host, do in ((watched, 1), (plain, 0))]
    assert times[0] == times[1]
    log, other = watched.engine.close_log(), plain.engine.close_log()
    assert (len(log.ops), len(log.operands)) == (len(other.ops), len(other.operands))
    assert np.array_equal(log.ops[["t_start_ps", "t_end_ps"]], other.ops[["t_start_ps", "t_end_ps"]])
    assert [each.name for each in found] == [f for n in range(4) for f in (f"y{n}", "known", "sum")]
    assert [each.is_print for each in found[:3]] == [False, False, True]
    assert [each.command_seq for each in found[::3]] == [2, 4, 6, 8]  # a product and a load each time
    assert np.array_equal(found[10].known, np.arange(4))
    products = [each for each in found if each.name.startswith("y")]
    assert len({each.place.address for each in products}) < len(products), "TCM was used again"
    looks = [Look(each.command_seq, each.place.rectangle, each.place.dtype) for each in products]
    for mode in ("fused", "tile"):
        _, seen = Executor(log, watched.engine.initial_memory, mode).run_and_look(looks)
        whole = (A.astype(np.float32) @ A.astype(np.float32)).astype(np.float16)
        assert all(np.array_equal(value, whole[: 4 + number]) for number, value in enumerate(seen))


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda tl, a: tl.capture("x", 3), "got tl.capture of an int, needs a value of the kernel: a handle, "),
        (
            lambda tl, a: tl.capture("", tl.load(a)),
            "got tl.capture under '', needs a name of 1 to 100 characters",
        ),
        (
            lambda tl, a: tl.capture(3, tl.load(a)),
            "got tl.capture under 3, needs a name of 1 to 100 characters",
        ),
        (lambda tl, a: tl.capture("x", a.T), "got tl.capture of a transposed tensor, needs one as it is stored"),
        (lambda tl, a: freed(tl, a, tl.capture), "got a LoadedTensor after tl.free, needs one that still holds TCM"),
        (lambda tl, a: freed(tl, a, tl.print), "got a LoadedTensor after tl.free, needs one that still holds TCM"),
    ],
)
def test_wrong_captures_and_prints_are_refused(toy_host, use, said):
    with pytest.raises(KernelError, match="test_inspection") as caught:
        launch(toy_host(), lambda tl, a, c: use(tl, a))
    assert said in str(caught.value)


def freed(tl, a, look):
    x = tl.load(a)
    tl.free(x)
    look("x", x)


def test_the_repr_says_type_shape_line_and_state(toy_host):
    texts = []

    def kernel(tl, a, c):
        x = tl.load(a)
        composite = tl.composite("gemm", a, a, out=c)
        tl.wait(composite)
        texts.extend(map(repr, (x, tl.load(c[0:1, :]), tl.arange(0, 3), composite)))
        tl.free(x)
        texts.append(repr(x))

    launch(toy_host(), kernel)
    line = kernel.__code__.co_firstlineno
    assert [re.sub(r"of \S*test_inspection", "of test_inspection", text) for text in texts] == [
        f"<f16 16 x 16 of test_inspection.py:{line + 1}, known>",
        f"<f16 1 x 16 of test_inspection.py:{line + 4}, pending: composite gemm of test_inspection.py:{line + 2}>",
        "<3 integers, known>",
        f"<f16 16 x 16 of test_inspection.py:{line + 2}, pending: composite gemm of test_inspection.py:{line + 2}>",
        f"<f16 16 x 16 of test_inspection.py:{line + 1}, known, freed>",
    ]


def test_hasattr_still_answers(toy_host):
    answers = []
    launch(toy_host(), lambda tl, a, c: answers.extend([hasattr(tl, "load"), hasattr(tl, "softmax")]))
    assert answers == [True, False]
