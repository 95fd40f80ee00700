"""Messages, credits and signals as an order: the sanitizer finds each wait that is taken out of a kernel, and each
message that is dropped, exchanged or sent elsewhere is caught.

A sample of the mutations here; `nox -s messages` tries all.
"""

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from chip_specs import changed_chip
from sampled_cases import sampled

from kb_dataexec import Executor, FolderLogWriter, MemoryLogWriter, MemoryStore, OpLog, read_log
from kb_dataexec.analysis import RaceSearch, search
from kb_dataexec.log import LogFolder
from kb_dataexec.log.compressed import command_log
from kb_engine import DType, Engine, Host, TensorRef, read_tensor
from kb_messages import KbError, Role

FOLDER = Path(__file__).parent / "messages"
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(FOLDER)
    chips, fuzz, programs = (import_module(f"messages_{name}") for name in ("chips", "fuzz", "programs"))

N, STEPS = 8, 15


def ring(tl: Any, x: TensorRef, y: TensorRef, steps: int) -> None:
    """A sum over a ring: each program adds what comes to its own value, and sends that on."""
    me, n = tl.program_id(), tl.num_programs()
    own = tl.load(x[me])
    value = own
    for _ in range(steps):
        tl.send(value, (me + 1) % n)
        value = tl.recv((me - 1) % n) + own
    tl.store(y[me], value)


def exchange(tl: Any, x: TensorRef, y: TensorRef, steps: int) -> None:
    """Rounds of messages from each program to each other one. The third round reuses slots of a depth of 2."""
    me, n = tl.program_id(), tl.num_programs()
    total = tl.load(x[me])
    for number in range(steps):
        for step in range(1, n):
            tl.send(total * float(number + step), (me + step) % n)
        for step in range(1, n):
            total = total + tl.recv((me - step) % n)
    tl.store(y[me], total)


class Ran(NamedTuple):
    """A run: its log, the memory before and after it, the tensor of the results, and the times of the launch."""

    log: OpLog
    initial: MemoryStore
    result: TensorRef
    wanted: np.ndarray
    window: tuple[int, int]


def ran(kernel: Callable[..., None], steps: int, n: int = N, writer: Any = None, **values: Any) -> Ran:
    """Runs *kernel* on *n* PEs of one_cube with other *values*, on numbers that differ for each PE."""
    engine = Engine(changed_chip(chips.chip_of("one_cube", **values)), writer or MemoryLogWriter())
    host = Host(engine, FOLDER)
    numbers = np.arange(n * 64, dtype=np.float32).reshape(n, 8, 8) % 251
    x, y = host.tensor("x", numbers, DType.F32), host.empty("y", (n, 8, 8), DType.F32)
    launch = host.launch(kernel, x, y, steps, pes=range(n))
    log = engine.close_log()
    whole = log if isinstance(log, OpLog) else read_log(writer_folder(writer))
    return Ran(whole, engine.initial_memory, y, numbers, (launch.start_ps, launch.end_ps))


def writer_folder(writer: Any) -> Path:
    """The folder of a FolderLogWriter."""
    folder: Path = writer._folder
    return folder


def of_ring(numbers: np.ndarray, steps: int) -> np.ndarray:
    """What `ring` stores, in float64."""
    value = own = numbers.astype(np.float64)
    for _ in range(steps):
        value = np.roll(value, 1, axis=0) + own
    return value


def of_exchange(numbers: np.ndarray, steps: int) -> np.ndarray:
    """What `exchange` stores, in float64."""
    total = numbers.astype(np.float64)
    for number in range(steps):
        total = total + sum(np.roll(total, step, axis=0) * (number + step) for step in range(1, len(total)))
    return total


def outcome(run: Ran, log: OpLog, mode: Any) -> np.ndarray | str:
    """The results of *log*, or the text of the error."""
    try:
        return np.array(read_tensor(Executor(log, run.initial, mode, fuse_from=2).run(), run.result))
    except KbError as error:
        return str(error)


def is_refused(log: OpLog, run: Ran) -> bool:
    """Whether both modes end in one error."""
    tile, fused = outcome(run, log, "tile"), outcome(run, log, "fused")
    return isinstance(tile, str) and tile == fused


def messages_of(log: OpLog) -> list[np.ndarray]:
    """The rows of `operands` that write each message of *log* to its slot, in the order of the sends."""
    ids, seqs = log.ops["op_id"], log.ops["command_seq"]
    found = []
    for seq in np.sort(log.tables["sends"]["command_seq"]).tolist():
        mine = np.isin(log.operands["op_id"], ids[seqs == seq]) & (log.operands["role"] == Role.DST)
        found.append(np.flatnonzero(mine))
    return found


def without(log: OpLog, message: np.ndarray) -> OpLog:
    """*log* without the records of a message, as if the chip had lost it."""
    lost = log.operands["op_id"][message]
    tables = [table[~np.isin(table["op_id"], lost)] for table in (log.ops, log.operands)]
    return OpLog(*tables, log.strings, log.immediates, is_complete=False, tables=log.tables)


