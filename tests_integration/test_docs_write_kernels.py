"""The programs of docs/write-kernels.md run, and print what the page says."""

import re
import subprocess
from pathlib import Path

import pytest
from python_copies import kb, python

PAGE = (Path(__file__).parents[1] / "docs" / "write-kernels.md").read_text(encoding="utf-8")
PROGRAMS = {
    name: (program, text)
    for name, program, text in re.findall(
        r"`(\w+\.py)`:\n\n```python\n(.*?)```\n\nIt prints:\n\n```text\n(.*?)```", PAGE, re.DOTALL
    )
}


def printed(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run(folder: Path, name: str, program: str) -> str:
    """What a program prints, up to the error, whose last digits follow the machine's BLAS."""
    (folder / name).write_text(program, encoding="utf-8")
    return printed(python(folder, name)).partition("largest error")[0]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_prints_what_is_quoted(tmp_path: Path, name: str) -> None:
    program, text = PROGRAMS[name]
    assert run(tmp_path, name, program) == text.partition("largest error")[0]
    assert "largest error" in text


def test_the_page_has_six_programs() -> None:
    assert len(PROGRAMS) == PAGE.count("```python\n") == 6


def test_one_division_a_row_takes_what_is_said(tmp_path: Path) -> None:
    (line,) = re.findall(r"```py\n(.*\n)```", PAGE)
    program = PROGRAMS["softmax.py"][0].splitlines(keepends=True)
    assert "powers / tl.sum" in program[8]
    program[8] = line
    (said,) = re.findall(r"in its place the program takes ([\d.]+ us)", PAGE)
    assert run(tmp_path, "softmax.py", "".join(program)).startswith(f"softmax on one_cube: {said}\n")


def test_larger_steps_take_what_is_said(tmp_path: Path) -> None:
    ((step, said),) = re.findall(r"With `(step=\d+)` the program takes\s+([\d.]+ us)", PAGE)
    program = PROGRAMS["flash.py"][0].replace("step=128", step)
    assert run(tmp_path, "flash.py", program).startswith(f"flash on one_cube: {said}\n")


def test_the_report_begins_as_quoted(tmp_path: Path) -> None:
    run(tmp_path, "flash.py", PROGRAMS["flash.py"][0])
    (folder,) = (tmp_path / "kb-runs").iterdir()
    (quoted,) = re.findall(r"The report begins:\n\n```text\n(.*?)```", PAGE, re.DOTALL)
    begins = re.compile(r"flash-\w+")  # the number of a folder follows every byte of the program
    shown = begins.sub("", printed(kb(tmp_path, "report", f"kb-runs/{folder.name}")))
    assert shown.startswith(begins.sub("", quoted))
