"""Checks launches: refuses what Triton's compiler refuses, once for each set of types and constants."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from kb_triton.checking.arguments import key_of, values_of
from kb_triton.checking.global_names import ALLOWING, allows_all_globals
from kb_triton.checking.kernel_check import KernelCheck
from kb_triton.checking.refusals import LENIENT, Refusal
from kb_triton.language.compile_errors import CompilationError

_MOST_CHECKS: Final = 256
"""The checks that a kernel remembers. Source: assumed."""


class LaunchCheck:
    """Checks the launches of *function*, a JITFunction."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self._known: dict[Any, Refusal | None] = {}

    def check(self, arguments: Mapping[str, Any], code: object, num_warps: Any = None) -> None:
        """Raises CompilationError if Triton's compiler refuses the kernel for *arguments*, the bound ones by name.

        *code* is another object once a name that the kernel uses means something else. *num_warps* is the option of the
        launch, None without one.
        """
        if isinstance(num_warps, int) and (num_warps <= 0 or num_warps & (num_warps - 1)):
            got = f"num_warps={num_warps} (num_warps must be a power of 2)"
            raise CompilationError(f"launch of {self._function.__name__}", got, "a power of 2", LENIENT)
        function = self._function
        key = (
            code,
            os.environ.get(ALLOWING),
            *(key_of(each, arguments.get(each.name)) for each in function.params),
        )
        if key not in self._known:
            if len(self._known) >= _MOST_CHECKS:
                self._known.clear()
            check = KernelCheck(allows_all_globals())
            self._known[key] = check.refusal(function, values_of(function.params, arguments))
        found = self._known[key]
        if found is not None:
            found.raise_error()
