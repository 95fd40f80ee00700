"""Programs that wait for each other for ever: the whole text of the report, and that the change it names helps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chip_specs import changed_chip
from sampled_cases import sampled

from kb_components.pe.pe_dma import PeDma
from kb_engine import DType, Engine, Host
from kb_engine.collectives import all_reduce
from kb_engine.engine.guards import livelock
from kb_engine.program.runner import KernelRunner
from kb_engine.sync.exchange import BarrierRound, LostMessageError
from kb_messages import SendCommand, SimulationStuckError
from kb_topology import Topology

FOLDER = Path(__file__).parent
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(FOLDER / "messages")
    chip_of: Callable[..., dict[str, Any]] = import_module("messages_chips").chip_of
    cases = import_module("messages_stuck")
PE = "sip0.cube0.pe"
STUCK = (
    "kernels cannot go on, and no event is scheduled; needs an event that lets one of them go on; who waits for whom:"
)
MOST_EVENTS = 1 << 15


@cache
def chip(name: str, **values: Any) -> Topology:
    """The bundled chip *name*, with other *values* of its blocks."""
    return changed_chip(chip_of(name, **values))


def launched(kernel: Any, pes: Sequence[int] | str = "all", name: str = "one_cube", **values: Any) -> None:
    """Launches *kernel* with a tensor of 8 x 16 elements of f32, on the bundled chip *name* with other *values*.

    The launch is stuck after MOST_EVENTS events without progress.
    """
    host = Host(Engine(chip(name, **values), no_progress_events=MOST_EVENTS), FOLDER)
    host.launch(kernel, host.tensor("x", np.ones((8, 16), np.float32), DType.F32), pes=pes)


def report(kernel: Any, *at: int, pes: Sequence[int] | str = "all", **values: Any) -> list[str]:
    """The lines of the report on the stuck *kernel*. Lines *at*, from that of `def` on, are shown as L0, L1, ..."""
    with pytest.raises(SimulationStuckError) as caught:
        launched(kernel, pes, **values)
    assert caught.value.exit_code == 3
    text = str(caught.value)
    for number, line in enumerate(at):
        text = text.replace(f"test_deadlocks.py:{kernel.__code__.co_firstlineno + line}", f"L{number}")
    return [line.strip() for line in text.splitlines()]


def sends_all_first(tl: Any, x: Any) -> None:
    me, n = tl.program_id(), tl.num_programs()
    value = tl.load(x)
    for _ in range(5):
        tl.send(value, (me + 1) % n)
    for _ in range(5):
        tl.free(tl.recv((me - 1) % n))


def test_senders_that_never_receive_wait_in_a_circle_of_credits() -> None:
    found = report(sends_all_first, 4, pes=[0, 1])
    full = "all 3 slots hold messages that {0} has not received"
    since = [line.split(" since ")[1].split(" ns ")[0] for line in found[1:3]]
    assert found == [
        f"deadlock at {found[0].split()[2]} ns: 2 of 2 {STUCK}",
        f"{PE}0: the kernel waits at L0 since {since[0]} ns for a credit of {PE}1, tag 0: {full.format(PE + '1')}",
        f"{PE}1: the kernel waits at L0 since {since[1]} ns for a credit of {PE}0, tag 0: {full.format(PE + '0')}",
        "a circle: the last 2 links wait for each other",
        f"the smallest change: depth of {PE}1.pe_queue from 3 to 4 may break it; or receive before you send at L0",
        f"and 1 more PE waits in the same way: {PE}1",
    ]


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_one_slot_more_may_not_be_enough_where_several_messages_are_to_be_sent(depth: int) -> None:
    found = report(sends_all_first, 4, pes=[0, 1], pe_queue__depth=depth)
    assert f"depth of {PE}1.pe_queue from {depth} to {depth + 1} may break it" in found[4]


def test_a_slot_for_each_message_lets_the_senders_go_on() -> None:
    launched(sends_all_first, [0, 1], pe_queue__depth=5)


def test_receiving_before_the_send_lets_the_senders_go_on() -> None:
    def kernel(tl: Any, x: Any) -> None:
        me, n = tl.program_id(), tl.num_programs()
        value = tl.load(x)
        for turn in range(5):
            if turn >= 3:
                tl.free(tl.recv((me - 1) % n))
            tl.send(value, (me + 1) % n)
        for _ in range(3):
            tl.free(tl.recv((me - 1) % n))

    launched(kernel, [0, 1])


def test_programs_that_all_receive_first_wait_in_a_circle() -> None:
    def kernel(tl: Any, x: Any) -> None:
        me, n = tl.program_id(), tl.num_programs()
        tl.send(tl.recv((me - 1) % n, ("ring", 3)), (me + 1) % n, ("ring", 3))

    waits = "the kernel waits at L0 since 0 ns for a message of"
    assert report(kernel, 2, pes=[0, 1, 2]) == [
        f"deadlock at 0 ns: 3 of 3 {STUCK}",
        f"{PE}0: {waits} {PE}2, tag ring 3",
        f"{PE}2: {waits} {PE}1, tag ring 3",
        f"{PE}1: {waits} {PE}0, tag ring 3",
        "a circle: the last 3 links wait for each other",
        f"and 2 more PEs wait in the same way: {PE}1, {PE}2",
    ]


def test_a_circle_of_all_pes_of_a_sip_has_a_short_report() -> None:
    def kernel(tl: Any, x: Any) -> None:
        tl.send(tl.recv((tl.program_id() - 1) % 128), (tl.program_id() + 1) % 128)

    found = report(kernel, 1, name="one_sip")
    assert [line.split(":")[0] for line in found[1:8]] == [
        f"{PE}0", *(f"sip0.cube15.pe{n}" for n in (7, 6, 5, 4, 3)), "... 116 more between ..."
    ]  # fmt: skip
    names = [line.split(" since ")[0] + line.split(" ns")[-1] for line in found[8:14]]
    wait = "the kernel waits at L0 for a message of"
    assert names == [f"{PE}{n}: {wait} {PE}{n - 1}, tag 0" for n in (6, 5, 4, 3, 2, 1)]
    assert found[14:] == [
        "a circle: the last 128 links wait for each other",
        f"and 127 more PEs wait in the same way: {PE}1, {PE}2, {PE}3 and 124 more",
    ]


@pytest.mark.parametrize("sends", [False, True], ids=["nothing sent", "one too few"])
def test_nobody_sends(sends: bool) -> None:
    def kernel(tl: Any, x: Any) -> None:
        if tl.program_id() == 0 and sends:
            tl.send(tl.load(x), 1)
        if tl.program_id() == 1:
            for _ in range(1 + sends):
                tl.recv(0)

    head, wait, missing = report(kernel, 5, pes=[0, 1, 2])
    assert head.endswith(f": 1 of 3 {STUCK}")
    assert wait.startswith(f"{PE}1: the kernel waits at L0 since ")
    assert wait.endswith(f" ns for a message of {PE}0, tag 0")
    assert missing == f"missing: a message of {PE}0, which has ended"


def test_a_line_of_programs_behind_one_that_has_ended_is_reported_once() -> None:
    def kernel(tl: Any, x: Any) -> None:
        if tl.program_id():
            tl.send(tl.recv(tl.program_id() - 1), (tl.program_id() + 1) % 8)

    assert report(kernel, 2) == [
        f"deadlock at 0 ns: 7 of 8 {STUCK}",
        f"{PE}1: the kernel waits at L0 since 0 ns for a message of {PE}0, tag 0",
        f"missing: a message of {PE}0, which has ended",
        f"and 6 more PEs wait in the same way: {PE}2, {PE}3, {PE}4 and 3 more",
    ]


def test_a_message_with_another_tag_is_another_channel() -> None:
    def kernel(tl: Any, x: Any) -> None:
        if tl.program_id() == 0:
            tl.send(tl.load(x), 1, "left")
        if tl.program_id() == 1:
            tl.recv(0, "right")

    found = report(kernel, 4, pes=[0, 1])
    assert found[1:] == [
        f"{PE}1: the kernel waits at L0 since 0 ns for a message of {PE}0, tag right",
        f"missing: a message of {PE}0, which has ended",
    ]


def test_a_flag_that_is_signalled_too_seldom() -> None:
    def kernel(tl: Any, x: Any) -> None:
        if tl.program_id() == 1:
            tl.wait_for(("go", 1), 5)
        else:
            tl.signal(1, ("go", 1), 2)

    assert report(kernel, 2, pes=[0, 1, 2]) == [
        f"deadlock at 4 ns: 1 of 3 {STUCK}",
        f"{PE}1: the kernel waits at L0 since 0 ns for flag go 1 to be 5: signals have added 4 so far",
        f"missing: 1 more for flag go 1 of {PE}1: all other programs have ended",
    ]


def test_a_flag_that_some_programs_could_still_signal() -> None:
    def kernel(tl: Any, x: Any) -> None:
        if tl.program_id():
            tl.wait_for("go", tl.program_id())

    found = report(kernel, 2, pes=[0, 1, 2, 3])
    waits = "the kernel waits at L0 since 0 ns for flag go to be"
    assert found[1:] == [
        f"{PE}1: {waits} 1: signals have added 0 so far",
        (
            f"missing: 1 more for flag go of {PE}1: 1 of the 3 other programs have ended; {PE}2, {PE}3 could still "
            "signal"
        ),
        f"and 2 more PEs wait in the same way: {PE}2, {PE}3",
    ]


def test_a_collective_that_one_program_leaves_out_names_the_line_of_the_kernel() -> None:
    def kernel(tl: Any, group: Any, x: Any) -> None:
        if tl.program_id() != 2:
            all_reduce(tl, group, x[0], algorithm="ring")

    host = Host(Engine(chip("one_cube")), FOLDER)
    x = host.tensor("x", np.ones((8, 16), np.float32), DType.F32)
    with pytest.raises(SimulationStuckError) as caught:
        host.launch(kernel, host.group(range(4)), x, pes=range(4))
    _, first, second, *end = (line.strip() for line in str(caught.value).splitlines())
    at = f"the kernel waits at test_deadlocks.py:{kernel.__code__.co_firstlineno + 2} since "
    for line, waits, sender in ((first, 0, 3), (second, 3, 2)):
        assert line.startswith(f"{PE}{waits}: {at}")
        assert f" ns for a message of {PE}{sender}, tag all_reduce " in line
    assert end == [
        f"missing: a message of {PE}2, which has ended",
        f"and 2 more PEs wait in the same way: {PE}1, {PE}3",
    ]


def test_two_programs_that_wait_for_each_others_flags_are_a_circle() -> None:
    def kernel(tl: Any, x: Any) -> None:
        tl.wait_for("ready")
        tl.signal(1 - tl.program_id(), "ready")

    found = report(kernel, 1, pes=[0, 1])
    waits = "the kernel waits at L0 since 0 ns for flag ready to be 1: signals have added 0 so far"
    assert found[1:] == [
        f"{PE}0: {waits}",
        f"{PE}1: {waits}",
        "a circle: the last 2 links wait for each other",
        f"and 1 more PE waits in the same way: {PE}1",
    ]


def keeps(tl: Any, x: Any) -> None:
    if tl.program_id() == 0:
        value = tl.load(x)
        for _ in range(4):
            tl.send(value, 1)
    else:
        kept = [tl.recv(0)]
        kept += [tl.recv(0) for _ in range(3)]


def test_slots_that_are_held_by_values_are_named_by_line() -> None:
    for depth in (1, 2, 3):
        found = report(keeps, 4, 6, 7, pes=[0, 1], pe_queue__depth=depth)
        slots = f"all {depth} slots hold messages" if depth > 1 else "the slot holds a message"
        taken = "L1" if depth == 1 else "L1, L2"
        assert f" ns for a credit of {PE}1, tag 0: {slots} that {PE}1 has received at {taken} and not freed" in found[1]
        assert found[2].endswith(f" ns for a message of {PE}0, tag 0")
        assert found[3:] == [
            "a circle: the last 2 links wait for each other",
            (
                f"the smallest change: depth of {PE}1.pe_queue from {depth} to {depth + 1} breaks it, because {PE}1 "
                f"waits for the message; or free what {PE}1 received at {taken} before it waits at L2"
            ),
            f"and 1 more PE waits in the same way: {PE}1",
        ]


def test_the_smallest_change_lets_the_program_that_holds_the_slots_go_on() -> None:
    launched(keeps, [0, 1], pe_queue__depth=4)


def test_slots_that_are_in_part_received() -> None:
    def kernel(tl: Any, x: Any) -> None:
        value = tl.load(x)
        if tl.program_id() == 0:
            for _ in range(4):
                tl.send(value, 1)
            tl.signal(1, "go")
        else:
            first = tl.recv(0)
            tl.wait_for("go")
            tl.free(first)

    found = report(kernel, 4, 7, 8, pes=[0, 1])
    assert found[1].endswith(
        f"all 3 slots hold messages: {PE}1 has received at L1 and not freed 1, and has not received 2"
    )
    assert found[4] == (
        f"the smallest change: depth of {PE}1.pe_queue from 3 to 4 may break it; or receive before L2; or free what "
        f"{PE}1 received at L1 before it waits at L2"
    )


def test_a_receiver_that_has_ended_with_full_slots() -> None:
    def kernel(tl: Any, x: Any) -> None:
        value = tl.load(x)
        if tl.program_id() == 0:
            for _ in range(4):
                tl.send(value, 1)

    found = report(kernel, 4, pes=[0, 1])
    assert found[1].endswith(f"for a credit of {PE}1, tag 0: all 3 slots hold messages that {PE}1 has not received")
    assert found[2:] == [f"missing: a tl.recv of {PE}1, which has ended"]


def test_a_barrier_that_one_program_never_reaches_names_the_program() -> None:
    def kernel(tl: Any, x: Any) -> None:
        tl.barrier()
        if tl.program_id() != 3:
            tl.barrier()

    found = report(kernel, 3)
    assert found[0].endswith(f": 7 of 8 {STUCK}")
    assert found[1].endswith(f" ns at the barrier, to which {PE}3 has not come")
    assert found[2:] == [
        f"missing: a tl.barrier of {PE}3, which has ended",
        f"and 6 more PEs wait in the same way: {PE}1, {PE}2, {PE}4 and 3 more",
    ]


def test_a_barrier_before_which_a_program_waits_leads_to_that_program() -> None:
    def kernel(tl: Any, x: Any) -> None:
        if tl.program_id() == 2:
            tl.recv(0)
        tl.barrier()
        if tl.program_id() == 0:
            tl.send(tl.load(x), 2)

    found = report(kernel, 2, 3, pes=[0, 1, 2])
    # A signal takes 4 ns. PE 1 has passed the first of two rounds, where PE 0 had signalled.
    assert found[1:] == [
        f"{PE}0: the kernel waits at L1 since 4 ns at the barrier, to which {PE}2 has not come",
        f"{PE}2: the kernel waits at L0 since 0 ns for a message of {PE}0, tag 0",
        "a circle: the last 2 links wait for each other",
        f"and 1 more PE waits in the same way: {PE}2",
        f"{PE}1: the kernel waits at L1 since 12.056 ns at the barrier, to which {PE}2 has not come",
        *found[2:3],
        found[1],
        "a circle: the last 2 links wait for each other",
    ]


def test_a_barrier_waits_for_the_commands_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PeDma, "begin", lambda self, token, finish: None)

    def kernel(tl: Any, x: Any) -> None:
        if tl.program_id() == 1:
            tl.load_async(x)
        tl.barrier()

    found = report(kernel, 2, 3, pes=[0, 1, 2])
    # PE 1 issues the load, a signal, a wait that is over at once, and the signal of the second round, in 4 ns each.
    assert found[1:4] == [
        f"{PE}0: the kernel waits at L1 since 12.056 ns at the barrier, to which {PE}1 has not come",
        f"{PE}1: the kernel waits at L1 since 16 ns at the barrier for its own earlier commands",
        "command 0 (transfer of L0) has 1 of 1 tiles to go since 4 ns",
    ]


def test_a_message_that_never_arrives_leads_to_the_send(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = PeDma.begin

    def begins(dma: PeDma, token: Any, finish: Any) -> None:
        if not isinstance(token.context.submitted.command, SendCommand):
            begin(dma, token, finish)

    monkeypatch.setattr(PeDma, "begin", begins)

    def kernel(tl: Any, x: Any) -> None:
        if tl.program_id() == 0:
            tl.send(tl.load(x), 1)
        else:
            tl.recv(0)

    found = report(kernel, 2, 4, pes=[0, 1])
    tail = [
        "command 1 (transfer of L0) has 1 of 1 tiles to go since 74.07 ns",
        (
            f"tile 0 of command 1 is served by {PE}0.pe_dma (DMA_WRITE) since 82.07 ns, which waits for {PE}1.pe_tcm "
            "to answer a write of 512 bytes"
        ),
        f"missing: {PE}0.pe_dma (DMA_WRITE) waits for a response of {PE}1.pe_tcm that never came",
    ]
    assert found[1:] == [
        f"{PE}0: the kernel has returned and waits for command 1 (transfer of L0)",
        *tail,
        f"{PE}1: the kernel waits at L1 since 0 ns for the message that {PE}0 sent at L0, tag 0",
        *tail,
    ]


def test_a_barrier_of_a_wrong_group_names_the_group() -> None:
    def kernel(tl: Any, x: Any) -> None:
        me = tl.program_id()
        tl.barrier([0, 2, 4, 6] if me % 2 == 0 and me != 4 else [4, 5, 1, 3, 7])

    group = "the barrier of programs 0 to 6 by 2"
    assert report(kernel, 2) == [
        f"deadlock at 24.168 ns: 3 of 8 {STUCK}",
        f"{PE}0: the kernel waits at L0 since 12.056 ns at {group}, to which {PE}4 has not come",
        f"missing: a tl.barrier with this group of {PE}4, which has ended",
        f"and 2 more PEs wait in the same way: {PE}2, {PE}6",
    ]


def test_the_order_of_a_group_counts() -> None:
    def kernel(tl: Any, x: Any) -> None:
        if tl.program_id() < 2:
            tl.barrier([0, 1] if tl.program_id() else [1, 0])

    found = report(kernel, 2, pes=[0, 1, 2])
    assert found[1:] == [
        f"{PE}0: the kernel waits at L0 since 4 ns at the barrier of programs 1, 0, to which {PE}1 has not come",
        f"{PE}1: the kernel waits at L0 since 4 ns at the barrier of programs 0, 1, to which {PE}0 has not come",
        "a circle: the last 2 links wait for each other",
        f"and 1 more PE waits in the same way: {PE}1",
    ]


NEVER_BEGINS = {
    "send": (lambda tl, value: tl.send(value, 1), "for program 1 to begin", "a PE for program 1"),
    "signal": (lambda tl, value: tl.signal(1, "go"), "for program 1 to begin", "a PE for program 1"),
    "barrier": (lambda tl, value: tl.barrier(), "for program 1 to begin", "a PE for program 1"),
    "recv": (
        lambda tl, value: tl.recv(1),
        "for a message of program 1, tag 0",
        "a message of program 1, which has not begun",
    ),
    "wait_for": (
        lambda tl, value: tl.wait_for("go"),
        "for flag go to be 1: signals have added 0 so far",
        f"1 more for flag go of {PE}0: 0 of the 1 other programs have ended; program 1 could still signal",
    ),
}


@pytest.mark.parametrize("call", NEVER_BEGINS)
def test_a_program_that_never_begins(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    start = KernelRunner.start
    monkeypatch.setattr(KernelRunner, "start", lambda self, _=None: self.program.number == 1 or start(self))
    calls, wait, missing = NEVER_BEGINS[call]

    def kernel(tl: Any, x: Any) -> None:
        calls(tl, tl.load(x))

    found = report(kernel, 1, pes=[0, 1])
    assert found[0].endswith(f": 1 of 2 {STUCK}")
    assert found[1].startswith(f"{PE}0: the kernel waits at ")
    assert found[1].endswith(f" ns {wait}")
    assert found[2:] == [f"missing: {missing}"]


@pytest.mark.parametrize(
    ("received", "sent", "rest"), [(0, 1, ""), (1, 2, ", the last at L1"), (1, 4, ", the last at L1")]
)
def test_a_message_that_nobody_received(received: int, sent: int, rest: str) -> None:
    def kernel(tl: Any, x: Any) -> None:
        if tl.program_id() == 0:
            for _ in range(sent):
                tl.send(tl.load(x), 1, ("halo", "left"))
        else:
            for _ in range(received):
                tl.free(tl.recv(0, ("halo", "left")))

    with pytest.raises(LostMessageError) as caught:
        launched(kernel, [0, 1])
    assert caught.value.exit_code == 3
    first = kernel.__code__.co_firstlineno
    more = f", one of {sent - received} such messages" if sent - received > 1 else ""
    assert str(caught.value) == (
        f"test_deadlocks.py:{first + 3}: got a message of 512 bytes from {PE}0 to {PE}1, tag halo left, that nobody "
        f"received (of {sent} sent there, {received} were received{rest}){more}, needs a tl.recv for each tl.send"
    ).replace("L1", f"test_deadlocks.py:{first + 6}")


def test_flags_of_barriers_tell_all_groups_apart() -> None:
    groups = {(): "the barrier", (0, 1): "0, 1", (0, 1, 2, 3): "0 to 3", (3, 2, 1): "3 to 1 by -1", (5,): "5"}
    groups |= {(0, 2, 4, 7): "0 to 4 by 2, 7", (0, 1, 3, 5, 7): "0, 1 to 7 by 2", (0, 3, 1): "0, 3, 1"}
    for members, text in groups.items():
        expected = f"the barrier of programs {text}" if members else text
        assert BarrierRound(2, members).barrier == expected
        assert str(BarrierRound(2, members)) == f"round 2 of {expected}"


def test_thousands_of_barriers_are_progress() -> None:
    def kernel(tl: Any, x: Any) -> None:
        for _ in range(MOST_EVENTS // 10):  # about 2 programs x 7 events each
            tl.barrier()

    launched(kernel, [0, 1])


def test_programs_that_wait_are_listed_when_the_run_is_interrupted() -> None:
    def kernel(tl: Any) -> None:
        tl.barrier()
        if tl.program_id() == 3:
            raise KeyboardInterrupt
        tl.recv(3)

    host = Host(Engine(chip("one_cube")), FOLDER)
    with pytest.raises(KeyboardInterrupt):
        host.launch(kernel, pes=range(4))
    line = f"test_deadlocks.py:{kernel.__code__.co_firstlineno + 4}"
    # All four leave the barrier of two rounds at 2 x (4 + 4.056) ns, and program 3 is the last one that goes on.
    first, last = host.engine.kernel_positions()
    assert first == (
        f"{PE}0 (and 2 more PEs at the same line, up to {PE}2): the kernel waits at {line} since 16.112 ns, no "
        "commands in flight"
    )
    assert last.startswith(f"{PE}3: ")


def test_barriers_do_not_hide_a_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(livelock, "_LEAST_REPEATS", 100)

    def kernel(tl: Any, x: Any) -> None:
        while not tl.load(x)[0, 0]:
            tl.barrier()

    host = Host(Engine(chip("one_cube"), most_repeated_loads=500), FOLDER)
    with pytest.raises(SimulationStuckError) as caught:
        host.launch(kernel, host.tensor("x", np.zeros((8, 16), np.int32), DType.I32))
    assert "8 of 8 kernels have polled the same bytes " in str(caught.value)


def test_waiting_again_and_again_for_a_flag_that_is_reached_is_none() -> None:
    def kernel(tl: Any, x: Any) -> None:
        if tl.program_id():
            tl.signal(0, "go")
        else:
            while True:
                tl.wait_for("go")

    head, wait, missing = report(kernel, 5, pes=[0, 1])
    assert f" ns: 1 of 2 kernels cannot go on, and no stage has ended for {MOST_EVENTS:,} events; " in head
    assert wait.startswith(f"{PE}0: the kernel waits at L0 since ")
    assert wait.endswith(" ns for flag go to be 1, which it is")
    assert missing == (
        "missing: the end of a stage, or a signal: the kernel waits again and again for a flag that is reached"
    )


def run_of(case: Any, **values: Any) -> tuple[list[int], SimulationStuckError | LostMessageError | None]:
    """How many steps the programs of *case* have done on a chip with *values*, and the error."""
    done = [0] * len(case.programs)
    try:
        launched(cases.kernel_of(case, done), range(len(done)), **values)
    except (SimulationStuckError, LostMessageError) as error:
        return done, error
    return done, None


@pytest.mark.parametrize("seed", sampled(range(300), 20))
def test_random_programs_come_as_far_as_without_times(seed: int) -> None:
    case = cases.case_of(seed)
    issue = ("blocking", "scoreboard", "decoupled")[seed % 3]
    done, error = run_of(case, pe_queue__depth=case.depth, pe_cpu__issue=issue)
    expected = cases.interpreted(case)
    assert done == expected.done
    n_stuck = sum(n < len(steps) for n, steps in zip(done, case.programs, strict=True))
    if not n_stuck:
        assert isinstance(error, LostMessageError) == bool(expected.n_lost)
        return
    text = str(error)
    assert f" ns: {n_stuck} of {len(done)} {STUCK}" in text
    assert "a circle: " in text or "missing: " in text
    more, _ = run_of(case, pe_queue__depth=case.depth + 1, pe_cpu__issue=issue)
    assert all(now >= before for now, before in zip(more, done, strict=True))
    if " breaks it, because " in text:
        assert more != done
