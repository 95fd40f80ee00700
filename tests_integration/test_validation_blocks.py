"""The comparison of a block's ops with measured ones: sizes of a rank, and what is refused. Rows are made up."""

import json
from importlib import import_module
from pathlib import Path

import pytest

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(Path(__file__).parents[1] / "benchmarks/validation")
    blocks, block_ops, measured, halves = map(import_module, ("blocks", "block_ops", "measured", "size_halves"))

HEADER = "device,test,params,value,unit,source,licence\n"
ROW = "a100_sxm_80gb,block_op,model=llama3-8b op=add tokens=1 tp=1 dtype=f16,2,us,made up,none\n"


@pytest.fixture
def data(tmp_path):
    def write(*rows):
        path = tmp_path / "rows.csv"
        path.write_text(HEADER + "".join(rows))
        return str(path)

    return write


def rank(op, tp):
    params = {"model": "llama3-8b", "op": op, "tokens": "3", "tp": str(tp), "dtype": "f16"}
    return block_ops.block_op(measured.MeasuredRow("a100_sxm_80gb", "block_op", params, 1.0, "us"))


def test_a_rank_of_eight_has_an_eighth_of_the_heads_and_of_the_columns():
    size = rank("qkv", 8)
    assert (size.hidden, size.mlp) == (4096, 1792)
    assert (size.heads.heads, size.heads.kv_heads, size.heads.head_dim) == (4, 1, 128)


@pytest.mark.parametrize(
    ("op", "n_weights"),
    [
        ("qkv", 4096 * (16 + 2 * 4) * 128),
        ("o", 16 * 128 * 4096),
        ("gate_up", 4096 * 2 * 7168),
        ("down", 7168 * 4096),
    ],
)
def test_the_weights_of_a_rank_of_two(op, n_weights):
    mesh = block_ops.Mesh.of(blocks.chip("a100"), {})
    builder = block_ops.Builder(mesh, block_ops.DType.F16)
    block_ops.BUILDERS[op](builder, rank(op, 2))
    (made,) = builder.ops
    assert made.flops == 2 * 3 * n_weights


@pytest.mark.parametrize("op", [name for name in block_ops.BUILDERS if name not in block_ops.PRODUCTS])
def test_the_other_ops_take_as_long_as_their_bytes_at_least(op):
    row = measured.MeasuredRow("a100_sxm_80gb", "block_op", {**ROW_PARAMS, "op": op, "tokens": "37"}, 1.0, "us")
    columns = {"swiglu": 3 * 14336, "rms_norm": 2 * 4096, "rope": 2 * (4096 + 1024), "add": 3 * 4096}[op]
    found = block_ops.simulate(blocks.chip("a100"), row).simulated
    assert 37 * 2 * columns / 7219e3 < found < 10  # the bandwidth of the cache, in bytes a us


ROW_PARAMS = {"model": "llama3-8b", "op": "add", "tokens": "1", "tp": "1", "dtype": "f16"}


def test_a_constant_is_fitted_to_every_second_size_and_predicts_the_others():
    rows = [measured.MeasuredRow("d", "t", {"n": str(n), "kind": "a"}, 10.0 + n + n // 3, "us") for n in (1, 2, 3)]
    found, constants = halves.predictions([measured.Comparison(row, float(row.params["n"]), 0.0) for row in rows], "n")
    assert constants[1] == pytest.approx(10.0, abs=12 / 400)  # of n=2 alone, which measured 12, in 400 steps
    assert [each.predicted for each in found] == pytest.approx([11.0, 13.0, 2.0 + constants[0]], abs=12 / 400)
    (errors, of_kind) = halves.errors_by(found, ["kind"])
    assert (errors["rows"], of_kind["rows_of"]) == (3, "kind=a")
    assert errors["p90"] == pytest.approx(max(abs(each.ln_ratio) for each in found))


def test_rows_are_predicted_by_kind(data, capsys):
    path = data(ROW, ROW.replace("tokens=1", "tokens=2"), ROW.replace("op=add", "op=down").replace(",2,", ",30,"))
    assert blocks.main(["--data", path, "--op", "add", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (kind,) = found["kinds"]
    assert (kind["kind"], kind["errors"][0]["rows"], len(found["rows"])) == ("other ops", 2, 2)
    assert blocks.main(["--data", path, "--op", "add"]) == 0
    assert "other ops: a call takes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("row", "options", "said"),
    [
        (ROW.replace("op=add", "op=moe"), [], "op=moe, needs one of qkv"),
        (ROW.replace("llama3-8b", "gpt-5"), [], "model=gpt-5, needs one of llama3-405b"),
        (ROW.replace("tp=1", "tp=3"), [], "a degree that divides heads"),
        (ROW.replace("tokens=1", "tokens=x"), [], "tokens=x"),
        (ROW.replace("a100_sxm_80gb", "t4"), [], "rows of t4"),
        (ROW.replace(" dtype=f16", ""), [], "needs dtype model op tokens tp"),
        (ROW, ["--op", "sum"], "--op sum, needs some of"),
        (ROW, ["--op", "down"], "no row of these ops and tokens"),
        (ROW, [], "rows of one tokens"),
    ],
)
def test_rows_that_cannot_be_used_are_refused(row, options, said, data, capsys):
    assert blocks.main(["--data", data(row), *options]) == 2
    assert said in capsys.readouterr().err


def test_a_missing_file_is_named(tmp_path, capsys):
    assert blocks.main(["--data", str(tmp_path / "none.csv")]) == 2
    assert "no such file" in capsys.readouterr().err
