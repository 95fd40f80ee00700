"""`kb run --exact check`: the line on standard error, and the JSON."""

import json
from pathlib import Path

import pytest

from kb_cli.run.base.result import Compared
from kb_cli.run.simulation.sim_stats import compared_text


@pytest.mark.parametrize(("n", "launches"), [(1, "1 launch"), (3, "3 launches")])
def test_the_line_counts_launches(n, launches):
    expected = f"note: --exact check simulated {launches} once more, event by event: no difference"
    assert compared_text(Compared(launches=n)) == expected


def test_the_json_has_the_counts_of_the_line_and_run_json_has_none(invoke, bench_file):
    done = invoke("run", bench_file(), "--exact", "check", "--json")
    assert done.exit_code == 0
    result = json.loads(done.stdout)
    assert Compared(**result["compared"]) == Compared(launches=1)
    assert compared_text(Compared(launches=1)) in done.stderr
    assert "compared" not in json.loads(Path(result["run_dir"], "run.json").read_text())["results"]


def test_a_run_without_checks_has_no_counts(invoke, bench_file):
    done = invoke("run", bench_file(), "--json")
    assert "compared" not in json.loads(done.stdout)
    assert "--exact" not in done.stderr
