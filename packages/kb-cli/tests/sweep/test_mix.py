"""A sweep of several benchmarks adds up their latencies by their counts; a sweep of a model has the model's time."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chain_workload import run_chain, write_chain
from click.testing import Result

Invoke = Callable[..., Result]
BW = "$.cube.nodes.hbm.bw_gbs"


def swept(invoke: Invoke, *args: object) -> Any:
    done = invoke("sweep", *args, "--jobs", 1, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def mix_file(folder: Path, bench: Path, **more: object) -> Path:
    chain = write_chain(folder)
    benchmarks = [
        {"benchmark": str(chain), "count": 3, "params": {"context": 16}},
        {"benchmark": str(bench), "count": 2, "params": {"size": 8}},
        {"benchmark": str(bench), "params": {"size": 16}},
    ]
    file = folder / "mix.yaml"
    content = {"benchmarks": benchmarks, "topology": "one_pe", "set": {BW: [51.2, 102.4]}, **more}
    file.write_text(json.dumps(content), encoding="utf-8")
    return file


def test_latencies_count_as_often_as_their_benchmarks(
    invoke: Invoke, bench_file: Callable[..., Path], tmp_path: Path
) -> None:
    file = mix_file(tmp_path, bench_file())
    found = swept(invoke, file)
    latencies = [point["result"]["latency_ps"] for point in found["points"]]
    sums = [3 * latencies[at] + 2 * latencies[at + 1] + latencies[at + 2] for at in (0, 3)]
    assert [each["latency_ps"] for each in found["configurations"]] == [sums[1], sums[0]]
    assert [each["values"] for each in found["configurations"]] == [{"bw_gbs": 102.4}, {"bw_gbs": 51.2}]
    flops = [point["result"]["flops"] for point in found["points"][:3]]
    assert found["configurations"][0]["flops"] == 3 * flops[0] + 2 * flops[1] + flops[2]
    (effect,) = found["sensitivity"]["effects"]
    assert effect["ratios"]["102.4"] == pytest.approx(sums[1] / sums[0], rel=1e-12)
    assert (found["benchmark"], found["over"], found["by"]) == ("chain and small", ["benchmark"], "latency")
    labels = found["axes"]["benchmark"]
    assert labels == [f"3 x {tmp_path / 'chain.py'}", f"2 x {bench_file()} size=8", f"1 x {bench_file()} size=16"]
    said = invoke("sweep", file, "--jobs", 1).output
    assert "added up over benchmark, 0 simulated now, 6 known before" in said


@pytest.mark.parametrize(
    ("more", "args", "said"),
    [
        ({"params": {"size": 8}}, (), "got params beside it, needs one of the two; write the parameters of each"),
        ({}, ("-p", "size=8"), "got -p beside it"),
        ({"over": ["bw_gbs"]}, (), "got over beside it"),
        ({"list": [{"size": 8}]}, (), "list: size: got a parameter beside benchmarks"),
        ({"benchmarks": 2 * [{"benchmark": "gemm"}]}, (), "got gemm with the same parameters twice"),
        ({"benchmarks": [{"benchmark": "gemm", "params": {"M": [1, 2]}}]}, (), "got 2 values, needs one value"),
        ({"benchmarks": [{"benchmark": "gemm", "count": 0}]}, (), "mix.yaml"),
    ],
)
def test_benchmarks_have_their_own_parameters(
    invoke: Invoke, bench_file: Callable[..., Path], tmp_path: Path, more: dict[str, object], args: Any, said: str
) -> None:
    done = invoke("sweep", mix_file(tmp_path, bench_file(), **more), *args)
    assert done.exit_code == 2
    assert said in done.stderr


def test_a_point_of_a_model_has_the_time_of_the_whole_model(invoke: Invoke, tmp_path: Path) -> None:
    alone = run_chain(invoke, tmp_path, "-p", "context=32")
    found = swept(invoke, tmp_path / "chain.py", "--topology", "one_pe", "-p", "context=16,32")
    point = found["points"][1]["result"]
    ops = alone["workload_ops"]
    assert point["latency_ps"] == alone["model"]["total_ps"]
    assert point["flops"] == 4 * (ops[0]["flops"] + ops[1]["flops"]) + ops[2]["flops"]
    top = max(ops, key=lambda op: op["repeats"] * op["latency_ps"])
    assert (point["model"]["op"], point["model"]["floor_ps"]) == (top["name"], alone["model"]["floor_ps"])
    assert found["by"] == "latency", "both contexts make five tokens"
    latencies = [each["result"]["latency_ps"] for each in found["points"]]
    assert [each["latency_ps"] for each in found["configurations"]] == sorted(latencies)


def test_the_models_of_a_sweep_have_a_table_and_a_picture(invoke: Invoke, tmp_path: Path) -> None:
    done = invoke("sweep", write_chain(tmp_path), "--topology", "one_pe", "-p", "context=1k,16", "--jobs", 1)
    assert done.exit_code == 0, done.output
    table = done.stdout.split("the model at 2 points\n")[1].split("\n\n")[0].splitlines()
    assert table[0].split() == ["context", "step", "rate", "floor", "over", "floor", "costliest", "op", "of", "kernels"]
    assert table[2].split()[0] == "1k"
    assert "layer.scale" in table[2]
    (folder,) = Path("kb-sweeps").glob("chain-*")
    picture = (folder / "models.svg").read_text()
    assert "time at 1k: " in picture
    assert "floor at 16: " in picture
    assert picture.index("time at 16: ") < picture.index("time at 1k: "), "in the order of the numbers"
    assert "The model by the axis" in (folder / "report.html").read_text()


def test_two_axes_and_texts_have_no_picture(invoke: Invoke, tmp_path: Path) -> None:
    chain = write_chain(tmp_path)
    for given in (("-p", "context=16,32", "-p", "layers=1,2"), ("-p", "phase=decode,prefill")):
        done = invoke("sweep", chain, "--topology", "one_pe", *given, "--jobs", 1, "--out", f"out{len(given)}")
        assert done.exit_code == 0, done.output
        assert not list(Path(f"out{len(given)}").glob("chain-*/models.svg"))


def test_an_integer_may_be_written_in_units_of_1024(invoke: Invoke, tmp_path: Path) -> None:
    assert run_chain(invoke, tmp_path, "-p", "context=1k", "--no-verify")["params"]["context"] == 1024
    done = invoke("run", tmp_path / "chain.py", "-p", "context=1.5k")
    assert "-p context: got '1.5k', needs an int" in done.stderr


def test_a_model_is_swept_on_its_own_chip_where_none_is_named(
    invoke: Invoke, bench_file: Callable[..., Path], tmp_path: Path
) -> None:
    chain = write_chain(tmp_path)
    chain.write_text(
        chain.read_text().replace("    Params = Params\n", '    Params = Params\n    default_topology = "one_pe"\n')
    )
    assert swept(invoke, chain, "-p", "context=16")["topology"] == "one_pe"
    benchmarks = [{"benchmark": str(chain)}, {"benchmark": str(bench_file())}]
    (tmp_path / "mix.yaml").write_text(json.dumps({"benchmarks": benchmarks, "set": {BW: [51.2, 102.4]}}))
    done = invoke("sweep", tmp_path / "mix.yaml")
    assert done.exit_code == 2
    assert "got no name, and benchmarks for one_pe and one_cube, needs one chip for all" in done.stderr


def test_a_list_of_values_belongs_to_a_sweep(invoke: Invoke, tmp_path: Path) -> None:
    done = invoke("run", write_chain(tmp_path), "-p", "context=1k,4k")
    assert "-p context: got '1k,4k', needs an int; kb sweep runs each of several values" in done.stderr
