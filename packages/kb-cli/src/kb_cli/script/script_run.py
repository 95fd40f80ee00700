"""A run of a user's script: a row for each launch, in one folder."""

from __future__ import annotations

import hashlib
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from kb_cli.benchmark.run_records import RecordedScript
from kb_cli.benchmark.scripts import TRITON, ScriptDevice, ScriptLaunch, ScriptTuning, script_front_end
from kb_cli.benchmark.setup import Setup
from kb_cli.run.base.files import LOG
from kb_cli.run.base.progress import PASS_1, RunProgress
from kb_cli.run.base.result import Policy, RunResult, SimStats
from kb_cli.run.folders.identity import folder_name, versions
from kb_cli.run.folders.run_folder import NewRunFolder
from kb_cli.run.records.run_json import write_run
from kb_cli.run.saving.keep import whole_room, without_own_folder
from kb_cli.run.saving.rows import rows_fields
from kb_cli.script.launch_progress import LaunchProgress
from kb_cli.script.launch_row import setup_of, write_row
from kb_cli.script.launch_watch import LaunchSanitizer, LaunchWatch, LaunchWork
from kb_dataexec.files import writing
from kb_dataexec.log import write_log
from kb_engine.observe import Observer
from kb_engine.program import place
from kb_messages import BenchmarkError, KbError, check_text, read_bytes

FAILED = 1
"""The exit code of a script that raised, as Python has it."""
INTERRUPTED = 130
"""The exit code of a script that Ctrl-C ended, as a shell has it."""
_SCRIPT = "the script"
"""The phase of an interrupted run outside of launches."""
_MOST_NBYTES = 16 << 20
"""The most bytes of a script. Source: assumed."""


class TunedRow(Struct, frozen=True, kw_only=True):
    """A configuration of a tuned kernel: the latency of a launch, or the reason for which there was none.

    `same_as` is an earlier configuration whose launch is equal. The launch was not simulated again.
    """

    config: str
    latency_ps: int | None
    why_not: str
    same_as: str = ""


class TunedKernel(Struct, frozen=True, kw_only=True):
    """The configurations that an autotuner tried for one key, and the best one.

    `idle` are the options and constants in which configurations differ whose launches are equal.
    """

    kernel: str
    key: dict[str, Any]
    best: str
    tried: list[TunedRow]
    idle: list[str] = []


class ScriptResult(Struct, frozen=True, kw_only=True):
    """The result of a script. `exit_code` is the script's own, or kb's for one that was refused or interrupted.

    There is neither a folder nor `simulated` when nothing was launched. `simulated` counts all launches but trials.
    """

    script: str
    arguments: list[str]
    topology: str
    exit_code: int
    latency_ps: int
    launches: list[RunResult]
    tunings: list[TunedKernel]
    simulated: SimStats | UnsetType = UNSET
    run_dir: str | UnsetType = UNSET


