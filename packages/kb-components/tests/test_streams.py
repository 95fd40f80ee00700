"""Streams of the host on the two-cube chip, by hand, in picoseconds.

A call of the driver takes 100000. A launch on cube 0 takes 23000 to io_cpu, which reads it in 10000, and 19000 more to
the PEs: 10000 to m_cpu, 7000 to read and 2000. Its answer takes 2000 to m_cpu and 10000 to io_cpu, and 23000 to the
host. A transfer of 512 bytes takes 31000 to the slice of cube 0, 10240 for its bytes, 30000 in the slice, and 31000
back. A load of 512 bytes takes 3000 (PE_CPU) + 4000 (scheduler) + 2000 (DMA) + 1000 (xbar) + 30000 + 10240 (HBM) +
1000.
"""

import re

import numpy as np
import pytest

from kb_dataexec import Executor, MemoryLogWriter
from kb_engine import Host
from kb_engine.host import read_tensor
from kb_engine.timing.units import ns_text
from kb_messages import CubeTarget, HostCallKind, KbError, KernelError, SimulationStuckError, SyncReason

CALL, DOWN, READS, TO_PES = 100000, 23000, 10000, 19000
TO_IO_CPU, UP = 12000, 23000
TRANSFER = 31000 + 10240 + 30000 + 31000
LOAD = 3000 + 4000 + 2000 + 1000 + 30000 + 10240 + 1000
DATA = np.arange(256, dtype=np.float16).reshape(16, 16)


def loads(tl, a, n=1):
    """A kernel of *n* loads, one after the other."""
    for _ in range(n):
        tl.load(a)


def doubles(tl, a, b):
    """Stores twice *a* in *b*."""
    x = tl.load(a)
    tl.store(b, x + x)


def tensors(chip, *names, cube=0):
    return [chip.tensor(name, DATA, "f16", slices=[cube]) for name in names]


def test_launches_of_a_stream_follow_each_other_on_the_chip(host):
    chip = host()
    (a,) = tensors(chip, "a")
    began, s = chip.engine.clock.now_ps, chip.stream()
    pending = [chip.launch(loads, a, 10, pes=[0], stream=s) for _ in range(3)]
    assert not any(each.is_done for each in pending)
    first, second, third = (each.result() for each in pending)
    assert first.start_ps == began + CALL + DOWN + READS + TO_PES
    assert first.end_ps == first.start_ps + 10 * LOAD
    assert [second.start_ps - first.end_ps, third.start_ps - second.end_ps] == [TO_IO_CPU + TO_PES] * 2
    assert [each.call_ps - began for each in (first, second, third)] == [0, CALL, 2 * CALL]
    assert third.response_ps == third.end_ps + TO_IO_CPU + UP == chip.engine.clock.now_ps
    assert [each.stream for each in chip.launches] == [0, 0, 0]


@pytest.mark.parametrize("depth", [1, 2])
def test_the_host_sends_the_next_launch_when_one_of_the_queue_is_answered(host, depth):
    chip = host(
        ("impl: builtin.io_cpu, overhead_ns: 10", f"impl: builtin.io_cpu, overhead_ns: 10, queue_depth: {depth}")
    )
    (a,) = tensors(chip, "a")
    s = chip.stream()
    pending = [chip.launch(loads, a, 10, pes=[0], stream=s) for _ in range(3)]
    first, second, third = (each.result() for each in pending)
    if depth == 1:
        assert second.start_ps == first.response_ps + DOWN + READS + TO_PES
        assert third.start_ps == second.response_ps + DOWN + READS + TO_PES
    else:
        assert second.start_ps == first.end_ps + TO_IO_CPU + TO_PES
        sent_ps = first.response_ps + DOWN + READS  # the third is there before the second ends
        assert sent_ps < second.end_ps
        assert third.start_ps == second.end_ps + TO_IO_CPU + TO_PES


