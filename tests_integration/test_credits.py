"""Chips with buffers of a size against a simulation of flits, over random chips with random traffic.

Some cases here; `nox -s credits` compares three thousand. Case number N is the same every time.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

with pytest.MonkeyPatch.context() as patch:
    for folder in ("contention", "credits"):
        patch.syspath_prepend(Path(__file__).parent / folder)
    credits_main, cases, flits = (import_module(name) for name in ("credits", "credits_cases", "credits_flits"))

CASES = 24


def test_chips_with_buffers_agree_with_their_flits_to_the_picosecond() -> None:
    verdicts = [credits_main.judge(seed) for seed in range(CASES)]
    assert [each for each in verdicts if each.failed] == []
    assert sum(each.packets for each in verdicts) > 50 * CASES
    assert any(each.has_circle for each in verdicts)


def test_cases_repeat_and_are_of_all_kinds() -> None:
    drawn = [cases.random_case(seed) for seed in range(CASES)]
    assert drawn == [cases.random_case(seed) for seed in range(CASES)]
    assert {bool(case.port_gbs) for case in drawn} == {True, False}
    assert {case.packet[1] for case in drawn} == {0, 8, 32}
    assert any(each.nbytes % sum(case.packet) for case in drawn for each in case.buffers.values())
    assert any(each.credit_ns for case in drawn for each in case.buffers.values())
    assert {job.kind for case in drawn for job in case.jobs} == {"read", "write", "message"}


@pytest.mark.parametrize("change", ["credit_ps", "buffer_nbytes"])
def test_a_wrong_credit_and_a_wrong_buffer_are_found(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    line_of = credits_main.line_of

    def wrong(hop: Any, case: Any) -> Any:
        line = line_of(hop, case)
        return line if line.buffer_nbytes is None else line._replace(**{change: getattr(line, change) + 40})

    monkeypatch.setattr(credits_main, "line_of", wrong)
    assert any(credits_main.judge(seed).failed for seed in range(8))


def test_the_flits_alone_agree_with_arithmetic_by_hand() -> None:
    # Two packets of 100 bytes. The first one leaves b, whose line is half as fast, at 10 + 100 * 20 = 2010 ps, and its
    # credit is back at 2015. Only then the second one may begin: 2015 + 10 + 100 * 20 + 30.
    lines = [flits.Line("a", flits.Fraction(10), 10, 100, 5), flits.Line("b", flits.Fraction(20), 30, None, 0)]
    message = flits.Message(("a", "b"), 200, 100, 0, 0)
    assert flits.Simulation(lines, [message], 7).run().ends_ps == {0: 2015 + 10 + 2000 + 30}
