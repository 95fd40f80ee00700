"""A log of formulas is executed by command, of which a part at a time is in memory, as it is executed whole."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from kb_cli.main import kb
from kb_cli.run.records import data
from kb_cli.run.simulation import read_back
from kb_dataexec import Executor, MemoryStore, OpLog, StoreError
from kb_dataexec.analysis.provenance import last_release, last_writer, origin
from kb_dataexec.execute import Look
from kb_dataexec.log import LogFolder, Schedule, write_log
from kb_dataexec.log.compressed import CommandLog
from kb_dataexec.log.compressed.chunk_format import pack_chunk, unpack_chunk
from kb_dataexec.verify import debug
from kb_messages import DType, Rectangle, join_address

Invoke = Callable[..., Result]
RAGGED = ("-p", "M=100", "-p", "N=72", "-p", "K=88", "-p", "tile=16x32x32")
RUNS = {
    "gemm": RAGGED,
    "gemm on one PE": ("--topology", "one_pe", *RAGGED),
    "gemm with a panel": ("--topology", "one_pe", *RAGGED, "-p", "loop_order=weight_stationary"),
    "softmax": (),
    "attention": (),
    "mixture_of_experts": ("-p", "tokens=8"),
}
"""Benchmarks with their options."""


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Runs `kb` in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*args: str) -> Result:
        return CliRunner().invoke(kb, [*args], catch_exceptions=False)

    return run


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of 50 records, so that commands are cut."""
    monkeypatch.setattr("kb_dataexec.log.compressed.command_log._PART_RECORDS", 50)


def run_of(invoke: Invoke, name: str, *options: str) -> Path:
    """The folder of a run of one of RUNS."""
    bench = name.split(maxsplit=1)[0]
    done = invoke("run", bench, *RUNS[name], "--keep", "all", "--json", *options)
    assert done.exit_code == 0, done.output
    return Path(json.loads(done.stdout)["run_dir"])


def logs_of(folder: Path) -> tuple[OpLog, CommandLog, MemoryStore]:
    """The log of a run, whole and by command, and the memory before it."""
    by_command = LogFolder(folder / "log").by_command()
    assert by_command is not None
    return LogFolder(folder / "log").whole(), by_command, MemoryStore.load(folder / "memory")


def saved(memory: MemoryStore, folder: Path) -> dict[str, bytes]:
    """The files of *memory*, by name."""
    memory.save(folder)
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("name", RUNS)
def test_parts_are_the_records_in_the_order_of_pass_2(name: str, invoke: Invoke) -> None:
    whole, by_command, _ = logs_of(run_of(invoke, name))
    expected, parts = Schedule(whole), [Schedule(part) for part in by_command.parts()]
    assert by_command.n_ops == whole.n_ops
    assert len(parts) > 1
    assert max(len(part.ops) for part in parts) <= max(50, 4 * 88)
    for column in whole.ops.dtype.names or ():
        if not column.endswith("_ps"):
            assert np.array_equal(np.concatenate([part.ops[column] for part in parts]), expected.ops[column]), column
    for column in expected.operands:
        found = np.concatenate([part.operands[column] for part in parts])
        assert np.array_equal(found, expected.operands[column]), column
    backwards = [part.ops["op_id"].tolist() for part in by_command.parts(backwards=True)]
    assert backwards[::-1] == [part.ops["op_id"].tolist() for part in by_command.parts()]


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("name", RUNS)
def test_the_memory_afterwards_and_what_looks_see_are_those_of_the_whole_log(
    name: str, invoke: Invoke, tmp_path: Path
) -> None:
    whole, by_command, memory = logs_of(run_of(invoke, name))
    owner, offset, nbytes = (int(whole.operands[-1][column]) for column in ("owner", "offset", "row_nbytes"))
    seqs = np.unique(whole.ops["command_seq"]).tolist()
    place = Rectangle(join_address(owner, offset), 1, nbytes, nbytes)
    looks = [Look(seq, place, DType.U8) for seq in (*seqs[::3], seqs[-1] + 1)]
    told: list[tuple[int, int]] = []
    expected, saw = Executor(whole, memory, "tile").run_and_look(looks)
    found, seen = Executor(by_command, memory, "tile").run_and_look(looks, lambda *counts: told.append(counts))
    assert saved(found, tmp_path / "found") == saved(expected, tmp_path / "expected")
    assert [str(each) for each in seen] == [str(each) for each in saw]
    assert told == sorted(told)
    assert told[-1] == (whole.n_ops, whole.n_ops)
    debugged = debug(by_command, memory)
    assert (debugged.wrong, debugged.n_ops) == (None, whole.n_ops)


