"""Verification of a finished run from its folder alone: executes the log again and compares the outputs."""

from __future__ import annotations

from pathlib import Path

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from kb_cli.benchmark.expected import Expected, ExpectedProduct
from kb_cli.run.base.files import EXPECTED, LEVERS, LOG, MEMORY, RUN, WALL, RunFolderError
from kb_cli.run.base.progress import PASS_2, VERIFY, RunProgress
from kb_cli.run.base.result import OutputCheck, Sanitized
from kb_cli.run.records.data import INDEX, load_data, load_expected
from kb_cli.run.records.manifest_check import broken_claim, extra_files
from kb_cli.run.records.run_json import RowClaim, RowsJson, RunJson, is_sealed, read_run
from kb_cli.run.simulation.sanitizer import sanitize_stored
from kb_cli.run.simulation.verdict import Verdict, Writers, execute, execute_debugging, judge, refused
from kb_dataexec import LargeLogError, MemoryStore, read_log
from kb_dataexec.analysis import Element, ElementNames, unnamed
from kb_dataexec.files import file_in
from kb_messages import KbError

_CHANGED = "got other content than the run wrote, needs that of the hash at its end"


class Verification(Struct, frozen=True, kw_only=True):
    """The verdict on one run folder, as `kb verify --json` prints it.

    `verified` is None for a shape without data, and for a launch of a script, of which only the log was searched:
    `numbers` then says who judges its numbers. `sanitizer` is missing unless it was asked for and the data is intact.
    `covered` counts the files whose hashes agree, run.json included, and `not_covered` lists the files that the
    manifest does not list; both are missing unless all hashes agreed and no number was wrong.
    """

    run_dir: str
    benchmark: str
    verified: bool | None
    max_abs_err: float | None
    log_digest: str | None
    outputs: list[OutputCheck]
    refusal: str | None
    numbers: str | UnsetType = UNSET
    sanitizer: Sanitized | UnsetType = UNSET
    covered: int | UnsetType = UNSET
    not_covered: list[str] | UnsetType = UNSET


def verify_run_dir(
    run_dir: Path, debug: bool = False, sanitize: bool = False, progress: RunProgress | None = None
) -> list[Verification]:
    """Verifies the run in *run_dir*, op by op with *debug*, and searches its log for hazards with *sanitize*.

    The folder of a shapes file gives an element for each row. Raises RunFolderError when *run_dir* is no run folder, or
    when it holds no data to verify.
    """
    run, shown = read_run(run_dir), progress or RunProgress()
    if isinstance(run, RunJson):
        return [verify_folder(run_dir, shown, debug, sanitize)]
    broken = _broken_rows(run_dir, run)
    return (
        [_refused(run_dir, run, False, broken)] if broken else _verify_rows(run_dir, run.rows, shown, debug, sanitize)
    )


def verify_folder(folder: Path, progress: RunProgress, debug: bool = False, sanitize: bool = False) -> Verification:
    """Verifies the one run in *folder*. Raises RunFolderError when *folder* holds no data to verify.

    For a launch of a script, *sanitize* without *debug* searches the log, because the script judges its numbers itself.
    """
    run = _read_one(folder)
    if run.script is not None and sanitize and not debug:
        return _searched(folder, run, progress)
    verdict = verify_run(folder, debug, progress)
    return Verification(
        run_dir=str(folder),
        benchmark=run.benchmark.name,
        verified=verdict.ok,
        max_abs_err=verdict.max_abs_err,
        log_digest=run.log_digest,
        outputs=verdict.outputs,
        refusal=verdict.refusal,
        sanitizer=_sanitized(folder, run) if sanitize and verdict.refusal is None else UNSET,
        covered=len(run.files) + 1 if verdict.ok else UNSET,
        not_covered=_not_covered(folder, run) if verdict.ok else UNSET,
    )


