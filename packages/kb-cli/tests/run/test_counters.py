"""Counters of blocks in reports: what launches counted, added up over equal blocks."""

import json

import numpy as np

from kb_cli.benchmark.bundled import find
from kb_cli.run.observe.counters import BlockCounters
from kb_engine import Engine, Host
from kb_topology import load_topology


def load(tl, a):
    tl.load(a)


def run_of(topology, *launches):
    """What two tensors of 1 KiB, in the slices of PE 0 and PE 1, count when *launches* load them."""
    counters = BlockCounters()
    host = Host(Engine(load_topology(find("topologies", topology)), observers=[counters]))
    data = np.ones((16, 32), np.float16)
    tensors = [host.tensor(name, data, "f16", slices=[number]) for number, name in enumerate("ab")]
    for which in launches:
        host.launch(load, tensors[which], pes=[which])
        host.read(tensors[which])  # the host's own reads do not belong to a launch
    return {each.counter: each for each in counters.sums if each.kind == "hbm"}


def test_equal_blocks_are_added_up_and_the_extremes_are_kept():
    found = run_of("one_cube_banked", 0, 0, 1)
    bursts = 1024 // 32  # of 32 bytes each, all in the one row of each bank that they reach
    assert {name: each.blocks for name, each in found.items()} == dict.fromkeys(
        ["row_hits", "row_closed", "row_misses", "turnarounds", "refreshes"], 8
    )
    touched = found["row_hits"].total + found["row_closed"].total + found["row_misses"].total
    assert touched == 3 * bursts
    each = [found["row_hits"], found["row_closed"], found["row_misses"]]
    assert sum(kind.most for kind in each) == 2 * bursts
    assert [kind.least for kind in each] == [0, 0, 0]  # six of the eight slices were never read


def test_a_chip_whose_blocks_count_nothing_has_no_table(invoke):
    done = invoke(
        "run", "gemm", "-p", "M=16", "-p", "N=16", "-p", "K=16", "-p", "tile=16x16x16", "--topology", "one_pe"
    )
    assert "counter of" not in done.stdout
    assert run_of("one_cube", 0) == {}


def test_reports_and_run_folders_have_the_counts(invoke, tmp_path):
    arguments = ["run", "gemm", "-p", "M=16", "-p", "N=16", "-p", "K=32", "-p", "tile=16x16x16"]
    arguments += ["--topology", "one_cube_banked", "--levers", "none"]
    table = invoke(*arguments).stdout.splitlines()
    head = next(at for at, line in enumerate(table) if line.startswith("counter of"))
    assert table[head].split() == ["counter", "of", "counter", "blocks", "sum", "least", "most"]
    result = json.loads(invoke(*arguments, "--json").stdout)
    rows = [line.replace(",", "").split() for line in table[head + 2 : head + 7]]
    assert rows == [
        [each["kind"], each["counter"], *(str(each[name]) for name in ("blocks", "total", "least", "most"))]
        for each in result["counters"]
    ]
    (run_json,) = (json.loads(path.read_text()) for path in tmp_path.rglob("run.json"))
    assert run_json["results"]["counters"] == result["counters"]
