"""`kb list`, and `kb run BENCH --params`: what there is, with a line on each."""

import json
import re
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

Invoke = Callable[..., Result]
Write = Callable[..., Path]
BENCHMARKS = Path(__file__).parents[4] / "benchmarks"


def test_everything_bundled_has_a_line(invoke: Invoke) -> None:
    found = json.loads(invoke("list", "--json").stdout)
    names = [each["name"] for each in found["benchmarks"]]
    assert names == sorted(path.stem for path in BENCHMARKS.glob("*.py"))
    assert {"attention", "gemm", "vector_add"} < set(names)
    pes = {each["name"]: each["pes"] for each in found["topologies"]}
    assert (pes["one_pe"], pes["one_cube"], pes["four_sip"]) == (1, 8, 512)
    assert all(each["description"] for rows in found.values() for each in rows)


def test_the_table_has_the_same_names(invoke: Invoke) -> None:
    text = invoke("list").stdout
    assert re.search(r"^gemm +GEMM: C\[M, N\] = A\[M, K\] @ B\[K, N\]\.", text, re.MULTILINE)
    assert re.search(r"^one_pe +1 +One PE with one HBM slice behind one XBAR\.", text, re.MULTILINE)


def test_parameters_have_types_defaults_and_the_author_s_words(invoke: Invoke) -> None:
    done = invoke("run", "gemm", "--params")
    assert done.exit_code == 0
    assert "`tile` is M x N x K. Without it" in done.stdout
    assert "M            an int >= 1" in done.stdout
    assert not Path("kb-runs").exists()
    found = json.loads(invoke("run", "gemm", "--params", "--json").stdout)
    tile = next(each for each in found["parameters"] if each["name"] == "tile")
    assert tile == {"name": "tile", "type": "a tile MxNxK or none", "default": None, "doc": ""}


def test_a_parameter_without_default_and_one_with_a_description(invoke: Invoke, bench_file: Write) -> None:
    path = bench_file(
        "    size: int = 8\n", "    size: Annotated[int, Meta(ge=2, description='Side of it.')]\n    more: list = []\n",
        "import numpy as np", "from typing import Annotated\nimport numpy as np\nfrom msgspec import Meta",
    )  # fmt: skip
    found = json.loads(invoke("run", path, "--params", "--json").stdout)
    assert found["parameters"][0] == {"name": "size", "type": "an int >= 2", "doc": "Side of it."}
    assert found["parameters"][1]["default"] == []
    text = invoke("run", path, "--params").stdout
    assert "has to be given   Side of it." in text


def test_parameters_of_a_file_without_a_benchmark_are_refused(invoke: Invoke) -> None:
    done = invoke("run", "gem", "--params")
    assert (done.exit_code, "did you mean 'gemm'?" in done.stderr) == (2, True)
