"""The script that improves one number of a chip improves it, counts what becomes slower, and shows why."""

import json
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kb_messages import DType, MemorySpace, Operand, OpKind, OpRecord, Role
from kb_topology import load_topology

ROOT = Path(__file__).parents[1]

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "benchmarks/validation")
    improvements, random_chips, service_order = map(import_module, ("improvements", "random_chips", "service_order"))

ONE_CUBE = load_topology(ROOT / "topologies/one_cube.yaml")
HBM0 = "sip0.cube0.hbm0"
SMALLER_IS_BETTER = {
    "link length",
    "wire latency",
    "hop overhead",
    "memory latency",
    "command overhead",
    "set-up",
    "TCM latency",
}


def size(value: Any) -> float:
    return float(str(value).removesuffix(" KiB"))


@pytest.mark.parametrize("knob", random_chips.KNOBS, ids=lambda knob: ".".join(map(str, knob.place[-2:])))
def test_values_of_a_knob_go_from_worst_to_best(knob: Any) -> None:
    falls = knob.kind in SMALLER_IS_BETTER or knob.place[-1] in ("hit_ns", "level_ns", "levels")
    assert list(knob.values) == sorted(knob.values, key=size, reverse=falls)
    assert len(set(knob.values)) == len(knob.values)


def test_a_case_improves_one_number() -> None:
    kinds = set()
    for seed in range(60):
        case, improved, knob = improvements.draw(seed)
        kinds.add(knob.kind)
        assert knob.values.index(knob.read(improved.spec)) > knob.values.index(knob.read(case.spec))
        assert knob.set(improved.spec, knob.read(case.spec)) == case.spec
        assert improved._replace(spec=case.spec) == case
    assert len(kinds) > 8


def transfer(pe: int, command: int, start_ps: int, end_ps: int, kind: str = "dma_read") -> OpRecord:
    """A transfer of 64 bytes between slice 0 and the TCM of *pe*."""
    owner = ONE_CUBE.address_map.region_of_node(HBM0).owner
    here = Operand(
        role=Role.SRC, space=MemorySpace.HBM, owner=owner, offset=0, rows=1, row_nbytes=64, stride=64, dtype=DType.F16
    )
    return OpRecord(
        op_id=command,
        command_seq=command,
        tile_id=0,
        stage_index=0,
        kind=OpKind.MEMORY,
        name=kind,
        component=f"sip0.cube0.pe{pe}.pe_dma",
        line="",
        params="",
        t_ready_ps=start_ps,
        t_start_ps=start_ps,
        t_end_ps=end_ps,
        t_out_ps=end_ps,
        waits_ps=(0,),
        operands=(here,),
    )


def log(*records: OpRecord) -> Any:
    return SimpleNamespace(records=lambda: iter(records))


BEFORE = log(transfer(0, 10, 0, 100), transfer(1, 11, 5, 200), transfer(0, 12, 100, 300))


def test_the_first_place_that_serves_in_another_order_is_found() -> None:
    # PE 1 issues before PE 0 now, so that the numbers of the commands differ too, and its transfer ends first.
    after = log(transfer(1, 10, 0, 90), transfer(0, 11, 5, 190), transfer(0, 12, 190, 290))
    swap = service_order.first_swap(BEFORE, after, ONE_CUBE)
    assert swap == service_order.Swap(
        0, HBM0, "dma_read of sip0.cube0.pe0, command 0, tile 0", "dma_read of sip0.cube0.pe1, command 0, tile 0"
    )


def test_equal_orders_are_no_swap_and_other_services_are_an_error() -> None:
    later = log(transfer(0, 10, 0, 110), transfer(1, 11, 5, 210), transfer(0, 12, 110, 310))
    assert service_order.first_swap(BEFORE, later, ONE_CUBE) is None
    for other in (log(transfer(0, 10, 0, 100)), log(*BEFORE.records(), transfer(2, 13, 0, 10))):
        with pytest.raises(ValueError, match="different services"):
            service_order.first_swap(BEFORE, other, ONE_CUBE)
        with pytest.raises(ValueError, match="different services"):
            service_order.first_longer(BEFORE, other)


def test_without_a_swap_the_first_longer_service_is_named() -> None:
    # PE 1 is early enough to overlap PE 0's second transfer as before, and its write is new beside the first one.
    before = log(transfer(0, 1, 0, 100), transfer(1, 2, 100, 150, "dma_write"))
    after = log(transfer(0, 1, 0, 120), transfer(1, 2, 80, 150, "dma_write"))
    assert service_order.first_longer(before, after) == (
        "dma_read of sip0.cube0.pe0, command 0, tile 0 takes 100 ps before, 120 ps now; "
        "newly beside it: dma_write of sip0.cube0.pe1, command 0, tile 0"
    )
    assert service_order.first_longer(before, before) == "no service takes longer, but some wait longer"


def test_counts_tell_other_tiles_apart() -> None:
    made = [
        improvements.Improvement(1, "clock", "", 100, 90, False, False, ""),
        improvements.Improvement(2, "clock", "", 100, 103, False, True, "order"),
        improvements.Improvement(3, "clock", "", 100, 120, True, False, ""),
        improvements.Improvement(4, "MMU", "", 100, 101, False, True, "order"),
    ]
    rows = {row.kind: row for row in improvements.counts(made)}
    assert list(rows) == ["clock", "MMU", "all"]
    assert rows["clock"] == improvements.KindCount("clock", 3, 1, 1, pytest.approx(3), 1, 1)
    assert rows["all"] == improvements.KindCount("all", 4, 1, 2, pytest.approx(3), 1, 1)
    assert [each.seed for each in improvements.largest(made)] == [2, 4]
    assert "2 of 2 slower runs serve in another order" in improvements.text(made, [])


def test_the_script_repeats_itself(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["improvements.py", "--cases", "4", "--processes", "1", "--json"])
    printed = []
    for _ in range(2):
        assert improvements.main() == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    found = json.loads(printed[0])
    assert found["refused"] == []
    assert found["kinds"][-1]["n_cases"] == 4 == sum(row["n_cases"] for row in found["kinds"][:-1])
    assert found["kinds"][-1]["n_faster"] > 0
