"""The sharded GEMM of benchmarks/validation is right on chips of 1 to 512 PEs, and its script says when one is not."""

import json
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

from kb_cli.main import kb

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(Path(__file__).parents[1] / "benchmarks/validation")
    sharded_gemm = import_module("sharded_gemm")

M, N, K = sharded_gemm.QUICK


@pytest.fixture
def main(monkeypatch, capsys):
    """Runs the script; gives the exit code and what it printed."""

    def run(*options):
        monkeypatch.setattr("sys.argv", ["sharded_gemm.py", *options])
        return sharded_gemm.main(), capsys.readouterr().out

    return run


def in_this_process(topology, shape, tile):
    """As `sharded_gemm.run`, whose processes the tests below start."""
    sizes = [text for name, size in zip("MNK", shape, strict=True) for text in ("-p", f"{name}={size}")]
    options = ["--topology", topology, *sizes, "-p", "dtype=f16", "--keep", "none", "--json"]
    assert tile is None
    return sharded_gemm.Ran(json.loads(CliRunner().invoke(kb, ["run", "gemm", *options]).stdout), 1.0, 1.0)


def test_a_small_gemm_is_right_on_every_chip(main, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sharded_gemm, "run", in_this_process)
    code, printed = main("--quick", "--json")
    rows = json.loads(printed)["rows"]
    assert code == 0
    assert [(row["pes"], row["verified"]) for row in rows] == [(pes, True) for pes in (1, 8, 128, 512)]
    # Every element is the same sum of 128 products, however C is cut: 512 PEs change who adds it, not what.
    assert len({row["max_abs_err"] for row in rows}) == 1
    one = rows[0]
    for row in rows:
        assert row["efficiency"] == pytest.approx(one["latency_us"] / (row["pes"] * row["latency_us"]))
        assert row["tflops"] == pytest.approx(2 * M * N * K / row["latency_us"] / 1e6)


def test_a_wrong_chip_is_a_failure(main, monkeypatch):
    found = sharded_gemm.run("one_pe", (64, 64, 64), None)
    wrong = found._replace(result={**found.result, "verified": False})
    monkeypatch.setattr(sharded_gemm, "run", lambda topology, *_: wrong if topology == "four_sip" else found)
    code, printed = main("--quick")
    assert code == 1
    assert [line.split()[6] for line in printed.splitlines()[2:]] == ["yes", "yes", "yes", "NO"]


def test_what_kb_refuses_is_told():
    with pytest.raises(RuntimeError) as raised:
        sharded_gemm.run("one_pe", (64, 64, 64), "0x1x1")
    assert str(raised.value) == (
        "one_pe: kb exited with 2: error: -p tile: got '0x1x1', needs a tile MxNxK or none; write it like 128x128x128"
    )
