"""Thumbnails of lanes: exact coverage, and pictures that a PNG reader can read."""

import struct
import zlib

import numpy as np
import pytest

from kb_cli.report.pictures.lanes import (
    COLUMNS,
    MOST,
    MOST_PICTURES,
    coverage,
    lane_pictures,
    memory_lanes,
)
from kb_cli.report.pictures.png import LEVELS, shaded_png, shades
from kb_dataexec import OpLog
from kb_dataexec.log import OPERAND_DTYPE, OPS_DTYPE, TABLE_DTYPES
from kb_messages import LogError


def spans(*pairs: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    start, end = zip(*pairs, strict=True)
    return np.array(start), np.array(end)


def test_coverage_is_the_time_in_at_least_one_span() -> None:
    """Of [0, 10): 2 to 4 and 3 to 8 are 6 of 10; of [10, 20): 10 to 11 is 1 of 10; of [20, 30): all."""
    found = coverage(*spans((2, 4), (3, 8), (10, 11), (20, 50)), np.array([0.0, 10.0, 20.0, 30.0]))
    assert found.tolist() == pytest.approx([0.6, 0.1, 1.0], abs=1e-12)


def test_coverage_of_a_span_inside_another_and_of_one_without_time() -> None:
    found = coverage(*spans((0, 10), (2, 3), (12, 12)), np.array([0.0, 5.0, 10.0, 20.0]))
    assert found.tolist() == [1.0, 1.0, 0.0]


def test_coverage_adds_up_to_the_busy_time_of_random_spans() -> None:
    rng = np.random.default_rng(3)
    start = np.sort(rng.integers(0, 10_000, 500))
    end = start + rng.integers(0, 60, 500)
    edges = np.linspace(0, 10_100, 38)
    plain = np.zeros(10_100, bool)
    for one, other in zip(start, end, strict=True):
        plain[one:other] = True
    assert (coverage(start, end, edges) * np.diff(edges)).sum() == pytest.approx(plain.sum(), abs=1e-6)


def test_the_least_work_has_a_shade() -> None:
    assert shades(np.array([0.0, 1e-9, 0.5, 1.0])).tolist() == [0, 1, 8, LEVELS]


def unpacked(png: bytes) -> tuple[int, int, list[list[int]]]:
    """Width, height and pixels of a PNG with 4 bits a pixel."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    at, chunks = 8, {}
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        data = png[at + 8 : at + 8 + length]
        assert struct.unpack(">I", png[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + data)
        chunks[kind] = data
        at += 12 + length
    width, height, depth, colour = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert (depth, colour, len(chunks[b"PLTE"]), len(chunks[b"tRNS"])) == (4, 3, 48, 16)
    assert (chunks[b"tRNS"][0], chunks[b"tRNS"][15]) == (0, 255)
    lines = zlib.decompress(chunks[b"IDAT"])
    stride = 1 + (width + 1) // 2
    rows = [lines[row * stride + 1 : (row + 1) * stride] for row in range(height)]
    return width, height, [[half for byte in row for half in (byte >> 4, byte & 15)][:width] for row in rows]


def test_pixels_are_packed_in_halves_of_bytes_also_where_their_count_is_odd() -> None:
    assert unpacked(shaded_png(np.array([[0, 15, 7], [1, 2, 3]]), 15)) == (3, 2, [[0, 15, 7], [1, 2, 3]])


def log_of(*ops: tuple[str, int, int]) -> OpLog:
    """A log with a service of `gemm` for each (PE, start, end)."""
    strings = ["gemm", "k.py:1", *sorted({f"{pe}.pe_gemm" for pe, _, _ in ops})]
    rows = np.zeros(len(ops), OPS_DTYPE)
    for number, (pe, start, end) in enumerate(ops):
        rows[number]["op_id"] = number
        rows[number]["component"] = strings.index(f"{pe}.pe_gemm")
        rows[number]["line"] = 1
        rows[number]["t_ready_ps"] = rows[number]["t_start_ps"] = start
        rows[number]["t_end_ps"] = rows[number]["t_out_ps"] = end
    return OpLog(rows, np.zeros(0, OPERAND_DTYPE), strings)


def test_pes_that_look_alike_have_one_picture_and_all_pictures_one_scale() -> None:
    pes = [f"sip0.cube0.pe{pe}" for pe in (10, 2, 1)]
    lanes = lane_pictures(log_of(*[(pe, 100, 300) for pe in pes], ("sip0.cube0.pe0", 300, 500)), "log")
    assert lanes is not None
    assert (lanes.start_ps, lanes.end_ps) == (100, 500)
    assert [picture.groups for picture in lanes.pictures] == [
        ["sip0.cube0.pe0"],
        ["sip0.cube0.pe1", "sip0.cube0.pe2", "sip0.cube0.pe10"],
    ]
    assert [picture.titles for picture in lanes.pictures] == [["pe_gemm: gemm"]] * 2
    assert [unpacked(picture.png)[2][0] for picture in lanes.pictures] == [
        [0] * (COLUMNS // 2) + [LEVELS] * (COLUMNS // 2),
        [LEVELS] * (COLUMNS // 2) + [0] * (COLUMNS // 2),
    ]


def test_a_log_without_records_has_no_lanes_and_a_wrong_one_is_refused() -> None:
    assert lane_pictures(OpLog(np.zeros(0, OPS_DTYPE), np.zeros(0, OPERAND_DTYPE), []), "log") is None
    with pytest.raises(LogError, match="no end before the begin"):
        lane_pictures(log_of(("sip0.cube0.pe0", 5, 4)), "log")


def test_of_many_kinds_of_pes_there_are_strips_and_three_pes() -> None:
    """PE n of two cubes works for 100 ps from 100 n on, all of cube1 twice as long. The run has 800 + 100 ps."""
    spans = [(f"sip0.cube{cube}.pe{pe}", 100 * pe, 100 * pe + 50 * (cube + 1)) for cube in (0, 1) for pe in range(9)]
    lanes = lane_pictures(log_of(*spans), "log")
    assert lanes is not None
    assert len(lanes.pictures) == 18 > MOST_PICTURES
    assert [strip.group.name for strip in lanes.strips] == ["sip0.cube0 (9 PEs)", "sip0.cube1 (9 PEs)"]
    assert [(each.what, each.pe, each.end_ps) for each in lanes.marked] == [
        ("ends last", "sip0.cube1.pe8", 900),
        ("in the middle", "sip0.cube1.pe4", 500),  # the tenth of 50, 100, 150, 200, ...
        ("ends first", "sip0.cube0.pe0", 50),
    ]
    (row,) = unpacked(lanes.strips[1].layers["gemm"])[2]
    assert row == [round(LEVELS / 9)] * COLUMNS, "one of nine PEs works at any time"
    assert [part.group.name for part in lanes.strips[0].inner] == [f"sip0.cube0.pe{pe}" for pe in range(9)]


def reads_of(*served: tuple[str, int, int]) -> OpLog:
    """A log with a read for each (memory, time at which it is served, picoseconds of its bytes). The latency is 7."""
    strings = ["dma_read", "pe0.dma", *dict.fromkeys(memory for memory, _, _ in served)]
    ops, rows = np.zeros(len(served), OPS_DTYPE), np.zeros(len(served), TABLE_DTYPES["transfers"])
    for number, (memory, at, bytes_ps) in enumerate(served):
        ops[number]["op_id"], ops[number]["component"] = number, 1
        ops[number]["t_start_ps"], ops[number]["t_end_ps"] = at, at + 7 + bytes_ps
        values = strings.index(memory), at, at, at, at + 7, at + 7 + bytes_ps, 0, 0, -1
        rows[number] = (number, *values)
    return OpLog(ops, np.zeros(0, OPERAND_DTYPE), strings, tables={"transfers": rows})


def test_a_memory_is_dark_while_bytes_hold_it() -> None:
    """The latency of 7 is not of it. Ten pixels of 10 ps; hbm1 and hbm10 look alike."""
    log = reads_of(("hbm10", 20, 10), ("hbm0", 0, 30), ("hbm1", 20, 10), ("hbm0", 30, 10))
    lanes = memory_lanes(log, np.linspace(0.0, 100.0, 11))
    assert lanes is not None
    assert (lanes.titles, lanes.n_left_out) == (["hbm0", "hbm1 and hbm10"], 0)
    assert unpacked(lanes.png)[2] == [[LEVELS] * 4 + [0] * 6, [0, 0, LEVELS] + [0] * 7]


def test_of_many_memories_the_busiest_are_shown_in_the_order_of_their_numbers() -> None:
    log = reads_of(*((f"hbm{number}", 10 * number, 1 + number % 7) for number in range(100)))
    lanes = memory_lanes(log, np.linspace(0.0, 1000.0, 101))
    assert lanes is not None
    assert (len(lanes.titles), lanes.n_left_out) == (MOST, 100 - MOST)
    kept = [int(title.removeprefix("hbm")) for title in lanes.titles]
    assert kept == sorted(kept)
    assert {number for number in range(100) if number % 7 > 2} <= set(kept)


def test_a_log_without_transfers_has_no_lanes_of_memories() -> None:
    log = reads_of(("hbm0", 0, 30))
    edges = np.linspace(0.0, 100.0, 11)
    assert memory_lanes(OpLog(log.ops, log.operands, log.strings), edges) is None
    empty = {"transfers": log.tables["transfers"][:0]}
    assert memory_lanes(OpLog(log.ops, log.operands, log.strings, tables=empty), edges) is None
