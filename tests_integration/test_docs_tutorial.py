"""What docs/tutorial.md quotes and shows is what its commands print and draw. `nox -s docs` runs all of them, the tests
the first two.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
KB = str(Path(sys.executable).with_name("kb"))
TEXT = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
STEPS = TEXT.split("```bash\n")[1:]
"""A command each, and what is said of it."""
N_STEPS = len(STEPS) if os.environ.get("KB_ALL_DOCS") else 2
PICTURES = {"sweeps/decode.svg": "kb-sweeps/decode_gemv-*/map.svg", "decode-chip.svg": "decode-chip.svg"}
"""The pictures of the page, and the files that the commands above them write."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the reader works."""
    return tmp_path_factory.mktemp("tutorial")


@pytest.mark.parametrize("number", range(N_STEPS))
def test_a_command_prints_what_is_quoted_below_it(number: int, place: Path) -> None:
    command, _, below = STEPS[number].partition("\n```")
    text = command.replace(".venv/bin/kb", KB, 1)
    done = subprocess.run(text, shell=True, cwd=place, capture_output=True, text=True, timeout=100, check=True)
    quoted = re.findall(r"^```text\n(.*?)^```", below, re.MULTILINE | re.DOTALL)
    assert quoted
    printed, quoted = without_next(done.stdout), [without_next(lines) for lines in quoted]
    assert [lines for lines in quoted if not (lines in printed or starts_lines(lines, printed))] == []
    for picture, written in PICTURES.items():
        if f"]({picture})" in below:
            (drawn,) = place.glob(written)
            assert drawn.read_bytes() == (ROOT / "docs" / picture).read_bytes()


def without_next(text: str) -> str:
    """*text* without the second lever of the last sentence, for which a slow machine has no time."""
    return re.sub(r"; next: .*$", ".", text, flags=re.MULTILINE)


def starts_lines(quoted: str, printed: str) -> bool:
    """Whether *quoted* is one line of what was *printed*."""
    return quoted.strip() in (line.strip() for line in printed.splitlines())


def test_every_picture_of_the_page_is_compared() -> None:
    assert set(re.findall(r"\]\(([^)]+\.(?:svg|png))\)", TEXT)) == set(PICTURES)


def test_the_landing_page_shows_a_picture_of_the_page() -> None:
    shown = re.findall(r"\]\(([^)]+\.(?:svg|png))\)", (ROOT / "docs" / "index.md").read_text(encoding="utf-8"))
    assert shown == ["decode-chip.svg"]


def test_what_the_first_pages_quote_is_what_the_tested_pages_quote() -> None:
    for page, tested in (("docs/index.md", "docs/tutorial.md"), ("README.md", "docs/first-steps.md")):
        (quoted,) = re.findall(r"^> (.*)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
        assert f"\n{quoted}\n" in (ROOT / tested).read_text(encoding="utf-8")
