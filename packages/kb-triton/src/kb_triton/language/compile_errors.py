"""Errors of kernels that Triton's compiler refuses, under Triton's names."""

from __future__ import annotations

from typing import Any

from kb_messages import KernelError


class CompilationError(KernelError):
    """Triton's compiler refuses a kernel. The text begins with the words of Triton's own error.

    `error_message` has the words without the lines of source, `where` the author's file and line.
    """

    error_message = ""
    excerpt = ""

    def __str__(self) -> str:
        if not self.excerpt:
            return super().__str__()
        words = f"{self.excerpt}\n{self.error_message}".rstrip("\n")
        return f"{words}\n{self.where}: {self.fix}"

    def __reduce__(self) -> Any:
        return type(self), self.args, {"error_message": self.error_message, "excerpt": self.excerpt}


class UnsupportedLanguageConstruct(CompilationError):
    """A kernel uses a construct of Python that Triton does not have."""


class CompileTimeAssertionFailure(CompilationError):
    """A `tl.static_assert` of a kernel does not hold. `error_message` is the author's message."""

    @property
    def sentence(self) -> str:
        """The error in one line, for tables."""
        got, needs = failed_assertion(self.error_message)
        return f"{self.where}: got {got}, needs {needs}"


def failed_assertion(message: Any) -> tuple[str, str]:
    """Returns what an error says of a `tl.static_assert` with *message*: what was got, and what is needed."""
    return f"a tl.static_assert that does not hold{f': {message}' if message else ''}", "a true condition"
