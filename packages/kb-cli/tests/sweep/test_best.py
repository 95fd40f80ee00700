"""`kb sweep --best`: of mappings of one chip the fastest counts, and chips are compared with their best ones."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from kb_cli.sweep.configuration import Mapped, best_mappings
from kb_cli.sweep.job import PointResult
from kb_messages import BenchmarkError

Invoke = Callable[..., Result]
BW = "$.cube.nodes.hbm.bw_gbs"
TOO_LARGE = 1 << 20  # in f32 4 MiB, and a TCM of one_pe has 2 MiB
ADD = ("vector_add", "--topology", "one_pe", "-p", "N=4096", "-p", f"block=64,1024,{TOO_LARGE}", "--jobs", 1)


def swept(invoke: Invoke, *args: object) -> Any:
    done = invoke("sweep", *args, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def result(latency_ps: int, flops: int = 100) -> PointResult:
    return PointResult(
        topology="chip", latency_ps=latency_ps, flops=flops, achieved_flops=1.0, peak_flops=None, memory_share=None,
        utilization={}, bytes={}, bounded_by="", verified=None, max_abs_err=None,
    )  # fmt: skip


def test_the_first_of_the_fastest_counts_and_failures_are_counted() -> None:
    points = [{"bw": bw, "a": a, "b": b} for bw in "12" for a in "xy" for b in "uv"]
    results = [result(9), result(5), result(5), None, None, None, None, None]
    assert best_mappings(points, results, ["a", "b"]) == {1: Mapped(1, 4, 1), 4: Mapped(4, 4, 4)}
    assert [*best_mappings(points, results, ["b"])] == [1, 2, 4, 6]


def test_equal_rows_of_a_list_have_a_best_mapping_each() -> None:
    points = [{"m": "8", "a": a} for a in "xy"] * 2
    assert [*best_mappings(points, [result(9), result(5)] * 2, ["a"])] == [1, 3]


def test_points_of_different_work_do_not_compare() -> None:
    with pytest.raises(BenchmarkError) as caught:
        best_mappings([{"bw": "1", "m": m} for m in "89"], [result(1, 8), result(1, 9)], ["m"])
    assert str(caught.value) == (
        "--best m: got points that do different work (8 and 9 FLOPs), needs parameters that leave the work as it is; "
        "take such a parameter as an axis of its own"
    )


def test_a_chip_is_compared_with_its_best_mapping(invoke: Invoke) -> None:
    sets = ("--set", f"{BW}=1.6,102.4")
    every = swept(invoke, *ADD, *sets)
    found = swept(invoke, *ADD, *sets, "--best", "block")
    assert (found["computed"], found["best"], found["points"]) == (0, ["block"], every["points"])
    latencies = [point["result"] and point["result"]["latency_ps"] for point in found["points"]]
    assert [latency is None for latency in latencies] == [False, False, True] * 2
    fast, slow = found["configurations"]
    assert (fast["values"], slow["values"]) == ({"bw_gbs": 102.4}, {"bw_gbs": 1.6})
    assert (fast["latency_ps"], slow["latency_ps"]) == (min(latencies[3:5]), min(latencies[:2]))
    for each, first in ((fast, 3), (slow, 0)):
        (number,) = each["points"]
        assert number in (first, first + 1)
        assert each["mapping"] == {"block": found["points"][number]["values"]["block"]}
        assert (each["tried"], each["failed"]) == (3, 1)
    (effect,) = found["sensitivity"]["effects"]
    assert (effect["axis"], effect["failed"]) == ("bw_gbs", {})
    assert effect["ratios"]["102.4"] == pytest.approx(fast["latency_ps"] / slow["latency_ps"])
    assert found["front"] == [0, 1]
    assert (every["best"], every["configurations"][0]["mapping"], every["configurations"][0]["tried"]) == ([], {}, 0)


def test_tables_and_the_page_say_which_mapping_it_is(invoke: Invoke) -> None:
    said = invoke("sweep", *ADD, "--set", f"{BW}=1.6,102.4", "--best", "block", "-o", "points.csv").stdout
    assert "vector_add on one_pe, N=4096: 6 points, with the best block, 6 simulated now" in said
    assert "2 fastest configurations, by latency" in said
    lines = [line.split() for line in said.splitlines()]
    heads = next(line for line in lines if line[:2] == ["bw_gbs", "block"])
    assert heads[-2:] == ["mappings", "failed"]
    rows = [line for line in lines if line[:2] in (["102.4", "1024"], ["1.6", "1024"])]
    assert [row[-3:] for row in rows] == [["1", "of", "3"]] * 4  # of the ranking and of the front
    page = next(Path("kb-sweeps").glob("vector_add-*/report.html")).read_text()
    assert ">block</th>" in page
    assert "with the best block" in page
    cells = [line.split(",") for line in Path("points.csv").read_text().splitlines()]
    assert cells[0][:4] == ["bw_gbs", "block", "best", "chip"]
    assert [row[1] for row in cells if row[2] == "true"] == ["1024", "1024"]


def test_another_way_to_compare_has_a_page_of_its_own(invoke: Invoke) -> None:
    for best in ((), ("--best", "block")):
        assert invoke("sweep", *ADD, "--set", f"{BW}=1.6,102.4", *best).exit_code == 0
    assert len([*Path("kb-sweeps").glob("vector_add-*/report.html")]) == 2


def test_each_part_of_a_workload_has_its_best_mapping(invoke: Invoke, tmp_path: Path) -> None:
    args = ("vector_add", "--topology", "one_pe", "-p", "N=64,4096", "-p", "block=64,1024", "--jobs", 1)
    where = ("--set", f"{BW}=51.2,102.4", "--over", "N", "--best", "block")
    found = swept(invoke, *args, *where)
    fast = found["configurations"][0]
    by_point = {(p["values"]["bw_gbs"], p["values"]["N"], p["values"]["block"]): p["result"] for p in found["points"]}
    best = [min(by_point[102.4, n, block]["latency_ps"] for block in (64, 1024)) for n in (64, 4096)]
    assert (fast["values"], fast["latency_ps"], fast["tried"]) == ({"bw_gbs": 102.4}, sum(best), 4)
    (tmp_path / "sweep.yaml").write_text(
        "benchmark: vector_add\ntopology: one_pe\nparams: {N: [64, 4096], block: [64, 1024]}\n"
        f"set: {{{BW}: [51.2, 102.4]}}\nover: [N]\nbest: [block]\n"
    )
    assert swept(invoke, tmp_path / "sweep.yaml", "--jobs", 1)["configurations"] == found["configurations"]


def test_a_chip_without_a_mapping_that_runs_is_counted(invoke: Invoke) -> None:
    size = "$.cube.pe_template.nodes.pe_tcm.memory.size"
    args = (*ADD[:-3], f"block={TOO_LARGE},{2 * TOO_LARGE}", "--jobs", 1, "--set", f"{size}=2 MiB,64 MiB")
    found = swept(invoke, *args, "--best", "block")
    assert found["notes"] == ["1 of 2 configurations have a point for which no mapping ran, and are not compared"]
    assert [each["values"] for each in found["configurations"]] == [{"size": "64 MiB"}]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--best", "blok"), "--best: got 'blok', needs a parameter of the benchmark with several values: block; did"),
        (("--best", "N"), "--best: got 'N', needs a parameter of the benchmark with several values: block; give its"),
        (("--best", "bw_gbs"), "--best: got 'bw_gbs', needs a parameter of the benchmark with several values: block"),
        (("--best", "block,"), "--best: got '', needs a parameter"),
        (("--best", "block", "--over", "block"), "--best: got block, which --over adds up, needs another parameter"),
        (
            ("--best", "block", "--over", "bw_gbs"),
            "--best: got all axes (block), needs an axis that is left to compare",
        ),
    ],
)
def test_wrong_names_are_sentences(invoke: Invoke, args: tuple[str, ...], said: str) -> None:
    done = invoke("sweep", *ADD, "--set", f"{BW}=1.6,102.4", *args)
    assert done.exit_code == 2
    assert said in str(done.exception or done.output) + done.output
