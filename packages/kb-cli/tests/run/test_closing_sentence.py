"""The closing sentence of a run: the remedies that gain most, for made-up figures."""

from kb_cli.run.base.remedy import Remedy
from kb_cli.run.observe.closing_sentence import Timed, Tried, best_first, closing_sentence

BOUND = "HBM's bytes are 70.1 % of the time, all of gemm.py:29."
ALL = Tried(9, 9, 0.0)
MEMORY = Remedy(
    rule="lever", part="HBM", flaw="busy 98.0 % of the time", change="twice the bandwidth of HBM", gain=0.31,
    basis="measured", best=0.352,
)  # fmt: skip
CLOCK = Remedy(rule="lever", part="GEMM", flaw="", change="twice the clock of GEMM", gain=0.05, basis="measured")
TAIL = Remedy(
    rule="tail", part="pe0", flaw="9 programs run on 8 PEs", change="one program for each PE", gain=0.44,
    basis="estimated", line="k.py:4",
)  # fmt: skip


def test_the_most_gain_comes_first_with_the_bound_beside_a_measurement() -> None:
    assert closing_sentence(BOUND, Timed(6_000_000), best_first([CLOCK, MEMORY, TAIL]), ALL) == (
        f"{BOUND} To change first: one program for each PE (k.py:4: 9 programs run on 8 PEs): -44.0 % (estimated); "
        "next: twice the bandwidth of HBM (busy 98.0 % of the time): 4.140 us, -31.0 % (measured; -35.2 % at best)."
    )


def test_the_best_remedy_of_the_kernel_is_told_behind_two_of_the_chip() -> None:
    small = Remedy(rule="tail", part="pe0", flaw="a", change="b", gain=0.02, basis="estimated")
    text = closing_sentence(BOUND, Timed(1000), best_first([small, MEMORY, CLOCK]), ALL)
    assert text.endswith("next: twice the clock of GEMM: 950 ps, -5.0 % (measured); next: b (a): -2.0 % (estimated).")


def test_of_equal_gains_the_measured_one_comes_first() -> None:
    equal = Remedy(rule="tail", part="pe0", flaw="a", change="b", gain=0.31, basis="estimated")
    assert best_first([equal, MEMORY]) == [MEMORY, equal]


def test_nothing_that_gains_is_said_after_all_were_measured_alone() -> None:
    assert closing_sentence(BOUND, Timed(1000), [], ALL) == (
        f"{BOUND} No value of the chip gains 1.0 %: all 9 levers were measured."
    )
    assert closing_sentence(BOUND, Timed(1000), [], Tried(0, 0, 0.0)) == (
        f"{BOUND} No value of the chip gains 1.0 %: none has 2 % of the critical path."
    )


def test_levers_that_were_not_measured_and_may_gain_more_are_counted_with_the_command_that_measures_them() -> None:
    assert closing_sentence(BOUND, Timed(1000), [], Tried(3, 9, 0.2), "kb-runs/x") == (
        f"{BOUND} 3 of 9 levers of the chip were measured; kb report kb-runs/x --levers 9 measures all."
    )
    found = closing_sentence(BOUND, Timed(1000), [MEMORY, CLOCK], Tried(3, 9, 0.32))
    assert found.endswith("at best). 3 of 9 levers of the chip were measured.")
    assert "next" not in found, "another lever may come next"


def test_levers_that_gain_less_at_best_need_no_measurement() -> None:
    assert closing_sentence(BOUND, Timed(1000), [MEMORY], Tried(3, 9, 0.3)).endswith("at best).")
    assert closing_sentence(BOUND, Timed(1000), [], Tried(3, 9, 0.009)) == (
        f"{BOUND} No value of the chip gains 1.0 %: 3 of 9 levers were measured, and the others gain less at best."
    )


def test_a_remedy_of_the_kernel_is_told_beside_a_chip_that_gains_nothing() -> None:
    found = closing_sentence(BOUND, Timed(1000), [TAIL], ALL)
    assert found.endswith("(estimated). No value of the chip gains 1.0 %: all 9 levers were measured.")


def test_a_run_without_measurements_has_the_cost_alone() -> None:
    assert closing_sentence(BOUND, Timed(1000), []) == BOUND


def test_nothing_is_said_of_no_gain_while_a_lever_that_was_not_measured_may_gain_something() -> None:
    found = closing_sentence(BOUND, Timed(1000), [TAIL], Tried(3, 9, 0.4), "kb-runs/x")
    assert found.endswith("3 of 9 levers of the chip were measured; kb report kb-runs/x --levers 9 measures all.")