def readdressed(log: OpLog, message: np.ndarray, owner: int, delta: int) -> OpLog:
    """*log* with a message that goes to the TCM *owner*, *delta* bytes further on."""
    operands = log.operands.copy()
    operands["owner"][message] = owner
    operands["offset"][message] += delta
    return OpLog(log.ops, operands, log.strings, log.immediates, tables=log.tables)


def exchanged(log: OpLog, message: np.ndarray, other: np.ndarray) -> OpLog:
    """*log* with two messages of one channel that come to each other's slots."""
    operands = log.operands.copy()
    for column in ("owner", "offset"):
        operands[column][message], operands[column][other] = (
            log.operands[column][other],
            log.operands[column][message],
        )
    return OpLog(log.ops, operands, log.strings, log.immediates, tables=log.tables)


def mutations(log: OpLog, nbytes: int) -> Iterator[OpLog]:
    """Each message dropped, sent to the next slot or to another PE, and exchanged with the next of its channel."""
    sends, found = np.sort(log.tables["sends"], order="command_seq"), messages_of(log)
    owners = sorted({int(log.operands["owner"][each[0]]) for each in found})
    by_channel: dict[tuple[int, ...], int] = {}
    pe_of = {int(row["command_seq"]): int(row["pe"]) for row in log.tables["commands"]}
    for number, message in enumerate(found):
        owner = int(log.operands["owner"][message[0]])
        yield without(log, message)
        yield readdressed(log, message, owner, -nbytes)
        yield readdressed(log, message, owners[(owners.index(owner) + 1) % len(owners)], 0)
        channel = pe_of[int(sends[number]["command_seq"])], int(sends[number]["dst"]), int(sends[number]["tag"])
        if channel in by_channel:
            yield exchanged(log, found[by_channel[channel]], message)
        by_channel[channel] = number


CASES: dict[str, tuple[Callable[..., None], int, Callable[..., np.ndarray], int, dict[str, Any]]] = {
    "ring": (ring, STEPS, of_ring, N, {}),
    "exchange": (exchange, 3, of_exchange, 4, {"pe_queue__depth": 2}),
}


@pytest.mark.parametrize("name", CASES)
def test_each_message_that_is_lost_or_goes_elsewhere_is_an_error(name: str) -> None:
    kernel, steps, reference, n, values = CASES[name]
    run = ran(kernel, steps, n, **values)
    wanted = reference(run.wanted, steps).astype(np.float32)
    assert np.array_equal(outcome(run, run.log, "tile"), wanted)
    assert np.array_equal(outcome(run, run.log, "fused"), wanted)
    made = list(mutations(run.log, 256))
    n_sent = len(run.log.tables["sends"])
    n_channels = N if name == "ring" else n * (n - 1)
    assert len(made) == 4 * n_sent - n_channels
    tried = sampled(range(len(made)), 24)
    assert sum(is_refused(made[number], run) for number in tried) == len(tried)


def test_a_message_that_is_lost_is_named() -> None:
    run = ran(ring, STEPS)
    number = 60
    row = np.sort(run.log.tables["sends"], order="command_seq")[number]
    text = outcome(run, without(run.log, messages_of(run.log)[number]), "tile")
    first = ring.__code__.co_firstlineno
    sent, received = (f"{Path(__file__).name}:{first + nth}" for nth in (6, 7))
    to = run.log.strings[row["dst"]]
    source = f"{to[:-1]}{(int(to[-1]) - 1) % N}"
    assert isinstance(text, str)
    assert "a message whose slot came free since" in text
    assert text.endswith(f"; missing: the message of {sent} on {source} to {to}, tag 0, received at {received}")


@pytest.mark.parametrize("most", [1 << 18, 50])
def test_a_log_that_is_executed_in_parts_releases_slots(tmp_path: Path, monkeypatch: Any, most: int) -> None:
    monkeypatch.setattr(command_log, "_PART_RECORDS", most)
    run = ran(ring, STEPS, writer=FolderLogWriter(tmp_path / "log"))
    by_command = LogFolder(tmp_path / "log").by_command()
    assert by_command is not None
    whole = Executor(run.log, run.initial, "tile").run()
    for mode in ("tile", "fused"):
        assert whole.differs_from(Executor(by_command, run.initial, mode, fuse_from=2).run()) == ""
    assert len(list(by_command.parts())) > 5 or most > 1000


def looking(tl: Any, x: TensorRef, y: TensorRef, steps: int) -> None:
    """As `ring`, and each program looks at each sum, so that slots are released while the kernels run."""
    me, n = tl.program_id(), tl.num_programs()
    own = tl.load(x[me])
    value = own
    for _ in range(steps):
        tl.send(value, (me + 1) % n)
        value = tl.materialize(tl.recv((me - 1) % n) + own)
        LOOKS.append(float(np.asarray(value)[0, 1]))
    tl.store(y[me], value)


