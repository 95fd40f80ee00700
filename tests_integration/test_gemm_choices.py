"""The choices of the benchmark gemm on a chip: grid, placement of operands and method. Times are simulated."""

import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from sampled_cases import sampled

from kb_cli.benchmark.load import load_benchmark
from kb_cli.main import kb
from kb_engine import Engine, Host
from kb_messages import KernelError
from kb_topology import load_topology, loads_topology

TOPOLOGIES = Path(__file__).parents[1] / "topologies"
BENCH = load_benchmark("gemm").bench
GEMM = sys.modules[type(BENCH).__module__]


def chip(name, n_pes=None):
    text = (TOPOLOGIES / f"{name}.yaml").read_text(encoding="utf-8")
    return loads_topology(text.replace("count: 8}", f"count: {n_pes}}}")) if n_pes else loads_topology(text)


def launched(topology, m, n, k, **params):
    """The host after a launch of the benchmark on zeros."""
    host = Host(Engine(topology))
    p = BENCH.Params(M=m, N=n, K=k, **params)
    BENCH.launch(host, p, {"a": np.zeros((m, k), np.float16), "b": np.zeros((k, n), np.float16)})
    return host


def memory_of(tensor, row, col):
    """The number of the memory that holds an element."""
    (owner,) = (
        matrix.owner
        for (rows, cols), matrix in tensor.every_block()
        if rows.start <= row < rows.stop and cols.start <= col < cols.stop
    )
    return owner


def took_ps(topology, size, grid, monkeypatch):
    monkeypatch.setattr(GEMM, "pe_grid", lambda *_: grid)
    (launch,) = launched(topology, *size, operands="replicated").launches
    return launch.end_ps - launch.start_ps


