"""`kb trace`: a Perfetto trace of a finished run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import click

from kb_cli.run.base.files import TOPOLOGY
from kb_cli.terminal.checked_command import CheckedCommand
from kb_cli.terminal.output import emit_lines
from kb_cli.terminal.units import PS_PER_NS, quantity
from kb_cli.trace.critical_path import path_of
from kb_cli.trace.run_log import RunLog, read_run_log
from kb_cli.trace.run_trace import Shown, run_trace
from kb_cli.trace.slices import memory_slices
from kb_cli.trace.trace_file import Unit, check_trace_file, write_trace
from kb_cli.trace.tracks import Counters, Trace
from kb_cli.trace.window import parse_window
from kb_dataexec.analysis import LazyServices
from kb_messages import KbError

_TRAFFIC = "kb_cli.trace.traffic"
"""The module of counters. It needs the blocks of the engine, which take half as long to load as a log of a million
records to read."""


@click.command("trace", cls=CheckedCommand)
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "out",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    metavar="FILE.pftrace[.gz]",
    help="Where the trace goes. An existing file is overwritten.",
)
@click.option("--pe", metavar="ID", help="This PE alone, e.g. sip0.cube0.pe5.")
@click.option("--from", "start_ns", metavar="NS", help="Leave out slices that ended before this time of the run.")
@click.option("--to", "end_ns", metavar="NS", help="Leave out slices that began at this time or later.")
@click.option(
    "--unit",
    type=click.Choice([each.value for each in Unit]),
    default="ns",
    show_default=True,
    help="ps shows a picosecond as a nanosecond, because the format has no smaller unit.",
)
@click.option("--open", "opened", is_flag=True, help="Show the trace in Perfetto, offline. Needs kb-cli[perfetto].")
def command(
    run: Path, out: Path, pe: str | None, start_ns: str | None, end_ns: str | None, unit: str, opened: bool
) -> None:
    """Write RUN, a run folder or a row of a shapes run, as a trace for Perfetto.

    The trace has a track for every block and stage of each PE, one for the services of each memory, and the launches. A
    slice is the service of one tile, named by stage and kernel line. Times are rounded down to whole nanoseconds.
    """
    check_trace_file(out)
    page = _page_folder() if opened else None
    shown = Shown(parse_window(start_ns, end_ns), pe, Unit(unit))
    with ThreadPoolExecutor(1) as beside:
        beside.submit(import_module, _TRAFFIC)
        found = read_run_log(run)
        trace, notes = _trace_of(found, shown, beside)
    nbytes = write_trace(trace, shown.unit, out)
    if not found.log.is_complete:
        end = f"{found.end_ps / PS_PER_NS} ns"
        notes.append(f"{run}: got a log that was cut off: it goes up to {end}, and later times are missing")
    emit_lines([f"{out}: {trace.n_slices} slices on {len(trace.tracks)} tracks, {quantity(nbytes, 'B')}", *notes])
    if page is not None:
        _show(page, out)


def _page_folder() -> Path:
    from kb_cli.trace.viewer import page_folder  # a server, which no other trace needs

    return page_folder()


def _show(page: Path, out: Path) -> None:
    from kb_cli.trace.viewer import show

    show(page, out, lambda line: emit_lines([line]))


def _trace_of(found: RunLog, shown: Shown, beside: ThreadPoolExecutor) -> tuple[Trace, list[str]]:
    """Returns the trace, and a sentence for each part that it lacks. The path is found on the thread of *beside*."""
    log, notes = found.log, []
    counters: list[Counters] = []
    services = None if "transfers" in log.missing else LazyServices(log, found.dma)
    path = None if "kernels" in log.missing else beside.submit(path_of, log, services)
    try:
        counters.append(_counters(found, shown, services))
    except KbError as error:  # a chip whose blocks are not installed here
        notes.append(f"{found.folder}: got no counters of links and memories: {error}")
    if path is None:
        notes.append(f"{found.folder}: got a log without the table kernels, so the critical path is left out")
    memories = None
    if services is None:
        notes.append(f"{found.folder}: got a log without the table transfers, so the service of memories is left out")
    else:
        memories = memory_slices(log, shown.pe, services)
    return run_trace(found, shown, None if path is None else path.result, memories, counters), notes


def _counters(found: RunLog, shown: Shown, services: LazyServices | None) -> Counters:
    from kb_cli.trace.traffic import traffic  # loaded while the log was read
    from kb_topology import load_topology

    return traffic(found.log, load_topology(found.folder / TOPOLOGY), shown.window, shown.pe, services)
