"""Packs a run folder into one file: a zip of the benchmark, the chip, the manifest of the run and perhaps its data."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

from msgspec import Struct

from kb_cli.run.base.files import BENCH, BESIDE, INPUTS, RUN, TOPOLOGY, WHERE
from kb_cli.run.records.manifest_check import check_written
from kb_cli.run.records.run_json import RunJson, read_one_run
from kb_dataexec.files import file_in, open_regular, writing
from kb_messages import KbError

SUFFIX = ".kbrun"
_DATE = (1980, 1, 1, 0, 0, 0)
"""The date of every file in a capsule, so that the same run gives the same bytes. Source: the earliest date of a
zip."""
_COPIED_NBYTES = 1 << 20


class Packed(Struct, frozen=True, kw_only=True):
    """A capsule that was written: its path, the benchmark and chip of its run, and its numbers of files and bytes."""

    path: str
    benchmark: str
    topology: str
    files: int
    nbytes: int
    data: bool


def pack(folder: Path, out: Path, data: bool) -> Packed:
    """Writes the run in *folder* to the capsule *out*, with all of its files if *data* is set.

    Without *data*, the capsule has the files that a replay needs: the benchmark with the files that it imports, the
    chip, the manifest, the inputs of a call, and where the time went. No code of the folder is run. Raises
    RunFolderError for a folder that is not as the run wrote it, and KbError for another ending of *out*.
    """
    if out.suffix != SUFFIX:
        raise KbError("-o", out.suffix or repr(out.name), SUFFIX)
    run = read_one_run(folder)
    names = [name for name in run.files if data or name in _LEAST or name.startswith(_LEAST_BELOW)]
    check_written(folder, run, names)
    part = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        with writing(out):
            with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as capsule:
                for name in [RUN, *sorted(names)]:
                    _add(capsule, folder, name)
            os.replace(part, out)
    finally:
        part.unlink(missing_ok=True)
    return _packed(run, out, 1 + len(names), data)


_LEAST = (BENCH, TOPOLOGY, WHERE)
_LEAST_BELOW = (f"{INPUTS}/", f"{BESIDE}/")


def _add(capsule: zipfile.ZipFile, folder: Path, name: str) -> None:
    entry = zipfile.ZipInfo(name, _DATE)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    with open_regular(file_in(folder, name), KbError) as file:
        entry.file_size = os.fstat(file.fileno()).st_size
        with capsule.open(entry, "w") as packed:
            shutil.copyfileobj(file, packed, _COPIED_NBYTES)


def _packed(run: RunJson, out: Path, files: int, data: bool) -> Packed:
    return Packed(
        path=str(out),
        benchmark=run.benchmark.name,
        topology=run.topology.name,
        files=files,
        nbytes=out.stat().st_size,
        data=data,
    )
