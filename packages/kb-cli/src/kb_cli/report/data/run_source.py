"""The sources of a report: the run.json of a run folder, its time by cause, its benchmark, and its op log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from kb_cli.benchmark import bundled
from kb_cli.run.base.files import BENCH, BESIDE, LOG, RUN, TOPOLOGY, WHERE, RunFolderError
from kb_cli.run.records.manifest_check import holds
from kb_cli.run.records.own_log import own_log
from kb_cli.run.records.run_json import RunJson, is_sealed, read_run
from kb_cli.run.records.where_time import read_where
from kb_cli.terminal.units import PS_PER_NS
from kb_dataexec import LargeLogError, OpLog
from kb_dataexec.analysis import Where
from kb_dataexec.analysis import where as where_of
from kb_dataexec.files import file_in, read_bytes
from kb_topology import Topology, load_topology


class RunSource(NamedTuple):
    """A run folder whose files are as the run wrote them.

    `log` is None where it was not kept, and where its rows take too much memory, as `too_large` says. `beside` has the
    texts of files beside the benchmark's for a run in memory; those of a folder are read when they are asked for. With
    `log_is_unread`, `log` is None because nobody has read it yet.
    """

    folder: Path
    run: RunJson
    where: Where
    text: str
    chip: Topology
    log: OpLog | None
    too_large: LargeLogError | None = None
    beside: Mapping[str, str] = {}
    log_is_unread: bool = False

    @property
    def is_of_kb(self) -> bool:
        """Whether the benchmark is one that comes with kb, byte for byte."""
        source = read_bytes(file_in(self.folder, BENCH, RunFolderError), RunFolderError)
        own = self.run.call is None and self.run.script is None
        return own and bundled.shipped(self.run.benchmark.file, source) is not None

    def text_of(self, file: str) -> str:
        """Returns the text of *file*: the benchmark's, or a file or notebook cell beside it that the run kept.

        It is "" for every other file. Raises RunFolderError for a file that is not as the run wrote it.
        """
        if file == self.run.benchmark.file:
            return self.text
        if file in self.beside:
            return self.beside[file]
        name = f"{BESIDE}/{file}"
        if file not in self.run.benchmark.beside or name not in self.run.files:
            return ""
        _check_held(self.folder, name, self.run)
        return read_bytes(file_in(self.folder, name, RunFolderError), RunFolderError).decode(
            "utf-8", "backslashreplace"
        )

    @property
    def notes(self) -> list[str]:
        """One sentence for each part that the report lacks."""
        notes = []
        if self.where.missing:
            names = ", ".join(self.where.missing)
            notes.append(
                f"{self.folder / LOG}: got a log without {names}, so causes from these tables are not separated"
            )
        if self.where.unexplained_ps:
            lost = self.where.unexplained_ps / PS_PER_NS
            notes.append(f"{self.folder / LOG}: got a log that gives no cause for {lost} ns, shown as unknown")
        if self.log_is_unread:
            return notes
        if self.too_large is not None:
            got, needs = self.too_large.got, self.too_large.needs
            notes.append(f"{self.folder / LOG}: got {got}, needs {needs}: no lanes, and one roofline point")
        elif self.log is None:
            why = self.run.keep.log_reason
            notes.append(
                f"{self.folder}: got a run whose op log was not kept ({why}): no lanes, and one roofline point"
            )
        elif not self.log.is_complete:
            end = int(self.log.ops["t_out_ps"].max(initial=0)) / PS_PER_NS
            notes.append(f"{self.folder}: got a log that was cut off: it goes up to {end} ns, and the rest is missing")
        return notes


def read_run_source(folder: Path) -> RunSource:
    """Returns the run in *folder*. No code of the folder is run.

    Raises RunFolderError when *folder* is not the folder of one run, when a file is not as the run wrote it, or when
    the run had no op log, and LogError for a damaged one.
    """
    return with_log(read_without_log(folder))


def with_log(
    source: RunSource, lazy_operands: bool = False, look: Callable[[OpLog], object] | None = None
) -> RunSource:
    """Returns *source* with its op log, if it is kept and nobody has read it yet.

    With *lazy_operands*, the operands of the log are read when they are first used. *look* is called with each chunk.
    Raises LogError for a damaged log.
    """
    if not source.log_is_unread:
        return source
    run, folder, log, too_large = source.run, source.folder, None, None
    try:
        log = own_log(folder, run, True, lazy_operands, look) if run.keep.has_log else None
    except LargeLogError as error:
        if WHERE not in run.files:
            raise
        too_large = error
    where = source.where if WHERE in run.files else _where_of(folder, run, log)
    return source._replace(where=where, log=log, too_large=too_large, log_is_unread=False)


def read_without_log(folder: Path) -> RunSource:
    """Returns the run in *folder* without its op log, which takes most of the time. No code of the folder is run.

    The log of a folder of an older kb is read, because where the time went stands nowhere else. Raises RunFolderError
    as `read_run_source` does.
    """
    run = read_run(folder)
    if not isinstance(run, RunJson):
        row = folder / run.rows[0].folder if run.rows else folder / "0000"
        raise RunFolderError(
            str(folder), "the folder of several runs", "the folder of one run", f"name a row, such as {row}"
        )
    if not run.flags.log:
        raise RunFolderError(str(folder), "a run without an op log", "one", "run it again without --no-log")
    if not is_sealed(folder):
        raise RunFolderError(str(folder / RUN), "other content than the run wrote", "the run's own", "run it again")
    for name in (BENCH, TOPOLOGY, WHERE):
        if name in run.files:
            _check_held(folder, name, run)
    text = read_bytes(file_in(folder, BENCH, RunFolderError), RunFolderError).decode("utf-8", "backslashreplace")
    chip = load_topology(file_in(folder, TOPOLOGY, RunFolderError))
    where = read_where(folder) if WHERE in run.files else Where(launches=[], missing=[])
    found = RunSource(folder, run, where, text, chip, None, log_is_unread=True)
    return found if WHERE in run.files else with_log(found)


def _check_held(folder: Path, name: str, run: RunJson) -> None:
    """Raises RunFolderError when the file *name* of *folder* has other bytes than *run* wrote."""
    if not holds(folder, name, run.files[name]):
        got, needs = "other bytes than the run wrote", f"the bytes that {RUN} lists"
        raise RunFolderError(str(folder / name), got, needs, "run it again")


def _where_of(folder: Path, run: RunJson, log: OpLog | None) -> Where:
    """Returns the content of where.json; for a folder of an older kb, the same from its log."""
    if WHERE in run.files:
        return read_where(folder)
    if log is None:
        got = f"a run without {WHERE} and whose op log was not kept ({run.keep.log_reason})"
        raise RunFolderError(str(folder), got, "one of the two", "run the benchmark again")
    return where_of(log)
