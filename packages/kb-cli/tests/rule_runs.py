"""Runs of kernels with a flaw, and of the same kernels without it, for tests of the rules on the kernel's side."""

from __future__ import annotations

from typing import Any

import kernbench as kb

PLACEMENT = ("tail", "unused PEs", "all in one slice", "one slice at a time", "operands replicated")


def remedies(run: Any) -> list[Any]:
    return list(run.result.remedies)


def rules(run: Any) -> list[str]:
    return [each.rule for each in remedies(run)]


def placement_rules(run: Any) -> list[str]:
    """The rules of `run/rules/placement` that found a flaw in *run*."""
    return [name for name in rules(run) if name in PLACEMENT]


def remedy_of(run: Any, rule: str) -> Any:
    """The remedy of *run* that *rule* found."""
    return next(each for each in remedies(run) if each.rule == rule)


def check_gain(flawed: Any, rewritten: Any, rule: str) -> Any:
    """Checks that *rule* has the most gain in *flawed*, and that *rewritten* comes within a fifth of it. Returns the
    remedy.
    """
    assert remedies(flawed)[0].rule == rule
    return check_remedy(flawed, rewritten, rule)


def check_remedy(flawed: Any, rewritten: Any, rule: str) -> Any:
    """Checks that *rewritten* comes within a fifth of the gain that *rule* estimates. Returns the remedy."""
    found = remedy_of(flawed, rule)
    assert found.basis == "estimated"
    gain = 1 - rewritten.latency_ps / flawed.latency_ps
    assert 0.8 <= gain / found.gain <= 1.2, (gain, found)
    assert rule not in rules(rewritten)
    return found


def run(*arguments: Any, **options: Any) -> Any:
    return kb.run(*arguments, compute=False, **options)
