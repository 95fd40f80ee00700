"""Which capture of a run folder a user means."""

from __future__ import annotations

from pathlib import Path

from kb_cli.run.captures import INDEX, StoredCapture, load_index
from kb_cli.run.claims import check_written
from kb_cli.run.files import CAPTURES, RunFolderError
from kb_cli.run.run_json import read_one_run
from kb_topology import did_you_mean, listing


def captures_of(folder: Path) -> list[StoredCapture]:
    """The captures of the run in *folder*, in the order of the kernels' calls.

    Raises RunFolderError for a folder without captures, and for one whose captures are not as the run wrote them.
    """
    run = read_one_run(folder)
    names = [name for name in run.files if name.startswith(f"{CAPTURES}/")]
    if f"{CAPTURES}/{INDEX}" not in names:
        got = "no captured values" if run.keep.data else f"no captured values ({run.keep.why})"
        fix = 'call tl.capture("name", x) in the kernel, and keep the data'
        raise RunFolderError(str(folder), got, "some", fix)
    check_written(folder, run, names)
    return load_index(folder / CAPTURES)


def chosen(folder: Path, found: list[StoredCapture], name: str, pe: str | None, number: int | None) -> StoredCapture:
    """The one of *found* with *name*, on *pe* (a number or an id), and of several there that *number*.

    Raises RunFolderError when there is none, or more than one.
    """
    where = f"{folder}: capture {name!r}"
    named = [each for each in found if each.name == name]
    if not named:
        names = list(dict.fromkeys(each.name for each in found))
        raise RunFolderError(where, "no such name", f"one of {listing(names)}", did_you_mean(name, names))
    on_pe = [each for each in named if pe is None or pe in (str(each.pe), each.pe_id)]
    if not on_pe:
        pes = listing(list(dict.fromkeys(str(each.pe) for each in named)))
        raise RunFolderError(where, f"PE {pe}", f"one of the PEs that captured it: {pes}")
    left = [each for each in on_pe if number is None or each.number == number]
    if not left:
        most = max(each.number for each in on_pe)
        raise RunFolderError(where, f"number {number}", f"0 to {most}, as often as it was captured there")
    if len(left) > 1:
        several_pes = len({each.pe for each in left}) > 1
        fix = "choose one with --pe" if several_pes else "choose one with --number"
        raise RunFolderError(where, f"{len(left)} values", "one", f"{fix}; kb show {folder} lists them")
    return left[0]
