"""The engine takes as long for a GEMM on one PE, to the picosecond, as the textbook SimPy model in benchmarks/speed."""

from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from kb_engine import Engine, Host, Language, TensorRef
from kb_messages import KernelError, TileShape
from kb_topology import load_topology

ROOT = Path(__file__).parents[1]
ONE_PE = ROOT / "topologies/one_pe.yaml"
BYTES = ("latency_ns: 45}", "latency_ns: 45, burst_nbytes: 1}")
"""Rows of ragged tiles begin within a burst of 64, which the textbook model does not follow."""
Shape = tuple[int, int, int]


with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "benchmarks/speed")
    chip, textbook = import_module("chip"), import_module("textbook")


def kernel(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, tile: TileShape) -> None:
    tl.wait(tl.composite("gemm", a, b, out=c, tile=tile))


def engine_run(problem: Shape, tile: Shape, topology: Path = ONE_PE) -> tuple[int, int]:
    """The engine's latency in picoseconds, and its stage services."""
    m, n, k = problem
    engine = Engine(load_topology(topology))
    host = Host(engine, Path(__file__).parent)
    tensors = [host.empty(*each, "f16") for each in (("a", (m, k)), ("b", (k, n)), ("c", (m, n)))]
    return host.launch(kernel, *tensors, TileShape(*tile)).end_ps, engine.session.n_ops  # type: ignore[arg-type]


def textbook_run(problem: Shape, tile: Shape, topology: Path = ONE_PE, *, slot_first: bool = False) -> tuple[int, int]:
    pe = textbook.TextbookPe(chip.Chip(topology), problem, tile, slot_first=slot_first)
    return pe.run(), pe.n_stages


@pytest.fixture(scope="module")
def bytewise(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chip of one PE with a memory whose bursts are bytes."""
    path = tmp_path_factory.mktemp("chip") / "bytewise.yaml"
    path.write_text(ONE_PE.read_text().replace(*BYTES))
    return path


def test_a_single_tile_takes_the_sum_of_its_stages() -> None:
    # The way to the slice and back: wires of 2 and 3 mm at 7 ps/mm, and the crossbar's 2 ns: 2_035 ps each.
    # A transfer of 32 KiB: 5 ns set-up, 45 ns latency and 320 ns at 102.4 GB/s; the wider link's 256 ns overlap them.
    transfer = 5_000 + 2_035 + 45_000 + 320_000 + 2_035
    fetch = 2_000 + 128_000  # 64 KiB at 512 GB/s
    product = (2 * 2 * 128 + 64 + 64 - 2) * 1_000  # four 64 x 64 blocks, filled and drained once
    store = 2_000 + 64_000
    expected = 4_000 + 8_000 + 2 * transfer + fetch + product + store + transfer
    assert expected == 1_968_210
    assert engine_run((128, 128, 128), (128, 128, 128)) == (expected, 6)
    assert textbook_run((128, 128, 128), (128, 128, 128)) == (expected, 6)


@pytest.mark.parametrize(
    ("problem", "tile"),
    [
        pytest.param((128, 128, 2048), (128, 128, 128), id="K loop"),
        pytest.param((512, 512, 512), (128, 128, 128), id="even"),
        pytest.param((1000, 333, 70), (128, 128, 128), id="ragged, K below a tile"),
        pytest.param((11881, 64, 147), (128, 64, 64), id="ragged in M and K"),
        pytest.param((1, 4096, 300), (128, 128, 128), id="one row"),
        pytest.param((700, 700, 700), (160, 96, 256), id="uneven tile"),
    ],
)
def test_engine_and_textbook_agree(bytewise: Path, problem: Shape, tile: Shape) -> None:
    assert engine_run(problem, tile, bytewise) == textbook_run(problem, tile, bytewise)


def test_they_agree_with_bursts_where_rows_begin_with_one() -> None:
    problem, tile = (512, 512, 512), (128, 128, 128)
    assert engine_run(problem, tile) == textbook_run(problem, tile)


sides = st.sampled_from([8, 64, 100, 128, 200, 256])
tiles = st.tuples(sides, sides, sides)
problems = st.tuples(st.integers(1, 700), st.integers(1, 700), st.integers(1, 700))


@settings(max_examples=60, derandomize=True)
@given(problem=problems, tile=tiles)
def test_they_agree_on_any_shape_when_ties_are_resolved_alike(bytewise: Path, problem: Shape, tile: Shape) -> None:
    assume(problem[0] * problem[1] * problem[2] < 500 * tile[0] * tile[1] * tile[2])
    try:
        found = engine_run(problem, tile, bytewise)
    except KernelError as error:
        assert "use a smaller tile" in str(error)  # noqa: PT017  # only what does not fit may be refused
        return
    assert found == textbook_run(problem, tile, bytewise, slot_first=True)


@settings(max_examples=60, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    problem=st.tuples(st.integers(1, 400), st.integers(1, 400), st.integers(1, 400)),
    depth=st.sampled_from([1, 2, 4]),
    registers=st.sampled_from([192, 256, 512]),
    buffers=st.sampled_from([(128, 64), (256, 64), (512, 128)]),
    link_gbs=st.sampled_from([40, 77.7, 300]),
    slice_link_gbs=st.sampled_from([50, 102.4, 200]),
    port_gbs=st.sampled_from([32, 100, 512]),
    setup_ns=st.sampled_from([0, 50]),
    latency_ns=st.sampled_from([0, 300.5]),
)
def test_they_agree_on_other_chips(
    tmp_path: Path,
    problem: Shape,
    depth: int,
    registers: int,
    buffers: tuple[int, int],
    link_gbs: float,
    slice_link_gbs: float,
    port_gbs: float,
    setup_ns: int,
    latency_ns: float,
) -> None:
    changes = {
        "queue_depth: 4": f"queue_depth: {depth}",
        "size: 512 KiB": f"size: {registers} KiB",
        "input_kib: 512, output_kib: 256": f"input_kib: {buffers[0]}, output_kib: {buffers[1]}",
        "bw_gbs: 128, length": f"bw_gbs: {link_gbs}, length",
        "bw_gbs: 102.4, length": f"bw_gbs: {slice_link_gbs}, length",
        "bw_gbs: 512, latency": f"bw_gbs: {port_gbs}, latency",
        "setup_ns: 5": f"setup_ns: {setup_ns}",
        BYTES[0]: f"latency_ns: {latency_ns}, burst_nbytes: 1}}",
    }
    text = ONE_PE.read_text()
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    other = tmp_path / "chip.yaml"
    other.write_text(text)
    tile = (128, 128, 64)
    assert engine_run(problem, tile, other) == textbook_run(problem, tile, other, slot_first=True)
