"""The comparison of a model's steps with measured ones: what is simulated, and what is refused. Rows are made up."""

import json
import math
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

VALIDATION = Path(__file__).parents[1] / "benchmarks/validation"
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(VALIDATION)
    steps, measured, block_ops = map(import_module, ("steps", "measured", "block_ops"))

HEADER = "device,test,params,value,unit,source,licence\n"
DECODE = "h200_sxm,model_step,model=gpt2 phase=decode batch=3 context=8 dtype=f16,4,us,made up,none\n"
PREFILL = "a100_sxm_80gb,model_step,model=gpt2 phase=prefill batch=1 tokens=7 dtype=bf16,1,us,made up,none\n"


@pytest.fixture
def asked(monkeypatch):
    """The models and parameters of the runs. Each takes 2 us."""
    runs = []

    def run(name, *, chip, compute, **params):
        runs.append((name, chip.name, compute, params))
        return SimpleNamespace(result=SimpleNamespace(model=SimpleNamespace(total_ps=2_000_000)))

    monkeypatch.setattr(steps.kb_models, "run", run)
    return runs


def compared(tmp_path, rows, *options):
    path = tmp_path / "rows.csv"
    path.write_text(HEADER + rows)
    return steps.main(["--data", str(path), *options])


def test_a_step_runs_on_the_chip_of_its_device_for_times_alone(tmp_path, asked, capsys):
    assert compared(tmp_path, DECODE + PREFILL, "--json") == 0
    decode, prefill = ({"phase": "decode", "dtype": "f16", "batch": 3, "context": 8},
                       {"phase": "prefill", "dtype": "bf16", "batch": 1, "tokens": 7})  # fmt: skip
    assert asked == [("gpt2", "h200", False, decode), ("gpt2", "a100", False, prefill)]
    found = json.loads(capsys.readouterr().out)
    assert [row["simulated"] for row in found["rows"]] == [2.0, 2.0]
    assert found["p90"] == pytest.approx(math.log(2))


@pytest.mark.parametrize(("options", "count"), [([], 2), (["--phase", "decode"], 1), (["--most-tokens", "6"], 1)])
def test_steps_may_be_chosen(options, count, tmp_path, asked, capsys):
    assert compared(tmp_path, DECODE + PREFILL, *options) == 0
    assert f"{count} steps, nothing fitted: p50 0.693, p90 0.693" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (DECODE.replace("h200_sxm", "t4"), "t4 model=gpt2"),
        (DECODE.replace("phase=decode", "phase=train"), "needs phase=decode or prefill"),
        (DECODE.replace("context=8", "tokens=8"), "batch context dtype model phase in us"),
        (DECODE.replace("batch=3", "batch=x"), "'x'"),
        (DECODE.replace("model_step", "other"), "no row of the tests model_step"),
    ],
)
def test_rows_that_cannot_be_used_are_refused(rows, said, tmp_path, asked, capsys):
    assert compared(tmp_path, rows) == 2
    assert said in capsys.readouterr().err


def test_the_measured_rows_of_the_repository_can_be_used():
    path = VALIDATION / "measured_rows/h200_sxm.csv"
    assert all(map(steps.checked, measured.read_rows(path, ("model_step",))))
    assert len([block_ops.block_op(row) for row in measured.read_rows(path, ("block_op",))]) == 640
