"""Products whose operands lie cut up over several cubes, and programs on different SIPs that do not meet."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kb_dataexec import Executor, MemoryLogWriter
from kb_engine import Engine, Host, Sharding, Tensor, read_tensor
from kb_topology import Topology, load_topology

TOPOLOGIES = Path(__file__).parents[1] / "topologies"
ONE_SIP, FOUR_SIP = (load_topology(TOPOLOGIES / f"{name}.yaml") for name in ("one_sip", "four_sip"))
Array = npt.NDArray[Any]
M, N, K = 61, 53, 45
OWNERS = tuple(range(24))
"""The PEs of cubes 0 to 2: 61 rows are 2 or 3 each, 53 columns likewise."""
LAYOUTS = {
    "rows": ("row", "replica", "row"),
    "columns": ("replica", "column", "column"),
    "rows over cubes, columns over their PEs": (
        Sharding(cubes="row", pes="replica", owners=OWNERS),
        Sharding(cubes="replica", pes="column", owners=OWNERS),
        Sharding(cubes="row", pes="column", owners=OWNERS),
    ),
    "columns over cubes, rows over their PEs": (
        Sharding(cubes="replica", pes="row", owners=OWNERS),
        Sharding(cubes="column", pes="replica", owners=OWNERS),
        Sharding(cubes="column", pes="row", owners=OWNERS),
    ),
    "all of it everywhere": ("replica", "replica", "replica"),
}


def new_host(topology: Topology) -> Host:
    return Host(Engine(topology, MemoryLogWriter()), Path(__file__).parent)


def after_both_passes(host: Host, *tensors: Tensor) -> list[Array]:
    log = host.engine.close_log()
    assert host.engine.initial_memory is not None
    memory = Executor(log, host.engine.initial_memory, "fused").run()  # type: ignore[arg-type]
    return [read_tensor(memory, tensor).astype(np.float64) for tensor in tensors]


def over_owners(shard: Sharding | str) -> Sharding:
    return Sharding(sips=shard, cubes=shard, pes=shard, owners=OWNERS) if isinstance(shard, str) else shard  # type: ignore[arg-type]


def gemm(tl: Any, a: Any, b: Any, c: Any) -> None:
    mine = tl.program_id()
    tl.wait(tl.composite("gemm", a.shard(mine), b.shard(mine), out=c.shard(mine), tile=(16, 16, 32)))


@pytest.mark.parametrize("memory", ["hbm", "sram", "tcm"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_a_product_sharded_over_three_cubes_is_whole_again_when_read(name: str, memory: str) -> None:
    host, rng = new_host(ONE_SIP), np.random.default_rng(1)
    a, b = rng.standard_normal((M, K), np.float32), rng.standard_normal((K, N), np.float32)
    cuts = [over_owners(shard) for shard in LAYOUTS[name]]
    left = host.tensor("a", a, "f32", memory=memory, shard=cuts[0])
    right = host.tensor("b", b, "f32", memory=memory, shard=cuts[1])
    out = host.empty("c", (M, N), "f32", memory=memory, shard=cuts[2])
    host.launch(gemm, left, right, out, pes=OWNERS)
    (got,) = after_both_passes(host, out)
    exact = a.astype(np.float64) @ b
    bound = np.sqrt(K) * 2.0**-24 * (np.abs(a) @ np.abs(b)) + 2.0**-23 * np.abs(exact)
    assert (np.abs(got - exact) <= bound).all()


def test_what_does_not_divide_differs_by_one_row() -> None:
    host = new_host(ONE_SIP)
    a = host.empty("a", (M, K), "f32", shard=over_owners("row"))
    # 61 = 13 x 3 + 11 x 2
    assert sorted(a.ref.shard(owner).shape[0] for owner in OWNERS) == [2] * 11 + [3] * 13


def either(tl: Any, a: Any, b: Any, c: Any, x: Any, y: Any, jobs: Any) -> None:
    if jobs[tl.program_id()] == "gemm":
        tl.wait(tl.composite("gemm", a, b, out=c, tile=(32, 32, 32)))
    else:
        rows = tl.load(x)
        tl.store(y, tl.exp(rows - tl.max(rows, axis=1)))


def run_on_two_sips(*jobs: tuple[int, str]) -> dict[str, int]:
    """What each PE of *jobs* takes. What they compute is checked."""
    host, rng = new_host(FOUR_SIP), np.random.default_rng(2)
    a, b = rng.standard_normal((64, 96), np.float32), rng.standard_normal((96, 64), np.float32)
    x = rng.standard_normal((16, 40), np.float32)
    near = {"slices": [0]}
    tensors = [host.tensor("a", a, "f32", **near), host.tensor("b", b, "f32", **near)]
    tensors.append(host.empty("c", (64, 64), "f32", **near))
    tensors += [host.tensor("x", x, "f32", slices=[256]), host.empty("y", x.shape, "f32", slices=[256])]
    result = host.launch(either, *tensors, [job for _, job in jobs], pes=[pe for pe, _ in jobs])
    outputs = {"gemm": tensors[2], "exp": tensors[4]}
    got = dict(zip([job for _, job in jobs], after_both_passes(host, *(outputs[job] for _, job in jobs)), strict=True))
    exact = {"gemm": a.astype(np.float64) @ b, "exp": np.exp(x - x.max(axis=1, keepdims=True).astype(np.float64))}
    for job, values in got.items():
        np.testing.assert_allclose(values, exact[job], rtol=1e-5, atol=1e-4)
    return {pe_id: end_ps - result.start_ps for pe_id, end_ps in result.pe_end_ps.items()}


def test_programs_on_two_sips_take_the_time_that_each_takes_alone() -> None:
    product, exponentials = (0, "gemm"), (256, "exp")
    together = run_on_two_sips(product, exponentials)
    assert together == {**run_on_two_sips(product), **run_on_two_sips(exponentials)}
    assert list(together) == ["sip0.cube0.pe0", "sip2.cube0.pe0"]