LOOKS: list[float] = []


def test_kernels_that_look_at_messages_see_each_message_before_its_slot_is_released() -> None:
    LOOKS.clear()
    run = ran(looking, 5, 4)
    wanted = [of_ring(run.wanted, step)[:, 0, 1] for step in range(1, 6)]
    assert sorted(LOOKS) == sorted(np.concatenate(wanted).tolist())
    assert np.array_equal(outcome(run, run.log, "tile"), of_ring(run.wanted, 5).astype(np.float32))


def meeting(tl: Any, x: TensorRef, y: TensorRef, left_out: int) -> None:
    """Programs that read and write what others stored, in order by N_WAITS waits. Wait *left_out* comes at the end."""
    me, n = tl.program_id(), tl.num_programs()
    before, behind = (me - 1) % n, (me + 1) % n
    late: list[Callable[[], object]] = []

    def wait(number: int, call: Callable[[], object]) -> None:
        if number == left_out:
            late.append(call)
        else:
            call()

    value = tl.load(x[me])
    tl.store(y[me], value)
    tl.send(value, behind)
    wait(0, lambda: tl.recv(before))
    value = tl.load(y[before])
    tl.signal(before, "read")
    wait(1, lambda: tl.wait_for("read"))
    tl.store(y[me], value)
    wait(2, tl.barrier)
    value = tl.load(y[(me + n // 2) % n])
    wait(3, lambda: tl.barrier(range(n)))
    tl.store(y[me], value)
    tl.store(x[me], value)
    tl.signal(behind, ("mine", 1))
    wait(4, lambda: tl.wait_for(("mine", 1)))
    value = tl.load(x[before])
    if me > 0:
        wait(5, lambda: tl.recv(before, "token"))
    tl.store(y[0], value + tl.load(y[0]))
    if me + 1 < n:
        tl.send(value, behind, "token")
    for each in late:
        each()


N_WAITS = 6


def races_of(run: Ran) -> list[str]:
    """The findings of the sanitizer, and those of a search for races alone; both have the same races."""
    found = search(run.log, [run.window])
    alone = RaceSearch()
    alone.look(run.log)
    report = alone.report(run.log)
    assert [each for each in found.findings if each.hazard.is_race] == report.races
    assert report.notes == found.notes == []
    return [*map(str, found.findings)]


def test_programs_that_wait_for_each_other_do_not_race(tmp_path: Path) -> None:
    assert races_of(ran(meeting, -1)) == []
    assert races_of(ran(ring, STEPS, writer=FolderLogWriter(tmp_path / "log"))) == []
    assert races_of(ran(exchange, 3, 4, pe_queue__depth=1)) == []


def later(tl: Any, x: TensorRef, y: TensorRef, turns: int) -> None:
    """Programs fill their TCM of four values and give it back, program 0 *turns* times. Then program 0 sends."""
    me, n = tl.program_id(), tl.num_programs()
    for _ in range(1 if me else turns):
        first = tl.load(x[me])
        values = [first + float(number) for number in range(3)]
        for value in values:
            tl.store(y[me], value)
        del first, value, values
    for number in range(3 * (n - 1)):
        if not me:
            tl.send(tl.load(x[me]), 1 + number % (n - 1))
        elif number < 3:
            tl.store(y[me], tl.recv(0))


def test_slots_may_lie_where_the_receiver_had_a_value_before() -> None:
    tcm = {"space": "tcm", "size": "769 KiB"}  # tile buffers take 768 KiB
    assert races_of(ran(later, 2, 4, pe_tcm__memory=tcm)) == []


@pytest.mark.parametrize("left_out", range(N_WAITS))
def test_each_wait_that_is_taken_out_is_found(left_out: int) -> None:
    found = races_of(ran(meeting, left_out))
    assert found
    assert all("nothing puts these two programs in order" in text for text in found)


def planted(tl: Any, x: TensorRef, y: TensorRef, steps: int) -> None:
    """Each program reads what the one behind it stored, of which no message told it."""
    me, n = tl.program_id(), tl.num_programs()
    value = tl.load(x[me])
    tl.store(y[me], value)
    tl.send(value, (me + 1) % n)
    tl.recv((me - 1) % n)
    tl.store(x[me], tl.load(y[(me + 1) % n]))


def test_one_read_in_no_order_on_4_pes_is_4_pairs() -> None:
    run = ran(planted, 1, 4)
    (race,) = search(run.log, [run.window]).findings
    assert (race.hazard, race.count, race.pes) == ("read race", 4, 4)
    tables = {name: table for name, table in run.log.tables.items() if name in ("sends", "signals", "waits")}
    bare = OpLog(run.log.ops, run.log.operands, run.log.strings, run.log.immediates, tables=tables)
    (race,) = search(bare, [run.window]).findings  # by PEs and direct dependencies
    assert (race.hazard, race.count, race.pes) == ("read race", 4, 4)
