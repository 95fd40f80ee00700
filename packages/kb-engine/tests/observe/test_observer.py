"""Who is told what of a run, in which order, and that a hook nobody overrides is no call at all."""

from itertools import pairwise

import numpy as np
import pytest

from kb_dataexec import MemoryLogWriter
from kb_engine.observe.observer import HOOKS, Callbacks, Listeners, Observer, listener
from kb_messages import KernelStart

KEPT = []
"""What a kernel leaves behind."""


def copy(tl, a, b):
    tl.store(b, tl.load(a))


def run(host):
    a, b = (host.tensor(name, np.zeros((16, 16), np.float16), "f16") for name in "ab")
    return host.launch(copy, a, b)


@pytest.fixture
def calls(toy_host, writer):
    """(hook, arguments) of every call in a run with a log, in order."""
    told = []

    def note(name):
        return lambda *arguments: told.append((name, arguments))

    host = toy_host(writer=writer, observers=[Callbacks(**{name: note(name) for name in HOOKS})])
    run(host)
    host.engine.close_log()
    return host.engine, told


def test_every_hook_has_a_listener():
    assert set(Listeners.__slots__) == set(HOOKS)
    assert HOOKS
    nobody = Listeners([Observer()])
    assert [name for name in HOOKS if getattr(nobody, name) is not None] == []


def test_a_run_is_told_from_the_chip_to_the_answer(calls):
    engine, told = calls
    names = [name for name, _ in told]
    assert told[0] == ("on_built", (engine.chip,))
    assert names[1] == "on_launch"
    # Nothing waits at a gate, is captured, looked at or skipped, and no index wraps.
    assert set(HOOKS) - set(names) == {"on_wait", "on_capture", "on_look", "on_wrapped_index", "on_issue_again"}
    order = ["on_launch", "on_allocate", "on_issue", "on_stage", "on_free", "on_program_end", "on_return"]
    order.append("on_launched")
    assert sorted(order, key=names.index) == order


def test_stages_and_chunks_are_those_of_the_log(calls, writer):
    _, told = calls
    stages = [arguments[0] for name, arguments in told if name == "on_stage"]
    ((ops, strings),) = [arguments for name, arguments in told if name == "on_chunk"]
    times = ("op_id", "t_ready_ps", "t_start_ps", "t_end_ps", "t_out_ps")
    assert [tuple(row) for row in ops[list(times)].tolist()] == stages
    assert [strings[name] for name in ops["name"]] == ["dma_read", "dma_write"]
    np.testing.assert_array_equal(writer.close().ops, ops)


def test_an_allocation_is_told_with_its_line_and_end(toy_host):
    def kernel(tl, a, b):
        tl.free(tl.load(a))
        KEPT.append(tl.load(a))

    told = []
    host = toy_host(
        observers=[
            Callbacks(
                on_allocate=lambda *arguments: told.append(arguments),
                on_free=lambda *arguments: told.append(arguments),
                on_program_end=lambda *arguments: told.append(arguments),
            )
        ]
    )
    a = host.tensor("a", np.zeros((16, 16), np.float16), "f16")
    host.launch(kernel, a, a)
    pe, line = "sip0.cube0.pe0", kernel.__code__.co_firstlineno
    start = told[0][1]
    assert told == [
        (pe, start, 512, f"test_observer.py:{line + 1}"),
        (pe, start),
        (pe, start, 512, f"test_observer.py:{line + 2}"),
        (pe, [start]),
    ]


def test_the_waits_of_a_stage_follow_it(toy_host, writer):
    """One port of the TCM, and two loads that want it."""
    told = []

    def kernel(tl, a, b, c):
        tl.composite("gemm", a, b, out=c, tile=(16, 24, 8))

    host = toy_host(
        ("ps_per_byte: 20, latency_ps: 30000", "ps_per_byte: 0, latency_ps: 0"),
        ("bw_gbs: 100", "bw_gbs: 100000"),
        writer=writer,
        observers=[
            Callbacks(
                on_stage=lambda times: told.append(times[0]), on_wait=lambda op_id, *_: told.append(("wait", op_id))
            )
        ],
    )
    shapes = {"a": (40, 30), "b": (30, 30), "c": (40, 30)}
    host.launch(kernel, *(host.tensor(name, np.zeros(shape, np.float16), "f16") for name, shape in shapes.items()))
    waits = [(before, each[1]) for before, each in pairwise(told) if isinstance(each, tuple)]
    assert waits
    assert all(before in (op_id, ("wait", op_id)) for before, op_id in waits)


def test_a_launch_that_fails_is_over_but_not_answered(toy_host):
    def kernel(tl):
        raise ValueError("enough")

    told = []
    names = ("on_launch", "on_launched", "on_return", "on_program_end")
    host = toy_host(observers=[Callbacks(**{name: lambda *_, name=name: told.append(name) for name in names})])
    with pytest.raises(Exception, match="enough"):
        host.launch(kernel)
    assert told == ["on_launch", "on_program_end", "on_return"]


def test_observers_are_told_in_their_order_and_one_is_called_directly():
    told = []

    class First(Observer):
        def on_free(self, pe_id, address):
            told.append(("first", pe_id, address))

    first, second = First(), Callbacks(on_free=lambda *arguments: told.append(("second", *arguments)))
    assert listener([Observer(), first], "on_free") == first.on_free
    listener([first, Observer(), second], "on_free")("pe0", 64)
    assert told == [("first", "pe0", 64), ("second", "pe0", 64)]


def test_a_callback_for_an_unknown_hook_is_refused():
    with pytest.raises(TypeError, match=r"^got a callback on_tarce, needs one of on_built, .*on_trace"):
        Callbacks(on_tarce=print)


def test_observers_change_neither_times_nor_the_log(toy_host):
    results = []
    for observers in ([], [Callbacks(**{name: lambda *_: None for name in HOOKS})]):
        writer = MemoryLogWriter()
        host = toy_host(writer=writer, observers=observers)
        results.append((run(host), host.engine.close_log().digest))
    assert results[0] == results[1]


def test_two_observers_may_read_the_trace(toy_host):
    one, other = [], []
    run(toy_host(observers=[Callbacks(on_trace=one.append), Callbacks(on_trace=other.append)]))
    assert one == other
    assert isinstance(one[0], KernelStart)
