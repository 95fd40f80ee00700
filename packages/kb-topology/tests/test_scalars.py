import re

import pytest

from kb_topology.text.scalars import NumberError, resolve


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e9", 1e9),
        ("-1.5E-3", -0.0015),
        (".5", 0.5),
        ("2.", 2.0),
        ("12", 12),
        ("-3", -3),
        ("010", 10),
        ("0x1F", 31),
        ("0o17", 15),
        ("true", True),
        ("false", False),
        ("", None),
        ("~", None),
        ("null", None),
    ],
)
def test_words_and_numbers_have_one_reading(text, value):
    assert resolve(text) == value
    assert type(resolve(text)) is type(value)


@pytest.mark.parametrize("text", ["on", "off", "yes", "no", "True", "1:30", "1_000", "2024-01-01", "e9", "-", "1e"])
def test_what_looks_like_something_else_is_a_string(text):
    assert resolve(text) == text


@pytest.mark.parametrize(
    ("text", "got"),
    [
        (".nan", "the number .nan"),
        ("-.inf", "the number -.inf"),
        ("1e400", "the number 1e400"),
        ("9223372036854775808", "the integer 9223372036854775808"),
        ("9" * 5000, f"the integer {'9' * 60}..."),
    ],
)
def test_numbers_that_are_not_finite_or_too_large_are_refused(text, got):
    with pytest.raises(NumberError, match=re.escape(got)):
        resolve(text)
