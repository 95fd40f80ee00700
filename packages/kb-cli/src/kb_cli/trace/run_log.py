"""The sources of a trace: the run.json and the op log of a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from kb_cli.run.base.files import LOG, RunFolderError
from kb_cli.run.records.own_log import own_log
from kb_cli.run.records.run_json import RunJson, read_one_run
from kb_dataexec import LargeLogError, OpLog
from kb_dataexec.analysis import DmaOps, DmaOpsOnTheWay

_WITHOUT_ROWS: Final = "`kb report` and `kb web` show such a run without its records; or trace one of smaller sizes"


class RunLog(NamedTuple):
    """A run folder with its op log and the DMA ops of the log. Operands are read again when they are used."""

    folder: Path
    run: RunJson
    log: OpLog
    dma: DmaOps

    @property
    def end_ps(self) -> int:
        """The time up to which the log goes, in picoseconds."""
        return int(self.log.ops["t_out_ps"].max())


def read_run_log(folder: Path) -> RunLog:
    """Returns the run in *folder* and its log. A log that was cut off is read as far as it goes.

    Raises RunFolderError when *folder* is not the folder of one run, or its log is missing, of another run, without
    records, or too large for this machine, and LogError for a damaged log.
    """
    run = read_one_run(folder)
    if not run.flags.log:
        raise RunFolderError(str(folder), "a run without an op log", "one", "run it again without --no-log")
    if not run.keep.has_log:
        got = f"a run whose op log was not kept ({run.keep.log_reason})"
        raise RunFolderError(str(folder), got, "one", run.how_to_keep_log)
    dma = DmaOpsOnTheWay()
    try:
        log = own_log(folder, run, prefix=True, lazy_operands=True, look=dma.look)
    except LargeLogError as error:
        raise RunFolderError(str(folder / LOG), error.got, error.needs, _WITHOUT_ROWS) from None
    if not log.n_ops and log.is_complete:
        got, fix = "a run whose programs issued no command", "nothing can be drawn of this one; `kb report` shows it"
        raise RunFolderError(str(folder), got, "one with at least one command", fix)
    if not log.n_ops:
        got = "a log that was cut off before its first record"
        raise RunFolderError(str(folder / LOG), got, "at least one record", "run it again with --keep all")
    return RunLog(folder, run, log, dma.ops())
