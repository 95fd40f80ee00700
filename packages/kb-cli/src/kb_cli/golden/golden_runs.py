"""The runs of one test: each is a run of `kernbench.run`, and its time is compared with the golden one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from kb_cli.capsule.pack import pack
from kb_cli.capsule.unpack import unpack
from kb_cli.compare.comparison import compare
from kb_cli.compare.side import read_side
from kb_cli.face.kernel_run import KernelRun
from kb_cli.face.run import run
from kb_cli.golden.golden_file import FILE, RUNS, Golden, capsule_name, read_golden, write_golden
from kb_cli.report.tables.compare_tables import comparison_parts
from kb_cli.terminal.output import as_text
from kb_cli.terminal.units import duration, percent, signed_percent
from kb_messages import KbError


def explained(capsule: Path, folder: Path) -> str:
    """Returns the comparison of the run in *folder* with the run of *capsule* as text, or the reason for which there
    is none.
    """
    try:
        with TemporaryDirectory(prefix="kb-golden-") as place:
            unpack(capsule, Path(place))
            return as_text(*comparison_parts(compare(read_side(Path(place)), read_side(folder))))
    except KbError as error:
        return f"no explanation: {error}"
    except OSError as error:
        return f"no explanation: {capsule}: got {error.strerror}, needs the capsule that --kb-update writes"


class GoldenRuns:
    """The fixture `kb_run` of the test *name*, whose file lies in *folder*. Run folders go below *place*.

    A run is compared unless *within* is None: its latency may be longer than the golden one by that share. With
    *update*, its latency is a new golden one, which `updated` returns when the test has passed. `count` is the number
    of runs. Raises BenchmarkError where golden times cannot be read, before anything runs.
    """

    def __init__(self, folder: Path, name: str, within: float | None, update: bool, place: Path) -> None:
        self._folder, self._name, self._within = folder, name, within
        self._update, self._place = update, place
        self._golden = {} if within is None else read_golden(folder)
        self.count = 0
        self._updated: dict[str, dict[str, Any]] = {}

    def __call__(self, kernel: Any, *arguments: Any, **options: Any) -> KernelRun:
        """Runs *kernel*; arguments are the same as for `kernbench.run`. The second run of a test has `#2` behind its
        name.

        Raises AssertionError for a run that takes longer than its golden time allows, with the comparison of the two
        runs by block and kernel line, and for a run without a golden time.
        """
        __tracebackhide__ = True  # pytest shows the line of the test
        self.count += 1
        if self._within is not None:
            options = {"folder": self._place / str(self.count), "keep": "none", **options}
        try:
            found = run(kernel, *arguments, **options)
        except KbError as error:
            raise error.with_traceback(None) from None  # the mistake is the test's, and no line of kb explains it
        if self._within is None:
            return found
        key = self._name if self.count == 1 else f"{self._name}#{self.count}"
        if self._update:
            self._store(key, found)
        else:
            self._compare(key, found, self._within)
        return found

    def updated(self) -> dict[str, dict[str, Any]]:
        """Returns the new golden times by run, and moves their capsules to their place. Called only when the test
        passed.
        """
        for golden in self._updated.values():
            (self._folder / RUNS).mkdir(exist_ok=True)
            shutil.move(self._place / golden["run"], self._folder / RUNS / golden["run"])
        return self._updated

    def _store(self, key: str, found: KernelRun) -> None:
        golden = Golden(latency_ps=found.latency_ps, chip=found.result.topology, run=capsule_name(key))
        assert found.folder is not None, "the run has a folder"
        pack(found.folder, self._place / golden.run, data=False)
        self._updated[key] = msgspec.to_builtins(golden)

    def _compare(self, key: str, found: KernelRun, within: float) -> None:
        __tracebackhide__ = True
        golden = self._golden.get(key)
        if golden is None:
            raise AssertionError(
                f"{key}: got no golden time in {FILE}, needs one; run pytest --kb-update and review it"
            )
        if found.latency_ps <= golden.latency_ps * (1 + within):
            return
        change = signed_percent(found.latency_ps / golden.latency_ps - 1)
        sentence = f"{key}: {duration(found.latency_ps)}, {change} against the golden {duration(golden.latency_ps)}"
        assert found.folder is not None, "the run has a folder"
        why = explained(self._folder / RUNS / golden.run, found.folder)
        raise AssertionError(f"{sentence}; {percent(within)} more is allowed\n\n{why}")


def write_updated(folder: Path, runs: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Writes the golden times *runs* into the file of *folder*, and yields a line for each that is new or changed.

    A capsule of another name that one of these runs had is deleted, unless another run has that capsule.
    """
    before = read_golden(folder)
    after = {key: msgspec.convert(golden, Golden) for key, golden in runs.items()}
    write_golden(folder, after)
    kept = {golden.run for golden in read_golden(folder).values()}
    for old_name in {before[key].run for key in after if key in before} - kept:
        if old_name == Path(old_name).name:  # a name that leads elsewhere is no capsule that kb wrote
            (folder / RUNS / old_name).unlink(missing_ok=True)
    for key, golden in sorted(after.items()):
        old = before.get(key)
        if old is None:
            yield f"{folder / FILE}: {key}: {duration(golden.latency_ps)}, new"
        elif old.latency_ps != golden.latency_ps:
            yield f"{folder / FILE}: {key}: {duration(old.latency_ps)} -> {duration(golden.latency_ps)}"
