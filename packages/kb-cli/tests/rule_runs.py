"""Runs of kernels with a flaw, and of the same kernels without it, for tests of the rules on the kernel's side."""

from __future__ import annotations

from typing import Any

import kernbench as kb


def remedies(run: Any) -> list[Any]:
    return list(run.result.remedies)


def rules(run: Any) -> list[str]:
    return [each.rule for each in remedies(run)]


def remedy_of(run: Any, rule: str) -> Any:
    """The remedy of *run* that *rule* found."""
    return next(each for each in remedies(run) if each.rule == rule)


def check_gain(flawed: Any, rewritten: Any, rule: str) -> Any:
    """Checks that *rule* has the most gain in *flawed*, and that *rewritten* comes within a fifth of it. Returns the
    remedy.
    """
    first = remedies(flawed)[0]
    assert first.rule == rule
    assert first.basis == "estimated"
    gain = 1 - rewritten.latency_ps / flawed.latency_ps
    assert 0.8 <= gain / first.gain <= 1.2, (gain, first)
    assert rule not in rules(rewritten)
    return first


def run(*arguments: Any, **options: Any) -> Any:
    return kb.run(*arguments, compute=False, **options)
