"""JSON of a declared type, or one sentence."""

import pytest
from msgspec import Struct

from kb_dataexec.files import UnreadableJsonError, decode_json, json_decoder, read_json, read_json_lines
from kb_messages import LogError


class Point(Struct, forbid_unknown_fields=True):
    x: int
    name: str = ""


def test_a_file_and_its_lines_become_values(tmp_path):
    (tmp_path / "one.json").write_text('{"x": 3}')
    (tmp_path / "lines.jsonl").write_text('{"x": 1}\n\n{"x": 2, "name": "b"}\n')
    assert read_json(tmp_path / "one.json", Point, LogError) == Point(3)
    assert list(read_json_lines(tmp_path / "lines.jsonl", Point)) == [(1, Point(1)), (3, Point(2, "b"))]


@pytest.mark.parametrize(
    ("text", "got"),
    [
        (b"", "no JSON ("),
        (b'{"x": 1', "no JSON ("),
        (b'{"x": 1} 2', "no JSON ("),
        (b'{"x": "\xff"}', "the byte 0xff at offset 7, which is no UTF-8, needs JSON in UTF-8"),
        (b'\xef\xbb\xbf{"x": 1}', "no JSON ("),
        (b'{"x": NaN}', "no JSON (NaN is no JSON number)"),
        (b'{"x": -Infinity}', "no JSON (-Infinity is no JSON number)"),
        (b'{"x": 1e999}', "no JSON (1e999 is too large for a 64-bit float)"),
        (b'{"x": 1, "x": 2}', "no JSON (key 'x' stands twice in one object)"),
        (b'{"x": ' + b"1" * 5000 + b"}", "no JSON ("),
        (b"[" * 100_000, "JSON that is nested too deeply"),
        (b'{"y": 1}', "JSON of another form ("),
        (b'{"x": "1"}', "JSON of another form ("),
        (b'{"x": 1.5}', "JSON of another form ("),
        (b'{"x": 1, "y": 2}', "JSON of another form ("),
        (b"null", "JSON of another form ("),
        (b"[]", "JSON of another form ("),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_not_of_the_type_is_one_sentence(text, got):
    with pytest.raises(LogError) as caught:
        decode_json(text, Point, "here", LogError)
    assert str(caught.value).startswith(f"here: got {got}")
    assert len(str(caught.value)) < 400


def test_the_line_is_named(tmp_path):
    (tmp_path / "lines.jsonl").write_text('{"x": 1}\n{"x": []}\n')
    with pytest.raises(LogError, match=r"lines\.jsonl:2: got JSON of another form"):
        list(read_json_lines(tmp_path / "lines.jsonl", Point, LogError))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff",
        b'{"x": 1, "name": "\xff"}',
        '{"x": 1, "name": "\udcff"}',
        rb'{"x": 1, "name": "\ud800"}',
        b'{"x": ' + b"[" * 100_000,
        b"[" * 100_000,
        b'{"x": ' + b"9" * 5000 + b"}",
        b'{"x": 1e999}',
        b'{"x": NaN}',
        b'{"x": "1"}',
        b"[]",
    ],
    ids=lambda value: str(value)[:30],
)
def test_the_quick_decoder_refuses_alike(text):
    with pytest.raises(UnreadableJsonError) as caught:
        json_decoder(Point)(text)
    assert 0 < len(str(caught.value)) < 220


def test_the_quick_decoder_decodes():
    assert (
        json_decoder(Point)(b'{"x": 3, "name": "\xc3\xa9"}')
        == json_decoder(Point)('{"x":3,"name":"é"}')
        == Point(3, "é")
    )