@pytest.mark.parametrize(
    ("name", "n_pes", "size"),
    sampled(
        [
            ("one_cube", None, (512, 512, 256)),
            ("one_cube", None, (16, 1024, 512)),
            ("one_cube", None, (1, 2048, 256)),
            ("devices/trainium2", 5, (512, 512, 512)),
            ("devices/trainium2", 7, (512, 512, 512)),
            ("devices/trainium2", 7, (300, 700, 512)),
            ("devices/trainium2", 7, (1024, 96, 512)),
        ],
        4,
    ),
)
def test_the_grid_is_at_most_5_percent_slower_than_the_best_of_all_grids(name, n_pes, size, monkeypatch):
    topology = chip(name, n_pes)
    host = launched(topology, *size, operands="replicated")
    chosen = tuple(map(int, host.choices["grid"].split(" x ")))
    grids = [(i, j) for i in range(1, min(size[0], host.num_pes) + 1) for j in range(1, host.num_pes // i + 1)]
    times_ps = {grid: took_ps(topology, size, grid, monkeypatch) for grid in grids if grid[1] <= size[1]}
    assert times_ps[chosen] <= 1.05 * min(times_ps.values()), (chosen, times_ps)


def test_few_rows_do_not_make_every_pe_read_all_weights():
    """16 x 2048 on 24 PEs: the smallest largest block is 2 x 683, whose PEs read the weights 8 times in all."""
    topology = chip("devices/trainium2", 24)
    host = Host(Engine(topology))
    p = BENCH.Params(M=16, N=2048, K=512)
    costs = GEMM.BlockCosts.of(host, p)
    assert GEMM.pe_grid(16, 2048, 24, None) == (8, 3)
    down, along = GEMM.pe_grid(16, 2048, 24, costs)
    assert down == 1
    assert along > 8


@pytest.mark.parametrize(
    ("name", "size", "copies", "grid"),
    [
        ("one_sip", (256, 384, 512), (1, 1), "8 x 16"),
        ("four_sip", (128, 512, 64), (4, 1), "8 x 64"),  # SIPs cut the columns, so each of them has a copy of A
        ("four_sip", (512, 128, 64), (1, 4), "32 x 16"),
    ],
)
def test_on_many_cubes_a_sip_has_one_copy_of_each_operand_at_most(name, size, copies, grid):
    host = launched(chip(name), *size)
    assert host.choices == {"method": "blocks", "operands": "sharded", "grid": grid}
    m, n, k = size
    placed = {
        each: sum(matrix.nbytes for t in host.tensors if t.name == each for _, matrix in t.every_block())
        for each in "abc"
    }
    assert placed == {"a": copies[0] * m * k * 2, "b": copies[1] * k * n * 2, "c": m * n * 2}


def test_pes_that_read_the_same_rows_begin_at_different_slices(monkeypatch):
    given = []
    launch = Host.launch
    monkeypatch.setattr(Host, "launch", lambda *args, **named: given.append(args) or launch(*args, **named))
    launched(chip("one_sip"), 256, 512, 512)
    ((_, _, blocks, _, steps, _),) = given
    assert len(blocks) == 128
    by_rows, by_cols = {}, {}
    for block in blocks:
        along = steps[block.first]
        by_rows.setdefault(block.rows.start, []).append(memory_of(block.a, block.rows.start, along.start))
        by_cols.setdefault(block.cols.start, []).append(memory_of(block.b, along.start, block.cols.start))
    for owners in (*by_rows.values(), *by_cols.values()):
        assert len(set(owners)) == len(owners)


def test_one_copy_over_all_cubes_is_several_times_faster_than_a_copy_in_one_row_of_slices():
    sharded, one = (launched(chip("one_sip"), 512, 512, 512, operands=each) for each in ("sharded", "one_slice"))
    sharded_ps, one_ps = (each.launches[0].end_ps - each.launches[0].start_ps for each in (sharded, one))
    assert 2 * sharded_ps < one_ps


@pytest.mark.parametrize(
    ("name", "params"),
    sampled(
        [
            ("one_sip", "M=150 N=259 K=105"),
            ("one_sip", "M=64 N=64 K=40 dtype=i8"),
            ("four_sip", "M=70 N=300 K=96 dtype=bf16"),
            ("four_sip", "M=300 N=33 K=7"),
            ("devices/wormhole", "M=61 N=47 K=64 dtype=f32"),
            ("one_cube", "M=45 N=83 K=131 operands=sharded"),
            ("one_pe", "M=45 N=83 K=131 operands=sharded tile=16x32x16"),
            ("one_sip", "M=3 N=5 K=7"),
            ("devices/h100", "M=45 N=83 K=1031"),
            ("devices/h100", "M=45 N=83 K=131 tile=16x32x16 warm=false"),
        ],
        5,
    ),
)
def test_a_run_has_a_right_result(name, params, tmp_path):
    options = [text for each in params.split() for text in ("-p", each)]
    done = CliRunner().invoke(
        kb, ["run", "gemm", "--topology", name, *options, "--levers", "none", "--out", str(tmp_path)]
    )
    assert done.exit_code == 0, done.output
    assert "verified      c: ok" in done.output


def test_blocks_that_would_be_empty_are_not_sharded():
    assert launched(chip("one_sip"), 3, 5, 7).choices["operands"] == "replicated"
    with pytest.raises(KernelError, match="got operands=sharded, needs HBM in each cube, and rows and columns of C"):
        launched(chip("one_sip"), 3, 5, 7, operands="sharded")


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ("operands=local", "'local' is called 'replicated' now"),
        ("operands=shared", "'shared' is called 'one_slice' now"),
        ("method=library operands=one_slice", "method=library has no operands and no loop_order to choose"),
        ("operands=sharded loop_order=nmk", "operands=sharded has no loop_order to choose"),
    ],
)
def test_other_values_are_refused(params, said):
    options = [text for each in params.split() for text in ("-p", each)]
    done = CliRunner().invoke(kb, ["run", "gemm", *options])
    assert done.exit_code == 2
    assert said in done.output


def test_a_device_whose_pes_share_a_cache_runs_tiles_unless_blocks_are_asked_for():
    h100 = load_topology(TOPOLOGIES / "devices/h100.yaml")
    assert launched(h100, 64, 64, 64).choices["method"] == "library"
    for params in ({"operands": "one_slice"}, {"loop_order": "nmk"}, {"method": "blocks"}):
        assert launched(h100, 64, 64, 64, **params).choices["method"] == "blocks"
    assert launched(chip("one_cube"), 64, 64, 64).choices["method"] == "blocks"
    assert launched(chip("one_cube"), 64, 64, 64, method="library").choices["method"] == "library"


def test_a_slow_pe_changes_no_choice():
    """Costs are those of a PE that is not slow, also where the first PE is. By those of pe0, K is cut into 128."""
    chosen = []
    for slow in ("", "slow: {pe0: 8}\n", "slow: {pe5: 8}\n"):
        topology = loads_topology((TOPOLOGIES / "one_cube.yaml").read_text(encoding="utf-8") + slow)
        chosen.append(launched(topology, 2048, 64, 4096, method="library").choices)
    assert chosen[0]["tile"] == "256x64x64"
    assert chosen[0] == chosen[1] == chosen[2]
