"""Errors of kernels that Triton's compiler refuses, under Triton's names, and Refusal, with which a rule refuses."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from kb_triton.language.compile_errors import CompilationError, UnsupportedLanguageConstruct

if TYPE_CHECKING:
    from kb_triton.checking.source import KernelSource

_MOST_LINES: Final = 12
"""The lines of source in an error. Source: Triton's `CompilationError.source_line_count_max_in_message`."""
LENIENT: Final = "Triton's compiler refuses this kernel; kb exec --lenient runs it"
"""The last line of a refusal."""


class Refusal(Exception):
    """A rule of the check refuses a kernel with *message*, the words of Triton.

    With *kind*, a class of Python's errors, Triton prints the representation of such an error. *error* is the class of
    the error that the author sees. The check adds the place of the refusal, the innermost function first.
    """

    def __init__(
        self, message: str, kind: type[Exception] | None = None, error: type[CompilationError] = CompilationError
    ) -> None:
        super().__init__(message)
        self.words = message
        self.message = repr(kind(message)) if kind is not None else message
        self.error = error
        self.places: list[tuple[KernelSource, ast.AST]] = []

    def within_call(self) -> Refusal:
        """Returns itself as Triton words it for a call of a function of `tl`: without the class of the error."""
        if not self.places:
            self.message = self.words
        return self

    def at(self, source: KernelSource, node: ast.AST) -> None:
        """Notes that *node* of *source* is the place, unless an inner node of the same function is."""
        if not self.places or self.places[-1][0] is not source:
            self.places.append((source, node))

    def raise_error(self) -> NoReturn:
        """Raises the error from frames of the author's functions, so that a traceback shows their lines."""
        error = self.as_error()

        def action() -> NoReturn:
            raise error

        for source, node in self.places:
            action = source.raising(node, action)
        action()

    def as_error(self) -> CompilationError:
        """Returns the error that the author sees."""
        source, node = self.places[0]
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        found = self.error(f"{source.file_name}:{source.line_in_file(node)}", self.message, "", LENIENT)
        found.error_message = self.message
        found.excerpt = "\n".join([f"at {line}:{column}:", *_lines_until(source.text, line), " " * column + "^"])
        return found


def unsupported(message: str) -> Refusal:
    """Returns the refusal of a construct that Triton does not have."""
    return Refusal(message, error=UnsupportedLanguageConstruct)


def unverified(reason: str) -> Refusal:
    """Returns the refusal of code that the compiler makes and then finds wrong, for *reason*."""
    return Refusal(f"error encountered during parsing: {reason}", RuntimeError)


def _lines_until(text: str, line: int) -> Sequence[str]:
    return text.split("\n")[:line][-_MOST_LINES:]
