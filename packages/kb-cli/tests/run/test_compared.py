"""The line of `kb run --exact check`."""

from types import SimpleNamespace

from kb_cli.run.compared import what_was_compared


def test_the_line_counts_commands_and_programs():
    engine = SimpleNamespace(checked=((3, 24), (16, 352)))
    assert what_was_compared(engine) == (
        "note: --exact check simulated 3 of 24 commands with a known outcome, and 16 programs beside 352 that were "
        "skipped, event by event: no difference"
    )


def test_a_run_of_every_event_compares_nothing():
    engine = SimpleNamespace(checked=((0, 0), (0, 0)))
    assert what_was_compared(engine).endswith("compared nothing, because every event was simulated")
