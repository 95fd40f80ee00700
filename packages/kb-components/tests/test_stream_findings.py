"""Races between launches and transfers of streams, and the critical paths of launches that overlap."""

import re

import numpy as np
import pytest

from kb_dataexec import MemoryLogWriter
from kb_dataexec.analysis import search, where

DATA = np.arange(256, dtype=np.float16).reshape(16, 16)


def doubles(tl, a, b):
    """Stores twice *a* in *b*."""
    x = tl.load(a)
    tl.store(b, x + x)


def texts_of(host, calls):
    """Runs *calls* with a host, two streams and tensors a, b and c in slices of their own; returns what is found."""
    chip = host(writer=MemoryLogWriter())
    a, b = (chip.tensor(name, DATA, "f16", slices=[0]) for name in "ab")
    c = chip.empty("c", (16, 16), "f16", slices=[1])
    calls(chip, (chip.stream(), chip.stream()), (a, b, c))
    log = chip.engine.close_log()
    spans = [(each.start_ps, each.end_ps) for each in chip.launches]
    return [re.sub(r"\S*(test_\w+\.py:\d+)", r"\1", str(each)) for each in search(log, spans).findings]


def two_launches(chip, streams, tensors):
    (s, t), (a, b, c) = streams, tensors
    chip.launch(doubles, a, b, pes=[0], stream=s)
    chip.launch(doubles, b, c, pes=[2], stream=t)


def a_launch_on_the_same_pe(chip, streams, tensors):
    (s, t), (a, b, c) = streams, tensors
    chip.launch(doubles, a, b, pes=[0], stream=s)
    chip.launch(doubles, b, c, pes=[0], stream=t)


def a_write_of_what_is_read(chip, streams, tensors):
    (s, t), (a, b, _) = streams, tensors
    chip.launch(doubles, a, b, pes=[0], stream=s)
    chip.write(a, DATA, stream=t)


def a_read_of_what_is_written(chip, streams, tensors):
    (s, t), (a, b, _) = streams, tensors
    chip.launch(doubles, a, b, pes=[0], stream=s)
    chip.read(b, stream=t)


def a_copy_of_what_is_written(chip, streams, tensors):
    (s, t), (a, b, c) = streams, tensors
    chip.launch(doubles, a, b, pes=[0], stream=s)
    chip.copy(c, b, stream=t)


RACES = {
    two_launches: ("launch 0", "launch 1"),
    a_launch_on_the_same_pe: ("launch 0", "launch 1"),
    a_write_of_what_is_read: ("launch 0", "the host"),
    a_read_of_what_is_written: ("the host", "launch 0"),
    a_copy_of_what_is_written: ("the host", "launch 0"),
}


@pytest.mark.parametrize("calls", RACES)
def test_what_no_stream_and_no_event_orders_is_a_race_with_both_lines(host, calls):
    (text,) = texts_of(host, calls)
    first, second = RACES[calls]
    assert f"nothing puts {first} and {second} in order" in text
    kernel, line = doubles.__code__.co_firstlineno, calls.__code__.co_firstlineno
    lines = {int(each) for each in re.findall(r"test_stream_findings\.py:(\d+)", text)}
    assert lines <= {kernel + 2, kernel + 3, line + 3}
    assert len(lines) == 2


def in_one_stream(chip, streams, tensors):
    (s, _), (a, b, c) = streams, tensors
    chip.launch(doubles, a, b, pes=[0], stream=s)
    chip.launch(doubles, b, c, pes=[2], stream=s)
    chip.write(a, DATA, stream=s)
    chip.copy(b, a, stream=s)
    chip.read(b, stream=s)


def behind_an_event(chip, streams, tensors):
    (s, t), (a, b, c) = streams, tensors
    chip.launch(doubles, a, b, pes=[0], stream=s)
    t.wait(s.record())
    chip.launch(doubles, b, c, pes=[2], stream=t)
    chip.write(a, DATA, stream=t)


def behind_an_event_that_is_recorded_later(chip, streams, tensors):
    (s, t), (a, b, c) = streams, tensors
    happens = chip.event()
    t.wait(happens)
    chip.launch(doubles, b, c, pes=[2], stream=t)
    chip.launch(doubles, a, b, pes=[0], stream=s)
    s.record(happens)


def behind_a_look_at_the_result(chip, streams, tensors):
    (s, t), (a, b, c) = streams, tensors
    chip.launch(doubles, a, b, pes=[0], stream=s).result()
    chip.launch(doubles, b, c, pes=[2], stream=t)


def around_a_call_without_a_stream(chip, streams, tensors):
    (s, t), (a, b, c) = streams, tensors
    chip.launch(doubles, a, b, pes=[0], stream=s)
    chip.launch(doubles, b, c, pes=[2])
    chip.write(b, DATA, stream=t)


ORDERED = (
    in_one_stream,
    behind_an_event,
    behind_an_event_that_is_recorded_later,
    behind_a_look_at_the_result,
    around_a_call_without_a_stream,
)


@pytest.mark.parametrize("calls", ORDERED)
def test_streams_events_looks_and_other_calls_order(host, calls):
    assert texts_of(host, calls) == []


def test_a_look_at_one_stream_does_not_order_another(host):
    def calls(chip, streams, tensors):
        (s, t), (a, b, c) = streams, tensors
        chip.launch(doubles, a, b, pes=[0], stream=s)
        chip.launch(doubles, a, c, pes=[3], stream=t).result()
        chip.launch(doubles, b, c, pes=[2], stream=t)

    (text,) = texts_of(host, calls)
    assert "nothing puts launch 0 and launch 2 in order" in text


def test_nothing_of_the_paths_of_launches_that_overlap_is_unknown(host):
    chip = host(writer=MemoryLogWriter())
    a, b = (chip.tensor(name, DATA, "f16", slices=[0]) for name in "ab")
    c = chip.empty("c", (16, 16), "f16", slices=[1])
    s, t = chip.stream(), chip.stream()
    for _ in range(2):
        chip.launch(doubles, a, b, pes=[0, 2], stream=s)
        chip.launch(doubles, a, c, pes=[1, 2, 3], stream=t)
    s.wait(t.record())
    chip.launch(doubles, c, b, pes=[0], stream=s)
    found = where(chip.engine.close_log())
    assert len(found.launches) == 5
    for launch in found.launches:
        assert sum(row.ps for row in launch.rows) == launch.end_ps - launch.start_ps
        assert not [row for view in (launch, *launch.pes) for row in view.rows if row.block == "unknown"]
    results = chip.launches
    # The second launch of the stream begins when the first one is answered at io_cpu, 12000 (cube 0) or 17000 later.
    assert found.launches[2].start_ps == results[0].end_ps + 17000
    busy = [row for row in found.launches[1].rows if (row.block, row.what) == ("pe_cpu", "busy")]
    assert sum(row.ps for row in busy) == results[0].pe_end_ps["sip0.cube1.pe0"] - results[1].target_start_ps


def test_a_launch_that_waited_for_an_event_begins_when_the_event_has_happened(host):
    chip = host(writer=MemoryLogWriter())
    a, b = (chip.tensor(name, DATA, "f16", slices=[0]) for name in "ab")
    s, t = chip.stream(), chip.stream()
    first = chip.launch(lambda tl, a: [tl.load(a) for _ in range(10)] and None, a, pes=[0], stream=s)
    t.wait(s.record())
    chip.launch(doubles, a, b, pes=[1], stream=t)
    chip.synchronize()
    found = where(chip.engine.close_log())
    assert found.launches[1].start_ps == first.result().response_ps
