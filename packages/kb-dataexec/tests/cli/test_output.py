"""How the commands write numbers of things."""

import io
import json
import sys

import pytest

from kb_dataexec.cli.output import counted, emit, emit_json


@pytest.mark.parametrize(("number", "text"), [(0, "0 records"), (1, "1 record"), (2, "2 records")])
def test_a_noun_is_as_its_number(number: int, text: str) -> None:
    assert counted(number, "record") == text


@pytest.mark.parametrize(("encoding", "shown"), [("ascii", r"\xe9\u2192"), ("latin-1", r"é\u2192")])
def test_a_stream_of_another_encoding_gets_escapes(monkeypatch: pytest.MonkeyPatch, encoding: str, shown: str) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    emit(["é→"])
    emit_json({"é→": "\udcff"})
    stream.flush()
    line, _, found = stream.buffer.getvalue().decode(encoding).partition("\n")  # type: ignore[attr-defined]
    assert line == shown
    assert json.loads(found) == {"é→": "\\udcff"}
