"""Chunks of compressed rows with the tables of programs that wait for each other, and of streams."""

import numpy as np
import pytest
from dataexec_compressed_log import ChunkTables

from kb_dataexec.log import LogFolder, read_log, write_log
from kb_dataexec.log.table_dtypes import TABLE_DTYPES
from kb_messages import OPTIONAL_TABLES

ROWS = {
    "sends": [(0, 0, 5, 0, 64, 1, 20, 21, 30, 32, 3, 1, 1), (1, 0, 5, 1, 64, 5, 40, 41, 50, 52, 3, 2, 2)],
    "signals": [(0, 0, 0, 5, 1, 6, 10, 20, 2, 1, 4, 0, -1)],
    "waits": [(0, 3, 0, 8, 20, 0, 1, 0, 4, 2, 0, 1, 0), (0, 2, 3, 25, 30, 0, 1, 0, 4, 2, 3, 4, 0)],
    "calls": [(0, 0, 0, 3, 0, -1, -1, -1, 0, 1, 1, 40), (1, 1, 2, 3, -1, -1, 2, -1, 1, 2, 2, 41)],
    "reads": [(1, 5, 64, 1, 256, 256)],
}
IN_A_CHUNK = {
    "sends": "sends", "signals": "signals", "waits": "kernel_waits", "calls": "calls", "reads": "reads"
}  # fmt: skip


def written(folder, *in_chunks):
    """A log of two chunks, each of which has the rows of ROWS in the range that *in_chunks* names for it."""
    tables = ChunkTables()
    for arrays, part in zip(tables.arrays, in_chunks, strict=True):
        for name, rows in ROWS.items():
            arrays[IN_A_CHUNK[name]] = np.array(rows[part], TABLE_DTYPES[name])
    return tables.write(folder)


@pytest.mark.parametrize("cut", [0, 1, 2])
def test_rows_come_back_however_they_were_cut_into_chunks(tmp_path, cut):
    folder = written(tmp_path / "log", slice(cut), slice(cut, None))
    log = read_log(folder)
    assert {name: log.table(name).tolist() for name in OPTIONAL_TABLES} == ROWS
    assert log.missing == ("dependencies",)
    assert write_log(tmp_path / "plain", log).digest == LogFolder(folder).summary.digest
    n_rows = LogFolder(folder).summary.n_rows
    assert {name: n_rows[name] for name in OPTIONAL_TABLES} == {name: len(rows) for name, rows in ROWS.items()}
    (folder / "manifest.json").unlink()
    assert [row[0] for row in read_log(folder, prefix=True).table("sends")] == [0, 1]


def test_a_log_without_such_programs_has_no_such_tables(tmp_path):
    folder = written(tmp_path / "log", slice(0), slice(0))
    assert not set(OPTIONAL_TABLES) & set(read_log(folder).tables)
    assert LogFolder(folder).summary.digest == LogFolder(ChunkTables().write(tmp_path / "other")).summary.digest


def test_info_counts_the_rows(tmp_path, invoke):
    folder = written(tmp_path / "log", slice(1), slice(1, None))
    assert "2 sends, 1 signals, 2 waits, 2 calls, 1 reads\n" in invoke("info", folder)[1]
