from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_engine.timing.units import Rate, ns_text, ps_from_ns


@pytest.mark.parametrize(
    ("ns", "ps"), [(0, 0), (1, 1000), (1.5, 1500), (0.1, 100), (0.3, 300), (2.675, 2675), (0.0001, 1), (1.0001, 1001)]
)
def test_nanoseconds_are_the_decimal_that_was_written_rounded_up(ns, ps):
    assert ps_from_ns(ns) == ps


def test_a_bandwidth_is_the_decimal_that_was_written():
    # 102.4 GB/s are 9.765625 ps a byte; the nearest double is a little more and would give 9999.9... or 10000.0...1.
    rate = Rate.from_gbs(102.4)
    assert rate.ps_each == Fraction(9765625, 1000000)
    assert rate.ps(1024) == 10000
    assert rate.ps(2 * 1024**3) == 2 * 1024**2 * 10000


def test_a_transfer_is_rounded_up_once_and_not_a_byte():
    assert Rate.from_gbs(3).ps(1) == 334
    assert Rate.from_gbs(3).ps(3) == 1000
    assert Rate.from_gbs(3).ps(3_000_001) == 1_000_000_334


def test_cycles_are_exact_too():
    assert Rate.from_ghz(1.5).ps(3) == 2000
    assert Rate.from_ghz(1.5).ps(1) == 667
    assert Rate.from_ghz(0.7).ps(7) == 10000


def test_a_fraction_is_taken_as_it_is():
    assert Rate.from_gbs(Fraction(1000, 7)).ps(3) == 21


def test_nothing_takes_no_time():
    assert Rate.from_gbs(102.4).ps(0) == 0


@given(st.decimals("0.001", "10000", places=3), st.integers(0, 1 << 40))
def test_a_rate_is_the_exact_quotient_rounded_up(bandwidth, nbytes):
    exact = Fraction(nbytes) * 1000 / Fraction(bandwidth)
    assert Rate.from_gbs(float(bandwidth)).ps(nbytes) == -(-exact.numerator // exact.denominator)


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_splitting_a_transfer_never_makes_it_shorter(bandwidth, first, second):
    rate = Rate.from_gbs(bandwidth / 1000)
    assert rate.ps(first + second) <= rate.ps(first) + rate.ps(second) <= rate.ps(first + second) + 1


@pytest.mark.parametrize(
    ("t_ps", "text"), [(0, "0 ns"), (1, "0.001 ns"), (1000, "1 ns"), (186200, "186.2 ns"), (12345678, "12345.678 ns")]
)
def test_picoseconds_read_as_nanoseconds_with_every_digit(t_ps, text):
    assert ns_text(t_ps) == text
