"""`kb run --sim-stats`: the note on a run with many events, the tables, and the JSON."""

import json
from pathlib import Path

import msgspec
import pytest

from kb_cli.run.base.result import SimStats, SlowPathReason
from kb_cli.run.simulation.sim_stats import MANY_EVENTS, added, events_note
from kb_engine.observe import NO_REMEDY

REASON = SlowPathReason(
    what="programs of a grid", kernel="softmax", line="s.py:14", cause="the kernel warns", change="do not", commands=9
)
COUNTS = {name: 0 for name in SimStats.__struct_fields__ if name not in ("events", "slow_path")}
SMALL_TILES = "-p", "M=512", "-p", "N=512", "-p", "K=512", "-p", "tile=32x32x32", "-p", "operands=replicated"
OF_A_RUN = "run_dir", "wall_s", "host", "keep"


def found(events, reasons):
    return SimStats(**COUNTS, events=events, slow_path=reasons)


@pytest.mark.parametrize(
    ("n_reasons", "more"),
    [(1, ""), (2, "; --sim-stats lists 1 more reason"), (4, "; --sim-stats lists 3 more reasons")],
)
def test_the_line_names_the_reason_with_the_most_commands(n_reasons, more):
    assert events_note(found(MANY_EVENTS, [REASON] * n_reasons)) == (
        "note: 100,000 events were simulated, and 100,000 or more are noted: programs of a grid in softmax took the "
        f"slow path and were not skipped in a steady state, because the kernel warns (s.py:14): do not{more}"
    )


def test_a_reason_that_nothing_avoids_is_not_noted():
    talks = msgspec.structs.replace(REASON, cause="its programs send messages", change=NO_REMEDY)
    assert events_note(found(MANY_EVENTS, [talks])) == ""
    assert "do not" in events_note(found(MANY_EVENTS, [talks, REASON]))


def test_two_statistics_are_added_up_reason_by_reason():
    elsewhere = msgspec.structs.replace(REASON, line="s.py:20", commands=10)
    of_commands = msgspec.structs.replace(REASON, what="commands", commands=1)
    sum_of = added(found(5, [REASON, of_commands]), found(6, [elsewhere, REASON, of_commands]))
    assert sum_of.events == 11
    assert [(each.what, each.line, each.commands) for each in sum_of.slow_path] == [
        ("programs of a grid", "s.py:14", 18),
        ("programs of a grid", "s.py:20", 10),
        ("commands", "s.py:14", 2),
    ]


@pytest.mark.parametrize(("what", "fast"), [("commands", "isolated"), ("tiles", "skipped in a steady state")])
def test_the_note_names_the_fast_path(what, fast):
    reason = msgspec.structs.replace(REASON, what=what)
    note = events_note(found(MANY_EVENTS, [reason]))
    assert f": {what} in softmax took the slow path and were not {fast}, because the kernel" in note


def test_the_json_and_the_table_say_why_commands_were_not_isolated(invoke):
    """A product on each of 8 PEs, of 8 x 4 tiles or more."""
    call = "run", "gemm", *SMALL_TILES, "--no-verify", "--exact", "events"
    reasons = json.loads(invoke(*call, "--json").stdout)["simulated"]["slow_path"]
    assert [(each["what"], each["commands"]) for each in reasons] == [("commands", 8)]
    assert reasons[0]["change"] == "simulate with `exact` as `isolated`"
    shown = invoke(*call, "--sim-stats").stdout
    assert "on the slow path, event by event" in shown
    assert "`exact` is `events`" in shown


@pytest.mark.parametrize(("events", "reasons"), [(MANY_EVENTS - 1, [REASON]), (MANY_EVENTS, [])])
def test_few_events_and_events_without_a_reason_are_not_noted(events, reasons):
    assert events_note(found(events, reasons)) == ""


def test_the_json_has_the_counts_and_run_json_has_none(invoke, bench_file):
    done = invoke("run", bench_file(), "--json")
    result = json.loads(done.stdout)
    simulated = result["simulated"]
    assert (simulated["launches"], simulated["commands"], simulated["event_commands"]) == (1, 1, 1)
    assert simulated["events"] > 0
    assert "simulated" not in json.loads(Path(result["run_dir"], "run.json").read_text())["results"]


@pytest.mark.speed
def test_the_note_and_the_table_belong_to_the_run(invoke, monkeypatch):
    monkeypatch.setattr("kb_cli.run.simulation.sim_stats.MANY_EVENTS", 1)
    done = invoke("run", "layer_norm", "--no-log", "--sim-stats")
    assert done.exit_code == 0
    because = "each PE has too few programs for a period to show"
    assert f"were not skipped in a steady state, because {because}: give each PE more of them" in done.stderr
    assert because in done.stdout
    assert "on the slow path, event by event" in done.stdout


@pytest.mark.speed
@pytest.mark.parametrize("log", [(), ("--no-log",)])
@pytest.mark.parametrize(
    ("asked", "skipped"),
    [
        (("layer_norm", "-p", "rows=4096"), "skipped_programs"),
        (("gemm", "--topology", "one_cube", *SMALL_TILES), "isolated_commands"),
    ],
)
def test_skipped_work_counts_as_simulated_work(asked, skipped, log, invoke):
    """Without a log too: what a run counts of its commands needs none of them one by one."""
    results = []
    for exact in ("isolated", "events"):
        done = invoke("run", *asked, *log, "--no-verify", "--exact", exact, "--json")
        result = json.loads(done.stdout)
        assert (result.pop("simulated")[skipped] > 0) == (exact == "isolated")
        results.append({name: each for name, each in result.items() if name not in OF_A_RUN})
    assert results[0] == results[1]
    assert results[0]["bytes"]


@pytest.mark.parametrize("asked", [("--exact", "events"), ("--no-templates",), ("--sanitize",)])
def test_events_that_were_asked_for_are_not_noted(asked, invoke, bench_file, monkeypatch):
    monkeypatch.setattr("kb_cli.run.simulation.sim_stats.MANY_EVENTS", 1)
    assert "note:" not in invoke("run", bench_file(), *asked).stderr
