"""A command line up to the cursor: its words, and what the word at the cursor may be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kb_cli.completion.words import WORDS, CommandWords, Kind, Value


class Typed(NamedTuple):
    """The words of a line before the one at the cursor, and this one. `is_quoted`: this one has a quote or a `\\`."""

    words: tuple[str, ...]
    last: str
    is_quoted: bool


def typed(line: str) -> Typed:
    """Returns the words of *line*, as a shell cuts it. A quote that does not end takes the rest."""
    words: list[str] = []
    last, quote, is_quoted, is_word = "", "", False, False
    letters = iter(line)
    for letter in letters:
        if letter == "\\" and quote != "'":
            last, is_quoted, is_word = last + next(letters, ""), True, True
        elif quote and letter == quote:
            quote = ""
        elif not quote and letter in "\"'":
            quote, is_quoted, is_word = letter, True, True
        elif not quote and letter.isspace():
            if is_word:
                words.append(last)
            last, is_quoted, is_word = "", False, False
        else:
            last, is_word = last + letter, True
    return Typed(tuple(words), last, is_quoted)


class Wanted(NamedTuple):
    """What the word at the cursor may be: *value*, behind the *prefix* that the word begins with already.

    `benchmark` is the first argument of the command before the cursor, "" where there is none.
    """

    value: Value
    prefix: str
    benchmark: str


def names_after(words: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of commands that may follow *words*, which begin with `kb`; () behind a whole command."""
    named = " ".join(each for each in words[1:] if not each.startswith("-"))
    if named.partition(" ")[0] in WORDS or any(named == each or named.startswith(f"{each} ") for each in WORDS):
        return ()
    begin = f"{named} " if named else ""
    return tuple(dict.fromkeys(each[len(begin) :].partition(" ")[0] for each in WORDS if each.startswith(begin)))


def wanted(words: Sequence[str], last: str) -> Wanted | None:
    """Returns what *last*, the word behind *words*, may be in a whole command; None where nothing is known."""
    named = next((each for each in WORDS if tuple(words[1:])[: each.count(" ") + 1] == tuple(each.split())), None)
    if named is None:
        return None
    command = WORDS[named]
    arguments, option, only_arguments = _read(command, words[named.count(" ") + 2 :])
    first = arguments[0] if arguments else ""
    if option:
        return Wanted(command.options[option], "", first)
    if last.startswith("-") and not only_arguments:
        option, equals, _ = last.partition("=")
        if not equals:
            return Wanted(tuple(command.options), "", first)
        value = command.options.get(option, Kind.FLAG) if option.startswith("--") else Kind.FLAG
        return None if value is Kind.FLAG else Wanted(value, f"{option}=", first)
    kind = command.arguments[len(arguments)] if len(arguments) < len(command.arguments) else command.rest
    return None if kind is None else Wanted(kind, "", first)


def _read(command: CommandWords, words: Sequence[str]) -> tuple[list[str], str, bool]:
    """Returns the arguments among *words*, the option that still lacks its value or "", and whether options ended."""
    arguments: list[str] = []
    option, only_arguments = "", False
    for word in words:
        if option:
            option = ""
        elif only_arguments or not word.startswith("-") or word == "-":
            arguments.append(word)
            only_arguments |= command.ends_at_first
        elif word == "--":
            only_arguments = True
        elif command.options.get(word, Kind.FLAG) is not Kind.FLAG:
            option = word
    return arguments, option, only_arguments
