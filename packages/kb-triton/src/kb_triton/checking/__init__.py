"""Checks kernels for what Triton's compiler refuses, before the first program runs."""

from kb_triton.checking.launch_check import LaunchCheck
from kb_triton.language.compile_errors import (
    CompilationError,
    CompileTimeAssertionFailure,
    UnsupportedLanguageConstruct,
)

__all__ = ["CompilationError", "CompileTimeAssertionFailure", "LaunchCheck", "UnsupportedLanguageConstruct"]
