"""Collectives give every rank the result of numpy, for any number of ranks, elements, dtype and algorithm."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from python_copies import kb
from sampled_cases import sampled_of_each

from kb_dataexec import Executor, MemoryLogWriter
from kb_engine import Engine, Host, read_tensor
from kb_engine.collectives import Sizes, algorithms_of, all_gather, all_reduce, all_to_all, broadcast, reduce_scatter
from kb_messages import DType, KernelError

sys.path.insert(0, str(Path(__file__).parent / "collectives"))
from collective_runs import Run, chip

EVERY = [(call, algorithm) for call in ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all")
         for algorithm in algorithms_of(call)]  # fmt: skip


CASES = [
    (*which, *sizes, in_tcm)
    for which in EVERY
    for sizes in ((1, 5, "f32"), (3, 1, "f16"), (7, 13, "i32"), (8, 997, "bf16"))
    for in_tcm in (False, True)
]


@pytest.mark.parametrize(
    ("call", "algorithm", "ranks", "n", "dtype", "in_tcm"), sampled_of_each(CASES, lambda case: case[:2], 4)
)
def test_every_rank_has_the_result_of_numpy(
    call: str, algorithm: str, ranks: int, n: int, dtype: str, in_tcm: bool
) -> None:
    n = n * ranks if call == "all_to_all" else n
    Run(chip("one_cube"), range(ranks), n, call, algorithm, dtype=dtype, in_tcm=in_tcm, root=ranks - 1).check()


@pytest.mark.parametrize("op", ["mean", "max", "min"])
def test_every_op_of_a_reduction(op: str) -> None:
    """A mean of 4 ranks is exact, because it divides by a power of 2."""
    Run(chip("one_cube"), range(4), 30, "all_reduce", "tree", op=op).check()
    Run(chip("one_cube"), [7, 0, 5, 2], 30, "reduce_scatter", "ring", op=op).check()


@pytest.mark.parametrize("call", ["all_reduce", "reduce_scatter", "all_gather"])
@pytest.mark.parametrize("pes", [[0, 1, 8, 9, 16, 17], [0, 1, 2, 3, 24, 25], [3, 9, 17, 1]])
def test_two_levels_over_cubes(call: str, pes: list[int]) -> None:
    """Six PEs of three cubes, of 4 and 2 of two cubes, and of cubes with 2, 1 and 1."""
    Run(chip("one_sip"), pes, 37, call, "two_level", dtype="f16").check()


def test_no_elements_need_no_acts() -> None:
    group = Host(Engine(chip("one_cube"))).group()
    for call, algorithm in EVERY:
        assert group.estimate(call, algorithm, Sizes(0, DType.F32, "sum")).total_ps == 0


def test_the_hosts_calls_give_the_results_of_numpy() -> None:
    engine = Engine(chip("one_cube"), MemoryLogWriter())
    host = Host(engine)
    data = np.arange(64 * 6, dtype=np.float32).reshape(64, 6)
    x = host.tensor("x", data, "f32", shard="row")
    found = [
        host.all_reduce(x),
        host.reduce_scatter(x, op="max", algorithm="tree"),
        host.all_gather(x),
        host.broadcast(x, root=3),
        host.all_to_all(x),
    ]
    memory = Executor(engine.close_log(), engine.initial_memory).run()
    shards = data.reshape(8, 8, 6)
    chunks = shards.reshape(8, 8, 6).transpose(1, 0, 2)
    wanted = [shards.sum(0), shards.max(0), data, shards[3], chunks.reshape(64, 6)]
    for tensor, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(read_tensor(memory, tensor)), want, tensor.name)


def test_what_the_host_refuses() -> None:
    host = Host(Engine(chip("one_cube"), MemoryLogWriter()))
    x = host.tensor("x", np.zeros((8, 4), np.float32), "f32", shard="row")
    with pytest.raises(KernelError, match="algorithm='best', needs one of auto, ring, tree, two_level"):
        host.all_reduce(x, algorithm="best")
    with pytest.raises(KernelError, match="8 shards on 4 PEs"):
        host.all_reduce(x, pes=range(4))
    with pytest.raises(KernelError, match="a multiple of 8 rows"):
        host.reduce_scatter(x)


@pytest.mark.parametrize(
    ("options", "pes", "message"),
    [
        ({}, [0, 1, 2], "program 2, which is no member"),
        ({"op": "median"}, [0, 1], "op='median', needs one of sum, mean, max, min"),
        ({"algorithm": "star"}, [0, 1], "algorithm='star', needs one of auto, ring, tree, two_level"),
    ],
)
def test_what_a_kernel_refuses(options: dict[str, str], pes: list[int], message: str) -> None:
    host = Host(Engine(chip("one_cube"), MemoryLogWriter()))
    x = host.tensor("x", np.zeros((8, 4), np.float32), "f32")

    def kernel(tl, group, x) -> None:
        all_reduce(tl, group, x, **options)

    with pytest.raises(KernelError, match=message):
        host.launch(kernel, host.group([0, 1]), x, pes=pes)


@pytest.mark.parametrize("call", [all_reduce, reduce_scatter, all_gather, broadcast, all_to_all])
def test_a_list_in_place_of_a_group_is_refused(call) -> None:
    host = Host(Engine(chip("one_cube")))

    def kernel(tl, x) -> None:
        call(tl, [0, 1], x)

    with pytest.raises(KernelError) as caught:
        host.launch(kernel, host.tensor("x", np.zeros((8, 4), np.float32), "f32"), pes=[0, 1])
    sentence = f"got {call.__name__} of a list as the group, needs a Group, as Host.group makes one"
    assert str(caught.value).endswith(sentence)


@pytest.mark.parametrize("algorithm", ["direct", "auto", "ring", "tree", "two_level"])
def test_the_benchmark_verifies_with_every_algorithm(tmp_path: Path, algorithm: str) -> None:
    done = kb(tmp_path, "run", "all_reduce", "-p", f"algorithm={algorithm}", "-p", "rows=5", "-p", "width=37", "--json")
    assert done.returncode == 0, done.stderr
    chosen = json.loads(done.stdout).get("chose") or {}
    assert chosen.get("algorithm") == ("tree" if algorithm == "auto" else None)


def test_the_benchmark_on_a_chip_with_one_pe(tmp_path: Path) -> None:
    """`auto` takes the direct exchange, whose ranks may share a PE, and a ring is refused."""
    sizes = ["-p", "rows=5", "-p", "width=37", "--topology", "one_pe"]
    done = kb(tmp_path, "run", "all_reduce", "-p", "algorithm=auto", *sizes, "--json")
    assert json.loads(done.stdout)["chose"]["algorithm"] == "direct"
    done = kb(tmp_path, "run", "all_reduce", "-p", "algorithm=ring", *sizes)
    assert done.returncode == 2
    assert "needs each at most once" in done.stderr
