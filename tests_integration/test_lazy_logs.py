"""Logs of skipped tiles and of isolated commands make their rows when somebody looks: the rows of every event."""

import gc
import json
import pickle
from copy import deepcopy
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fast_forward import least_stages

from kb_dataexec import FolderLogWriter, MemoryLogWriter, OpLog, read_log
from kb_dataexec.log import LazyOpLog, LogFolder, LogSummary
from kb_dataexec.log.compressed.chunk_format import pack_chunk, unpack_chunk
from kb_engine import DType, Engine, Host, Language, TensorRef, TileShape
from kb_engine.observe import Callbacks
from kb_messages import LogError
from kb_topology import load_topology

pytestmark = pytest.mark.speed


ROOT = Path(__file__).parents[1]
SIZES = {"one_pe": (2048, 1280, 1280), "one_cube": (1024, 512, 512)}
"""M, N, K of a launch. The first has 1,600 tiles of one PE, some of them skipped, and the second 128 of each PE."""
TILE = TileShape(128, 128, 128)


@pytest.fixture(autouse=True)
def isolates_small_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of 64 stages are worth isolating."""
    monkeypatch.setattr("kb_engine.fastforward.isolated.isolated_commands.LEAST_ISOLATED_STAGES", 64)


def kernel(tl: Language, triples: list[tuple[TensorRef, TensorRef, TensorRef]], first: int) -> None:
    a, b, c = triples[tl.program_id(0) - first]
    tl.wait(tl.composite("gemm", a, b, out=c, tile=TILE))
    tl.wait(tl.composite("gemm", a, b, out=c, tile=TILE))


def begun(name: str, writer: Any, exact: Any = "isolated", observers: Any = ()) -> tuple[Engine, Any]:
    """An engine, and a function that launches the kernel once."""
    topology = load_topology(ROOT / f"topologies/{name}.yaml")
    engine = Engine(topology, writer, observers, exact=exact)
    host, (m, n, k), n_pes = Host(engine, ROOT), SIZES[name], len(topology.graph.pe_ids)
    triples = [
        tuple(
            host.empty(name, shape, DType.F16, slices=[host.hbm_slice_of(pe)])
            for name, shape in {"a": (m, k), "b": (k, n), "c": (m, n)}.items()
        )
        for pe in range(n_pes)
    ]
    return engine, lambda: host.launch(kernel, triples, 0, pes=range(n_pes))


@pytest.mark.parametrize("name", ["one_pe", "one_cube"])
def test_rows_are_made_when_somebody_looks(name: str) -> None:
    (lazy, launch), (plain, launch_plain) = begun(name, MemoryLogWriter()), begun(name, MemoryLogWriter(), "events")
    launch(), launch_plain()
    log, expected = lazy.close_log(), plain.close_log()
    assert type(log) is LazyOpLog
    assert expected is not None
    assert lazy.session.recorder is not None
    assert lazy.session.recorder.writer.summary.n_ops == 0
    assert log.digest == expected.digest


@pytest.mark.parametrize("name", ["one_pe", "one_cube"])
def test_a_log_that_somebody_has_does_not_get_the_rows_of_a_later_launch(name: str) -> None:
    engine, launch = begun(name, MemoryLogWriter())
    launch()
    first = engine.close_log()
    launch()
    second = engine.close_log()
    assert first is not None
    assert second is not None
    assert second.n_ops == 2 * first.n_ops
    plain, launch_plain = begun(name, MemoryLogWriter(), "events")
    launch_plain(), launch_plain()
    expected = plain.close_log()
    assert expected is not None
    assert second.digest == expected.digest


def test_a_log_that_nobody_has_is_not_made() -> None:
    engine, launch = begun("one_cube", MemoryLogWriter())
    launch()
    engine.close_log()
    gc.collect()
    launch()
    assert engine.session.recorder is not None
    assert engine.session.recorder.writer.summary.n_ops == 0


def test_a_log_on_disk_and_one_that_somebody_is_told_of_have_their_rows(tmp_path: Path) -> None:
    told: list[int] = []
    on_disk, launch = begun("one_cube", FolderLogWriter(tmp_path / "log"))
    launch()
    summary = on_disk.close_log()
    assert isinstance(summary, LogSummary)
    watched, launch = begun(
        "one_cube", MemoryLogWriter(), observers=[Callbacks(on_chunk=lambda ops, _: told.append(len(ops)))]
    )
    launch()
    log = watched.close_log()
    assert log is not None
    assert type(log) is not LazyOpLog
    assert sum(told) == log.n_ops == summary.n_ops
    assert log.digest == summary.digest


def test_the_summary_of_a_log_with_formulas_can_be_copied_and_needs_the_whole_log(tmp_path: Path) -> None:
    first, second = on_disk("one_pe", tmp_path / "first"), on_disk("one_pe", tmp_path / "second")
    assert type(pickle.loads(pickle.dumps(first))) is LogSummary
    assert deepcopy(first) == first
    (tmp_path / "second" / "manifest.json").unlink()
    with pytest.raises(LogError, match="manifest"):
        _ = second.n_ops


def on_disk(name: str, folder: Path) -> LogSummary:
    """The log of one launch, in *folder*."""
    engine, launch = begun(name, FolderLogWriter(folder))
    launch()
    summary = engine.close_log()
    assert isinstance(summary, LogSummary)
    return summary


@pytest.mark.parametrize(("name", "nbytes"), [("one_pe", 10_000), ("one_cube", 10_000)])
def test_formulas_on_disk_are_the_rows_of_every_event(name: str, nbytes: int, tmp_path: Path) -> None:
    summary, (plain, launch) = on_disk(name, tmp_path / "log"), begun(name, MemoryLogWriter(), "events")
    assert sum(file.stat().st_size for file in (tmp_path / "log").iterdir()) < nbytes
    assert json.loads((tmp_path / "log/manifest.json").read_text())["version"] == 4
    launch()
    expected, source = plain.close_log(), LogFolder(tmp_path / "log")
    assert isinstance(expected, OpLog)
    assert source.digest is None
    log = source.whole()
    assert log.ops.tobytes() == expected.ops.tobytes()
    assert log.operands.tobytes() == expected.operands.tobytes()
    assert log.strings == expected.strings
    assert log.missing == expected.missing == ("dependencies",)
    assert all(log.table(each).tobytes() == expected.table(each).tobytes() for each in expected.tables)
    assert source.digest == summary.digest == log.digest == expected.digest
    assert summary == source.summary == log.summary


def test_operands_of_formulas_are_made_when_somebody_asks(tmp_path: Path) -> None:
    on_disk("one_cube", tmp_path)
    whole, seen = read_log(tmp_path), list[int]()
    log = LogFolder(tmp_path).whole(lazy_operands=True, look=lambda chunk: seen.append(len(chunk.operands)))
    assert sum(seen) == len(whole.operands)
    assert "operands" not in vars(log)
    assert log.operands.tobytes() == whole.operands.tobytes()
    assert log.digest == whole.digest

    other = LogFolder(tmp_path).whole(lazy_operands=True)
    for file in tmp_path.iterdir():
        file.unlink()
    on_disk("one_pe", tmp_path)
    with pytest.raises(LogError, match="other operands than when the log was opened, needs the same ones"):
        _ = other.operands


def test_two_readers_of_one_log_do_not_meet(tmp_path: Path) -> None:
    on_disk("one_cube", tmp_path / "log")
    log, one, other = read_log(tmp_path / "log"), LogFolder(tmp_path / "log"), LogFolder(tmp_path / "log")
    pairs = list(zip(one.chunks(), other.chunks(), strict=True))
    for side in (0, 1):
        assert np.concatenate([pair[side].ops for pair in pairs]).tobytes() == log.ops.tobytes()


def multiplying(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef) -> None:
    tl.wait(tl.composite("gemm", a, b, out=c, tile=TileShape(16, 16, 16)))


def small_products(writer: Any, exact: Any, kernels: Any) -> Engine:
    """An engine after launches of *kernels* on matrices of 64 x 64, with a host write after each."""
    with least_stages(16):
        engine = Engine(load_topology(ROOT / "topologies/one_pe.yaml"), writer, exact=exact)
        return _launched(engine, kernels)


def _launched(engine: Engine, kernels: Any) -> Engine:
    host = Host(engine, ROOT)
    a, b = (host.tensor(name, np.full((64, 64), 2, np.float32), DType.F32) for name in "ab")
    c = host.empty("c", (64, 64), DType.F32)
    for each in kernels:
        host.launch(each, a, b, c)
        host.write(a, np.full((64, 64), 3, np.float32))
    return engine


def test_rows_follow_formulas_where_the_host_writes_and_a_kernel_looks(tmp_path: Path) -> None:
    """A host write is a row between two launches. A look needs the rows before it, and what follows are rows."""

    def looking(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef) -> None:
        tl.wait(tl.composite("gemm", a, b, out=c, tile=TileShape(16, 16, 16)))
        seen.append(float(tl.materialize(tl.load(c[0:1, 0:1]))[0, 0]))
        tl.wait(tl.composite("gemm", a, b, out=c, tile=TileShape(16, 16, 16)))

    seen: list[float] = []
    digests = []
    for exact, writer in (("isolated", FolderLogWriter(tmp_path / "log")), ("events", MemoryLogWriter())):
        engine = small_products(writer, exact, [multiplying, multiplying, looking])
        log = engine.close_log()
        assert log is not None
        digests.append(log.digest)
    assert seen == [3 * 2 * 64.0] * 2
    assert digests[0] == digests[1] == read_log(tmp_path / "log").digest
    names = {file.name.partition("-")[0] for file in (tmp_path / "log").iterdir()}
    assert {"formulas", "ops"} <= names


def looking_often(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef) -> None:
    for row in range(64):
        tl.store(c[row : row + 1, :], tl.load(a[row : row + 1, :]) * 2 + 1)
    assert tl.materialize(tl.load(c[63:64, 0:1]))[0, 0] in (5, 7)
    tl.wait(tl.composite("gemm", a, b, out=c, tile=TileShape(16, 16, 16)))


@pytest.mark.parametrize("exact", ["events", "isolated"])
def test_chunks_of_events_on_disk_are_formulas_until_a_kernel_looks(
    exact: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = small_products(MemoryLogWriter(), "events", [multiplying, looking_often, multiplying]).close_log()
    in_small_chunks(monkeypatch)
    engine = small_products(FolderLogWriter(tmp_path), exact, [multiplying, looking_often, multiplying])
    found = engine.close_log()
    assert found is not None
    assert expected is not None
    assert found.digest == expected.digest == read_log(tmp_path).digest
    last_formulas, last_rows = max(tmp_path.glob("formulas-*")).stem, max(tmp_path.glob("ops-*")).stem
    assert 4 < int(last_formulas[-6:]) < int(last_rows[-6:])


def test_chunks_of_events_of_many_pes_are_cut_at_any_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, launch = begun("one_cube", MemoryLogWriter(), "events")
    launch()
    in_small_chunks(monkeypatch)
    on_disk, launch = begun("one_cube", FolderLogWriter(tmp_path), "events")
    launch()
    expected, found = plain.close_log(), on_disk.close_log()
    assert expected is not None
    assert found is not None
    assert found.digest == expected.digest
    assert len([*tmp_path.glob("formulas-*")]) > 20
    assert not [*tmp_path.glob("ops-*")]


@pytest.mark.parametrize("least", [64, 1 << 20], ids=["isolated", "after tiles that repeat"])
def test_rows_of_a_command_whose_times_are_known_follow_a_look(
    least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Program 0 looks while a command of program 1 is under way, whose times are known to its end."""

    def multiplying(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef) -> None:
        tl.wait(tl.composite("gemm", a, b, out=c, tile=TILE))

    def kernel(tl: Language, x: TensorRef, y: TensorRef) -> None:
        if tl.program_id() == 0:
            for row in range(8):
                tl.store(y[row : row + 1, :], tl.load(x[row : row + 1, :]) * 2)
            assert tl.materialize(tl.load(y[0:1, 0:1]))[0, 0] == 2
        else:
            value = tl.load(x[8:40, :])
            for _ in range(64):
                value = tl.exp(-value)
                tl.wait(value)

    monkeypatch.setattr("kb_engine.fastforward.isolated.isolated_commands.LEAST_ISOLATED_STAGES", least)
    digests = []
    for exact, writer in (("isolated", FolderLogWriter(tmp_path)), ("events", MemoryLogWriter())):
        topology = load_topology(ROOT / "topologies/one_cube.yaml")
        engine = Engine(topology, writer, exact=exact)  # type: ignore[arg-type]
        host = Host(engine, ROOT)
        x, y = (host.tensor(name, np.ones((64, 512), np.float32), DType.F32) for name in "xy")
        here = [host.hbm_slice_of(0)]
        operands = [host.empty(name, (2048, 2048), DType.F16, slices=here) for name in "abc"]
        host.launch(multiplying, *operands, pes=[0])
        host.launch(kernel, x, y, pes=range(2))
        log = engine.close_log()
        assert log is not None
        digests.append(log.digest)
    assert digests[0] == digests[1]