def test_two_streams_run_at_once_on_their_own_pes(host):
    chip = host()
    (a,) = tensors(chip, "a")
    (b,) = tensors(chip, "b", cube=1)
    began = chip.engine.clock.now_ps
    one = chip.launch(loads, a, 10, pes=[0], stream=chip.stream())
    two = chip.launch(loads, b, 10, pes=[2], stream=chip.stream())
    first, second = one.result(), two.result()
    assert (first.start_ps, first.end_ps) == (began + 152000, began + 152000 + 10 * LOAD)
    assert (second.start_ps, second.end_ps) == (began + 257000, began + 257000 + 10 * LOAD)
    assert second.start_ps < first.end_ps


def test_two_streams_on_one_pe_run_one_behind_the_other(host):
    writer = MemoryLogWriter()
    chip = host(writer=writer)
    (a,) = tensors(chip, "a")
    one = chip.launch(loads, a, 10, pes=[0], stream=chip.stream())
    two = chip.launch(loads, a, pes=[0, 1], stream=chip.stream())
    first, second = one.result(), two.result()
    assert second.target_start_ps == first.start_ps + CALL
    assert second.pe_start_ps == {"sip0.cube0.pe0": first.end_ps, "sip0.cube0.pe1": second.target_start_ps}
    assert second.late_ps == {}
    chip.engine.close_log()
    log = writer.close()
    (wait,) = log.tables["waits"]
    assert log.strings[wait["pe"]] == "sip0.cube0.pe0"
    assert SyncReason(wait["reason"]) is SyncReason.PE_BUSY
    assert (wait["from_ps"], wait["to_ps"], wait["by_seq"]) == (second.target_start_ps, first.end_ps, 0)


def test_a_write_hides_behind_a_kernel(host):
    chip = host()
    a, b = tensors(chip, "a", "b")
    began = chip.engine.clock.now_ps
    kernel = chip.launch(loads, a, 10, pes=[0], stream=chip.stream())
    (c,) = [chip.empty("c", (16, 16), "f16", slices=[1])]
    write = chip.write(c, DATA, stream=chip.stream())
    write.result()
    # The write is the driver's second call, and the slice of cube 1 is 5000 further away.
    assert chip.engine.clock.now_ps == began + 2 * CALL + TRANSFER + 10000
    assert not kernel.is_done
    assert kernel.result().end_ps == began + CALL + DOWN + READS + TO_PES + 10 * LOAD
    assert chip.engine.clock.now_ps == kernel.result().response_ps
    assert np.array_equal(chip.read(c), DATA)
    assert np.array_equal(chip.read(b), DATA)


def test_a_copy_is_read_and_written_by_the_host(host):
    chip = host()
    (a,) = tensors(chip, "a")
    b = chip.empty("b", (16, 16), "f16", slices=[0])
    began = chip.engine.clock.now_ps
    chip.copy(b, a)
    assert chip.engine.clock.now_ps == began + CALL + 2 * TRANSFER
    assert np.array_equal(chip.read(b), DATA)


def test_a_copy_between_blocks_of_other_sizes_copies_each_part(host):
    chip = host()
    a = chip.tensor("a", np.arange(63, dtype=np.float16).reshape(7, 9), "f16", blocks=(3, 1), slices=[0, 1, 0])
    b = chip.empty("b", (7, 9), "f16", blocks=(2, 2), slices=[1, 0, 1, 0])
    chip.copy(b, a)
    assert np.array_equal(chip.read(b), np.arange(63).reshape(7, 9))


def test_transfers_of_two_streams_share_the_channels_of_the_host(host):
    chip = host(("dma_channels: 2", "dma_channels: 1"))
    a, b = tensors(chip, "a", "b")
    began = chip.engine.clock.now_ps
    reads = [chip.read(each, stream=chip.stream()) for each in (a, b)]
    assert all(np.array_equal(each.result(), DATA) for each in reads)
    # The second call is made while the first read is under way, and waits for the channel.
    assert TRANSFER > CALL
    assert chip.engine.clock.now_ps == began + CALL + 2 * TRANSFER