@pytest.mark.usefixtures("small_parts")
def test_ops_behind_a_byte_are_found_in_all_parts(invoke: Invoke) -> None:
    whole, by_command, _ = logs_of(run_of(invoke, "mixture_of_experts"))
    assert len(list(by_command.parts())) > 10
    places = np.unique(whole.operands[["owner", "offset"]])
    for owner, offset in places[:: len(places) // 15].tolist():
        assert str(origin(by_command, owner, offset)) == str(origin(whole, owner, offset))
        for find in (last_writer, last_release):
            found, expected = (find(log, owner, offset) for log in (by_command, whole))
            assert (found and found.op_id) == (expected and expected.op_id)


@pytest.mark.usefixtures("small_parts")
def test_an_error_tells_of_ops_of_earlier_parts(invoke: Invoke) -> None:
    """The bytes of A are not there, so the first read of them fails: no op has written them in either log."""
    whole, by_command, memory = logs_of(run_of(invoke, "gemm on one PE"))
    expected = whole.operands[0]
    memory.release(*(int(expected[name]) for name in ("owner", "offset", "rows", "row_nbytes", "stride")))
    texts = []
    for log in (whole, by_command):
        with pytest.raises(StoreError) as error:
            Executor(log, memory).run()
        texts.append(str(error.value))
    assert texts[0] == texts[1]
    assert "no op of the log writes it" in texts[0]


def chunks_of(folder: Path) -> list[tuple[bytes, str]]:
    return [(file.read_bytes(), str(file)) for file in sorted((folder / "log").glob("formulas-*"))]


def test_a_log_that_lacks_a_record_or_has_one_twice_is_no_log_of_whole_commands(invoke: Invoke) -> None:
    folder = run_of(invoke, "gemm on one PE")
    source, chunks = LogFolder(folder / "log"), chunks_of(folder)
    others, n_ops = (source.strings, source.immediates), source.summary.n_ops
    assert CommandLog.read(chunks, *others, n_ops) is not None
    assert CommandLog.read(chunks, *others, n_ops - 1) is None
    assert CommandLog.read(chunks, *others, n_ops + 1) is None
    ((data, where),) = chunks
    tables, forms = unpack_chunk(data, where)
    tables["records"] = tables["records"].copy()
    tables["records"]["op_id"][1] = tables["records"]["op_id"][0]
    assert CommandLog.read([(pack_chunk(tables, forms), where)], *others, n_ops) is None


def test_logs_of_rows_and_logs_that_were_cut_off_are_not_read_by_command(invoke: Invoke, tmp_path: Path) -> None:
    folder = run_of(invoke, "gemm on one PE")
    write_log(tmp_path / "rows", LogFolder(folder / "log").whole())
    assert LogFolder(tmp_path / "rows").by_command() is None
    (folder / "log/manifest.json").unlink()
    assert LogFolder(folder / "log", prefix=True).by_command() is None


def figures(invoke: Invoke, *options: str) -> dict[str, object]:
    """What `kb run` and then `kb verify` say of a product that is checked by sample, without times of this machine."""
    done = invoke("run", "gemm", *RUNS["gemm on one PE"], "--verify", "sample", "--json", *options)
    assert (done.exit_code, done.stderr) == (0, "")
    result = json.loads(done.stdout)
    del result["wall_s"]
    verified = [invoke("verify", result["run_dir"], "--json", *debugging) for debugging in ([], ["--debug"])]
    where = Path(result["run_dir"], "where.json").read_bytes()
    return {"run": result, "where": where, "verified": [(each.exit_code, each.stdout) for each in verified]}


@pytest.mark.usefixtures("small_parts")
def test_kb_run_and_kb_verify_say_the_same(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, made = figures(invoke), list[CommandLog]()
    monkeypatch.setattr(read_back, "MOST_WHOLE", 0)
    monkeypatch.setattr(data, "MOST_WHOLE", 0)
    read = LogFolder.by_command

    def watched(folder: LogFolder) -> CommandLog | None:
        found = read(folder)
        assert found is not None
        made.append(found)
        return found

    monkeypatch.setattr(LogFolder, "by_command", watched)
    monkeypatch.setattr(LogFolder, "whole", None)  # nobody reads all rows together
    assert figures(invoke) == expected
    assert len(made) == 3


def test_that_all_rows_are_read_together_after_all_is_told(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_back, "MOST_WHOLE", 0)
    monkeypatch.setattr(LogFolder, "by_command", lambda _: None)
    done = invoke("run", "gemm", *RUNS["gemm on one PE"], "--verify", "sample", "--json")
    assert done.exit_code == 0
    assert done.stderr.splitlines()[-1] == (
        f"All {json.loads(done.stdout)['tile_stages']} records of the log are read into memory together to compute the "
        "data, because the log has records that do not follow from whole commands."
    )


def test_a_check_of_each_element_reads_the_log_whole(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_back, "MOST_WHOLE", 0)
    monkeypatch.setattr(LogFolder, "by_command", None)
    assert invoke("run", "gemm", *RUNS["gemm on one PE"]).exit_code == 0