def _searched(folder: Path, run: RunJson, progress: RunProgress) -> Verification:
    """Searches the log of *run*, a launch of a script, if all files have the bytes that the run wrote."""
    broken = _broken(folder, run, progress, compares=False)
    if broken is not None:
        return _refused(folder, run, False, broken)
    progress.begin(VERIFY, "sanitizing")
    try:
        found = _sanitized(folder, run)
    except LargeLogError as error:  # says nothing of the run
        raise RunFolderError(error.where, error.got, error.needs, error.fix) from None
    except KbError as error:
        return _refused(folder, run, False, str(error))
    assert run.script is not None
    return replace(
        _refused(folder, run, None, None),
        numbers=f"the script judges its numbers itself: kb exec {run.script.path} runs its checks",
        sanitizer=found,
        covered=len(run.files) + 1,
        not_covered=_not_covered(folder, run),
    )


def verify_run(folder: Path, debug: bool = False, progress: RunProgress | None = None) -> Verdict:
    """Repeats pass 2 from *folder* alone, op by op with *debug*. A changed file or log makes the verdict a refusal.

    All files of the manifest are compared before any of them is read. No code of the folder is run. Raises
    RunFolderError when *folder* holds no data to verify, and when the log is too large for this machine.
    """
    run, shown = _read_one(folder), progress or RunProgress()
    broken = _broken(folder, run, shown, compares=True)
    if broken is not None:
        return refused(broken)
    shown.begin(PASS_2, "reading the log")
    try:
        data = load_data(folder, run.results.tile_stages)
    except LargeLogError as error:  # says nothing of the run
        raise RunFolderError(error.where, error.got, error.needs, error.fix) from None
    except KbError as error:
        return refused(str(error))
    if data.digest != run.log_digest:
        return refused(f"{folder / LOG}: got a log of digest {data.digest}, needs {run.log_digest}")
    names = [check.name for check in run.results.outputs]
    if names and names != list(data.expected):
        return refused(f"{folder / RUN}: got results of the outputs {names}, needs results of {list(data.expected)}")
    memory = (execute_debugging if debug else execute)(data.log, data.memory, shown)
    arguments = {check.name: check.argument for check in run.results.outputs if isinstance(check.argument, str)}
    writers = Writers(data.programs, [each.grid or () for each in run.results.launches], arguments)
    verdict = judge(data.log, memory, data.expected, shown, writers)
    return _with_debug_note(verdict) if debug and not verdict.ok and verdict.refusal is None else verdict


def _broken(folder: Path, run: RunJson, progress: RunProgress, compares: bool) -> str | None:
    """Returns the first difference from run.json as a sentence, or None.

    Raises RunFolderError when *folder* lacks data that the verification needs.
    """
    progress.begin(VERIFY, "comparing hashes")
    if not is_sealed(folder):
        return f"{folder / RUN}: {_CHANGED}"
    _check_has_data(folder, run)
    if compares:
        _check_has_expected(folder, run)
    return broken_claim(folder, run, compares)


def _with_debug_note(verdict: Verdict) -> Verdict:
    """Adds to the wrong outputs of *verdict* that no op is to blame, because the debugging execution would have
    stopped there.
    """
    note = "each op agrees with float64 on its inputs, so the kernel asks for something else than the reference"
    outputs = [each if each.ok else replace(each, text=f"{each.text}; {note}") for each in verdict.outputs]
    return replace(verdict, outputs=outputs)


def _read_one(folder: Path) -> RunJson:
    run = read_run(folder)
    if isinstance(run, RowsJson):
        raise RunFolderError(str(folder), "the folder of several runs", "the folder of one run")
    return run


def _broken_rows(run_dir: Path, run: RowsJson) -> str | None:
    """Returns the first difference from the run.json of a shapes file, except differences within the rows; None for
    none.
    """
    where = run_dir / RUN
    if not is_sealed(run_dir):
        return f"{where}: {_CHANGED}"
    if not run.rows:
        return f"{where}: got no rows, needs at least one, because nothing would be verified"
    try:
        shas = [_read_one(file_in(run_dir, row.folder, RunFolderError)).sha256 for row in run.rows]
    except RunFolderError as error:
        return str(error)
    return next(
        (
            f"{run_dir / row.folder}: got another run than {where} lists, needs the one of sha256 {row.sha256[:80]}"
            for row, sha256 in zip(run.rows, shas, strict=True)
            if row.sha256 != sha256
        ),
        None,
    )


