"""`usage.json`: what was counted, in columns in the order of the topology."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from kb_cli.benchmark.bundled import find
from kb_cli.run.base.files import RunFolderError
from kb_cli.run.observe.metrics import measure
from kb_cli.run.observe.plan_tally import PlanTally
from kb_cli.run.observe.usage import Usage
from kb_cli.run.records.run_loads import loads_of
from kb_cli.run.records.usage_file import LinkColumns, UsageTable, usage_table
from kb_dataexec import MemoryLogWriter
from kb_engine import Engine, Host, Language, TensorRef
from kb_topology import Topology, load_topology

N = 64
NBYTES = N * N * 4


def kernel(tl: Language, a: TensorRef, c: TensorRef) -> None:
    tl.store(c, tl.load(a))


@pytest.fixture(scope="module")
def ran() -> tuple[Topology, UsageTable]:
    """A kernel on PE 1 of one_cube that copies 64 x 64 f32."""
    topology = load_topology(find("topologies", "one_cube"))
    usage = Usage()
    engine = Engine(topology, MemoryLogWriter(), [usage])
    host = Host(engine, Path.cwd())
    a = host.tensor("a", np.ones((N, N), np.float32), "f32", slices=[0])
    c = host.empty("c", (N, N), "f32", slices=[0])
    launched = host.launch(kernel, a, c, pes=[1])
    span_ps = measure(engine, [launched], PlanTally(), None, usage).span_ps
    return topology, usage_table(usage, topology.graph, span_ps)


def test_links_carry_the_bytes_of_the_kernel(ran: tuple[Topology, UsageTable]) -> None:
    topology, table = ran
    loads = loads_of(table, topology.graph, "copy", "usage.json")
    ways = {ends: (load.nbytes, load.utilization * table.span_ps) for ends, load in loads.links.items() if load.nbytes}
    dma, xbar = "sip0.cube0.pe1.pe_dma", "sip0.cube0.xbar0"
    # 128 bytes a nanosecond: 16,384 bytes take 128 ns
    assert ways[xbar, dma] == (NBYTES, pytest.approx(128_000))
    assert ways[dma, xbar] == (NBYTES, pytest.approx(128_000))
    assert sum(nbytes for (src, _), (nbytes, _) in ways.items() if ".hbm" in src) == NBYTES
    assert {end.rpartition(".")[2].rstrip("0123456789") for ends in ways for end in ends} == {"pe_dma", "xbar", "hbm"}


def test_memories_and_channels_have_their_work(ran: tuple[Topology, UsageTable]) -> None:
    topology, table = ran
    (hbm,) = [memory for memory in table.memories if memory.space == "hbm"]
    assert (sum(filter(None, hbm.read_nbytes)), sum(filter(None, hbm.written_nbytes))) == (NBYTES, NBYTES)
    loads = loads_of(table, topology.graph, "copy", "usage.json").nodes
    assert loads["sip0.cube0.pe1.pe_dma"].words.startswith("read ")
    assert loads["sip0.cube0.pe1.pe_dma"].utilization > 0.3
    assert loads["sip0.cube0.pe0.pe_dma"].words == "read 0 %, write 0 %"
    (busy,) = [load for node, load in loads.items() if ".hbm" in node and load.utilization > 0]
    assert busy.words.endswith(", 16 KiB read, 16 KiB written")
    assert not [node for node in loads if "xbar" in node]


def test_the_file_has_columns_as_long_as_the_chip_has_parts(ran: tuple[Topology, UsageTable]) -> None:
    topology, table = ran
    assert len(table.links.busy_ps) == len(table.links.nbytes) == len(topology.graph.links)
    assert {(block.kind, block.channel): len(block.busy_ps) for block in table.blocks} == {
        ("hbm", ""): 8,
        ("sram", ""): 1,
        ("pe_dma", "read"): 8,
        ("pe_dma", "write"): 8,
        ("pe_fetch_store", ""): 8,
        ("pe_gemm", ""): 8,
        ("pe_math", ""): 8,
    }
    assert msgspec.json.decode(msgspec.json.encode(table), type=UsageTable) == table


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda table: {"links": LinkColumns(busy_ps=[1], nbytes=[2])}, "got 1 and 1 values in the columns of links"),
        (
            lambda table: {"blocks": [msgspec.structs.replace(table.blocks[0], busy_ps=[None])]},
            "u.json: $.blocks, hbm: got 1 values, needs 8, as the topology has such nodes",
        ),
        (
            lambda table: {"memories": [msgspec.structs.replace(table.memories[0], read_nbytes=[])]},
            "u.json: $.memories, hbm: got 0 values, needs 8, as the topology has such nodes",
        ),
    ],
)
def test_columns_of_another_chip_are_refused(
    ran: tuple[Topology, UsageTable], change: Callable[[UsageTable], dict[str, object]], words: str
) -> None:
    topology, table = ran
    with pytest.raises(RunFolderError) as caught:
        loads_of(msgspec.structs.replace(table, **change(table)), topology.graph, "copy", "u.json")
    assert words in str(caught.value)