def test_a_stream_waits_for_an_event_of_another(host):
    writer = MemoryLogWriter()
    chip = host(writer=writer)
    a, b = tensors(chip, "a", "b")
    s, t = chip.stream(), chip.stream()
    first = chip.launch(loads, a, 10, pes=[0], stream=s)
    happened = s.record()
    t.wait(happened)
    second = chip.launch(loads, b, pes=[1], stream=t)
    # The host knows of the event with the answer, and then sends the launch, which the driver has made before.
    assert second.result().start_ps == first.result().response_ps + DOWN + READS + TO_PES
    chip.synchronize()
    chip.engine.close_log()
    log = writer.close()
    (wait,) = log.tables["waits"]
    assert [log.strings[wait[name]] for name in ("pe", "other")] == ["stream 1", "stream 0"]
    assert (SyncReason(wait["reason"]), wait["to_ps"]) == (SyncReason.EVENT, first.result().response_ps)
    kinds = [HostCallKind(each) for each in log.tables["calls"]["call_kind"]]
    kinds = [each for each in kinds if each is not HostCallKind.LOOK]
    assert kinds == [HostCallKind.LAUNCH, HostCallKind.RECORD, HostCallKind.WAIT, HostCallKind.LAUNCH]


def test_an_event_that_has_happened_holds_nothing_up(host):
    chip = host()
    (a,) = tensors(chip, "a")
    s, t = chip.stream(), chip.stream()
    happened = s.record()
    first = chip.launch(loads, a, 20, pes=[0], stream=t)
    t.wait(happened)
    second = chip.launch(loads, a, pes=[0], stream=t)
    assert second.result().start_ps == first.result().end_ps + TO_IO_CPU + TO_PES


def test_calls_without_a_stream_wait_for_all_before_them(host):
    chip = host()
    a, b = tensors(chip, "a", "b")
    pending = chip.launch(doubles, a, b, pes=[0], stream=chip.stream())
    after = chip.launch(loads, b, pes=[0])
    assert pending.is_done
    assert after.call_ps == pending.result().response_ps
    assert chip.launches == [pending.result(), after]
    late = chip.write(a, 2 * DATA, stream=chip.stream())
    assert np.array_equal(chip.read(a), 2 * DATA)
    assert late.is_done


def test_the_data_pass_sees_writes_and_copies_between_the_kernels_of_their_stream(host):
    # Each call reads what the call before it left, and the first kernel reads before the write.
    chip = host(writer=MemoryLogWriter())
    a, b = tensors(chip, "a", "b")
    c, d = (chip.empty(name, (16, 16), "f16", slices=[1]) for name in "cd")
    s = chip.stream()
    data = 3 * DATA
    chip.launch(doubles, a, b, pes=[0], stream=s)
    chip.write(a, data, stream=s)
    data[:] = 0  # the write has its own copy
    chip.launch(doubles, a, c, pes=[0], stream=s)
    read = chip.read(a, stream=s)
    chip.copy(a, b, stream=s)
    chip.launch(doubles, a, d, pes=[0], stream=s)
    log = chip.engine.close_log()
    memory = Executor(log, chip.engine.initial_memory).run()
    found = [read_tensor(memory, each) for each in (a, b, c, d)]
    for got, factor in zip(found, (2, 2, 6, 4), strict=True):
        assert np.array_equal(got, factor * DATA)
    assert np.array_equal(np.asarray(read), 3 * DATA)


def test_bytes_of_a_kernel_that_pass_2_computes_are_pending_in_a_copy(host):
    chip = host(writer=MemoryLogWriter())
    a, b = tensors(chip, "a", "b")
    s = chip.stream()
    chip.launch(doubles, a, b, pes=[0], stream=s)
    chip.copy(a, b, stream=s)
    read = chip.read(a, stream=s).result()
    log = chip.engine.close_log()
    assert np.array_equal(read.resolve(Executor(log, chip.engine.initial_memory).run()), 2 * DATA)


