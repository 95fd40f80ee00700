"""How many records formulas state: those that are there, of a launch that an error ends, too."""

from pathlib import Path

import numpy as np
import pytest

from kb_dataexec import FolderLogWriter
from kb_dataexec.log import LogFolder
from kb_dataexec.log.compressed import RecordCounter
from kb_engine import DType, Engine, Host, Language, TensorRef, TileShape
from kb_messages import KbError
from kb_topology import load_topology

ROOT = Path(__file__).parents[1]


def kernel(tl: Language, matrices: list[TensorRef], x: TensorRef, loads: int) -> None:
    a, b, c = matrices
    if tl.program_id() == 0:
        tl.wait(tl.composite("gemm", a, b, out=c, tile=TileShape(16, 16, 16)))
        return
    for _ in range(loads):
        tl.load(x)
    if loads:
        raise ValueError("the program ends in the middle of the product")


def test_a_product_that_an_error_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (("_CHUNK_RECORDS", 64), ("_CHUNK_RECORDS_A_PE", 1), ("_EXPECTED_FOR_ONE", 1)):
        monkeypatch.setattr(f"kb_engine.observe.recorder.{name}", size)
    monkeypatch.setattr("kb_engine.timing.clock.HOUSEKEEPING_INTERVAL", 256)
    engine = Engine(load_topology(ROOT / "topologies/one_cube.yaml"), FolderLogWriter(tmp_path))
    host = Host(engine, ROOT)
    matrices = [host.tensor(name, np.zeros((320, 320), np.float16), DType.F16, slices=[0]) for name in "abc"]
    x = host.tensor("x", np.zeros((16, 16), np.float16), DType.F16, slices=[1])
    host.launch(kernel, matrices, x, 0, pes=range(2))
    with pytest.raises(KbError, match="in the middle of the product"):
        host.launch(kernel, matrices, x, 300, pes=range(2))
    engine.close_log()
    stated, log = RecordCounter(), LogFolder(tmp_path, prefix=True)
    for path in sorted(tmp_path.glob("formulas-*.z")):
        stated.add(path.read_bytes(), path.name)
    product = 20**3 * 4 + 20**2 * 2  # a tile is read twice, fetched and multiplied, an output is stored and written
    assert product < log.summary.n_ops < 1.5 * product
    assert stated.total == pytest.approx(log.summary.n_ops, rel=0.02)
