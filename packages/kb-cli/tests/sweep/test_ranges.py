"""Values of an axis as text."""

import pytest

from kb_cli.sweep.axis import values_of
from kb_messages import BenchmarkError


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("64", ["64"]),
        ("64, 128,f16", ["64", "128", "f16"]),
        ("1:4", ["1", "2", "3", "4"]),
        ("100:350:100", ["100", "200", "300"]),
        ("64:512:*2", ["64", "128", "256", "512"]),
        ("0.1:0.3:0.1", ["0.1", "0.2", "0.3"]),
        ("1000:3000:1000,7", ["1000", "2000", "3000", "7"]),
        ("[1,2],[3]", ["[1,2]", "[3]"]),
        ('"a,b",c', ['"a,b"', "c"]),
        ("64x64x64,128x64x32", ["64x64x64", "128x64x32"]),
    ],
)
def test_values(text: str, values: list[str]) -> None:
    assert list(values_of(text, "-p x")) == values


@pytest.mark.parametrize(
    "text", ["", "1,,2", "1,1", "1:2,2", "4:1", "1:4:0", "1:4:*1", "0:4:*2", "1:4:-1", "1:999999999"]
)
def test_refused(text: str) -> None:
    with pytest.raises(BenchmarkError, match=r"-p x: got .*, needs"):
        values_of(text, "-p x")