def test_streams_order_where_there_is_no_host(chip_host):
    chip = chip_host()
    a, b = (chip.tensor(name, DATA, "f16", slices=[0]) for name in "ab")
    s, t = chip.stream(), chip.stream()
    pending = [chip.launch(loads, a, pes=[0], stream=s) for _ in range(2)]
    t.wait(s.record())
    write = chip.write(b, 2 * DATA, stream=t)
    pending.append(chip.launch(loads, b, pes=[0], stream=t))
    results = [each.result() for each in pending]
    assert [(each.start_ps, each.end_ps) for each in results] == [
        (0, LOAD), (LOAD, 2 * LOAD), (2 * LOAD, 3 * LOAD)
    ]  # fmt: skip
    assert write.is_done
    assert [each.response_ps for each in results] == [LOAD, 2 * LOAD, 3 * LOAD]


def test_programs_that_skip_in_a_stream_have_the_log_of_every_event(host):
    digests = set()
    for exact in ("isolated", "events", "check"):
        chip = host(writer=MemoryLogWriter(), exact=exact)
        a, b = tensors(chip, "a", "b")
        s, t = chip.stream(), chip.stream()
        for _ in range(3):
            chip.launch(doubles, a, b, pes=[0, 1], grid=40, stream=s)
        chip.write(a, DATA, stream=t)
        chip.launch(loads, a, 20, pes=[1, 2], stream=t)
        chip.launch(doubles, a, b, pes=[0, 1], grid=40, stream=s)
        digests.add(chip.engine.close_log().digest)
        if exact == "check":
            assert chip.engine.n_checked == 5
    assert len(digests) == 1


def test_an_event_that_nobody_records_is_a_deadlock(host):
    chip = host()
    (a,), began = tensors(chip, "a"), TRANSFER + CALL
    s, t = chip.stream(), chip.stream()
    never = chip.event()
    chip.launch(loads, a, 10, pes=[0], stream=s)
    t.wait(never)
    chip.launch(loads, a, pes=[0], stream=t)
    chip.write(a, DATA, stream=t)
    with pytest.raises(SimulationStuckError) as caught:
        chip.synchronize()
    line = test_an_event_that_nobody_records_is_a_deadlock.__code__.co_firstlineno
    at = [f"test_streams.py:{line + number}" for number in range(9)]
    stuck_ps = began + CALL + DOWN + READS + TO_PES + 10 * LOAD + TO_IO_CPU + UP
    assert re.sub(r"\S*test_streams", "test_streams", str(caught.value)) == (
        f"deadlock at {ns_text(stuck_ps)}: 3 calls of streams cannot go on, and no event is scheduled; needs an event "
        "that lets one of them go on; who waits for whom:\n"
        f"  stream 1: call 1, the wait at {at[6]}, waits since {ns_text(began + 2 * CALL)} for event 0, "
        f"made at {at[4]}, which no call records; behind it launch 1 at {at[7]}, the write at {at[8]}\n"
        f"  missing: stream.record of event 0, made at {at[4]}"
    )
    with pytest.raises(KbError, match="a call after one that failed or got stuck"):
        chip.launch(loads, a, pes=[0], stream=s)


def test_streams_that_wait_for_each_other_are_a_circle(host):
    chip = host()
    s, t = chip.stream(), chip.stream()
    one, two = chip.event(), chip.event()
    s.wait(two)
    s.record(one)
    t.wait(one)
    t.record(two)
    with pytest.raises(SimulationStuckError) as caught:
        chip.synchronize()
    assert "a circle: stream 0 and stream 1 wait for each other; record each event before the wait" in str(caught.value)


def test_a_kernel_that_fails_ends_all_streams(host):
    chip = host()
    (a,) = tensors(chip, "a")

    def fails(tl, a):
        tl.load(a)
        raise ValueError("no")

    going_on = chip.launch(loads, a, 50, pes=[0], stream=chip.stream())
    failing = chip.launch(fails, a, pes=[1], stream=chip.stream())
    with pytest.raises(KbError, match="ValueError: no"):
        failing.result()
    assert not going_on.is_done
    with pytest.raises(KbError, match="a call after one that failed or got stuck"):
        going_on.result()


