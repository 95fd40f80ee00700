"""What loads with masks bring, from the kernel to the executor: numpy's padding, in both passes and both modes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from click.testing import CliRunner

from kb_cli.main import kb
from kb_dataexec import Executor, MemoryLogWriter, cast, numpy_dtype
from kb_engine import Engine, Host, read_tensor
from kb_messages import DType, KbError
from kb_topology import load_topology

ROOT = Path(__file__).parents[1]
Array = npt.NDArray[Any]


def execute(kernel: Callable[..., None], inputs: list[Array], out: Array, mode: str) -> Array:
    """What *kernel* makes of its last argument, *out*, in pass 2, which also knows it in pass 1 where nothing pends."""
    engine = Engine(load_topology(ROOT / "topologies/one_pe.yaml"), MemoryLogWriter())
    host = Host(engine, Path(__file__).parent)
    kinds = {numpy_dtype(dtype): dtype for dtype in DType}
    tensors = [host.tensor(f"t{number}", each, kinds[each.dtype]) for number, each in enumerate([*inputs, out])]
    host.launch(kernel, *tensors)
    log = engine.close_log()
    assert engine.initial_memory is not None
    memory = Executor(log, engine.initial_memory, mode, fuse_from=2).run()  # type: ignore[arg-type]
    return read_tensor(memory, tensors[-1])


@pytest.mark.parametrize("mode", ["tile", "fused"])
@pytest.mark.parametrize(
    ("dtype", "other"),
    [
        (DType.F32, -1.5),
        (DType.F16, float("-inf")),
        (DType.BF16, 3),
        (DType.F8E4M3, 0.5),
        (DType.I8, -7),
        (DType.U16, 65535),
        (DType.BOOL, True),
    ],
)
def test_what_a_mask_leaves_out_is_other(dtype: DType, other: float, mode: str) -> None:
    seen: list[Array] = []

    def kernel(tl: Any, x: Any, out: Any) -> None:
        for m in range(0, 19, 8):
            for n in range(0, 21, 16):
                rows, columns = m + tl.arange(8), tl.arange(n, n + 16)
                tile = tl.load(x[m : m + 8, n : n + 16], (rows < 19)[:, None] & (columns < 21)[None, :], other)
                seen.append(tile.data)
                tl.store(out[m : m + 8, n : n + 16], tile)

    x = cast(np.random.default_rng(1).integers(0, 100, (19, 21)), dtype)
    expected = cast(np.full((24, 32), other, np.float64), dtype)
    got = execute(kernel, [x], expected.copy(), mode)
    expected[:19, :21] = x
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(np.block([[seen[0], seen[1]], [seen[2], seen[3]], [seen[4], seen[5]]]), expected)


@pytest.mark.parametrize("mode", ["tile", "fused"])
def test_a_rectangle_in_the_middle_is_filled_on_all_sides(mode: str) -> None:
    def kernel(tl: Any, x: Any, out: Any) -> None:
        number = tl.arange(8)
        inside = (number >= 2) & (number < 5)
        mask = inside[:, None] & (number > 0)[None, :] & (number < 7)[None, :]
        tl.store(out, tl.load(x, mask, 9))

    x = np.arange(64, dtype=np.int32).reshape(8, 8)
    expected = np.full((8, 8), 9)
    expected[2:5, 1:7] = x[2:5, 1:7]
    np.testing.assert_array_equal(execute(kernel, [x], np.zeros((8, 8), np.int32), mode), expected)


@pytest.mark.parametrize("mode", ["tile", "fused"])
def test_a_store_leaves_the_bytes_beyond_its_mask(mode: str) -> None:
    def kernel(tl: Any, x: Any, out: Any) -> None:
        mask = tl.arange(8) < 5
        value = tl.load(x[6:14], mask) * 2
        tl.store(out[2:10], value, mask)
        tl.store(out[7:9], tl.load(out[5:7]))

    x = np.arange(11, dtype=np.float32)
    expected = np.full(10, -1.0)
    expected[2:7] = 2 * np.arange(6, 11)
    expected[7:9] = expected[5:7]
    np.testing.assert_array_equal(execute(kernel, [x], np.full(10, -1, np.float32), mode), expected)


@pytest.mark.parametrize("mode", ["tile", "fused"])
def test_pending_bytes_are_padded_too(mode: str) -> None:
    def kernel(tl: Any, x: Any, out: Any) -> None:
        tl.store(x, tl.exp(tl.load(x)))
        tile = tl.load(x[0:8], tl.arange(8) < 5, 0.25)
        assert tile.is_pending
        tl.store(out, tile)

    x = np.linspace(0, 1, 5, dtype=np.float32)
    expected = np.append(np.exp(x.astype(np.float64)), [0.25] * 3)
    np.testing.assert_allclose(execute(kernel, [x], np.zeros(8, np.float32), mode), expected, rtol=1e-6)


@pytest.mark.parametrize("mode", ["tile", "fused"])
def test_loaded_integers_bound_a_mask(mode: str) -> None:
    def kernel(tl: Any, x: Any, lengths: Any, out: Any) -> None:
        known = tl.load(lengths)
        for row in range(3):
            tile = tl.load(x[row : row + 1], tl.arange(6) < known[row], -1.0)
            tl.store(out[row : row + 1], tile)

    x = np.arange(1, 19, dtype=np.float32).reshape(3, 6)
    lengths = np.array([4, 1, 6], np.int32)
    expected = np.where(np.arange(6) < lengths[:, None], x, -1.0)
    np.testing.assert_array_equal(execute(kernel, [x, lengths], np.zeros((3, 6), np.float32), mode), expected)


@pytest.mark.parametrize("mode", ["tile", "fused"])
def test_a_comparison_of_loaded_integers_is_a_mask(mode: str) -> None:
    def kernel(tl: Any, ids: Any, out: Any) -> None:
        loaded = tl.load(ids)
        tl.store(out, loaded + 1, mask=loaded < 4)

    ids = np.arange(6, dtype=np.int32)
    got = execute(kernel, [ids], np.zeros(6, np.int32), mode)
    np.testing.assert_array_equal(got, [1, 2, 3, 4, 0, 0])


@pytest.mark.parametrize("mode", ["tile", "fused"])
def test_a_computed_mask_is_looked_at(mode: str) -> None:
    def kernel(tl: Any, x: Any, out: Any) -> None:
        mask = tl.load(x) > 0
        tl.store(out, tl.load(x), mask)

    x = np.array([1, -2, 3, -4], np.float32)
    got = execute(kernel, [x], np.zeros(4, np.float32), mode)
    np.testing.assert_array_equal(got, [1, 0, 3, 0])


@pytest.mark.parametrize("mode", ["tile", "fused"])
def test_a_mask_that_was_asked_for_is_one(mode: str) -> None:
    def kernel(tl: Any, x: Any, out: Any) -> None:
        value = tl.load(x)
        tl.store(out, value, tl.materialize(tl.load(x[0:6], tl.arange(6) < 4, -1.0) > 0))

    x = np.array([1, 2, 3, 4, -5, -6], np.float32)
    np.testing.assert_array_equal(execute(kernel, [x], np.zeros(6, np.float32), mode), [1, 2, 3, 4, 0, 0])


@pytest.mark.parametrize(
    ("topology", "size"),
    [("one_pe", 1), ("one_pe", 9000), ("one_cube", 1000), ("one_cube", 9000), ("one_sip", 1000)],
)
def test_the_benchmark_adds_vectors_of_any_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, topology: str, size: int
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ["--topology", topology, "-p", f"N={size}", "-p", "block=512", "-p", "dtype=f16", "--json"]
    done = CliRunner().invoke(kb, ["run", "vector_add", *options, "--sanitize"])
    assert (done.exit_code, json.loads(done.stdout)["verified"]) == (0, True), done.stderr


@pytest.mark.parametrize("mode", ["tile", "fused"])
def test_a_masked_load_takes_the_rest_from_a_computed_value(mode: str) -> None:
    def kernel(tl: Any, x: Any, out: Any) -> None:
        cols = tl.arange(0, 8)
        before = tl.load(x[0:2, 0:8]) * -1.0
        tl.store(out, tl.load(x[2:4, 0:8], cols < 5, before))
        tl.store(out[1:2, 0:8], tl.load(x[0:1, 0:8], (cols & 1) == 0, tl.sum(before[:, None].reshape(2, 8)).to("f16")))

    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    wanted = np.where(np.arange(8) < 5, x[2:4], -x[0:2])
    wanted[1] = np.where(np.arange(8) & 1, -x[0:2].sum(), x[0])
    np.testing.assert_array_equal(execute(kernel, [x], np.zeros((2, 8), np.float32), mode), wanted)


def test_a_value_beside_a_load_has_to_fit() -> None:
    def kernel(tl: Any, x: Any, out: Any) -> None:
        tl.load(x[0:1, 0:4], tl.arange(0, 4) < 2, tl.load(x[0:2, 0:4]))

    def unmasked(tl: Any, x: Any, out: Any) -> None:
        tl.load(x, None, tl.load(x))

    x = np.ones((2, 4), np.float32)
    with pytest.raises(KbError, match=r"got other = a value of 2 x 4, needs one that broadcasts to 1 x 4$"):
        execute(kernel, [x], x, "tile")
    with pytest.raises(KbError, match="without a mask, needs a mask, which says where it goes"):
        execute(unmasked, [x], x, "tile")
