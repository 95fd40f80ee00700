"""The result of `kernbench.run`: times, outputs, time by cause, and a check against a reference."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy.typing as npt
from msgspec import UnsetType

from kb_cli.benchmark.author_calls import stated_outputs
from kb_cli.benchmark.setup import Setup
from kb_cli.run.base.frame_text import frame_text
from kb_cli.run.base.model_text import model_rows
from kb_cli.run.base.progress import RunProgress
from kb_cli.run.base.result import RunResult, Sanitized, remedies_of
from kb_cli.run.base.workload_result import OpResult
from kb_cli.run.observe.closing_sentence import Timed, best_first, closing_sentence
from kb_cli.run.saving.in_memory import RunInMemory, run_in_memory
from kb_cli.run.saving.save import Finished
from kb_cli.run.simulation.simulate import Computed
from kb_cli.run.simulation.verdict import Verdict, behind_outputs, judge
from kb_cli.terminal.in_notebooks import notebook_html
from kb_cli.terminal.units import duration, percent
from kb_cli.whatif.budget import MOST_S, Budget
from kb_cli.whatif.known_levers import Levers
from kb_cli.whatif.lever_chances import TriedLever
from kb_cli.whatif.levers import levers_after
from kb_dataexec import UnwrittenBytesError
from kb_dataexec.analysis import LineShare, PathShare, RaceReport, Where, line_shares, path_shares
from kb_engine import read_tensor
from kb_engine.program import authors_traceback
from kb_messages import BenchmarkError, KbError


class WrongResult(AssertionError):
    """Raised for a result that differs from its reference. The text names the worst element, its allowed error, and
    its op.
    """


class CapturedValue(NamedTuple):
    """A value that program number `program`, on PE number `pe`, captured at kernel line `line`."""

    value: npt.NDArray[Any] | None
    pe: int
    program: int
    line: str
    why_not: str = ""


class KernelRun:
    """A finished run of a kernel. `result` has all figures that `kb run --json` prints.

    Times are simulated. A run without `compute` has no `outputs` and cannot be checked.
    """

    def __init__(self, setup: Setup, finished: Finished, has_folder: bool) -> None:
        self.result: RunResult = finished.result
        self._setup = setup
        self._outcome = finished.outcome
        self._has_folder = has_folder
        self._levers: Levers | None = None

    @property
    def latency_ns(self) -> float:
        """Nanoseconds from the start of the first kernel to the end of the last, added up over launches."""
        return self.result.latency_ns

    @property
    def latency_ps(self) -> int:
        """The same in picoseconds, exactly."""
        return self.result.latency_ps

    @property
    def folder(self) -> Path | None:
        """The run folder; None for a run that wrote none."""
        return Path(str(self.result.run_dir)) if self._has_folder else None

    @cached_property
    def outputs(self) -> dict[str, npt.NDArray[Any]]:
        """The results by name, in the order of the kernel's parameters, in their shapes and dtypes.

        Raises KbError for bytes that the kernel never wrote, and for a run without `compute`.
        """
        __tracebackhide__ = True  # pytest shows the line of the test
        computed = self._computed()
        if isinstance(computed.memory, KbError):
            raise computed.memory
        found: dict[str, npt.NDArray[Any]] = {}
        for name, tensor in computed.tensors.items():
            try:
                found[name] = read_tensor(computed.memory, tensor)
            except KbError as error:
                error.where = f"output {name}"
                if isinstance(error, UnwrittenBytesError):
                    error.fix = "look at the grid and at the masks of the stores, or pass kernbench.zeros(shape, dtype)"
                raise error.with_traceback(authors_traceback(error)) from None
        return found

    @property
    def output(self) -> npt.NDArray[Any]:
        """The only result. Raises BenchmarkError when there are none or several."""
        if not self.outputs:
            raise BenchmarkError(self.result.benchmark, "no result", _RESULT)
        if len(self.outputs) != 1:
            got = f"{len(self.outputs)} outputs ({', '.join(self.outputs)})"
            raise BenchmarkError(self.result.benchmark, got, "one for .output", "use .outputs, a dict by name")
        return next(iter(self.outputs.values()))

    @property
    def captures(self) -> dict[str, list[CapturedValue]]:
        """The values of `tl.capture` by name, in the order of the kernels' calls: `value`, `pe`, `program`, `line`.

        A value that could not be computed is None, and `why_not` says why.
        """
        found: dict[str, list[CapturedValue]] = {}
        for each in self._outcome.captured:
            capture = each.capture
            value = CapturedValue(each.value, each.pe, capture.program, capture.line, each.why_not)
            found.setdefault(capture.name, []).append(value)
        return found

    @property
    def lines(self) -> list[LineShare]:
        """The time on the critical path by kernel line, the costliest first: `line`, `ps`, `share`, `blocks`."""
        return line_shares(self._where)

    @property
    def where(self) -> list[PathShare]:
        """The critical path by block and activity, the longest first: `block`, `what`, `ps`, `share`, `line`."""
        return path_shares(self._where)

    @property
    def bounded_by(self) -> str:
        """A sentence that says where most of the time went."""
        return self.result.bounded_by

    @property
    def advice(self) -> str:
        """The same, and which changes of the kernel would help first; after `levers`, which values of the chip, too."""
        tried = None if self._levers is None else self._levers.tried
        found = [] if self._levers is None else self._levers.remedies
        remedies = best_first([*found, *remedies_of(self.result)])
        return closing_sentence(self.bounded_by, Timed.of(self.latency_ps, self.result.workload_ops), remedies, tried)

    def levers(self, most: int | None = None, within_s: float = MOST_S) -> list[TriedLever]:
        """Measures better values of the chip, the most gain first: `name`, `set`, `latency_ps`, `gain`, `then`.

        Each one launches the kernel again, without its data. At most *most* are measured, and none after *within_s*
        seconds. The text of the run then names the best ones. Raises the errors of a run.
        """
        with RunProgress() as progress:
            finished = Finished(self.result, self._outcome)
            self._levers = levers_after(self._setup, finished, (Budget(within_s), most), progress, self.folder)
        return self._levers.levers

    @property
    def measured(self) -> list[TriedLever]:
        """What the last call of `levers` returned; [] before the first."""
        return [] if self._levers is None else self._levers.levers

    @property
    def verified(self) -> bool | None:
        """Whether the results agreed with the reference of the call or benchmark; None without a reference."""
        return self.result.verified

    def check(self, reference: npt.ArrayLike | Mapping[str, npt.ArrayLike] | None = None, tolerance: Any = None) -> str:
        """Compares the results with *reference*, and returns a sentence for each, which names the tolerance.

        *reference* is an array for the only result, or a dict by name; none means the reference of the call or
        benchmark. *tolerance* is the allowed absolute error in the same form, a number or an array for each result.
        Without one, the default for the dtype of the result and the length of its sums counts.

        Raises WrongResult, an AssertionError, for results that are wrong, and BenchmarkError for a reference of another
        shape.
        """
        __tracebackhide__ = True  # pytest shows the line of the test
        verdict = self._outcome.verdict if reference is None else self._judged(reference, tolerance)
        if verdict is None:
            self._computed()
            raise BenchmarkError("check", "no reference", "one", "give one to check(), or reference= to kernbench.run")
        if verdict.refusal or not verdict.ok:
            raise WrongResult(verdict.refusal or "\n".join(each.text for each in verdict.outputs))
        return "\n".join(f"{each.text}, within {each.tolerance}" for each in verdict.outputs)

    def _judged(self, reference: Any, tolerance: Any) -> Verdict:
        computed = self._computed()
        names = list(computed.tensors)
        expected = stated_outputs(
            self._setup,
            computed.tensors,
            _by_name("reference", reference, names),
            {} if tolerance is None else _by_name("tolerance", tolerance, names),
            partial(behind_outputs, computed.log),
        )
        return judge(computed.log, computed.memory, expected, RunProgress(), computed.writers)

    def _computed(self) -> Computed:
        if self._outcome.computed is None:
            raise BenchmarkError("a run with compute=False", "no results", "them", "run it with compute=True")
        return self._outcome.computed

    @property
    def _where(self) -> Where:
        assert self._outcome.where is not None, "a run of kernbench.run has a log"
        return self._outcome.where

    def in_memory(self) -> RunInMemory:
        """Returns the run as a reader of its folder would find it, for reports and comparisons. Needs no folder."""
        return run_in_memory(self._setup, Finished(self.result, self._outcome))

    def __reduce__(self) -> NoReturn:
        """Refuses to be pickled: a run holds its kernel and the memory of pass 2."""
        fix = "return the parts of it that you need, and compare in the same process"
        raise BenchmarkError("a KernelRun", "pickling", "one of its parts (.result, .outputs, .lines, .where)", fix)

    _repr_html_ = notebook_html

    def __repr__(self) -> str:
        """Returns what `print` shows, because a prompt shows this text."""
        return str(self)

    def __str__(self) -> str:
        rows = [f"  {name}: {duration(ps)}, {percent(share)}" for name, ps, share in self._rows()]
        sanitized, races = self.result.sanitizer, self.result.races
        found: list[str] = []
        if isinstance(sanitized, Sanitized):
            found = [f"sanitizer: {text}" for text in sanitized.texts or ["clean"]]
        elif isinstance(races, RaceReport):
            found = [*races.texts, *(races.notes or ())]
        model = self.result.model
        of_model = [] if isinstance(model, UnsetType) else [f"  {name}: {text}" for name, text in model_rows(model)]
        frame = f"  {frame_text(self.result)}"
        return "\n".join([self._title, *of_model, frame, *rows, self.advice, *found])

    @property
    def _title(self) -> str:
        verdict = {True: ", verified", False: ", WRONG", None: ""}[self.verified]
        return f"{self.result.benchmark} on {self.result.topology}: {duration(self.latency_ps)}{verdict}"

    def _rows(self) -> list[tuple[str, int, float]]:
        """The costliest kernel lines, or ops of a workload, and rows for the rest: name, picoseconds, share of the
        latency.

        They add up to the latency. Time of the launches before the kernels and after them is of no line.
        """
        if not isinstance(self.result.workload_ops, UnsetType):
            return self._op_rows(self.result.workload_ops)
        of_lines = [(each.line, each.ps) for each in self.lines if each.line]
        shown, others = of_lines[:_SHOWN], of_lines[_SHOWN:]
        rest_ps = self.latency_ps - sum(ps for _, ps in of_lines)
        rows = [
            *shown,
            (f"{len(others)} other line{'s' * (len(others) != 1)}", sum(ps for _, ps in others)),
            ("no line", rest_ps),
        ]
        return [(name, ps, ps / self.latency_ps) for name, ps in rows if ps]

    def _op_rows(self, ops: list[OpResult]) -> list[tuple[str, int, float]]:
        dear = sorted(ops, key=lambda op: -op.latency_ps)
        rows = [(op.name, op.latency_ps) for op in dear[:_SHOWN]]
        rows.append(
            (
                f"{len(dear) - _SHOWN} other op{'s' * (len(dear) != _SHOWN + 1)}",
                sum(op.latency_ps for op in dear[_SHOWN:]),
            )
        )
        return [(name, ps, ps / self.latency_ps) for name, ps in rows if ps]


_SHOWN = 8
"""The most kernel lines in the text of a run."""

_RESULT = (
    "kernbench.empty(shape, dtype), or kernbench.tensor(x, output=True), in place of an array that the kernel writes"
)


def _by_name(what: str, given: Any, names: list[str]) -> dict[str, npt.ArrayLike]:
    """Returns *given* by output. *names* are the outputs of the run."""
    if isinstance(given, Mapping):
        return dict(given)
    if not names:
        raise BenchmarkError("check", "a run without a result", _RESULT)
    if len(names) != 1:
        raise BenchmarkError(f"check: {what}", "one array", f"a dict of arrays by output, of {names}")
    return {names[0]: given}
