"""Windows of a log that repeat the one before are not followed: the answer is that of the whole log."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from kb_dataexec import FolderLogWriter, OpLog
from kb_dataexec.analysis import where, where_in_windows
from kb_dataexec.log import LogFolder
from kb_dataexec.log.compressed import RecordCounter
from kb_dataexec.log.tables import LeftOut
from kb_engine import DType, Engine, Host, Language, TensorRef, TileShape
from kb_topology import load_topology

ROOT = Path(__file__).parents[1]


def kernel(tl: Language, operands: list[TensorRef], order: str, times: int) -> None:
    a, b, c = operands
    for _ in range(times):
        tl.wait(tl.composite("gemm", a, b, out=c, tile=TileShape(16, 16, 16), loop_order=order))


def product(sizes: tuple[int, int, int], folder: Path, order: str = "mnk", times: int = 1) -> LogFolder:
    """The log of the product of M x K by K x N elements *sizes*, on one PE, with tiles of 16 x 16 x 16."""
    m, n, k = sizes
    engine = Engine(load_topology(ROOT / "topologies/one_pe.yaml"), FolderLogWriter(folder))
    host = Host(engine, ROOT)
    shapes = {"a": (m, k), "b": (k, n), "c": (m, n)}
    host.launch(kernel, [host.empty(name, shape, DType.F16) for name, shape in shapes.items()], order, times)
    engine.close_log()
    return LogFolder(folder)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of formulas have a few hundred rows."""
    monkeypatch.setattr("kb_dataexec.log.compressed.row_maker._MOST_RECORDS", 1024)
    monkeypatch.setattr("kb_dataexec.log.compressed.decoded_commands._MOST_CHUNK_RECORDS", 128)


@pytest.mark.parametrize(
    ("sizes", "order", "times"),
    [
        ((160, 320, 80), "mnk", 1),
        ((160, 160, 160), "nmk", 2),
        ((150, 170, 170), "mnk", 1),
        ((128, 160, 160), "input_stationary", 1),
    ],
)
@pytest.mark.usefixtures("small_chunks")
def test_products(sizes: tuple[int, int, int], order: str, times: int, tmp_path: Path) -> None:
    log = product(sizes, tmp_path, order, times)
    expected = msgspec.json.encode(where(log.whole()))
    for most_kept in (0, 1 << 20):
        assert msgspec.json.encode(where_in_windows(log, most=1, most_kept=most_kept)) == expected


@pytest.mark.speed
@pytest.mark.usefixtures("small_chunks")
def test_what_repeats_is_neither_made_nor_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, made, followed = product((320, 320, 320), tmp_path), list[int](), list[int]()

    def noted(is_left_out: LeftOut) -> Iterator[OpLog]:
        for chunk in LogFolder.some_chunks(log, is_left_out):
            made.append(chunk.n_ops)
            yield chunk

    monkeypatch.setattr(log, "some_chunks", noted)
    where_in_windows(log, followed=followed.append, most=1, most_kept=0)
    n_records = 20**3 * 4 + 20**2 * 2  # a tile is read twice, fetched and multiplied, an output is stored and written
    stated = RecordCounter()
    for path in log.folder.glob("formulas-*.z"):
        stated.add(path.read_bytes(), path.name)
    assert log.summary.n_ops == stated.total == n_records
    assert sum(made) < n_records // 4
    assert followed[0] == 0
    assert followed == sorted(followed)
    assert followed[-1] > n_records - 2 * 1024
