"""Runs kernels with a planted flaw and their rewrites, and compares the estimated gain with the measured one."""

from __future__ import annotations

from typing import Any

import kernbench as kb
from kb_cli.run.base.remedy import Remedy

LEAST, MOST = 0.8, 1.2
"""The measured gain of a rewrite over the estimated one: within a fifth."""


def remedies_of(run: kb.KernelRun) -> dict[str, Remedy]:
    """The remedies of *run* by the name of their rule, the most gain first."""
    return {each.rule: each for each in run.result.remedies or ()}


def confirmed(rule: str, flawed: kb.KernelRun, rewritten: kb.KernelRun) -> Remedy:
    """The remedy *rule* of *flawed*, which is its first one. *rewritten* gains as much, and has the flaw no more."""
    remedy = next(iter(remedies_of(flawed).values()))
    gained = 1 - rewritten.latency_ps / flawed.latency_ps
    ratio = gained / remedy.gain
    assert remedy.rule == rule
    assert LEAST <= ratio <= MOST, f"{gained:.3f} measured, {remedy.gain:.3f} estimated: {remedy.change}"
    assert rule not in remedies_of(rewritten)
    return remedy


def run(chip: Any, kernel: Any, *arguments: Any, **options: Any) -> kb.KernelRun:
    """Runs *kernel* on *chip* without a folder."""
    return kb.run(kernel, *arguments, chip=chip, **options)
