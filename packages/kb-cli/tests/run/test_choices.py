"""Choices that a benchmark says by `host.chose`: in the results, in run.json and in the summary."""

import json

LAUNCH = "    def launch(self, host, p, tensors):\n"
CHOSE = (LAUNCH, LAUNCH + "        host.chose(%s)\n")


def test_a_run_records_and_prints_what_its_benchmark_chose(invoke, bench_file, tmp_path):
    path = bench_file(CHOSE[0], CHOSE[1] % 'operands="one_slice", replicas=1')
    chosen = {"operands": "one_slice", "replicas": 1}
    said = invoke("run", path, "--topology", "one_pe", "--out", tmp_path / "runs")
    assert said.exit_code == 0, said.output
    assert ["chose", "operands", "one_slice,", "replicas", "1"] in [line.split() for line in said.output.splitlines()]
    folder = next((tmp_path / "runs").iterdir())
    assert json.loads((folder / "run.json").read_text())["results"]["chose"] == chosen
    found = invoke("run", path, "--topology", "one_pe", "--out", tmp_path / "runs", "--json")
    assert json.loads(found.output)["chose"] == chosen


def test_a_benchmark_that_chooses_nothing_has_no_row(invoke, bench_file, tmp_path):
    said = invoke("run", bench_file(), "--topology", "one_pe", "--out", tmp_path / "runs")
    assert not any(line.startswith("chose ") for line in said.output.splitlines())
    folder = next((tmp_path / "runs").iterdir())
    assert "chose" not in json.loads((folder / "run.json").read_text())["results"]


def test_a_choice_that_is_no_text_and_no_int_is_an_error_of_the_author(invoke, bench_file):
    said = invoke("run", bench_file(CHOSE[0], CHOSE[1] % "replicas=0.5"), "--topology", "one_pe")
    assert said.exit_code == 2
    assert "host.chose" in said.output
    assert "for replicas, needs ints, and texts" in said.output
