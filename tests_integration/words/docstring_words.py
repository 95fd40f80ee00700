"""Count the vague words of docstrings: `docstring_words.py [PACKAGE ...]`, or every package.

Docstrings belong to modules, classes and functions; a text alone below an assignment counts too. Each package has a
budget of vague words per 10,000 words of its docstrings. The exit code is 1 when a package is over its budget.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIMITS = {"what": 20, "those": 10, "tell": 3}
"""The most uses of a word in 10,000 words of docstrings."""
MOST_AS_DOCSTRINGS: int | None = None
"""The most docstrings of public names in a package that begin with "As "; None only counts them."""
FORMS = {"tells": "tell", "telling": "tell", "told": "tell"}
N_WORST = 10
_WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*")
_DEFINITIONS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def text_of(statement: ast.stmt) -> str | None:
    """The text of a statement that is a string and nothing else."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        value = statement.value.value
        return value if isinstance(value, str) else None
    return None


def docstrings(source: str) -> Iterator[tuple[str, str]]:
    """(name of the definition, docstring) of all docstrings of a file; the name of a module is empty."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _DEFINITIONS):
            name = getattr(node, "name", "")
            for number, statement in enumerate(node.body):
                text = text_of(statement)
                if text is not None and (number == 0 or isinstance(node.body[number - 1], ast.Assign | ast.AnnAssign)):
                    yield name, text


@dataclass
class WordCount:
    """The words of docstrings: all words, vague words by their base form, and docstrings that begin with "As "."""

    n_words: int = 0
    n_as: int = 0
    vague: Counter[str] = field(default_factory=Counter)

    def add(self, name: str, text: str) -> None:
        words = [word.lower() for word in _WORD.findall(text)]
        self.n_words += len(words)
        self.vague.update(base for word in words if (base := FORMS.get(word, word)) in LIMITS)
        if text.startswith("As ") and not name.startswith("_"):
            self.n_as += 1

    def rate(self, word: str) -> float:
        """The uses of *word* in 10,000 words; 0.0 for no words at all."""
        return self.vague[word] / self.n_words * 10_000 if self.n_words else 0.0


def counted(sources: dict[str, str]) -> tuple[WordCount, dict[str, WordCount]]:
    """The counts of all *sources* together, and of each."""
    total, by_file = WordCount(), {}
    for path, source in sources.items():
        by_file[path] = WordCount()
        for name, text in docstrings(source):
            by_file[path].add(name, text)
            total.add(name, text)
    return total, by_file


def worst_files(by_file: dict[str, WordCount], uses: Counter[str]) -> str:
    ranked = sorted(((n, path) for path in by_file if (n := uses[path])), reverse=True)
    return "".join(f"\n  {n:4d}  {path}" for n, path in ranked[:N_WORST])


def complaints(package: str, total: WordCount, by_file: dict[str, WordCount]) -> list[str]:
    """One sentence for each budget that *package* exceeds, and the files with the most uses."""
    found = []
    for word, limit in LIMITS.items():
        if total.rate(word) > limit:
            uses = Counter({path: count.vague[word] for path, count in by_file.items()})
            found.append(
                f'{package}: docstrings use "{word}" {total.vague[word]} times in {total.n_words:,} words, which is '
                f"{total.rate(word):.1f} per 10,000 words; the limit is {limit}. Reword the sentences; the files with "
                f"the most uses are:{worst_files(by_file, uses)}"
            )
    if MOST_AS_DOCSTRINGS is not None and total.n_as > MOST_AS_DOCSTRINGS:
        uses = Counter({path: count.n_as for path, count in by_file.items()})
        found.append(
            f'{package}: {total.n_as} docstrings of public names begin with "As "; the limit is {MOST_AS_DOCSTRINGS}. '
            f"Say in each docstring what its method does; the files with the most are:{worst_files(by_file, uses)}"
        )
    return found


def main(packages: list[str]) -> int:
    """Print a table of all *packages*; return 1 when one is over its budget, else 0."""
    found = []
    print(f"{'package':16}{'words':>8}" + "".join(f"{word:>8}" for word in LIMITS) + f"{'As ...':>8}")
    for package in packages:
        folder = ROOT / "packages" / package / "src"
        paths = sorted(folder.rglob("*.py"))
        sources = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}
        if not sources:
            print(f"{package}: there is no source in {folder}; name a folder of packages/")
            return 1
        total, by_file = counted(sources)
        rates = "".join(f"{total.rate(word):8.1f}" for word in LIMITS)
        print(f"{package:16}{total.n_words:8,}{rates}{total.n_as:8}")
        found += complaints(package, total, by_file)
    print(f"{'limit':24}" + "".join(f"{limit:8}" for limit in LIMITS.values()), "\n")
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or sorted(path.parent.name for path in ROOT.glob("packages/*/pyproject.toml"))))
