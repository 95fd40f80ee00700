"""The layers of a table run, each verified, with the results that SCALE-Sim counts."""

from pathlib import Path
from typing import Any

import pytest
from running import Ran, chip, two_sips

from kb_messages import BenchmarkError
from kb_models.find import source_of
from kb_models.networks import TableParams, TableWorkload
from kb_topology import Topology

TABLE = """\
Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,
Conv1, 16, 14, 7, 5, 3, 20, 2,
DP2, 6, 6, 3, 3, 10, 1, 1,
DP3, 6, 6, 3, 3, 5, 2, 2,
FC, 1, 1, 1, 1, 50, 3, 1,
"""


def workload(folder: Path, text: str) -> TableWorkload:
    path = folder / "net.csv"
    path.write_text(text)
    found = source_of(str(path))
    assert found is not None
    values: dict[str, Any] = {}
    exec(compile(found[1], str(found[0]), "exec"), values)
    made: TableWorkload = values["Network"]()
    return made


@pytest.mark.parametrize("topology", [chip("one_cube"), two_sips()])
def test_every_layer_is_verified(tmp_path: Path, topology: Topology) -> None:
    ran = Ran(topology, workload(tmp_path, TABLE), 0, TableParams())
    assert not ran.failures
    shapes = {op.name: op.writes[0].shape for op in ran.workload._made}
    # ceil((16 - 7 + 2) / 2) = 6 rows and ceil((14 - 5 + 2) / 2) = 6 columns; the last window is over the edge
    assert shapes == {"Conv1": (36, 20), "DP2": (16, 10), "DP3": (9, 10), "FC": (1, 3)}
    assert [op.flops for op in ran.workload.ops] == [2 * 36 * 20 * 7 * 5 * 3, 2 * 16 * 10 * 9, 2 * 9 * 10 * 9, 300]
    assert ran.choices == {"inputs": "random, one for each layer"}


def test_products_of_a_batch(tmp_path: Path) -> None:
    ran = Ran(chip("one_cube"), workload(tmp_path, "Layer,M,N,K,\nscore,3,5,7,2,\nout,1,70,33,"), 0, TableParams())
    assert not ran.failures
    assert [(op.name, op.writes[0].shape) for op in ran.workload._made] == [
        ("score[0]", (3, 5)),
        ("score[1]", (3, 5)),
        ("out", (1, 70)),
    ]


def test_sparse_layers_run_when_asked_for(tmp_path: Path) -> None:
    made = workload(tmp_path, "a,4,4,4,\nb,3,5,7,2:4,\nc,1,2,3,1:2,")
    with pytest.raises(BenchmarkError) as found:
        made.prepare(TableParams(), chip("one_cube"), 0)
    assert str(found.value) == (
        "net: got 2 layers with sparse filters, the first b in line 2, needs dense filters; "
        "-p sparse=dense takes all weights as there"
    )
    ran = Ran(chip("one_cube"), made, 0, TableParams(sparse="dense"))
    assert not ran.failures
    assert ran.choices["sparse"] == "2 layers as dense ones"
