"""Where pages and notebooks of the repository stand in the site, and which page stands for a file or folder."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_FOLDERS = {
    "docs": "index.md",
    "docs/design": "design/index.md",
    "topologies": "reference/chips.md",
    "topologies/devices": "reference/chips.md",
    "benchmarks": "reference/benchmarks.md",
}
"""The folders that a page of the site describes, beside those with a README."""
_OTHERS = {
    "README.md": "repository.md",
    "benchmarks/speed/README.md": "measured/speed.md",
    "benchmarks/validation/README.md": "measured/validation.md",
}


def pages() -> dict[str, str]:
    """The place in the site of each Markdown page and notebook, by its path in the repository."""
    found = {name: name.removeprefix("docs/") for name in _names("docs/**/*.md")}
    found |= notebooks()
    found["docs/design/README.md"] = "design/index.md"
    for name in _names("packages/*/README.md"):
        found[name] = f"packages/{Path(name).parts[1]}.md"
    for name in _names("packages/*/CHANGELOG.md"):
        found[name] = f"changes/{Path(name).parts[1]}.md"
    return {**found, **_OTHERS}


def notebooks() -> dict[str, str]:
    """The place in the site of each notebook, by the notebook's path in the repository."""
    return {name: name.removeprefix("docs/").replace(".ipynb", ".md") for name in _names("docs/notebooks/*.ipynb")}


def page_of(target: Path) -> str:
    """The page of the site that shows the file or folder *target*: its own page, or one with its text.

    Raises ValueError for a target outside the repository, or one that is not there.
    """
    if not target.exists() or not target.is_relative_to(ROOT):
        raise ValueError(f"{target}: got no file of the repository, needs one that a page can show")
    name = target.relative_to(ROOT).as_posix()
    readme = f"{name}/README.md"
    return pages().get(name) or _FOLDERS.get(name) or pages().get(readme) or f"source/{name}.md"


def _names(pattern: str) -> list[str]:
    return sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob(pattern))
