"""The runs of a shapes file: a folder for each row, in one folder with a list of all."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kb_cli.benchmark.author_calls import check_capacity
from kb_cli.benchmark.setup import Setup
from kb_cli.benchmark.values.params import shown_params
from kb_cli.benchmark.values.shapes import Row
from kb_cli.run.base.files import FORMAT, FORMAT_VERSION
from kb_cli.run.base.progress import RunProgress
from kb_cli.run.base.result import Policy, RunResult, was_sampled
from kb_cli.run.folders.identity import environment, folder_name, identity
from kb_cli.run.folders.run_folder import NewRunFolder, kept_on_interrupt
from kb_cli.run.records.run_json import read_run, write_run
from kb_cli.run.saving.keep import whole_room, without_own_folder
from kb_cli.run.saving.save import record_run
from kb_messages import KbError


def run_rows(setup: Setup, rows: list[Row], out: Path, policy: Policy) -> list[RunResult]:
    """Runs *setup* once for each of *rows*, in a new folder below *out*. When one row fails, no folder is left.

    The sizes of all rows are checked before the first row runs. Raises the errors of a run, with the row's line in
    front.
    """
    for row in rows:
        with _errors_name(row):
            check_capacity(setup._replace(params=row.params))
    config = {**identity(setup), "rows": [[row.cells, shown_params(row.params)] for row in rows]}
    results: list[RunResult] = []
    room = whole_room()
    with NewRunFolder(out, folder_name(setup.loaded.name, config)) as folder:
        with RunProgress(folder.path) as progress, kept_on_interrupt(folder):
            for number, row in enumerate(rows):
                progress.row(number + 1, len(rows))
                paths = (folder.path / f"{number:04d}", folder.final / f"{number:04d}")
                with _errors_name(row):
                    row_setup = setup._replace(params=row.params)
                    results.append(record_run(paths, row_setup, policy, progress, room, row.cells).result)
                gc.collect()  # an engine is full of reference cycles, which keep the memories of its chip alive
                room = room.without(results[-1].keep)
            progress.remove_file(folder.path)
        write_run(folder.path, rows_fields(setup, results, folder.path))
        is_committed = folder.commit()
    return results if is_committed else [without_own_folder(result) for result in results]


@contextmanager
def _errors_name(row: Row) -> Iterator[None]:
    """Puts the line of *row* in front of an error."""
    try:
        yield
    except KbError as error:
        error.where = f"{row.where}: {error.where}"
        raise


def rows_fields(setup: Setup, results: Sequence[RunResult], folder: Path) -> dict[str, Any]:
    """Returns the run.json above the folders of the rows, which lie in *folder* and have the numbers of *results*."""
    rows = [
        {
            "folder": f"{number:04d}",
            "shape": result.shape,
            "latency_ps": result.latency_ps,
            "verified": result.verified,
            **({"by_sample": True} if was_sampled(result.outputs) else {}),
            "sha256": read_run(folder / f"{number:04d}").sha256,
        }
        for number, result in enumerate(results)
    ]
    return {"format": FORMAT, "version": FORMAT_VERSION, **identity(setup), "environment": environment(), "rows": rows}
