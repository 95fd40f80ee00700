"""Messages and signals between PEs: their times by hand and by a recursion, and random programs in all ways to simulate
them.

A sample here; `nox -s messages` tries all cases, 512 PEs among them, and thousands of random programs.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chip_specs import changed_chip, nodes_of_pe
from sampled_cases import IS_SAMPLED, sampled
from speed_scripts import speed_script

from kb_dataexec import Executor, MemoryLogWriter, OpLog
from kb_engine import DType, Engine, Host, read_tensor
from kb_messages import KernelError, SyncReason

FOLDER = Path(__file__).parent / "messages"
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(FOLDER)
    chips, reference, rings, programs, fuzz = (
        import_module(f"messages_{name}") for name in ("chips", "reference", "rings", "programs", "fuzz")
    )

speed = speed_script("messages")

QUEUE_PS = 2 * 4 * 7 + 2_000
"""From a queue to another one in one_cube: two links of 4 mm at 7 ps a mm, and a router of 2 ns."""


def log_of(kernel: Any, spec: dict[str, Any], n_pes: int, **shapes: tuple[int, ...]) -> OpLog:
    """The log of *kernel* on *n_pes* PEs of the chip *spec*, with tensors of f32 of *shapes* as further arguments."""
    engine = Engine(changed_chip(spec), MemoryLogWriter())
    host = Host(engine, Path(__file__).parent)
    tensors = [host.tensor(name, np.ones(shape, np.float32), DType.F32) for name, shape in shapes.items()]
    host.launch(kernel, *tensors, pes=range(n_pes))
    log = engine.close_log()
    assert log is not None
    return log


def waits_of(log: OpLog) -> list[tuple[int, int]]:
    """From when to when kernels waited, in the order of the log."""
    return [(int(row["from_ps"]), int(row["to_ps"])) for row in log.tables["waits"]]


CASES = [
    *((chips.chip_of("one_cube"), range(8), n, 7, True) for n in (1, 16, 4096, 4097)),
    *((chips.chip_of("one_cube", pe_queue__depth=d), range(8), 4096, 9, True) for d in (2, 3, 4)),
    *((chips.chip_of("one_cube", pe_queue__depth=d), range(8), 1000, 9, False) for d in (1, 2, 3, 4)),
    *(
        (chips.chip_of("one_cube", pe_cpu__issue=issue), range(8), 4096, 9, forwards)
        for issue in ("scoreboard", "decoupled")
        for forwards in (True, False)
    ),
    *((chips.ring_of(n), range(n), 1000, min(n, 12), True) for n in (2, 3, 5, 6, 16, 33, 64)),
    (chips.ring_of(6, 4), range(24), 257, 23, True),
    (chips.mesh_of(2, 2), [8 * each for each in chips.closed_way(2, 2)], 1000, 4, True),
    (chips.mesh_of(4, 4), [8 * each for each in chips.closed_way(4, 4)], 4096, 15, True),
    # One PE is slow: its own costs, and the port that messages to it pass.
    *(
        (chips.chip_of("one_cube") | {"slow": {"sip0.cube0.pe3": factor}}, range(8), n, 9, forwards)
        for factor, n, forwards in (
            (1.5, 4096, True),
            (4, 4096, True),
            (7.3, 16, True),
            (2, 1000, False),
            (40, 1, True),
        )
    ),
    (
        chips.mesh_of(4, 4) | {"slow": {"sip0.cube5.pe0": 3}},
        [8 * each for each in chips.closed_way(4, 4)],
        4096,
        15,
        True,
    ),
    # One hop is longer than the others, and with one write under way its DMA waits for acknowledgements.
    *((chips.mesh_of(4, 4, pe_dma__outstanding=n), [8 * each for each in range(16)], 16, 15, True) for n in (1, 2)),
]
LARGE = [
    *((chips.chip_of("one_sip", pe_dma__outstanding=n), range(128), 16, 127, True) for n in (1, 2)),
    (chips.chip_of("one_sip"), range(128), 4096, 127, True),
    (chips.chip_of("one_sip") | {"slow": {"sip0.cube5.pe3": 2.5}}, range(128), 4096, 127, True),
    (chips.chip_of("four_sip"), range(512), 16, 511, True),
]


@pytest.mark.parametrize("number", sampled(range(len(CASES)), 12))
def test_every_rank_of_a_ring_takes_the_times_of_the_recursion(number: int) -> None:
    found, expected = rings.rings_of(rings.RingCase(*CASES[number]))
    assert found == expected


@pytest.mark.parametrize("number", sampled(range(len(LARGE)), 2))
def test_every_rank_of_a_large_ring_takes_the_times_of_the_recursion(number: int) -> None:
    spec, pes, n, steps, forwards = LARGE[number]
    steps = min(steps, 4) if IS_SAMPLED else steps
    found, expected = rings.rings_of(rings.RingCase(spec, pes, n, steps, forwards))
    assert found == expected


def message_ps(spec: dict[str, Any], nbytes: int = 64) -> tuple[int, int]:
    """Picoseconds of a message from its call to its doorbell, and of its credit from the release of its slot on."""
    log = rings.simulated(rings.RingCase(spec, range(2), nbytes // 4, 2, False))
    row = np.sort(log.tables["sends"], order="command_seq")[0]
    return int(row["t_rung_ps"] - row["t_credit_ps"]), int(row["t_credited_ps"] - row["t_freed_ps"])


def test_a_message_and_its_credit_take_the_sum_of_their_costs() -> None:
    """4 ns of issue, 8 of decoding, 5 of set-up, 2.056 of the way, 64 bytes a ns, 2 of the port, 2 of the doorbell."""
    assert message_ps(chips.chip_of("one_cube"), 64) == (24_056, 2_000 + QUEUE_PS)
    assert message_ps(chips.chip_of("one_cube"), 16384) == (279_056, 2_000 + QUEUE_PS)


@pytest.mark.parametrize(
    ("block", "attribute", "by", "longer"),
    [
        ("pe_cpu", "issue_ns", 0.001, (1, 0)),
        ("pe_scheduler", "command_ns", 0.001, (1, 0)),
        ("pe_dma", "setup_ns", 0.001, (1, 0)),
        ("pe_tcm", "latency_ns", 0.001, (1, 0)),
        ("pe_queue", "doorbell_ns", 0.001, (1, 0)),
        ("pe_queue", "credit_ns", 0.001, (0, 1)),
        ("pe_dma", "link", 1, (7, 0)),
        ("pe_tcm", "link", 1, (7, 0)),
        ("pe_queue", "link", 1, (0, 14)),
        ("pe_cpu", "link", 1, (0, 0)),
    ],
)
def test_each_cost_that_is_longer_makes_a_message_or_its_credit_longer_by_as_much(
    block: str, attribute: str, by: float, longer: tuple[int, int]
) -> None:
    """A picosecond more of each block, or a millimetre more of its link to the NOC, which is 7 ps."""
    spec = chips.chip_of("one_cube")
    if attribute == "link":
        (link,) = (each for each in spec["cube"]["links"] if each["from"].endswith(block) and each["to"] == "noc")
        link["length_mm"] += by
    else:
        nodes_of_pe(spec)[block][attribute] += by
    plain, changed = message_ps(chips.chip_of("one_cube")), message_ps(spec)
    assert (changed[0] - plain[0], changed[1] - plain[1]) == longer


def test_a_signal_takes_its_issue_its_way_and_the_doorbell() -> None:
    def kernel(tl: Any) -> None:
        if tl.program_id():
            tl.signal(0, "a")
        else:
            tl.wait_for("a")

    for issue_ns, doorbell_ns in ((4, 2), (4.001, 2), (4, 2.001)):
        spec = chips.chip_of("one_cube", pe_cpu__issue_ns=issue_ns, pe_queue__doorbell_ns=doorbell_ns)
        ((_, to_ps),) = waits_of(log_of(kernel, spec, 2))
        assert to_ps == round(issue_ns * 1000) + QUEUE_PS + round(doorbell_ns * 1000)


@pytest.mark.parametrize(
    ("spec", "pes"),
    [
        (chips.chip_of("one_cube", pe_dma__outstanding=4), range(8)),
        (chips.chip_of("one_cube", pe_queue__depth=1, pe_cpu__issue="decoupled"), range(8)),
        (chips.mesh_of(2, 2, pe_dma__outstanding=2), range(0, 32, 4)),
    ],
)
def test_large_messages_that_share_links_lose_no_byte_and_take_no_less_than_their_bytes(
    spec: dict[str, Any], pes: range
) -> None:
    """Each of 8 programs sends 16 KiB to each other one. A TCM takes 64 bytes a ns from its link."""
    digests = set()
    for exact in ("isolated", "events"):
        engine = Engine(changed_chip(spec), MemoryLogWriter(), exact=exact)  # type: ignore[arg-type]
        host = Host(engine, Path(__file__).parent)
        values = np.ones((1, 4096), np.float32)
        xs = [host.tensor("x", values, DType.F32, slices=[host.hbm_slice_of(number)]) for number in pes]
        launch = host.launch(rings.everyone, xs, pes=pes)
        written = [engine.components[f"{each}.pe_tcm"].written_nbytes for each in launch.pe_end_ps]
        assert written == [7 * 16384] * 8
        sent = [link.nbytes for link in engine.fabric.links if link.link.dst.endswith("pe_tcm") and link.nbytes]
        assert sent == [7 * 16384] * 8
        assert launch.end_ps - launch.start_ps > 7 * 16384 // 64 * 1000
        digests.add(engine.close_log().digest)  # type: ignore[union-attr]
    assert len(digests) == 1


def test_a_message_has_as_many_events_as_it_may_whatever_its_bytes() -> None:
    few = {label: case._replace(steps=20) for label, case in speed.RINGS.items() if len(case.pes) <= 8}
    costs = {label: speed.cost_of(case, 1) for label, case in few.items()}
    events = {label: round(cost.events, 1) for label, cost in costs.items()}
    assert events["one_cube, 64 bytes"] == events["one_cube, 16 KiB"] <= 10
    assert events["each hop over UCIe, 64 bytes"] <= 13
    assert max(cost.disk_nbytes for cost in costs.values()) <= 100


def test_a_launch_without_messages_has_one_digest_with_pe_queue_and_without() -> None:
    assert len(speed.without_messages("one_cube", speed.product, 128, 1)) == 2


VALUES: dict[str, tuple[Any, Any]] = {
    "turned": (lambda tl, x: tl.load(x[:]).T, lambda x: x.T),
    "computed and turned": (lambda tl, x: (tl.load(x[:]) * 2.0).T, lambda x: 2 * x.T),
    "of three axes": (
        lambda tl, x: tl.permute(tl.load(x[:]).reshape(2, 3, 4), (2, 0, 1)),
        lambda x: x.reshape(2, 3, 4).transpose(2, 0, 1),
    ),
    "one number": (lambda tl, x: tl.sum(tl.load(x[:])), lambda x: x.sum().reshape(1)),
    "a product": (lambda tl, x: tl.dot(tl.load(x[:]), tl.load(x[:]).T), lambda x: x @ x.T),
    "known": (lambda tl, _: tl.zeros((3, 5), "f32"), lambda _: np.zeros((3, 5), np.float32)),
    "copied": (lambda tl, x: tl.broadcast_to(tl.load(x[0]), (4, 6)), lambda x: np.broadcast_to(x[0], (4, 6))),
}
"""Values of a kernel, and what they are by numpy."""


@pytest.mark.parametrize("issue", ["blocking", "scoreboard", "decoupled"])
@pytest.mark.parametrize("name", VALUES)
def test_a_value_of_any_kind_arrives_and_is_sent_on(name: str, issue: str) -> None:
    make, expected = VALUES[name]
    data = np.arange(24, dtype=np.float32).reshape(4, 6)
    wanted = expected(data)

    def kernel(tl: Any, x: Any, y: Any) -> None:
        me = tl.program_id()
        if me == 0:
            tl.send(make(tl, x), 1)
        elif me == 1:
            tl.send(tl.recv(0), 2)
        else:
            tl.store(y[0] if wanted.shape == (1,) else y[:], tl.recv(1))

    engine = Engine(changed_chip(chips.chip_of("one_cube", pe_cpu__issue=issue)), MemoryLogWriter())
    host = Host(engine, Path(__file__).parent)
    x, y = host.tensor("x", data, DType.F32), host.empty("y", wanted.shape, DType.F32)
    host.launch(kernel, x, y, pes=range(3))
    log, memory = engine.close_log(), engine.initial_memory
    assert log is not None
    assert memory is not None
    np.testing.assert_array_equal(read_tensor(Executor(log, memory).run(), y), wanted)


def test_a_wait_for_more_signals_does_not_end_with_signals_of_the_wait_before() -> None:
    """Program 0 waits for one signal, and then for three, while the second one is on its way."""

    def kernel(tl: Any, x: Any) -> None:
        if tl.program_id() == 0:
            tl.wait_for("a", 1)
            tl.wait_for("a", 3)
        else:
            tl.signal(0, "a")
            tl.signal(0, "a")
            tl.load(x[0])
            tl.signal(0, "a")

    log = log_of(kernel, chips.chip_of("one_cube"), 2, x=(64, 64))
    rung = [int(each) for each in log.tables["signals"]["t_rung_ps"]]
    assert [to for _, to in waits_of(log)] == [rung[0], rung[2]]


def test_a_wait_ends_with_a_nearer_signal_although_a_farther_one_was_sent_before() -> None:
    """The signal over UCIe is on its way when the wait begins; one of the same cube is sent later and rings before."""

    def kernel(tl: Any) -> None:
        me = tl.program_id()
        if me == 0:
            tl.signal(2, "other")
            tl.wait_for("a", 1)
        elif me == 8:
            tl.signal(0, "a")
        elif me == 1:
            tl.signal(2, "other")
            tl.signal(0, "a")

    log = log_of(kernel, chips.mesh_of(1, 2), 9)
    rung = {log.strings[row["src"]]: int(row["t_rung_ps"]) for row in log.tables["signals"]}
    ((from_ps, to_ps),) = waits_of(log)
    assert from_ps < to_ps == rung["sip0.cube0.pe1"] < rung["sip0.cube1.pe0"]


def test_a_wait_for_two_ends_with_the_farther_signal_although_the_nearer_one_was_sent_later() -> None:
    def kernel(tl: Any) -> None:
        me = tl.program_id()
        if me == 0:
            tl.signal(2, "other")
            tl.wait_for("a", 2)
        elif me == 8:
            tl.signal(0, "a")
        elif me == 1:
            tl.signal(2, "other")
            tl.signal(0, "a")

    log = log_of(kernel, chips.mesh_of(1, 2), 9)
    rung = {log.strings[row["src"]]: int(row["t_rung_ps"]) for row in log.tables["signals"]}
    assert waits_of(log)[0][1] == rung["sip0.cube1.pe0"] > rung["sip0.cube0.pe1"]


def test_a_slot_whose_bytes_a_command_of_the_receiver_reads_is_free_when_the_command_is_done() -> None:
    """64 KiB of TCM hold four values. The receiver has dropped the last one, which its store still reads."""

    def kernel(tl: Any, x: Any, y: Any) -> None:
        if tl.program_id() == 0:
            values = [tl.load(x[0]) for _ in range(4)]
            tl.store(y[0], values.pop())
            tl.recv(1)
        else:
            for _ in range(4):
                tl.wait(tl.load(x[1]))
            tl.send(tl.load(x[1]), 0)

    spec = chips.chip_of("one_cube", pe_cpu__issue="scoreboard", pe_queue__depth=1)
    nodes_of_pe(spec)["pe_tcm"]["memory"]["size"] = "832 KiB"
    log = log_of(kernel, spec, 2, x=(2, 64, 64), y=(2, 64, 64))
    stored = [row for row in log.tables["commands"] if log.strings[row["pe"]].endswith("pe0")][-1]
    (row,) = log.tables["waits"][log.tables["waits"]["reason"] == SyncReason.CREDIT]
    assert row["from_ps"] < stored["t_done_ps"]
    assert row["to_ps"] == stored["t_done_ps"] + 2_000 + QUEUE_PS
    assert row["by_seq"] == -1


@pytest.mark.parametrize("depth", [2, 3])
def test_slots_lie_where_the_receiver_has_room_and_nowhere_else(depth: int) -> None:
    """64 KiB of TCM have four places of 16 KiB, of which the receiver has freed the second one and the last one."""

    def kernel(tl: Any, x: Any, y: Any) -> None:
        if tl.program_id() == 0:
            values = [tl.load(x[row]) for row in range(4)]
            tl.free(values[1])
            tl.free(values[3])
            tl.signal(1, "there is room")
            received = [tl.recv(1) for _ in range(2)]
            for row, value in enumerate((values[0], received[0], values[2], received[1])):
                tl.store(y[row], value)
        else:
            value = tl.load(x[4])
            tl.wait_for("there is room")
            tl.send(value, 0)
            tl.send(value, 0)

    spec = chips.chip_of("one_cube", pe_queue__depth=depth)
    nodes_of_pe(spec)["pe_tcm"]["memory"]["size"] = "832 KiB"
    engine = Engine(changed_chip(spec), MemoryLogWriter())
    host = Host(engine, Path(__file__).parent)
    data = np.arange(5 * 64 * 64, dtype=np.float32).reshape(5, 64, 64)
    x, y = host.tensor("x", data, DType.F32), host.empty("y", (4, 64, 64), DType.F32)
    if depth == 3:
        with pytest.raises(
            KernelError, match=r"got 3 slots of 16384 bytes .* needs at most 0 in one piece \(0 of 65536"
        ):
            host.launch(kernel, x, y, pes=range(2))
        return
    host.launch(kernel, x, y, pes=range(2))
    log, memory = engine.close_log(), engine.initial_memory
    assert log is not None
    assert memory is not None
    np.testing.assert_array_equal(read_tensor(Executor(log, memory).run(), y), data[[0, 4, 2, 4]])


@pytest.mark.parametrize("seed", sampled(range(200), 24))
def test_random_programs_come_to_one_time_and_one_log_in_every_way(seed: int) -> None:
    assert fuzz.compare(seed) == (seed, "")


def test_logs_do_not_depend_on_the_hash_seed() -> None:
    assert fuzz.differing([3, 7, 10], ("1", "2")) == []


@pytest.mark.parametrize("is_used", [False, True])
def test_a_value_that_was_made_of_a_message_holds_no_slot_while_the_kernel_waits(is_used: bool) -> None:
    """Five messages go through three slots, although no command needs what the kernel computed."""

    def kernel(tl: Any, x: Any, y: Any) -> None:
        if tl.program_id() == 0:
            value = tl.load(x[0])
            for _ in range(5):
                tl.send(value, 1)
        else:
            for _ in range(5):
                total = tl.recv(0) + 1.0
            if is_used:
                tl.store(y[0], total)

    log = log_of(kernel, chips.chip_of("one_cube"), 2, x=(1, 64, 64), y=(1, 64, 64))
    assert (log.tables["sends"]["t_freed_ps"] >= log.tables["sends"]["t_taken_ps"]).all()
    assert len(log.tables["sends"]) == 5


def test_the_reason_of_the_slow_path_is_that_programs_send_messages() -> None:
    engine = Engine(changed_chip(chips.chip_of("one_cube")))
    host = Host(engine, Path(__file__).parent)
    x = host.tensor("x", np.ones((1, 64), np.float32), DType.F32)
    host.launch(rings.repeating, [x] * 4, 2, pes=range(4))
    (found,) = engine.work.slow_path
    assert (found.what, found.kernel, found.commands) == ("programs that wait for each other", "repeating", 12)
    assert found.why.cause == "its programs send messages"


@pytest.mark.parametrize("templates", [True, False])
@pytest.mark.parametrize("call", ["send", "recv", "signal", "wait_for", "barrier"])
def test_more_programs_than_pes_are_refused_also_where_programs_are_traced(call: str, templates: bool) -> None:
    def kernel(tl: Any, x: Any) -> None:
        value = tl.load(x[0])
        arguments = {"send": (value, 1), "recv": (1,), "signal": (1, 0), "wait_for": (0,), "barrier": ()}
        getattr(tl, call)(*arguments[call])

    host = Host(Engine(changed_chip(chips.chip_of("one_cube")), templates=templates), Path(__file__).parent)
    x = host.tensor("x", np.ones((1, 64), np.float32), DType.F32)
    with pytest.raises(KernelError) as caught:
        host.launch(kernel, x, grid=20, pes=range(8))
    assert caught.value.got == f"tl.{call} in a launch of 20 programs on 8 PEs"
    assert caught.value.fix == "a program that waits keeps its PE: launch at most 8 programs"


def test_a_barrier_of_all_programs_is_one_barrier_however_they_are_named() -> None:
    def kernel(tl: Any) -> None:
        tl.barrier()
        tl.barrier(range(tl.num_programs()))
        tl.barrier()

    log = log_of(kernel, chips.chip_of("one_cube"), 5)
    assert len(log.tables["signals"]) == 5 * 3 * 3


def test_the_log_tells_tags_and_flags_apart() -> None:
    tags = (0, "0", (0,), ("0",), "a b", ("a", "b"), ("a", 1), ("a", "1"))

    def kernel(tl: Any, x: Any) -> None:
        for tag in tags:
            if tl.program_id() == 0:
                tl.send(tl.load(x), 1, tag)
                tl.signal(1, tag)
            else:
                tl.recv(0, tag)
                tl.wait_for(tag)

    log = log_of(kernel, chips.chip_of("one_cube"), 2, x=(4, 4))
    texts = ["0", "'0'", "(0,)", "('0',)", "'a b'", "a b", "a 1", "a '1'"]
    assert [log.strings[row["tag"]] for row in log.tables["sends"]] == [f"tag {text}" for text in texts]
    assert [log.strings[row["flag"]] for row in log.tables["signals"]] == [f"flag {text}" for text in texts]
