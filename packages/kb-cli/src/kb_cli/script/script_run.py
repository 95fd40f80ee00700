"""A run of a user's script: a row for each launch, in one folder."""

from __future__ import annotations

import hashlib
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from kb_cli.benchmark.script_front_end import TRITON, ScriptDevice, ScriptLaunch, ScriptTuning, script_front_end
from kb_cli.benchmark.script_record import RecordedScript
from kb_cli.benchmark.setup import Setup
from kb_cli.run.folder import NewRunFolder
from kb_cli.run.identity import folder_name, versions
from kb_cli.run.keep import SHAPES_LIMIT
from kb_cli.run.progress import RunProgress
from kb_cli.run.result_parts import Policy
from kb_cli.run.rows import rows_fields
from kb_cli.run.run_json import write_run
from kb_cli.run.run_result import RunResult
from kb_cli.script.launch_progress import LaunchProgress
from kb_cli.script.launch_row import setup_of, write_row
from kb_cli.script.launch_sanitizer import LaunchSanitizer
from kb_cli.script.launch_watch import LaunchWatch
from kb_messages import BenchmarkError, KbError, read_bytes

FAILED = 1
"""The exit code of a script that raised, as Python has it."""
_MOST_NBYTES = 16 << 20
"""Of a script. Source: assumed."""


class TunedRow(Struct, frozen=True, kw_only=True):
    """A configuration of a tuned kernel: what a launch took, or why there was none."""

    config: str
    latency_ps: int | None
    why_not: str


class TunedKernel(Struct, frozen=True, kw_only=True):
    """What an autotuner tried for one key, and the best configuration."""

    kernel: str
    key: dict[str, Any]
    best: str
    tried: list[TunedRow]


class ScriptResult(Struct, frozen=True, kw_only=True):
    """A script that has run. `exit_code` is the script's own. There is no folder when nothing was launched."""

    script: str
    arguments: list[str]
    topology: str
    exit_code: int
    latency_ps: int
    launches: list[RunResult]
    tunings: list[TunedKernel]
    run_dir: str | UnsetType = UNSET


class ScriptRun:
    """The run of *script* with *arguments*, under *options* of its front end.

    The folder goes below *out*. With *sanitize*, each launch is searched, which changes nothing in the folder. `error`
    is what the script was refused for, or None; the launches before it have rows.
    """

    def __init__(
        self,
        script: Path,
        arguments: Sequence[str],
        options: Mapping[str, Any],
        out: Path,
        policy: Policy,
        sanitize: bool = False,
    ) -> None:
        self.error: KbError | None = None
        self._script = script
        self._arguments = list(arguments)
        self._options = dict(options)
        self._policy = policy
        self._sha256 = hashlib.sha256(read_bytes(script, BenchmarkError, _MOST_NBYTES)).hexdigest()
        self._front_end = script_front_end()
        sanitizer, self._progress = LaunchSanitizer() if sanitize else None, RunProgress()
        self._watch, self._launch_progress = LaunchWatch(sanitizer), LaunchProgress(self._progress)
        observers = [self._watch, self._launch_progress, *([sanitizer] if sanitizer is not None else [])]
        self._rows: list[RunResult] = []
        self._first: Setup | None = None
        self._left_nbytes = SHAPES_LIMIT
        simulated = {**options, "templates": False} if sanitize else options  # a repeated program has no elements
        self._device: ScriptDevice = self._front_end.new_device(
            simulated, lambda: observers, self._launched, self._around
        )
        self._folder = NewRunFolder(out, folder_name(script.stem, self._identity()))

    def run(self) -> ScriptResult:
        """Run the script. What it raises is printed as Python prints it, and the exit code says so."""
        with self._folder:
            code = self._exit_code()
            if self._first is not None:
                write_run(self._folder.path, rows_fields(self._first, self._rows, self._folder.path))
                self._folder.commit()
        return ScriptResult(
            script=str(self._script),
            arguments=self._arguments,
            topology=self._device.topology.name,
            exit_code=code,
            latency_ps=sum(each.latency_ps for each in self._rows),
            launches=self._rows,
            tunings=[_tuned(each) for each in self._device.tunings],
            run_dir=str(self._folder.final) if self._first is not None else UNSET,
        )

    def _around(self, is_trial: bool) -> AbstractContextManager[None]:
        """The block in which a launch is under way."""
        return self._launch_progress.launch(len(self._rows), is_trial)

    def _exit_code(self) -> int:
        try:
            with self._progress:
                self._front_end.execute(self._device, self._script, self._arguments, self._options)
        except SystemExit as error:
            return _code_of(error)
        except KbError as error:
            self.error = error
            return error.exit_code
        except Exception as error:  # noqa: BLE001 - a script may raise anything
            _print_as_python_does(error, self._script)
            return FAILED
        return 0

    def _launched(self, launch: ScriptLaunch) -> None:
        number = len(self._rows)
        record = RecordedScript(
            front_end=TRITON,
            path=str(self._script),
            sha256=self._sha256,
            arguments=self._arguments,
            options=self._options,
            launch=number,
        )
        if self._first is None:
            self._first = setup_of(launch, record)
        name = f"{number:04d}"
        paths = self._folder.path / name, self._folder.final / name
        result = write_row(paths, launch, self._watch, record, self._policy, self._left_nbytes)
        self._left_nbytes -= result.keep.nbytes if result.keep.data else 0
        self._rows.append(result)

    def _identity(self) -> dict[str, Any]:
        return {
            "script": {"file": self._script.name, "sha256": self._sha256},
            "arguments": self._arguments,
            "options": self._options,
            "topology": self._device.topology.digest,
            "versions": versions(self._device.topology),
        }


def _tuned(tuning: ScriptTuning) -> TunedKernel:
    tried = [TunedRow(config=each.config, latency_ps=each.ps, why_not=each.why_not) for each in tuning.tried]
    key = {name: value if type(value) in (bool, int, float, str) else str(value) for name, value in tuning.key.items()}
    return TunedKernel(kernel=tuning.kernel, key=key, best=tuning.best, tried=tried)


def _code_of(error: SystemExit) -> int:
    """The exit code of a script that ends by *error*. A text is printed, as Python does."""
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code
    sys.stderr.write(f"{error.code}\n")
    return FAILED


def _print_as_python_does(error: Exception, script: Path) -> None:
    """Print the traceback of *error* from the first frame of *script* on."""
    path, trace = str(script.resolve()), error.__traceback__
    first = trace
    while first is not None and first.tb_frame.f_code.co_filename != path:
        first = first.tb_next
    traceback.print_exception(type(error), error, first or trace)
