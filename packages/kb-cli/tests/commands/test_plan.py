"""`kb plan`: counts compared with counts by hand, tiles that fit, and refusals."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from kb_cli.benchmark import bundled
from kb_cli.commands import plan

Invoke = Callable[..., Result]
SIZES = ["-p", "M=512", "-p", "N=4096", "-p", "K=4096"]
ONE = "needs one KEY=VALUE, without comma or space; write it like -p M=1 -p N=2"


def planned(invoke: Invoke, *args: str):
    done = invoke("plan", "gemm", *args, "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_counts_of_a_tiling_by_hand(invoke: Invoke) -> None:
    found = planned(invoke, *SIZES, "--tile", "128x128x128")
    tiles, outputs, kib = 4 * 32 * 32, 4 * 32, 1024
    assert (found["tile"], found["grid"], found["tiles"]) == ("128x128x128", [4, 32, 32], tiles)
    assert found["stages"] == {
        "DMA_READ": 2 * tiles,
        "FETCH": tiles,
        "GEMM": tiles,
        "STORE": outputs,
        "DMA_WRITE": outputs,
    }
    inputs, written = tiles * 2 * 32 * kib, outputs * 32 * kib
    assert found["bytes"] == {"DMA_READ": inputs, "FETCH": inputs, "STORE": written, "DMA_WRITE": written}
    assert found["macs"] == 512 * 4096 * 4096
    assert found["arithmetic_intensity"] == 2 * 512 * 4096 * 4096 / (inputs + written)
    assert found["buffers"] == {
        "input": {"nbytes": 64 * kib, "room": 512 * kib, "fits": 8},
        "output": {"nbytes": 32 * kib, "room": 256 * kib, "fits": 8},
        "accumulators": {"nbytes": 64 * kib, "room": 512 * kib, "fits": 2},
        "registers": {"nbytes": 64 * kib, "room": (512 - 2 * 64) * kib, "fits": 6},
    }
    assert (found["tiles_that_fit"], found["refused"]) == (6, None)


def test_a_pinned_operand_is_not_read(invoke: Invoke) -> None:
    sizes = ["-p", "M=256", "-p", "N=256", "-p", "K=256", "--tile", "128x128x128"]
    reads = [planned(invoke, *sizes, *pins)["bytes"].get("DMA_READ", 0) for pins in ([], ["--pin", "b"])]
    assert reads == [8 * 64 * 1024, 8 * 32 * 1024]
    both = planned(invoke, *sizes, "--pin", "b", "--pin", "a")
    assert (both["pinned"], both["stages"].get("DMA_READ")) == (["a", "b"], None)
    assert both["buffers"]["input"] == {"nbytes": 0, "room": 512 * 1024, "fits": None}
    assert both["arithmetic_intensity"] == 2 * 256**3 / (256 * 256 * 2)


def test_a_transposed_operand_moves_the_same_bytes(invoke: Invoke) -> None:
    sizes = [*SIZES, "--tile", "128x64x32"]
    plain, both = planned(invoke, *sizes), planned(invoke, *sizes, "--transpose", "b", "--transpose", "a")
    assert (both.pop("transposed"), plain.pop("transposed")) == (["a", "b"], [])
    assert both == plain
    shown = invoke("plan", "gemm", *sizes, "--transpose", "a").stdout.splitlines()
    assert shown[0] == "gemm on sip0.cube0.pe0 of one_cube: M=512 N=4096 K=4096 dtype=f16, a transposed"


def test_a_b_that_streams_leaves_fetch_and_input_buffer_to_a(invoke: Invoke) -> None:
    sizes = [*SIZES, "--tile", "128x128x128"]
    plain, streamed = planned(invoke, *sizes), planned(invoke, *sizes, "--b-stream")
    b = 4 * 4096 * 4096 * 2  # once for each of 4 rows of tiles
    assert (plain["b_stream"], streamed["b_stream"]) == (False, True)
    assert streamed["bytes"] == {**plain["bytes"], "FETCH": plain["bytes"]["FETCH"] - b}
    assert (streamed["stages"], streamed["macs"]) == (plain["stages"], plain["macs"])
    assert [each["buffers"]["input"]["nbytes"] for each in (plain, streamed)] == [64 * 1024, 32 * 1024]
    assert streamed["buffers"]["registers"] == plain["buffers"]["registers"]
    assert streamed["refused"] is None
    shown = invoke("plan", "gemm", *sizes, "--b-stream").stdout.splitlines()
    assert shown[0] == "gemm on sip0.cube0.pe0 of one_cube: M=512 N=4096 K=4096 dtype=f16, b past TCM"


def test_a_tile_left_out_is_the_schedulers_own(invoke: Invoke) -> None:
    found = planned(invoke, *SIZES, "--topology", "one_pe")
    assert (found["tile"], found["tiles_that_fit"]) == ("256x256x128", 2)
    run = ["run", "gemm", *SIZES, "-p", "tile=none", "--topology", "one_pe", "--no-verify", "--keep", "none", "--json"]
    ran = json.loads(invoke(*run).stdout)
    assert ran["tile_stages"] == sum(found["stages"].values())
    assert ran["bytes"]["hbm"]["read"] == found["bytes"]["DMA_READ"]
    assert found["estimated_ps"] == pytest.approx(ran["latency_ps"], rel=0.01)


def test_several_tiles_are_a_row_each(invoke: Invoke) -> None:
    tiles = ["--tile", "128x128x128", "--tile", "512X512x512"]
    small, large = planned(invoke, *SIZES, *tiles)
    assert (small["tile"], large["tile"]) == ("128x128x128", "512x512x512")
    assert (small["refused"], large["tiles_that_fit"]) == (None, 0)
    assert large["refused"] == (
        "sip0.cube0.pe0.pe_tcm: got a tile whose input buffer takes 1024 KiB, needs at most the 512 KiB of input_kib; "
        "use a smaller tile"
    )
    lines = invoke("plan", "gemm", *SIZES, *tiles).stdout.splitlines()
    assert lines[0] == "gemm on sip0.cube0.pe0 of one_cube: M=512 N=4096 K=4096 dtype=f16"
    assert " ".join(lines[-3].split()) == (
        "128x128x128 4,096 16,640 268.4 MB 4.194 MB 268.4 MB 63.02 3.092 ms dma_read"
    )
    assert " ".join(lines[-2].split()) == "512x512x512 64 272 67.11 MB 4.194 MB 67.11 MB 240.9 - -"
    assert lines[-1] == f"kb run would refuse 512x512x512: {large['refused']}"


def test_one_tile_is_shown_in_full(invoke: Invoke) -> None:
    lines = invoke("plan", "gemm", *SIZES, "--tile", "128x128x128", "--pin", "a").stdout.splitlines()
    assert lines[0].endswith("dtype=f16, a pinned")
    assert "4,096 tiles of 128x128x128, a grid of 4 x 32 x 32" in lines
    assert "8,589,934,592 multiply-adds, 124.1 flops for each byte of DMA" in lines
    assert ["registers", "65,536", "393,216", "6"] in [line.split() for line in lines]


def test_the_estimate_names_the_resource_that_bounds_it(invoke: Invoke) -> None:
    lines = invoke("plan", "gemm", *SIZES, "--tile", "128x128x128").stdout.splitlines()
    assert "estimate: 3.092 ms with all operands in sip0.cube0.hbm0, bound by dma_read" in lines
    shares = {line.split("  ")[0]: line.split()[-2] for line in lines[lines.index("") :] if line.endswith(" %")}
    assert shares["dma_read"] == "99.1"  # 8,192 reads of 374.07 ns; in the rest, reads wait for writes
    large = invoke("plan", "gemm", *SIZES, "--tile", "512x512x512").stdout.splitlines()
    assert "no estimate: no tile fits, or the chip states no costs" in large


def test_one_is_not_written_as_several(invoke: Invoke) -> None:
    done = invoke("plan", "gemm", "-p", "M=8", "-p", "N=8", "-p", "K=8", "--topology", "one_pe")
    assert "1 tile of 8x8x8, a grid of 1 x 1 x 1" in done.stdout.splitlines()


def test_operands_that_cannot_be_pinned_are_refused(invoke: Invoke) -> None:
    found = planned(invoke, *SIZES, "--pin", "b", "--tile", "64x64x64")
    room = (2048 - 768) * 1024
    assert found["refused"] == (
        f"sip0.cube0.pe0.pe_tcm: got {4096 * 4096 * 2} bytes to pin, needs at most the {room} beside the tiles"
    )


def test_the_largest_counts_are_written_whole(invoke: Invoke) -> None:
    side = plan.LARGEST_SIDE
    sizes = [text for name in "MNK" for text in ("-p", f"{name}={side}")]
    found = planned(invoke, *sizes, "-p", "dtype=f32", "--tile", "1x1x1")
    assert found["bytes"]["FETCH"] == 2 * side**3 * 4 < 2**64
    assert found["macs"] == side**3


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["-p", "M=1,N=2"], f"-p: got 'M=1,N=2', {ONE}"),
        (["-p", "M=1 N=2"], f"-p: got 'M=1 N=2', {ONE}"),
        (["-p", "M=1", "N=2"], "kb plan gemm: got 'N=2', needs options alone; write it like -p N=2"),
        (["512x512x512"], "kb plan gemm: got '512x512x512', needs options alone; see kb plan gemm --help"),
        (["-p", "M=1", "-p", "N=2"], "-p K: got no value, needs an int >= 1 and <= 1048576; add -p K=..."),
        (["-p", "M=0", "-p", "N=2", "-p", "K=2"], "-p M: got 0, needs >= 1"),
        (["-p", "m=1"], "-p m: got an unknown parameter, needs one of M, N, K, dtype; did you mean 'M'?"),
        ([*SIZES, "--tile", "3x3"], "tile: got '3x3', needs three positive sizes MxNxK; write it like 128x128x128"),
        (
            [*SIZES, "--pin", "b", "--b-stream"],
            "gemm b_stream: got a b that is pinned in TCM, needs one in memory; leave out b_stream",
        ),
        ([*SIZES, "--topology", "two_pe"], None),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(invoke: Invoke, args: list[str], message: str | None) -> None:
    done = invoke("plan", "gemm", *args)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == f"error: {message}\n" if message else "topology 'two_pe'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_scheduler_that_does_not_state_its_buffers_is_named(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    from kb_components.pe.pe_scheduler import PeScheduler

    monkeypatch.delattr(PeScheduler, "tile_room")
    done = invoke("plan", "gemm", *SIZES)
    assert done.exit_code == 2
    assert done.stderr == (
        "error: sip0.cube0.pe0.pe_scheduler: got a PeScheduler without tile_room, "
        "needs a scheduler that states its buffers\n"
    )


def test_a_wrong_pin_is_refused(invoke: Invoke) -> None:
    done = invoke("plan", "gemm", *SIZES, "--pin", "c")
    assert done.exit_code == 2
    assert "'c' is not one of 'a', 'b'" in done.stderr


def test_an_epilogue_adds_math_and_the_bytes_of_its_operands(invoke: Invoke) -> None:
    sizes = ("-p", "M=256", "-p", "N=256", "-p", "K=256", "--tile", "128x128x128", "--json")
    plain = json.loads(invoke("plan", "gemm", *sizes).stdout)
    found = json.loads(
        invoke("plan", "gemm", *sizes, "--epilogue", "dequant@k_tile", "--epilogue", "residual@output_tile").stdout
    )
    # dequant and the sum it ends with on each of 8 tiles, residual on each of 4 outputs, read once: 256 x 256 x 2 B.
    assert found["stages"]["MATH"] == 2 * 8 + 4
    assert found["bytes"]["DMA_READ"] - plain["bytes"]["DMA_READ"] == 256 * 256 * 2
    assert found["epilogue"] == ["dequant@k_tile", "residual@output_tile"]
    assert found["refused"] is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("relu", "--epilogue: got 'relu', needs OP@SCOPE; SCOPE is k_tile or output_tile"),
        ("relu@never", "--epilogue: got 'relu@never', needs OP@SCOPE; SCOPE is k_tile or output_tile"),
        (
            "bias@k_tile",
            (
                "gemm epilogue bias: got scope k_tile, needs scope output_tile: it would be added once for each "
                "tile over K"
            ),
        ),
    ],
)
def test_an_epilogue_that_means_nothing_is_refused(invoke: Invoke, text: str, message: str) -> None:
    done = invoke("plan", "gemm", "-p", "M=8", "-p", "N=8", "-p", "K=8", "--epilogue", text)
    assert (done.exit_code, done.stderr) == (2, f"error: {message}\n")


def test_the_loop_order_changes_the_order_alone(invoke: Invoke) -> None:
    sizes = [*SIZES, "--tile", "128x128x128"]
    rows, cols = planned(invoke, *sizes), planned(invoke, *sizes, "--loop-order", "nmk")
    assert (rows.pop("loop_order"), cols.pop("loop_order")) == ("mnk", "nmk")
    assert rows == cols
    refused = invoke("plan", "gemm", *SIZES, "--loop-order", "kmn")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.startswith(
        "error: loop_order: got 'kmn', needs mnk, nmk, weight_stationary or input_stationary; keep K "
    )


def test_a_panel_counts_once_and_leaves_out_reads(invoke: Invoke) -> None:
    sizes = ["-p", "M=1024", "-p", "N=256", "-p", "K=512", "--tile", "128x64x128"]
    every, kept = planned(invoke, *sizes), planned(invoke, *sizes, "--loop-order", "weight_stationary")
    # 8 x 4 x 4 tiles read A and B; of B, 4 x 4 pieces of 128 x 64 in f16 are enough
    assert every["stages"]["DMA_READ"] - kept["stages"]["DMA_READ"] == 8 * 4 * 4 - 4 * 4
    assert every["bytes"]["DMA_READ"] - kept["bytes"]["DMA_READ"] == (8 - 1) * 256 * 512 * 2
    assert kept["buffers"]["panel"] == {"nbytes": 512 * 64 * 2, "room": 512 * 1024, "fits": 1}
    assert kept["buffers"]["input"] == {"nbytes": 128 * 128 * 2, "room": (512 - 64) * 1024, "fits": 14}
    assert kept["estimated_ps"] < every["estimated_ps"]
    assert "panel" not in every["buffers"]


def test_a_panel_that_does_not_fit_is_a_refusal_with_a_remedy(invoke: Invoke) -> None:
    sizes = ["-p", "M=1024", "-p", "N=256", "-p", "K=4096", "--tile", "128x64x128"]
    found = planned(invoke, *sizes, "--loop-order", "weight_stationary")
    assert (found["tiles_that_fit"], found["estimated_ps"]) == (0, None)
    assert found["refused"] == (
        "sip0.cube0.pe0.pe_tcm: got weight_stationary with a panel of 512 KiB (32 pieces of 16 KiB) and input buffers "
        "of 32 KiB for each of two tiles, needs at most the 512 KiB of input_kib; use a tile of smaller n, or "
        "loop_order=nmk, which keeps no panel"
    )


def test_a_collective_lists_its_algorithms(invoke: Invoke) -> None:
    """Both ways to write it. A quarter of a million bytes on 8 PEs: 2 x 7 steps of a ring, each with 8 messages."""
    done = invoke("plan", "--collective", "all_reduce", "--shape", "64x32", "--pes", "0:8", "--json")
    assert done.exit_code == 0, done.output
    plan = json.loads(done.stdout)
    assert (plan["ranks"], plan["elements"], plan["bytes"]) == (8, 2048, 8192)
    ring = next(each for each in plan["algorithms"] if each["algorithm"] == "ring")
    assert (ring["messages"], ring["message_bytes"]) == (2 * 7 * 8, 2 * 7 * 8192)
    assert [each["auto"] for each in plan["algorithms"]].count(True) == 1
    least = min(each["estimated_ps"] for each in plan["algorithms"])
    assert next(each for each in plan["algorithms"] if each["auto"])["estimated_ps"] == least
    table = invoke("plan", "collective", "all_reduce", "--nbytes", "8KiB", "--pes", "8").stdout
    assert "all_reduce on 8 PEs in 1 cube of one_cube: 2,048 f32 a rank, sum" in table


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "no size, needs --shape or --nbytes"),
        (("--shape", "4", "--nbytes", "4"), "two sizes, needs --shape or --nbytes"),
        (("--nbytes", "3"), "a multiple of 4 bytes"),
        (("--shape", "4,4"), "write it like 4096x64"),
        (("--nbytes", "64", "--pes", "x"), "write 128, 0:128 or 0,8,16"),
        (("--nbytes", "64", "--pes", "9"), "PE 8, needs 0 to 7"),
        (("--nbytes", "64", "--op", "mean", "--dtype", "i32"), "the mean of i32"),
    ],
)
def test_a_collective_that_is_refused(invoke: Invoke, options: tuple[str, ...], message: str) -> None:
    done = invoke("plan", "collective", "all_reduce", *options)
    assert done.exit_code == 2
    assert message in done.stderr


def test_a_plan_is_for_a_pe_that_is_not_slow(invoke: Invoke, tmp_path: Path) -> None:
    text = Path(bundled.find("topologies", "one_cube")).read_text()
    (tmp_path / "slow.yaml").write_text(f"{text}slow: {{pe0: 3}}\n")
    usual, slowed = (planned(invoke, *SIZES, "--topology", str(chip)) for chip in ("one_cube", tmp_path / "slow.yaml"))
    assert (usual["pe"], slowed["pe"]) == ("sip0.cube0.pe0", "sip0.cube0.pe1")
    assert {**slowed, "pe": usual["pe"], "memory": usual["memory"]} == usual
