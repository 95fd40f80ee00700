"""What `kb run --exact check` says that it compared: on standard error, and in its JSON."""

import json
from pathlib import Path

import pytest

from kb_cli.run.base.result import Compared
from kb_cli.run.simulation.sim_stats import compared_text


def found(**counts):
    return Compared(**{name: counts.get(name, 0) for name in Compared.__struct_fields__})


COMMANDS = {"commands": 3, "known_commands": 24}
PROGRAMS = {"programs": 16, "skipped_programs": 352}


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        (COMMANDS, "3 of 24 isolated commands with a known result, "),
        (PROGRAMS, "16 programs beside 352 that were skipped, "),
        (
            {**COMMANDS, **PROGRAMS},
            "3 of 24 isolated commands with a known result and 16 programs beside 352 that were skipped, ",
        ),
    ],
)
def test_the_line_counts_what_there_was(counts, text):
    assert compared_text(found(**counts)) == f"note: --exact check simulated {text}event by event: no difference"


def test_a_run_of_every_event_compares_nothing():
    assert compared_text(found()).endswith("compared nothing, because every event was simulated")


def test_the_json_has_the_counts_of_the_line_and_run_json_has_none(invoke, bench_file):
    done = invoke("run", bench_file(), "--exact", "check", "--json")
    assert done.exit_code == 0
    result = json.loads(done.stdout)
    assert Compared(**result["compared"]) == found()  # one command, too small to be known
    assert compared_text(found()) in done.stderr
    assert "compared" not in json.loads(Path(result["run_dir"], "run.json").read_text())["results"]


def test_a_run_without_checks_has_no_counts(invoke, bench_file):
    done = invoke("run", bench_file(), "--json")
    assert "compared" not in json.loads(done.stdout)
    assert "--exact" not in done.stderr
