"""The script that counts vague words: which texts are docstrings, and when a package is over its budget."""

from importlib import import_module
from pathlib import Path

import pytest

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(Path(__file__).parent / "words")
    words = import_module("docstring_words")

SOURCE = '''
"""What a module is."""

LIMIT = 3
"""Told apart."""


class Thing:
    """As those."""

    size: int
    """What is left."""

    def run(self):
        """As the other does. It tells what."""
        "not a docstring"
        what = "those"


def _private():
    """As nobody sees."""
    print("what")
'''


def test_texts_of_definitions_and_below_assignments_are_docstrings() -> None:
    assert list(words.docstrings(SOURCE)) == [
        ("", "What a module is."),
        ("", "Told apart."),
        ("Thing", "As those."),
        ("Thing", "What is left."),
        ("_private", "As nobody sees."),
        ("run", "As the other does. It tells what."),
    ]


def test_words_are_counted_by_their_base_form() -> None:
    total, by_file = words.counted({"a.py": SOURCE, "b.py": ""})
    assert total.vague == {"what": 3, "tell": 2, "those": 1}
    assert total.n_words == 4 + 2 + 3 + 2 + 3 + 7
    assert total.n_as == 2
    assert by_file["b.py"].rate("what") == 0.0


def test_a_package_over_its_budget_gets_a_sentence_with_its_worst_files() -> None:
    total, by_file = words.counted({"packages/a.py": SOURCE})
    sentences = words.complaints("kb-x", total, by_file)
    assert len(sentences) == len(words.LIMITS)
    sentence, worst = sentences[0].splitlines()
    assert sentence == (
        'kb-x: docstrings use "what" 3 times in 21 words, which is 1428.6 per 10,000 words; the limit is 20. '
        "Reword the sentences; the files with the most uses are:"
    )
    assert worst == "     3  packages/a.py"


@pytest.mark.parametrize("package", ["kb-messages", "kb-topology", "kb-plans", "kb-components"])
def test_a_package_is_within_its_budget(package: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert words.main([package]) == 0
    assert package in capsys.readouterr().out


def test_an_unknown_package_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert words.main(["kb-none"]) == 1
    assert "kb-none: there is no source in" in capsys.readouterr().out
