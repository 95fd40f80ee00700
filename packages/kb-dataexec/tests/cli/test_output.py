"""How the commands write numbers of things."""

import pytest

from kb_dataexec.cli.output import counted


@pytest.mark.parametrize(("number", "text"), [(0, "0 records"), (1, "1 record"), (2, "2 records")])
def test_a_noun_is_as_its_number(number: int, text: str) -> None:
    assert counted(number, "record") == text
