"""Kernels that load the same bytes again and again are stopped when nothing is left that could change these bytes."""

import re

import numpy as np
import pytest

from kb_engine.engine.guards import livelock
from kb_messages import SimulationStuckError

TWO = ("pe_layout: {count: 1}", "pe_layout: {count: 2}")


@pytest.fixture(autouse=True)
def few_repeats(monkeypatch):
    monkeypatch.setattr(livelock, "_LEAST_REPEATS", 100)


def line(kernel, offset):
    return f"test_livelock.py:{kernel.__code__.co_firstlineno + offset}"


def polls(tl, flag):
    while True:
        found = tl.load(flag)
        if found[0, 0]:
            break
        tl.free(found)


def launch(host, kernel, *others, pes="all"):
    flag = host.tensor("flag", np.zeros((1, 16), np.int32), "i32")
    return host.launch(kernel, flag, *others, pes=pes)


def test_a_kernel_that_polls_for_ever_is_reported_with_its_line(toy_host):
    with pytest.raises(SimulationStuckError) as caught:
        launch(toy_host(TWO, most_repeated_loads=500), polls, pes=[0])
    text = str(caught.value)
    assert caught.value.exit_code == 3
    assert re.match(
        r"livelock at [\d.]+ ns: 1 of 1 kernels have polled the same bytes [\d,]+ times, and no command in "
        r"flight writes them; needs a kernel that stores there while they poll, or loops that end by a count; "
        r"kernels that poll:\n",
        text,
    )
    last = text.splitlines()[-1]
    assert last.startswith("  sip0.cube0.pe0: the kernel has loaded sip0.cube0.hbm0 + 0x0 ")
    assert last.endswith(f" times at {line(polls, 2)}")
    assert int(last.split()[-4].replace(",", "")) >= 500


def test_pes_that_poll_the_same_bytes_are_reported_once(toy_host):
    with pytest.raises(SimulationStuckError) as caught:
        launch(toy_host(TWO, most_repeated_loads=500), polls)
    lines = str(caught.value).splitlines()
    assert len(lines) == 2
    assert lines[1].startswith(
        "  sip0.cube0.pe0 (and 1 more PE at the same line, up to sip0.cube0.pe1): the kernel has loaded "
    )
    assert "2 of 2 kernels have polled" in lines[0]


def test_many_pes_that_poll_need_fewer_repeats_each(toy_host, monkeypatch):
    monkeypatch.setattr(livelock, "_LEAST_REPEATS", 800)
    with pytest.raises(SimulationStuckError) as caught:
        launch(toy_host(("pe_layout: {count: 1}", "pe_layout: {count: 16}"), most_repeated_loads=800), polls)
    assert 400 <= int(str(caught.value).split()[-4]) < 800  # 800 repeats at 8 places are 400 at 16


def test_a_poll_whose_flag_is_stored_in_the_end_goes_on(toy_host):
    def waits_for_the_other(tl, flag, a, b, c, ones):
        if tl.program_id(0) == 0:
            polls(tl, flag)
            return
        tl.wait(tl.composite("gemm", a, b, out=c, tile=(16, 16, 16)))
        tl.store(flag, tl.load(ones))

    host = toy_host(TWO, ("size: 1 MiB", "size: 16 MiB"), most_repeated_loads=50)
    n_tiles = 4000  # of which each takes several events, so that the guard looks now and then
    k = 16 * n_tiles
    zeros = {"a": (16, k), "b": (k, 16), "c": (16, 16)}
    others = [host.tensor(name, np.zeros(shape, np.float16), "f16") for name, shape in zeros.items()]
    ones = host.tensor("ones", np.ones((1, 16), np.int32), "i32")
    result = launch(host, waits_for_the_other, *others, ones)
    assert result.pe_end_ps["sip0.cube0.pe0"] > n_tiles * 2 * 512 * 20


def test_a_loop_with_an_end_may_load_as_often_as_the_limit_says(toy_host):
    def loads(tl, flag):
        for _ in range(400):
            tl.free(tl.load(flag))

    launch(toy_host(most_repeated_loads=400), loads)


def test_loads_of_other_places_are_no_poll(toy_host):
    def streams(tl, data):
        for _ in range(3):
            for row in range(1000):
                tl.free(tl.load(data[row : row + 1]))
                if row % 10 == 9:
                    tl.store(data[row : row + 1], tl.load(data[0:1]))

    host = toy_host(most_repeated_loads=200)
    host.launch(streams, host.tensor("data", np.zeros((1000, 16), np.int32), "i32"))
