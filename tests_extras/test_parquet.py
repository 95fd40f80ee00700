"""kb-dataexec[parquet]: `nox -s extras` installs it."""

import re
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from kb_dataexec import FolderLogWriter, open_log
from kb_dataexec.cli.main import main
from kb_dataexec.log import LogFolder, OpLog, ParquetError, export_parquet, write_log
from kb_dataexec.log import jsonl as loglines
from kb_messages import LOG_TABLES

ROOT = Path(__file__).parents[1] / "packages/kb-dataexec"
sys.path.insert(0, str(ROOT / "tests"))
from dataexec_gemm_log import GemmProblem  # noqa: E402
from dataexec_log_lines import write_lines  # noqa: E402
from dataexec_tables import ROWS, log_with_tables  # noqa: E402

LOG = GemmProblem(20, 20, 20, (8, 8, 8)).log()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    writer = FolderLogWriter(tmp_path / "log")
    for text in LOG.strings:
        writer.intern(text)
    for low in range(0, LOG.n_ops, 50):
        ops = LOG.ops[low : low + 50]
        writer.append(ops, LOG.operands[np.isin(LOG.operands["op_id"], ops["op_id"])])
    writer.close()
    return tmp_path


def rows(query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        return connection.execute(query).fetchall()


def test_every_record_and_operand_is_exported_as_it_is(folder: Path) -> None:
    found = export_parquet(LogFolder(folder / "log"), folder / "out")
    assert (found.records, found.operands, found.parts) == (LOG.n_ops, LOG.n_operands, -(-LOG.n_ops // 50))
    exported = rows(f"SELECT op_id, kind, name, component, line, params, t_end_ps FROM '{folder}/out/ops-*.parquet'")
    assert exported == [
        (each.op_id, each.kind.name.lower(), each.name, each.component, each.line, each.params, each.t_end_ps)
        for each in LOG.records()
    ]
    columns = 'op_id, role, space, dtype, release, owner, "offset", "rows", row_nbytes, stride'
    operands = rows(f"SELECT {columns} FROM '{folder}/out/operands-*.parquet'")
    assert operands == [
        (record.op_id, o.role.name, str(o.space), str(o.dtype), o.release, o.owner, o.offset, o.rows, o.row_nbytes,
         o.stride)
        for record in LOG.records() for o in record.operands
    ]  # fmt: skip


def test_lines_of_json_are_exported_as_their_folder_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loglines, "_CHUNK_NBYTES", 1000)
    source = open_log(write_lines(folder / "log.jsonl", LOG))
    assert source.n_chunks > 10
    assert export_parquet(source, folder / "lines").parts == source.n_chunks
    export_parquet(LogFolder(folder / "log"), folder / "out")
    for name in ("ops", "operands"):
        tables = [rows(f"SELECT * FROM '{folder}/{out}/{name}-*.parquet'") for out in ("lines", "out")]
        assert tables[0] == tables[1]


def test_exporting_twice_gives_the_same_bytes(folder: Path) -> None:
    for name in ("a", "b"):
        export_parquet(LogFolder(folder / "log"), folder / name)
    a, b = ({file.name: file.read_bytes() for file in (folder / name).iterdir()} for name in ("a", "b"))
    assert a == b


def test_the_queries_of_the_readme_answer(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(folder / "log"), str(folder / "OUT")]) == 0
    assert capsys.readouterr().out == (
        f"{folder}/OUT: {LOG.n_ops} records, {LOG.n_operands} operands in {-(-LOG.n_ops // 50)} parts\n"
    )
    text = re.search(r"```sql\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert text is not None
    busy, moved, waited = (
        rows(query.replace("OUT/", f"{folder}/OUT/")) for query in text[1].split(";") if query.strip()
    )
    assert busy == [("pe0", LOG.n_ops, LOG.n_ops, 0)]  # each record takes a picosecond
    # A and B are read three times, for three tiles of the other side: 3 x 2 x 20 x 20 f16; C is written once
    assert [row for row in moved if row[1] == "hbm"] == [
        ("kernel.py:3", "hbm", "SRC", 4800), ("kernel.py:3", "hbm", "DST", 800),
    ]  # fmt: skip
    assert len(waited) == 10


def test_a_folder_in_use_is_refused(folder: Path) -> None:
    text = f"{folder}: got a folder with files in it, needs a new or empty folder"
    with pytest.raises(ParquetError, match=f"^{re.escape(text)}$"):
        export_parquet(LogFolder(folder / "log"), folder)


def test_a_log_that_was_cut_off_is_exported_as_far_as_it_goes(folder: Path) -> None:
    (folder / "log" / "manifest.json").unlink()
    assert export_parquet(LogFolder(folder / "log", prefix=True), folder / "out").records == LOG.n_ops


def test_further_tables_are_exported_with_their_texts_and_codes(tmp_path: Path) -> None:
    log = log_with_tables()
    write_log(tmp_path / "log", log)
    export_parquet(LogFolder(tmp_path / "log"), tmp_path / "out")
    for name, expected in ROWS.items():
        codes = LOG_TABLES[name].codes
        columns = [column for column, _ in LOG_TABLES[name].columns]
        spelled = [
            tuple(
                codes[column](value).name.lower() if column in codes else value
                for column, value in zip(columns, row, strict=True)
            )
            for row in expected
        ]
        assert rows(f"SELECT * FROM '{tmp_path}/out/{name}-*.parquet'") == spelled
    plain = OpLog(log.ops, log.operands, log.strings, log.immediates)
    write_log(tmp_path / "plain", plain)
    export_parquet(LogFolder(tmp_path / "plain"), tmp_path / "less")
    assert sorted(path.name for path in (tmp_path / "less").iterdir()) == [
        "operands-000000.parquet",
        "ops-000000.parquet",
    ]
