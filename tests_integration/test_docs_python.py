"""The programs of docs/python.md run, and print what the page says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from python_copies import kb, python

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
PROGRAM, LAUNCHES, TEST, LOOKS, ASK, BENCHMARK = (part.partition("```")[0] for part in PAGE.split("```python\n")[1:])
IMPORTS = "import numpy as np\nimport kernbench as kb\nfrom mine import reference, softmax\n\n\n"


def printed(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pytest_of(folder: Path, *options: str) -> str:
    """What pytest prints, in a Python of its own: pytest rewrites plugins that are not imported yet."""
    command = [sys.executable, "-m", "pytest", *options, "-p", "no:cacheprovider"]
    env = {**os.environ, "PYTEST_DEBUG_TEMPROOT": str(folder)}  # the folders of the tests around it are not its own
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100, env=env, check=False)
    return printed(done)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(PROGRAM, encoding="utf-8")
    return tmp_path


def test_the_program_prints_what_is_quoted(place: Path) -> None:
    quoted = PAGE.split("```text\n")[1].partition("```")[0]
    digits = re.compile(r"largest error .*")  # the last digits of errors follow the machine's BLAS
    (place / "all.py").write_text(f"{PROGRAM}\n\n{LAUNCHES}", encoding="utf-8")
    said, _, last = printed(python(place, "all.py")).rstrip().rpartition("\n")
    assert digits.sub("", f"{said}\n".replace("all.py", "mine.py")) == digits.sub("", quoted)
    assert last.endswith(" True"), "the function of launches agrees with its reference"


def test_the_golden_time_is_the_one_that_is_quoted(place: Path) -> None:
    page = (ROOT / "docs" / "golden-times.md").read_text(encoding="utf-8")
    (place / "test_softmax.py").write_text(page.partition("```python\n")[2].partition("```")[0], encoding="utf-8")
    command, *options = page.partition("```bash\n")[2].partition("\n")[0].split()
    assert command == "pytest"
    said = pytest_of(place, *options)
    assert page.partition("```text\n")[2].partition("\n")[0] in said.replace(f"{place}/", "")


def test_the_test_passes_under_plain_pytest(place: Path) -> None:
    (place / "test_mine.py").write_text(IMPORTS + TEST, encoding="utf-8")
    assert len(TEST.splitlines()) <= 5
    assert "1 passed" in pytest_of(place, "-q", "test_mine.py")


def test_a_finished_run_answers_what_is_quoted(place: Path) -> None:
    (place / "ask.py").write_text(ASK, encoding="utf-8")
    assert printed(python(place, "ask.py")) == PAGE.split("```text\n")[2].partition("```")[0]


def test_the_benchmark_runs(place: Path) -> None:
    (place / "bench.py").write_text(IMPORTS + BENCHMARK, encoding="utf-8")
    assert "y: ok, 32768 elements" in printed(kb(place, "run", "./bench.py", "-p", "M=64"))


def test_the_looks_show_values(place: Path) -> None:
    store = "        tl.store("
    assert store in PROGRAM
    looks = "".join(f"        {line}\n" for line in LOOKS.splitlines())
    text = PROGRAM.replace(store, looks + store).replace('chip="one_cube")', 'chip="one_cube", folder="kb-runs")')
    (place / "mine.py").write_text(text, encoding="utf-8")
    assert "mine.py:12 sip0.cube0.pe7: largest" in printed(python(place, "mine.py"))
    (folder,) = (place / "kb-runs").iterdir()
    shown = printed(kb(place, "show", f"kb-runs/{folder.name}", "powers", "--pe", "0", "--number", "2"))
    assert "shape, dtype        8 x 512 f32" in shown