def in_small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs are written after every 50 records or so."""
    monkeypatch.setattr("kb_engine.timing.clock.HOUSEKEEPING_INTERVAL", 16)
    monkeypatch.setattr("kb_engine.observe.recorder._CHUNK_RECORDS", 50)
    monkeypatch.setattr("kb_engine.observe.recorder._CHUNK_RECORDS_A_PE", 1)


def test_an_empty_log_on_disk_has_no_chunk(tmp_path: Path) -> None:
    engine, _ = begun("one_pe", FolderLogWriter(tmp_path))
    engine.close_log()
    assert {file.name for file in tmp_path.iterdir()} == {"immediates.bin", "manifest.json", "strings.jsonl"}


def test_a_log_with_formulas_that_was_cut_off_is_read_as_far_as_it_got(tmp_path: Path) -> None:
    engine, launch = begun("one_cube", FolderLogWriter(tmp_path / "log"))
    launch()
    engine.flush_log()
    launch()
    with pytest.raises(LogError, match="no such file, needs a closed log"):
        read_log(tmp_path / "log")
    prefix = read_log(tmp_path / "log", prefix=True)
    assert not prefix.is_complete
    engine.close_log()
    log = read_log(tmp_path / "log")
    assert 0 < prefix.n_ops < log.n_ops
    assert prefix.ops.tobytes() == log.ops[: prefix.n_ops].tobytes()


def test_a_damaged_or_forged_chunk_of_formulas_is_a_sentence(tmp_path: Path) -> None:
    small_products(FolderLogWriter(tmp_path), "isolated", [multiplying] * 2).close_log()
    path, rng = min(tmp_path.glob("formulas-*.z")), np.random.default_rng(0)
    data = path.read_bytes()
    for n in (0, 5, 60, len(data) // 2, len(data) - 1):
        refused(path, data[:n], tmp_path)
    for at in rng.integers(len(data), size=20):
        refused(path, data[:at] + bytes([data[at] ^ 1 << int(rng.integers(8))]) + data[at + 1 :], tmp_path)
    tables, forms = unpack_chunk(data, "chunk")
    slots = tables["slots"].copy()
    slots["count"][0] = 0
    refused(path, pack_chunk(tables | {"slots": slots}, forms), tmp_path)
    columns = [(name, column) for name in tables if len(tables[name]) for column in tables[name].dtype.names or ()]
    for number, (name, column) in zip(cycle((-(1 << 40), 1 << 40)), columns, strict=False):
        rows = tables[name].copy()
        rows[column] = number if rows.dtype[column].itemsize == 8 else number >> 40
        if rows.tobytes() != tables[name].tobytes():
            refused(path, pack_chunk(tables | {name: rows}, forms), tmp_path)


def test_a_forged_number_of_repetitions_takes_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_disk("one_pe", tmp_path)
    path = tmp_path / "formulas-000000.z"
    data = path.read_bytes()
    tables, forms = unpack_chunk(data, "chunk")
    first = int(np.argmax(tables["parts"]["rows"] < 0))
    forged = tables["parts"][: first + 1].copy()
    forged["n"][first] = 1 << 40
    refused(path, pack_chunk(tables | {"parts": forged}, forms), tmp_path)
    path.write_bytes(data)
    monkeypatch.setattr("kb_dataexec.log.reader._memory_nbytes", lambda: 1 << 20)
    with pytest.raises(LogError, match=r"GiB of rows or more, needs at most half of the [0-9.]+ GiB of this machine"):
        read_log(tmp_path)


def refused(path: Path, data: bytes, folder: Path) -> None:
    """The log in *folder* is not read where the file at *path* has *data*, and the error is one line."""
    path.write_bytes(data)
    with pytest.raises(LogError) as caught:
        read_log(folder)
    assert "\n" not in str(caught.value)
