"""`kb run --sanitize` with the built-in blocks: planted mistakes are told by both lines, and what is right is clean.

Most on one cube; `nox -s cases` also runs them on larger chips.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sampled_cases import IS_SAMPLED

from kb_cli.main import kb

KERNELS = Path(__file__).with_name("sanitize")
PLANTED, CLEAN = KERNELS / "planted.py", KERNELS / "clean.py"


def sanitized(folder: Path, *args: str) -> tuple[int, Any]:
    """Exit code, and what the JSON says of the sanitizers."""
    options = ["--sanitize", "--no-verify", "--keep", "none", "--json", "--out", str(folder)]
    done = CliRunner().invoke(kb, ["run", *args, *options], catch_exceptions=False)
    assert done.stderr == ""
    return done.exit_code, json.loads(done.stdout)["sanitizer"]


def line_of(kernel: str, text: str) -> str:
    """Where *text* first stands in *kernel*, as kernel lines are written."""
    lines = PLANTED.read_text().split("\n")
    start = next(number for number, line in enumerate(lines) if line.startswith(f"def {kernel}("))
    return f"planted.py:{next(n for n in range(start, len(lines)) if text in lines[n]) + 1}"


PRODUCT = "product = tl.composite"


@pytest.mark.parametrize(
    ("kernel", "pes", "hazard", "first", "second"),
    [
        ("load_running_output", 1, "missing wait", PRODUCT, "band = tl.load"),
        ("store_running_result", 1, "missing wait", PRODUCT, "tl.store"),
        ("chain_results", 1, "missing wait", PRODUCT, "tl.wait(tl.composite"),
        ("chain_outputs", 1, "missing wait", PRODUCT, "tl.wait(tl.composite"),
        ("overwrite_operand", 1, "overwritten too early", PRODUCT, "tl.store"),
        ("overwrite_output", 1, "written out of order", PRODUCT, "tl.store"),
        ("share_rows", 4, "write race", "tl.store", "tl.store"),
        ("read_of_another", 2, "read race", "tl.store", "tl.load((a"),
        ("overwrite_of_another", 2, "overwrite race", "tl.load(c", "tl.store"),
    ],
)
@pytest.mark.parametrize("topology", ["one_cube"] if IS_SAMPLED else ["one_cube", "one_sip"])
def test_a_planted_hazard_is_found_with_both_lines_and_its_twin_is_clean(
    tmp_path: Path, topology: str, kernel: str, pes: int, hazard: str, first: str, second: str
) -> None:
    args = (str(PLANTED), "--topology", topology, "-p", f"kernel={kernel}", "-p", f"pes={pes}")
    code, found = sanitized(tmp_path, *args)
    assert (code, found["leaks"]) == (1, [])
    (finding,) = found["findings"]
    assert finding["hazard"] == hazard
    assert finding["first"]["line"] == line_of(kernel, first)
    assert finding["second"]["line"] == line_of(kernel, second)
    code, found = sanitized(tmp_path, *args, "-p", "mended=true")
    assert (code, found) == (0, {"findings": [], "leaks": []})


def test_one_pe_may_write_twice(tmp_path: Path) -> None:
    code, found = sanitized(tmp_path, str(PLANTED), "-p", "kernel=write_twice")
    assert (code, found) == (0, {"findings": [], "leaks": []})


def test_a_leak_is_found_over_pes_and_its_twin_is_clean(tmp_path: Path) -> None:
    args = (str(PLANTED), "-p", "kernel=leak", "-p", "pes=2")
    code, found = sanitized(tmp_path, *args)
    assert (code, found["findings"]) == (1, [])
    (leak,) = found["leaks"]
    # 256 rows, every 64th of them: 4 a program, each 256 f32.
    assert (leak["line"], leak["count"], leak["nbytes"]) == (line_of("leak", "loaded = tl.load"), 4, 4 * 256 * 4)
    assert (leak["programs"], leak["pes"]) == (2, ["sip0.cube0.pe0", "sip0.cube0.pe1"])
    code, found = sanitized(tmp_path, *args, "-p", "mended=true")
    assert (code, found) == (0, {"findings": [], "leaks": []})


LARGE = [
    ("gemm", "--topology", "one_sip"),
    ("gemm", "--topology", "four_sip", "-p", "M=128", "-p", "N=256", "-p", "K=64"),
    ("gemm", "--topology", "four_sip"),
    ("softmax", "--topology", "four_sip", "-p", "M=1024"),
    (str(CLEAN), "--topology", "one_sip", "-p", "pes=12"),
    (str(CLEAN), "--topology", "four_sip", "-p", "pes=20"),
]


@pytest.mark.parametrize(
    "args",
    [
        ("gemm", "--topology", "one_pe"),
        ("gemm", "--topology", "one_cube"),
        ("gemm", "--topology", "one_cube", "-p", "operands=one_slice", "-p", "tile=none", "-p", "dtype=i8"),
        ("gemm", "--topology", "one_cube", "-p", "M=37", "-p", "N=51", "-p", "K=77", "-p", "tile=16x16x16"),
        ("gemm", "--topology", "u280_hbm", "-p", "M=64", "-p", "N=64", "-p", "K=64"),
        ("softmax", "--topology", "one_pe", "-p", "rows=7"),
        ("softmax", "--topology", "one_cube"),
        ("softmax", "--topology", "one_sip", "-p", "M=1024"),
        (str(CLEAN), "--topology", "one_pe", "-p", "pes=1", "-p", "stream=true"),
        (str(CLEAN), "--topology", "one_cube", "-p", "pes=8", "-p", "stream=true"),
        (str(CLEAN), "--topology", "one_cube", "-p", "pes=5"),
        *([] if IS_SAMPLED else LARGE),
    ],
    ids=lambda args: " ".join(Path(arg).name for arg in args),
)
def test_kernels_that_wait_are_clean(tmp_path: Path, args: tuple[str, ...]) -> None:
    code, found = sanitized(tmp_path, *args)
    assert (code, found) == (0, {"findings": [], "leaks": []})
