"""Verdicts as text: the lines of `kb verify`, and the cells of other tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from kb_cli.run.base.result import RunResult, Sanitized
from kb_cli.terminal.output import BAD, GOOD
from kb_dataexec.analysis import RaceReport

if TYPE_CHECKING:
    from kb_cli.run.simulation.verify_folder import Verification

_SHOWN = 8
"""The most files that are named of the ones that a verification does not cover."""


def verification_lines(found: Verification) -> list[str]:
    """Returns the lines of `kb verify` for one run folder: the verdict, each output, and the findings of the
    sanitizer.
    """
    verdict = {True: "ok", False: "FAILED", None: "not verified"}[found.verified]
    texts = [found.refusal] if found.refusal else [check.text for check in found.outputs]
    texts += [found.numbers] if isinstance(found.numbers, str) else []
    if isinstance(found.sanitizer, Sanitized):
        texts += [*(found.sanitizer.texts or ["sanitizer: clean"]), *(found.sanitizer.notes or ())]
    if not isinstance(found.not_covered, UnsetType):
        texts.append(f"hashes of {found.covered} files agree; not covered: {_listed(found.not_covered)}")
    return [f"{found.run_dir}: {verdict}", *(f"  {text}" for text in texts)]


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more if names else "nothing"


def verdict_cell(result: RunResult) -> str:
    """Returns the row `verified` of one run's summary."""
    if result.verified is None:
        return "not done"
    sentences = "\n".join(verdict_sentences(result))
    return sentences if result.verified else f"FAILED\n{sentences}"


def verdict_word(verified: bool | None, by_sample: bool, none: str) -> str:
    """Returns the verdict as a cell of a table; *none* where nothing was verified."""
    return {None: none, True: "ok, by sample" if by_sample else "ok", False: "FAILED"}[verified]


def verdict_style(verified: bool | None) -> str:
    """Returns the style of a verdict on a terminal."""
    return {None: "", True: GOOD, False: BAD}[verified]


def verdict_sentences(result: RunResult) -> list[str]:
    """Returns the refusal to execute the log, or a sentence for each wrong output, or for each output when all are
    right.
    """
    if result.refusal:
        return [result.refusal]
    if result.verified and len(result.outputs) > _SHOWN:
        n_elements = sum(check.n_elements for check in result.outputs)
        return [f"ok, {len(result.outputs)} results, each alone, {n_elements} elements"]
    return [check.text for check in result.outputs if check.ok == result.verified]


def failed_line(causes: Sequence[str]) -> list[str]:
    """Returns the last line of an output about something that failed, with the *causes*; no line without a cause."""
    return [f"FAILED: {', '.join(causes)}"] if causes else []


def failure_causes(result: RunResult | Verification) -> list[str]:
    """Returns what failed in a run: its wrong outputs, its races, and the findings of its sanitizer."""
    causes = []
    if result.verified is False:
        wrong = [check.name for check in result.outputs if not check.ok]
        outputs = "1 output" if len(result.outputs) == 1 else f"{len(result.outputs)} outputs"
        named = f"{len(wrong)} of {outputs} wrong ({_listed(wrong)})"
        causes.append("nothing was compared" if result.refusal or not wrong else named)
    races = result.races if isinstance(result, RunResult) else UNSET
    if isinstance(races, RaceReport) and races.races:
        causes.append("1 race" if len(races.races) == 1 else f"{len(races.races)} races")
    if isinstance(result.sanitizer, Sanitized) and result.sanitizer.texts:
        causes.append(f"the sanitizer found {len(result.sanitizer.texts)}")
    return causes


def verdict_count(results: Sequence[RunResult]) -> str:
    """Returns how many of *results* are verified, as text."""
    checked = [result.verified for result in results if result.verified is not None]
    return f"{sum(checked)} of {len(checked)} verified" if checked else "not verified"


def sanitizer_texts(result: RunResult) -> list[str]:
    """Returns one sentence for each finding of the sanitizer, or of the search for races, and for what is not known."""
    found = result.races if isinstance(result.races, RaceReport) else result.sanitizer
    return [] if isinstance(found, UnsetType) else [*found.texts, *(found.notes or ())]
