"""The README's table lists every block and attribute with its default, and its example runs."""

import re
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from msgspec.structs import NODEFAULT, fields

from kb_engine.engine import GROUP

README = Path(__file__).parents[1] / "README.md"
TEXT = README.read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `(builtin\.\w+)` \| (.*?) \|", TEXT, re.MULTILINE))
POINTS = {point.name: point for point in entry_points(group=GROUP) if point.name.startswith("builtin.")}


def test_every_block_has_a_row():
    assert sorted(ROWS) == sorted(POINTS)


@pytest.mark.parametrize("name", POINTS)
def test_a_row_lists_the_blocks_attributes_and_defaults(name):
    listed = dict(re.findall(r"`(\w+)(?: = (\w+))?`", ROWS[name]))
    listed.pop("memory", None)  # the topology's own key
    expected = {field.name: written(field.default) for field in fields(POINTS[name].load().spec_type)}
    assert listed == expected


def written(default):
    if default is NODEFAULT or default is None:
        return ""
    return default if isinstance(default, str) else f"{default:g}"


def test_the_example_runs(capsys, monkeypatch):
    monkeypatch.chdir(README.parents[2])
    (code,) = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    first, second = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\d+\.\d+ ns", first)
    # 2 x 2 x 2 tiles with two reads, fetch and multiplication each; 2 x 2 stores and writes. An f16 of 16 and more is
    # rounded by up to 2^-7.
    assert second.startswith("6 queues, 40 records, largest error 0.0")
