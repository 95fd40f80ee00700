import pickle

import pytest

from kb_messages import errors
from kb_messages.errors import KbError, PlanError, SimulationStuckError

EVERY_ERROR = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, KbError)]


def test_the_list_of_errors_is_not_suspiciously_short() -> None:
    assert len(EVERY_ERROR) >= 8


def test_the_text_says_where_what_and_how_to_fix() -> None:
    error = PlanError("pe0.pe_tcm", "a 2 MiB tile", "at most 1 MiB", "use a smaller tile")
    assert str(error) == "pe0.pe_tcm: got a 2 MiB tile, needs at most 1 MiB; use a smaller tile"


def test_the_fix_may_be_left_out() -> None:
    assert str(PlanError("tile", "0", "a positive size")) == "tile: got 0, needs a positive size"


@pytest.mark.parametrize("kind", EVERY_ERROR)
def test_an_error_survives_being_rebuilt_from_its_arguments(kind: type[KbError]) -> None:
    error = kind("chip.yaml:3", "0", ">= 1", "use 1")
    again = kind(*error.args)
    assert (type(again), str(again), again.fix) == (kind, str(error), "use 1")


@pytest.mark.parametrize("kind", EVERY_ERROR)
def test_an_error_survives_pickling(kind: type[KbError]) -> None:
    error = kind("kernel.py:7", "a", "b")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.where) == (kind, str(error), "kernel.py:7")


@pytest.mark.parametrize("kind", EVERY_ERROR)
def test_only_a_simulation_that_cannot_go_on_exits_with_3(kind: type[KbError]) -> None:
    assert kind.exit_code == (3 if kind is SimulationStuckError else 2)


def test_a_text_of_somebody_else_cannot_steer_the_terminal_or_begin_a_line() -> None:
    error = KbError("a\x1b[31m.yaml", "x\ny\u202e\x9b", "a\r", "f\x07 \ud800 é")
    assert str(error) == r"a\x1b[31m.yaml: got x\ny\u202e\x9b, needs a\r; f\x07 \ud800 é"
    assert error.got == "x\ny\u202e\x9b"


def test_a_part_of_a_sentence_is_cut_where_it_becomes_too_long() -> None:
    text = str(KbError("w" * 5000, "g" * 4000, "n" * 4001))
    assert text == f"{'w' * 4000}...: got {'g' * 4000}, needs {'n' * 4000}..."


def test_what_a_stuck_simulation_waits_for_takes_several_lines() -> None:
    text = str(SimulationStuckError("simulation", "a\nb\x1b", "c"))
    assert text == "simulation: a\nb\\x1b; needs c"
