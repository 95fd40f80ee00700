"""Units of the reports."""

from kb_cli.terminal.units import bandwidth, duration, durations, percent, quantity, signed_percent


def test_units_suit_the_value() -> None:
    assert [duration(ps) for ps in (512, 1500, 1_503_289_470)] == ["512 ps", "1.500 ns", "1.503 ms"]
    assert quantity(13.42e12, "FLOP/s") == "13.42 TFLOP/s"
    assert [quantity(0, "B"), quantity(4_194_304, "B")] == ["0 B", "4.194 MB"]
    assert percent(0.5) == "50.0 %"
    assert [signed_percent(share) for share in (-0.156, 0.02, 0.0, -0.0004)] == ["-15.6 %", "+2.0 %", "0.0 %", "0.0 %"]


def test_bandwidths_are_in_one_unit_without_powers_of_ten() -> None:
    assert [bandwidth(gbs) for gbs in (0.0, 7.0731, 999.94, 1000.0, 13107.2)] == [
        "0 GB/s",
        "7.073 GB/s",
        "999.9 GB/s",
        "1,000 GB/s",
        "13,107 GB/s",
    ]


def test_the_times_of_a_column_have_one_unit() -> None:
    assert durations([1_530_000, 926_130, 0, 400, 600]) == [
        "1.530 us",
        "0.926 us",
        "0.000 us",
        "< 0.001 us",
        "0.001 us",
    ]
    assert durations([12, 999]) == ["12 ps", "999 ps"]
    assert durations([]) == []