def test_a_target_that_is_missing_is_refused_when_the_answer_comes(host):
    chip = host()
    pending = chip.launch(loads, 0, targets=[CubeTarget(sip=0, cube=7)], stream=chip.stream())
    with pytest.raises(KernelError, match=r"a message for sip0\.cube7, needs one of sip0\.cube0"):
        pending.result()


def test_calls_that_name_no_stream_of_the_chip_are_refused(host):
    chip, other = host(), host()
    (a,) = tensors(chip, "a")
    s = chip.stream()
    with pytest.raises(KernelError, match=r"launch: got stream=int, needs a stream; host.stream\(\) makes one"):
        chip.launch(loads, a, stream=1)
    with pytest.raises(KernelError, match="stream 0 of another chip"):
        chip.launch(loads, a, stream=other.stream())
    with pytest.raises(KernelError, match=r"wait: got int, needs an event; stream.record\(\) returns one"):
        s.wait(1)
    with pytest.raises(KernelError, match="event 0 of another chip"):
        s.wait(other.event())
    happened = s.record()
    with pytest.raises(KernelError, match="record: got event 0 a second time, after "):
        s.record(happened)
    b = chip.empty("b", (16, 8), "f16", slices=[0])
    with pytest.raises(KernelError, match=r"copy of a to b: got f16 of shape \(16, 16\), needs f16 of shape \(16, 8\)"):
        chip.copy(b, a, stream=s)
    with pytest.raises(KernelError, match="copy of a to a: got one tensor as source and target"):
        chip.copy(a, a)
    chip.engine.rebase(chip.engine.memory.store.snapshot())
    fresh = Host(chip.engine)
    (a,) = tensors(fresh, "a")
    with pytest.raises(KernelError, match=r"or from before Engine\.rebase"):
        fresh.launch(loads, a, stream=s)


def test_freeing_a_tensor_waits_for_the_launches_that_use_it(host):
    chip = host()
    (a,) = tensors(chip, "a")
    pending = chip.launch(loads, a, pes=[0], stream=chip.stream())
    chip.free(a)
    assert pending.is_done


def test_an_interrupt_ends_all_streams(host):
    chip = host()
    (a,) = tensors(chip, "a")
    ended = []

    def waits(tl, a):
        try:
            loads(tl, a, 50)
        finally:
            ended.append("waits")

    def interrupts(tl, a):
        tl.load(a)
        raise KeyboardInterrupt

    chip.launch(waits, a, pes=[0], stream=chip.stream())
    chip.launch(interrupts, a, pes=[1], stream=chip.stream())
    with pytest.raises(KeyboardInterrupt):
        chip.synchronize()
    assert ended == ["waits"]
    with pytest.raises(KbError, match="a call after one that failed or got stuck"):
        chip.launch(loads, a, pes=[0])


@pytest.mark.speed
def test_programs_are_skipped_while_one_launch_is_alone(chip_host):
    def adds(tl, a, b):
        rows = slice(16 * tl.program_id(), 16 * tl.program_id() + 16)
        tl.store(b[rows], tl.load(a[rows]) + 1)

    skipped = []
    for launches in ("without a stream", "of one stream", "beside a launch"):
        chip = chip_host()
        a = chip.tensor("a", np.zeros((16 * 300, 16), np.float16), "f16", slices=[0])
        b, c = (chip.empty(name, (16 * 300, 16), "f16", slices=[0]) for name in "bc")
        stream = None if launches == "without a stream" else chip.stream()
        for _ in range(2):
            chip.launch(adds, a, b, pes=[0], grid=300, stream=stream)
            if launches == "beside a launch":
                chip.launch(loads, c, 0, pes=[0], stream=chip.stream())
        chip.synchronize()
        skipped.append(chip.engine.work.skipped_programs)
    alone, in_stream, beside = skipped
    assert alone == in_stream > 500
    assert beside < alone
