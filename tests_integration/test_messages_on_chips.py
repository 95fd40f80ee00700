"""Messages between PEs of every bundled chip: times by hand, and data; and the links on which messages go."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kb_dataexec import Executor, MemoryLogWriter, OpLog
from kb_engine import DType, Engine, Host, Language, TensorRef, read_tensor
from kb_messages import KernelError
from kb_topology import NodeKind, load_topology

ROOT = Path(__file__).parents[1]
CHIPS = {path.stem: path for path in sorted(ROOT.glob("topologies/**/*.yaml"))}
VALUE = np.arange(256, dtype=np.float16).reshape(16, 16)  # 512 bytes
BY_HAND = {
    # issue + decode + set-up + links and routers + bytes + port + doorbell
    "one_cube": 4_000 + 8_000 + 5_000 + 2 * 4 * 7 + 2_000 + 8_000 + 2_000 + 2_000,
    "one_cube_banked": 4_000 + 8_000 + 5_000 + 2 * 4 * 7 + 2_000 + 8_000 + 2_000 + 2_000,
    "one_sip": 4_000 + 8_000 + 5_000 + 2 * 2 * 7 + 2_000 + 8_000 + 2_000 + 2_000,
    "four_sip": 4_000 + 8_000 + 5_000 + 2 * 2 * 7 + 2_000 + 8_000 + 2_000 + 2_000,
    "a100": 213_000 + 5_677 + 71_000,
    "v100": 217_000 + 5_230 + 72_000,
    "h100": 45_500 + 20_646 + 14_600,
    "h200": 45_500 + 20_646 + 14_600,
    "b200": 45_800 + 20_646 + 14_600,
    "tpu_v4": 150_000 + 256 + 10_000,
    "trainium2": 500_000 + 1_177 + 50_000,
    "u280_hbm": 15_600 + 35_556,
    "u50_hbm": 15_600 + 35_556,
    "ddr4_u280": 23_300 + 26_667,
    "wormhole": 22_000 + 2 * 500 + 2 * 9_000 + 16_063 + 52_000 + 10_000,
    "blackhole": 15_700 + 2 * 371 + 2 * 6_667 + 6_229 + 35_600 + 7_400,
}
"""Picoseconds of a message of 512 bytes from the first PE to the second, from the call to the doorbell, by chip."""


def relay(tl: Language, x: TensorRef, y: TensorRef) -> None:
    """Program 0 sends a value to 1, which sends it on to the last one, which stores it and signals to 0."""
    me, last = tl.program_id(), tl.num_programs() - 1
    value = tl.load(x) if me == 0 else tl.recv(me - 1)
    if me < last:
        tl.send(value, me + 1)
    else:
        tl.store(y, value)
        tl.signal(0, "done")
    if me == 0:
        tl.wait_for("done")


def relayed(path: Path) -> tuple[OpLog, Any]:
    """The log of `relay` on the first two PEs of a chip and on the last one, and the bytes that came."""
    topology = load_topology(path)
    engine = Engine(topology, MemoryLogWriter())
    host = Host(engine, ROOT)
    x, y = host.tensor("x", VALUE, DType.F16), host.empty("y", VALUE.shape, DType.F16)
    host.launch(relay, x, y, pes=sorted({0, 1, len(topology.graph.pe_ids) - 1}))
    log = engine.close_log()
    assert log is not None
    return log, read_tensor(Executor(log, engine.initial_memory).run(), y)


@pytest.mark.parametrize("chip", BY_HAND)
def test_a_message_takes_the_time_of_its_parts_and_arrives_as_it_was_sent(chip: str) -> None:
    log, found = relayed(CHIPS[chip])
    np.testing.assert_array_equal(found, VALUE)
    sends = log.tables["sends"]
    assert int(sends["t_rung_ps"][0] - sends["t_credit_ps"][0]) == BY_HAND[chip]
    assert len(log.tables["signals"]) == 1


def test_every_bundled_chip_with_several_pes_has_message_queues() -> None:
    n_pes = {name: len(load_topology(path).graph.pe_ids) for name, path in CHIPS.items()}
    assert BY_HAND.keys() == {name for name, count in n_pes.items() if count > 1}
    kinds = {name: [node.kind for node in load_topology(path).graph.nodes.values()] for name, path in CHIPS.items()}
    assert all(found.count(NodeKind.PE_QUEUE) == (n_pes[name] > 1) * n_pes[name] for name, found in kinds.items())


def test_a_chip_of_one_pe_says_that_a_message_needs_another_program() -> None:
    engine = Engine(load_topology(CHIPS["one_pe"]), MemoryLogWriter())
    host = Host(engine, ROOT)
    x, y = host.tensor("x", VALUE, DType.F16), host.empty("y", VALUE.shape, DType.F16)

    def to_another(tl: Language, x: TensorRef, y: TensorRef) -> None:
        tl.send(tl.load(x), 1)

    with pytest.raises(KernelError) as caught:
        host.launch(to_another, x, y)
    assert "got tl.send with program 1, needs one of 1 programs, 0 to 0" in str(caught.value)
