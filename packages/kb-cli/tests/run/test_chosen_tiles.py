"""The tiles that the chip chose for GEMMs that leave their tile open: in the results, and printed."""

import json

import pytest

from kb_cli.report.elements.shared_tables import chosen_tile_tables
from kb_cli.run.base.result import ChosenTile


def result(invoke, *arguments):
    said = invoke("run", *arguments, "--topology", "one_pe", "--no-verify", "--json")
    assert said.exit_code == 0, said.output
    return json.loads(said.output)


@pytest.fixture(scope="module")
def sizes():
    return [text for pair in ("M=160", "N=96", "K=200") for text in ("-p", pair)]


@pytest.mark.parametrize("exact", ["isolated", "events"])
def test_a_run_with_the_tile_that_it_reports_is_the_same_run(invoke, sizes, exact, tmp_path):
    options = [*sizes, "--exact", exact, "--out", tmp_path]
    left_open = result(invoke, "gemm", *options)
    (chosen,) = left_open["chosen_tiles"]
    assert (chosen["line"].split(":")[0], chosen["commands"]) == ("gemm.py", 1)
    stated = result(invoke, "gemm", *options, "-p", f"tile={chosen['tile']}")
    assert stated["log_digest"] == left_open["log_digest"]
    assert "chosen_tiles" not in stated
    other = result(invoke, "gemm", *options, "-p", "tile=16x16x16")
    assert other["log_digest"] != left_open["log_digest"]


def test_a_tile_that_is_larger_than_the_product_is_shown_as_it_was_cut(invoke, bench_file, tmp_path):
    path = bench_file("a, b, out=c))", 'a, b, out=c))\n    tl.wait(tl.composite("gemm", a, b, out=c, tile=(8, 8, 8)))')
    found = result(invoke, path, "--out", tmp_path)
    assert found["chosen_tiles"] == [{"line": "small.py:9", "tile": "8x8x8", "commands": 1}]


def test_a_run_a_report_and_its_page_name_the_tile(invoke, bench_file, tmp_path):
    said = invoke("run", bench_file(), "--topology", "one_pe", "--out", tmp_path / "runs")
    folder = next((tmp_path / "runs").iterdir())
    reported = invoke("report", folder, "-o", tmp_path / "page.html")
    for shown in (said.output, invoke("report", folder).output):
        assert ["small.py:9", "8x8x8", "1"] in [line.split() for line in shown.splitlines()]
    assert reported.exit_code == 0, reported.output
    page = (tmp_path / "page.html").read_text()
    assert 'small.py:9</td><td class="number">8x8x8</td>' in page
    assert json.loads((folder / "run.json").read_text())["results"]["chosen_tiles"][0]["tile"] == "8x8x8"


def test_a_long_list_of_tiles_ends_with_how_many_there_are_more():
    chosen = [ChosenTile(line=f"a.py:{n}", tile="8x8x8", commands=1) for n in range(10)]
    (table,) = chosen_tile_tables(chosen)
    assert table.row_count == 9
    assert list(table.columns[0].cells)[-1] == "2 more: see --json"
