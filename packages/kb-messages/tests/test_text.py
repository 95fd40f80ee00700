"""Bytes become text or one sentence, digits become numbers that fit 64 bits, and every text becomes JSON."""

import io
import json
import sys

import pytest

from kb_messages import (
    LogError,
    ascii_json,
    check_text,
    decode_text,
    encodable,
    encode_json,
    int_of,
    is_encodable,
    read_text,
    write_out,
)


def test_bytes_of_utf8_are_text_with_or_without_a_mark():
    assert decode_text("é\n".encode(), "a", "a file") == "é\n"
    assert decode_text(b"\xef\xbb\xbfa", "a", "a file") == "a"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\xff", "a.csv: got the byte 0xff at offset 0, which is no UTF-8"),
        (b"ab\xe9\n", "a.csv: got the byte 0xe9 at offset 2, which is no UTF-8"),
        (b"ab\ncd\xe9f\n", "a.csv:2: got the byte 0xe9 at offset 5, which is no UTF-8"),
        (b"\xef\xbb\xbfab\xff", "a.csv: got the byte 0xff at offset 5, which is no UTF-8"),
        (b"\xed\xa0\x80", "a.csv: got the byte 0xed at offset 0, which is no UTF-8"),
        (b"\xc3", "a.csv: got the byte 0xc3 at offset 0, which is no UTF-8"),
        ("M\n".encode("utf-16"), "a.csv: got text in UTF-16"),
        ("é\n".encode("utf-16-be").join([b"\xfe\xff", b""]), "a.csv: got text in UTF-16"),
    ],
)
def test_other_bytes_are_one_sentence(tmp_path, monkeypatch, data, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_bytes(data)
    with pytest.raises(LogError) as caught:
        read_text("a.csv", "a CSV file", LogError)
    assert str(caught.value) == f"{said}, needs a CSV file in UTF-8; save the file as UTF-8"


def test_a_byte_of_the_command_line_that_is_no_utf8_is_named():
    check_text("é\U0001f600", "-p label")
    with pytest.raises(LogError) as caught:
        check_text("a\udcff", "-p label", LogError)
    assert str(caught.value) == (
        "-p label: got the byte 0xff, which is no UTF-8, in 'a\\udcff', needs text in UTF-8; "
        "rename a file that has such a name"
    )


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("007", 7), ("9" * 18, 10**18 - 1), ("9" * 19, None), ("9" * 5000, None), ("", None), ("-1", None),
     (" 1", None), ("1_0", None), ("²", None), ("٣", None), ("1.0", None)],
)  # fmt: skip
def test_digits_are_a_number(text, number):
    assert int_of(text) == number


def test_half_of_a_pair_is_written_out():
    assert encode_json({"é": [1, ("a",)]}) == '{"é":[1,["a"]]}'.encode()
    assert encode_json({"\udcff": ["a\ud800", 1.5, None]}) == rb'{"\\udcff":["a\\ud800",1.5,null]}'


def test_json_of_ascii_is_the_same_json():
    text = '{"é": "→\U0001f600 a\\n"}'
    assert ascii_json(text) == r'{"\u00e9": "\u2192\ud83d\ude00 a\n"}'
    assert json.loads(ascii_json(text)) == json.loads(text)


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [("utf-8", r"ö→─\udcff"), ("latin-1", r"ö\u2192-\udcff"), ("ascii", r"\xf6\u2192-\udcff"), (None, r"ö→─\udcff")],
)
def test_a_stream_gets_escapes_for_characters_that_it_lacks(monkeypatch, encoding, shown):
    text = "ö→─\udcff"
    assert encodable(text, encoding) == shown
    assert (is_encodable(text, encoding), is_encodable(shown, encoding)) == (False, True)
    assert encodable("plain", encoding) == "plain"
    stream = io.TextIOWrapper(io.BytesIO(), encoding or "utf-8")
    monkeypatch.setattr(sys, "stdout", stream)
    write_out(text)
    stream.flush()
    assert stream.buffer.getvalue().decode(encoding or "utf-8") == shown
