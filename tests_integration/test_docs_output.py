"""What the docs quote is what the commands beside it print: one of the shapes here, all by `nox -s docs`."""

import os
import re
from pathlib import Path

import pytest
from python_copies import kb, python

ROOT = Path(__file__).parents[1]
FIRST_STEPS = (ROOT / "docs" / "first-steps.md").read_text(encoding="utf-8")
README = (ROOT / "packages" / "kb-cli" / "README.md").read_text(encoding="utf-8")
NAME = re.compile(r"kb-runs/(gemm-[0-9a-f]{12})")


def printed(folder: Path, *args: str) -> list[str]:
    done = kb(folder, *args)
    assert done.returncode == 0, done.stderr
    return comparable(done.stdout)


def comparable(text: str) -> list[str]:
    """Lines without wall times, without the last digits of errors, which follow the machine's BLAS, and without the
    second lever of the last sentence, for which a slow machine has no time.
    """
    lines = [re.sub("; next: .*$", ".", line) for line in text.splitlines() if not line.startswith("simulated in")]
    return [re.sub(r"(largest error|ok) +[\d.e-]+$", r"\1 E", line) for line in lines]


def quoted(start: str) -> list[str]:
    """The block of first-steps that begins with *start*, without the wall times."""
    block = FIRST_STEPS[FIRST_STEPS.index(f"```text\n{start}") :].split("```")[1]
    return comparable(block)[1:]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The working directory of the first run."""
    return tmp_path_factory.mktemp("run")


@pytest.fixture(scope="module")
def first_run(place: Path) -> list[str]:
    return printed(place, "run", "gemm", "-p", "M=512", "-p", "N=4096", "-p", "K=4096", "-p", "dtype=f16")


def test_the_first_report_is_the_one_that_is_quoted(first_run: list[str]) -> None:
    assert quoted("gemm on one_cube: M=512") == first_run


def test_the_run_folder_has_the_name_that_the_docs_give(first_run: list[str]) -> None:
    name = NAME.findall("\n".join(first_run))
    assert set(NAME.findall(README)) == set(name)
    assert NAME.findall(FIRST_STEPS)[0] == name[0]


def test_a_shape_is_as_quoted(tmp_path: Path) -> None:
    """The smallest one alone, before the columns that the data fills; `nox -s docs` runs all."""
    shapes = shapes_of_the_page()
    (tmp_path / "shapes.csv").write_text("".join(shapes[:1] + shapes[2:3]), encoding="utf-8")
    name = shapes[2].partition(",")[0]
    assert name == "k_proj"
    rows = (quoted("layer      M"), printed(tmp_path, "run", "gemm", "--shapes", "shapes.csv"))
    alone, whole = ([row.split()[:-1] for row in each if row.startswith(f"{name} ")] for each in rows)
    assert alone == whole != []


if "KB_ALL_DOCS" in os.environ:

    def test_the_shapes_are_those_that_are_quoted(tmp_path: Path) -> None:
        (tmp_path / "shapes.csv").write_text("".join(shapes_of_the_page()), encoding="utf-8")
        assert quoted("layer      M") == printed(tmp_path, "run", "gemm", "--shapes", "shapes.csv")


def shapes_of_the_page() -> list[str]:
    table = FIRST_STEPS[FIRST_STEPS.index("```text\nlayer,M,N,K") :].split("```")[1]
    return table.splitlines(keepends=True)[1:]


def test_the_report_from_python_says_what_the_run_said(first_run: list[str], place: Path) -> None:
    program = README.partition("### From Python")[2].partition("```python\n")[2].partition("```")[0]
    done = python(place, "-c", program)
    assert done.returncode == 0, done.stderr
    sentence, share, *_, line = done.stdout.splitlines()
    assert comparable(sentence) == [first_run[-1]]
    path = first_run[[row.startswith("where the time went") for row in first_run].index(True) + 2]
    assert share.split()[:2] == path.split()[:2]
    assert line.split()[0] == share.split()[-1] == "gemm.py:35"
    assert "tl.composite(" in line
