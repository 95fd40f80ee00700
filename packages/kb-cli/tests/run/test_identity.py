"""The name of a run folder."""

import pytest

from kb_cli.run.folders.identity import folder_name
from kb_messages import BenchmarkError


def test_the_name_is_safe_and_follows_the_configuration() -> None:
    name = folder_name("my bench/../x", {"a": 1})
    assert name.startswith("my_bench_.._x-")
    assert len(name.rsplit("-", 1)[1]) == 12
    assert name == folder_name("my bench/../x", {"a": 1}) != folder_name("my bench/../x", {"a": 2})


def test_a_text_that_json_cannot_hold_is_one_sentence() -> None:
    with pytest.raises(BenchmarkError) as caught:
        folder_name("mine", {"benchmark": {"file": "odd\udcff.py"}})
    assert str(caught.value) == (
        "the record of mine: got the byte 0xff, which is no UTF-8, in 'odd\\udcff.py', needs text in UTF-8; "
        "rename a file that has such a name"
    )
