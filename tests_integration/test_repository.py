"""What the repository says of itself is true: its links resolve, CI runs what the README says, no address is pinned."""

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GENERATED = {".git", ".venv", ".nox", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", "__pycache__"}
GENERATED |= {"build", "dist", "kb-runs", "uv.lock"}

# A registry's host or a path of one machine would send every other machine to the wrong place.
REGISTRY = re.compile(r"(?:pypi|pythonhosted|anaconda)\.(?:org|com|io)|https?://[^\s)\"']*/simple\b")
MACHINE_PATH = re.compile(r"(?<![\w.$}~/-])/(?:home|root|Users|work|mnt)/\w")

INLINE_LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*?) *$", re.MULTILINE)
CODE_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
CODE_SPAN = re.compile(r"`[^`\n]*`")


@cache
def files() -> list[Path]:
    """The files that belong to the repository: git's list, or without git all that is not generated."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        ).stdout.split("\0")  # fmt: skip
        found = [ROOT / name for name in listed if name]
    except (OSError, subprocess.CalledProcessError):
        found = [path for path in ROOT.rglob("*") if not GENERATED & set(path.relative_to(ROOT).parts)]
    return sorted(path for path in found if path.is_file())


def texts() -> dict[str, str]:
    """The repository's text files: their paths and contents."""
    found = {}
    for path in files():
        try:
            found[str(path.relative_to(ROOT))] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
    return found


def heading_anchors(markdown: str) -> set[str]:
    """The anchors that a renderer gives to the headings of *markdown*."""
    headings = HEADING.findall(CODE_BLOCK.sub("", markdown))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    """The relative links of *page* that lead nowhere, anchors of Markdown pages included."""
    prose = CODE_SPAN.sub("", CODE_BLOCK.sub("", page.read_text(encoding="utf-8")))
    return [link for link in INLINE_LINK.findall(prose) if not re.match(r"[a-z]+:", link) and not resolves(page, link)]


def resolves(page: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = page.parent / name if name else page
    if anchor and target.suffix == ".md" and target.is_file():
        return anchor in heading_anchors(target.read_text(encoding="utf-8"))
    return target.exists()


def test_relative_links_resolve() -> None:
    pages = [path for path in files() if path.suffix == ".md"]
    assert len(pages) >= 20
    assert {str(page): links for page in pages if (links := broken_links(page))} == {}


def test_ci_runs_the_command_of_the_readme() -> None:
    commands = [line for line in (ROOT / ".ci/run").read_text().splitlines() if ".venv" in line]
    assert len(commands) == 1
    assert commands[0] in (ROOT / "README.md").read_text().splitlines()


@pytest.mark.parametrize("pattern", [REGISTRY, MACHINE_PATH], ids=["registry host", "machine path"])
def test_no_text_holds_an_address_of_one_place(pattern: re.Pattern[str]) -> None:
    found = {name: match[0] for name, text in texts().items() if (match := pattern.search(text))}
    assert found == {}


def test_pins_are_names_and_versions_alone() -> None:
    pins = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert len(pins) >= 30
    assert [pin for pin in pins if not re.fullmatch(r"[\w.-]+==[\w.]+", pin)] == []


@pytest.mark.parametrize("package", sorted(path.name for path in (ROOT / "packages").iterdir()))
def test_every_package_is_complete(package: str) -> None:
    folder = ROOT / "packages" / package
    needed = ["pyproject.toml", "README.md", "CHANGELOG.md", "tests", f"src/{package.replace('-', '_')}/py.typed"]
    assert [name for name in needed if not (folder / name).exists()] == []
