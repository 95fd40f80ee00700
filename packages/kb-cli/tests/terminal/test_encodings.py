"""Terminals and pipes of other encodings than UTF-8: tables stay tables, and JSON stays JSON."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

KB = [sys.executable, "-c", "from kb_cli.entry import main; main()"]
C = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}


def kb(folder: Path, *args: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    env = {**os.environ, "PYTHONIOENCODING": "utf-8", **environment}
    done = subprocess.run([*KB, *args], cwd=folder, env=env, capture_output=True, check=False)
    assert b"Traceback" not in done.stderr, done.stderr.decode("utf-8", "replace")
    return done


@pytest.fixture
def bench(bench_file: Callable[..., Path]) -> Path:
    """A benchmark whose file, class, kernel and output have letters beyond ASCII, and whose kernel prints some."""
    path = bench_file(
        '"x"', '"é→😀"', "def kernel", "def kérnel", "(kernel,", "(kérnel,",
        "    tl.wait", '    tl.print("ü→", 1)\n    tl.wait',
    )  # fmt: skip
    path.rename(path.with_name("smöll.py"))
    return path.with_name("smöll.py")


def test_a_table_has_lines_and_escapes(bench: Path) -> None:
    args = "run", bench.name, "--topology", "one_pe", "--levers", "none"
    plain = kb(bench.parent, *args).stdout.decode()
    assert "─" in plain
    lines = [line.replace("─", "-") for line in plain.splitlines() if set(line) == {"─"}]
    for encoding, name, letter in (("ascii", "sm\\xf6ll.py", "\\xfc"), ("latin-1", "smöll.py", "ü")):
        done = kb(bench.parent, *args, PYTHONIOENCODING=encoding)
        assert done.returncode == 0, done.stderr
        found = done.stdout.decode(encoding)
        assert f"{name}:9 sip0.cube0.pe0: {letter}\\u2192 1\n" in found
        assert "\n-----" in found
        assert "\\u2500" not in found
        assert [line for line in found.splitlines() if set(line) == {"-"}] == lines


def test_json_is_json(bench: Path) -> None:
    args = "run", bench.name, "--topology", "one_pe", "--levers", "none", "--json"
    expected, *others = (
        json.loads(kb(bench.parent, *args, PYTHONIOENCODING=each).stdout.decode(each))
        for each in ("utf-8", "ascii", "cp1252")
    )
    for found in others:
        assert found["params"]["label"] == "é→😀"
        assert {key: value for key, value in found.items() if key != "wall_s"} == {
            key: value for key, value in expected.items() if key != "wall_s"
        }


def test_a_locale_without_letters_says_so(bench_file: Callable[..., Path]) -> None:
    bench = bench_file()
    done = kb(bench.parent, "run", bench.name, "--topology", "one_pe", "-p", "label=é", **C)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode("ascii") == (
        "error: -p label: got the byte 0xc3, which is no ASCII, in '\\udcc3\\udca9', needs text in ASCII; "
        "use a locale of UTF-8, such as LC_ALL=C.UTF-8\n"
    )
    assert kb(bench.parent, "run", bench.name, "--topology", "one_pe", "--levers", "none", **C).returncode == 0
