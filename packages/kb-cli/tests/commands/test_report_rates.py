"""A run that states no operations has no rate, in every table and page."""

import re
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

Invoke = Callable[..., Result]


def test_a_run_that_states_no_operations_has_no_rate(invoke: Invoke, tmp_path: Path) -> None:
    bench = tmp_path / "copy.py"
    bench.write_text(
        "import numpy as np\nimport kernbench as kb\n\n\ndef copy(tl, x, y):\n    tl.store(y, tl.load(x))\n\n\n"
        "@kb.benchmark\ndef copies(rng, N: int = 64, dtype: kb.DType = kb.DType.F32):\n"
        "    x = np.ones((1, N), np.float32)\n"
        "    return kb.call(copy, x, kb.empty((1, N), dtype), reference=lambda x: x, pes=[0])\n"
    )
    ran = invoke("run", bench, "--out", tmp_path / "copies")
    assert ran.exit_code == 0, ran.output
    (folder,) = (tmp_path / "copies").iterdir()
    page = tmp_path / "x.html"
    assert invoke("report", folder, "-o", page, "--levers", 0).exit_code == 0
    said = ran.output, invoke("report", folder).output, page.read_text(encoding="utf-8")
    for text in said:
        assert "0 FLOP" not in text
        assert "achieved" not in text
    assert re.search(r"the run +- +- +-", said[1])
    shapes = tmp_path / "shapes.csv"
    shapes.write_text("N\n64\n128\n")
    table = invoke("run", bench, "--shapes", shapes, "--out", tmp_path / "shapes").output
    assert re.search(r"64 +\S+ ns +- +- +", table)
    assert "achieved" not in table
    assert re.search(r"64 +\S+ ns +- +- +", invoke("sweep", bench, "-p", "N=64,128", "--jobs", 1).output)
