"""Services of a log by hand: overlaps, services outside of PEs, wrong numbers, and the borders of windows."""

import numpy as np
import pytest

from kb_cli.trace.slices import by_number, op_slices
from kb_cli.trace.tracks import Slices, TrackPlace
from kb_cli.trace.window import Window
from kb_dataexec.log import OPS_DTYPE
from kb_messages import LogError

TEXTS = ["sip0.cube0.pe10.vec", "sip0.cube0.pe9.vec", "host", "gemm", "host_write", "own", "k.py:1"]


def sliced(*rows: tuple[str, str, int, int]) -> Slices:
    """Slices of (component, stage, start, end); op ids count from 0."""
    return op_slices(table(*rows), TEXTS, "run")


def table(*rows: tuple[str, str, int, int]) -> np.ndarray:
    ops = np.zeros(len(rows), OPS_DTYPE)
    ops["op_id"], ops["line"] = np.arange(len(rows)), TEXTS.index("k.py:1")
    for number, (component, stage, start, end) in enumerate(rows):
        ops[number]["component"], ops[number]["name"] = TEXTS.index(component), TEXTS.index(stage)
        ops[number]["t_start_ps"], ops[number]["t_end_ps"] = start, end
    return ops


def test_services_that_overlap_get_tracks_of_one_title() -> None:
    found = sliced(*[("host", "host_write", start, start + 10) for start in (0, 5, 10, 12)])
    assert found.places == [TrackPlace("launches", "host: host_write")] * 3
    assert found.track.tolist() == [0, 0, 1, 2]
    assert found.start_ps.tolist() == [0, 10, 5, 12]
    assert found.arguments["op"].tolist() == [0, 2, 1, 3]


def test_pes_stand_by_number_and_unknown_stages_behind_the_pipeline() -> None:
    found = sliced(*[(pe, stage, 0, 1) for pe in TEXTS[:2] for stage in ("own", "gemm")], ("host", "host_write", 0, 1))
    assert [tuple(place)[:2] for place in found.places] == [
        ("launches", "host: host_write"),
        *((f"sip0.cube0.pe{pe}", f"vec: {stage}") for pe in (9, 10) for stage in ("gemm", "own")),
    ]
    assert found.names == ["gemm k.py:1", "host_write k.py:1", "own k.py:1"]
    assert [found.names[at] for at in found.name] == ["host_write k.py:1", *["gemm k.py:1", "own k.py:1"] * 2]


def test_of_services_that_begin_together_the_shorter_one_is_first() -> None:
    found = sliced(("host", "own", 7, 9), ("host", "own", 7, 7), ("host", "own", 9, 9))
    assert found.arguments["op"].tolist() == [1, 0, 2]
    assert len(found.places) == 1


@pytest.mark.parametrize(
    ("column", "value", "got"),
    [
        ("t_start_ps", -1, "op_id 1, command_seq 0, tile_id 0 from -1 to 9 ps"),
        ("t_end_ps", 4, "op_id 1, command_seq 0, tile_id 0 from 5 to 4 ps"),
        ("op_id", -3, "op_id -3, command_seq 0, tile_id 0 from 5 to 9 ps"),
        ("tile_id", -1, "op_id 1, command_seq 0, tile_id -1 from 5 to 9 ps"),
    ],
)
def test_numbers_that_no_simulation_gives_are_refused(column: str, value: int, got: str) -> None:
    ops = table(("host", "own", 0, 1), ("host", "own", 5, 9))
    ops[1][column] = value
    with pytest.raises(LogError) as error:
        op_slices(ops, TEXTS, "run")
    assert str(error.value) == f"run: ops row 1: got {got}, needs numbers of 0 or more, and no end before the begin"


def test_a_window_has_its_begin_and_not_its_end() -> None:
    found = sliced(*[("host", "own", start, end) for start, end in ((0, 10), (10, 10), (10, 12), (15, 21), (20, 25))])
    kept = Window(10, 20).cut(found)
    assert list(zip(kept.start_ps.tolist(), kept.end_ps.tolist(), strict=True)) == [(10, 10), (10, 12), (15, 21)]
    assert kept.arguments["op"].tolist() == [1, 2, 3]
    assert Window(0, 100).cut(found) is found


def test_numbers_of_any_length_are_sorted() -> None:
    names = ["pe" + "9" * 5000, "pe10", "pe2", "pe007", "a"]
    assert sorted(names, key=by_number) == ["a", "pe2", "pe007", "pe10", "pe" + "9" * 5000]