def _verify_rows(
    run_dir: Path, rows: list[RowClaim], progress: RunProgress, debug: bool, sanitize: bool
) -> list[Verification]:
    """Verifies each of *rows*. Raises RunFolderError when no row has data; otherwise such rows are listed."""
    found: list[Verification] = []
    errors: list[RunFolderError] = []
    for number, row in enumerate(rows):
        progress.row(number + 1, len(rows))
        folder = run_dir / row.folder
        try:
            found.append(verify_folder(folder, progress, debug, sanitize))
        except RunFolderError as error:
            errors.append(error)
            found.append(_refused(folder, _read_one(folder), None, str(error)))
    if len(errors) == len(rows):
        raise errors[0]
    return found


def _check_has_data(folder: Path, run: RunJson) -> None:
    kept = run.keep
    if kept.data and kept.has_log:
        return
    missing = [] if kept.data else [f"no memory and no expected outputs ({kept.why})"]
    missing += [] if kept.has_log else [f"no log ({kept.log_reason})"]
    has_neither = not kept.data and not kept.has_log and kept.why == kept.log_reason
    got = f"no data ({kept.why})" if has_neither else " and ".join(missing)
    raise RunFolderError(str(folder), got, "memory, expected outputs and log", run.how_to_keep)


def _check_has_expected(folder: Path, run: RunJson) -> None:
    if not run.flags.verify and run.call is not None:
        got = "no expected outputs (kernbench.run had no reference)"
        raise RunFolderError(str(folder), got, "them", "run again with reference=...")
    if run.script is not None:
        got = "no expected outputs, because the script judges its numbers itself"
        fix = f"kb exec {run.script.path} runs the script's checks, and kb verify --sanitize searches the log for races"
        raise RunFolderError(str(folder), got, "them", fix)
    if not run.flags.verify:
        raise RunFolderError(str(folder), "no expected outputs (--no-verify)", "them", "run again without --no-verify")
    if not isinstance(run.results.workload_ops, UnsetType) and f"{EXPECTED}/{INDEX}" not in run.files:
        got = "a workload without the references of its ops, which take more than 256 MiB or have no place"
        fix = "kb run has verified each op; a run of fewer blocks, tokens or sequences keeps them"
        raise RunFolderError(str(folder), got, "the references", fix)


def _not_covered(folder: Path, run: RunJson) -> list[str]:
    return [*(name for name in (WALL, LEVERS) if (folder / name).exists()), *extra_files(folder, run.files)]


def _refused(folder: Path, run: RunJson | RowsJson, verified: bool | None, refusal: str | None) -> Verification:
    return Verification(
        run_dir=str(folder),
        benchmark=run.benchmark.name,
        verified=verified,
        max_abs_err=None,
        log_digest=run.log_digest if isinstance(run, RunJson) else None,
        outputs=[],
        refusal=refusal,
    )


def _sanitized(folder: Path, run: RunJson) -> Sanitized:
    names = _names_of_outputs(folder, run) if run.flags.verify and run.script is None else unnamed
    return sanitize_stored(read_log(folder / LOG), MemoryStore.load(folder / MEMORY), run.results.launches, names)


def _names_of_outputs(folder: Path, run: RunJson) -> ElementNames:
    """Finds elements of the outputs of *run*. A folder says nothing of other tensors."""
    arguments = {check.name: check.argument for check in run.results.outputs if isinstance(check.argument, str)}
    expected = load_expected(folder / EXPECTED).items()
    tensors = {
        arguments.get(name, name): each.tensor
        for name, each in expected
        if isinstance(each, Expected | ExpectedProduct)
    }

    def element(launch: int, owner: int, offset: int) -> Element | None:
        places = ((name, tensor.index_with(owner, offset)) for name, tensor in tensors.items())
        return next((Element(tensor=name, index=index) for name, index in places if index is not None), None)

    return element