class ScriptRun:
    """The run of *script* with *arguments*, under *options* of its front end.

    The folder goes below *out*. With *sanitize*, each launch is searched, which changes nothing in the folder; with
    None for *sanitize*, it is searched for races alone, where that costs little. `error` is the error
    that refused the script, or the interrupt that ended it, or None; the launches before it have rows.
    """

    def __init__(
        self,
        script: Path,
        arguments: Sequence[str],
        options: Mapping[str, Any],
        out: Path,
        policy: Policy,
        sanitize: bool | None = False,
    ) -> None:
        for text in (str(script), *arguments):
            check_text(text, "kb exec", BenchmarkError)
        self.error: KbError | KeyboardInterrupt | None = None
        self._script = script
        self._arguments = list(arguments)
        self._options = dict(options)
        self._policy = policy
        self._sha256 = hashlib.sha256(read_bytes(script, BenchmarkError, _MOST_NBYTES)).hexdigest()
        self._front_end = script_front_end()
        self._rows: list[RunResult] = []
        self._first: Setup | None = None
        self._room = whole_room()
        self._is_cut_off = False
        self._work = LaunchWork()
        sanitizer = LaunchSanitizer() if sanitize else None
        self._watch = LaunchWatch(sanitizer, sanitize is None)
        observers: list[Observer] = [self._watch, *([sanitizer] if sanitizer is not None else [])]
        simulated = {**options, "templates": False} if sanitize else options  # a repeated program has no elements
        self._device: ScriptDevice = self._front_end.new_device(
            simulated, lambda: observers, self._launched, self._around
        )
        self._folder = NewRunFolder(out, folder_name(script.stem, self._identity()))
        self._progress = RunProgress(self._folder.path)
        self._launch_progress = LaunchProgress(self._progress)
        observers.append(self._launch_progress)

    def run(self) -> ScriptResult:
        """Runs the script. An exception is printed as Python prints it, and sets the exit code.

        Ctrl-C leaves the launches that have ended, and the log of the current one, in a folder of another name. SIGTERM
        leaves nothing, and is raised.
        """
        with self._folder:
            code = self._exit_code()
            run_dir = self._kept_on(self.error) if isinstance(self.error, KeyboardInterrupt) else self._kept()
        return ScriptResult(
            script=str(self._script),
            arguments=self._arguments,
            topology=self._device.topology.name,
            exit_code=code,
            latency_ps=sum(each.latency_ps for each in self._rows),
            launches=self._rows,
            tunings=[_tuned(each) for each in self._device.tunings],
            simulated=self._work.so_far,
            run_dir=run_dir,
        )

    def _kept(self) -> str | UnsetType:
        if self._first is None:
            return UNSET
        self._progress.remove_file(self._folder.path)
        write_run(self._folder.path, rows_fields(self._first, self._rows, self._folder.path))
        if not self._folder.commit():
            self._rows = [without_own_folder(row) for row in self._rows]
        return str(self._folder.final)

    def _kept_on(self, error: KeyboardInterrupt) -> str | UnsetType:
        """Keeps the finished launches when *error* has ended the script, and adds a note with their folder to
        *error*.
        """
        if not getattr(error, "__notes__", []):
            self._progress.begin(_SCRIPT, _place_in(error, self._script))
            error.add_note(self._progress.interrupted([]))
        if not (self._keep_log_so_far() or self._rows):
            return UNSET
        kept = self._folder.commit_interrupted()
        self._rows = [replace(row, run_dir=str(kept / f"{number:04d}")) for number, row in enumerate(self._rows)]
        error.add_note(f"the files written so far are in {kept}")
        return str(kept)

    def _keep_log_so_far(self) -> bool:
        """Writes the op log of the launch that was interrupted. Returns whether it has a record."""
        log = self._device.log_so_far() if self._is_cut_off else None
        if log is None or not log.n_ops:
            return False
        path = self._folder.path / f"{len(self._rows):04d}"
        with writing(path):
            path.mkdir()
        write_log(path / LOG, log)
        (path / LOG / "manifest.json").unlink()  # which would say that the log is complete
        return True

    @contextmanager
    def _around(self, is_trial: bool) -> Iterator[None]:
        """Marks the block as a launch. A KeyboardInterrupt gets notes on the state of the launch."""
        self._is_cut_off = False
        try:
            with self._launch_progress.launch(len(self._rows), is_trial):
                yield
        except KeyboardInterrupt as error:
            is_simulating = self._progress.phase == PASS_1
            self._is_cut_off = is_simulating and not is_trial
            kernel_positions = self._device.kernel_positions() if is_simulating else []
            for note in (self._progress.interrupted(kernel_positions), *kernel_positions):
                error.add_note(note)
            raise

    def _exit_code(self) -> int:
        try:
            with self._progress:
                self._front_end.execute(self._device, self._script, self._arguments, self._options)
        except SystemExit as error:
            return _code_of(error)
        except KbError as error:
            if error.where.startswith("launch"):  # a launch has no line of its own
                place(error, self._script.resolve().parent)
            self.error = error
            return error.exit_code
        except KeyboardInterrupt as error:
            if type(error) is not KeyboardInterrupt:  # SIGTERM raises a class of its own
                raise
            self.error = error
            return INTERRUPTED
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
        result = write_row(paths, launch, self._watch, record, self._policy, self._room)
        self._room = self._room.without(result.keep)
        self._rows.append(result)
        self._work.add(launch.host.engine)

    def _identity(self) -> dict[str, Any]:
        return {
            "script": {"file": self._script.name, "sha256": self._sha256},
            "arguments": self._arguments,
            "options": self._options,
            "topology": self._device.topology.digest,
            "versions": versions(self._device.topology),
        }


def _tuned(tuning: ScriptTuning) -> TunedKernel:
    tried = [
        TunedRow(config=each.config, latency_ps=each.ps, why_not=each.why_not, same_as=each.same_as)
        for each in tuning.tried
    ]
    key = {name: value if type(value) in (bool, int, float, str) else str(value) for name, value in tuning.key.items()}
    return TunedKernel(kernel=tuning.kernel, key=key, best=tuning.best, tried=tried, idle=list(tuning.idle))


def _code_of(error: SystemExit) -> int:
    """Returns the exit code of a script that ends by *error*. A text is printed, as Python does."""
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code
    sys.stderr.write(f"{error.code}\n")
    return FAILED


def _place_in(error: BaseException, script: Path) -> str:
    """Returns the line of *script* at which *error* was raised or passed; the script alone where there is none."""
    path = str(script.resolve())
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == path]
    return f"{script}:{lines[-1]}" if lines else str(script)


def _print_as_python_does(error: Exception, script: Path) -> None:
    """Prints the traceback of *error* from the first frame of *script* on."""
    path, trace = str(script.resolve()), error.__traceback__
    first = trace
    while first is not None and first.tb_frame.f_code.co_filename != path:
        first = first.tb_next
    traceback.print_exception(type(error), error, first or trace)
