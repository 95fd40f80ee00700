"""Files that a benchmark imports from its own folder: a capsule has them, and a replay runs them with trust alone."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from kb_cli.main import main
from kb_cli.run.records.run_json import write_run

Invoke = Callable[..., Result]


def test_local_imports_go_with_the_benchmark(
    invoke: Invoke, bench_file: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """The run comes back without the files that it imported, and with what these import, also inside a kernel."""
    bench = bench_file("import numpy", "from small_sizes.of_one import ONE\nimport numpy").rename("beside.py")
    bench.write_text(
        bench.read_text().replace("def kernel(tl, a, b, c):\n", "def kernel(tl, a, b, c):\n    import late\n")
    )
    package = Path("small_sizes")
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "of_one.py").write_text("from deep_ones import ONE\n")
    Path("deep_ones.py").write_text("ONE = 1\n")
    Path("late.py").write_text("")
    Path("unused.py").write_text("")
    run = json.loads(invoke("run", str(bench), "--json").stdout)["run_dir"]
    stored = json.loads((Path(run) / "run.json").read_text())["benchmark"]["beside"]
    assert list(stored) == ["deep_ones.py", "late.py", "small_sizes/__init__.py", "small_sizes/of_one.py"]
    assert invoke("pack", run, "-o", "beside.kbrun").exit_code == 0
    for each in ("deep_ones.py", "late.py", "small_sizes/of_one.py"):
        Path(each).unlink()
    assert json.loads(invoke("replay", "beside.kbrun", "--trust", "--json").stdout)["same"] is True
    assert invoke("whatif", run, "--set", "$.cube.nodes.hbm.bw_gbs=51.2").exit_code == 0
    with pytest.raises(SystemExit) as ended:
        main(["replay", "beside.kbrun"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert " bytes and 4 files that it imports, which does not come with kb, needs your trust" in said
    assert "read it with unzip -p beside.kbrun bench.py 'beside/*', and add --trust" in said


def test_a_kernel_in_a_local_import_makes_the_same_run(invoke: Invoke, bench_file: Callable[..., Path]) -> None:
    """The log and its digest have the lines of the file that the kernel stands in."""
    bench = bench_file()
    before, kernel, rest = bench.read_text().partition("def kernel(")
    body, _, after = rest.partition("\n\n\n")
    Path("own_kernels").mkdir()
    Path("own_kernels/__init__.py").write_text("from .first import kernel\n")
    Path("own_kernels/first.py").write_text(f"import numpy\n\n\n{kernel}{body}\n")
    bench.write_text(f"from own_kernels import kernel\n{before}{after}")
    run = json.loads(invoke("run", str(bench), "--json").stdout)["run_dir"]
    assert "own_kernels/first.py:" in (Path(run) / "where.json").read_text()
    assert invoke("pack", run, "-o", "own.kbrun").exit_code == 0
    found = json.loads(invoke("replay", "own.kbrun", "--trust", "--json").stdout)
    assert found["digests"][0] == found["digests"][1]
    changed = json.loads(invoke("whatif", run, "--set", "$.cube.nodes.hbm.bw_gbs=51.2", "--json").stdout)
    assert "beside/own_kernels" not in json.dumps(changed)


def test_a_changed_local_import_makes_another_run(invoke: Invoke, bench_file: Callable[..., Path]) -> None:
    bench = bench_file("import numpy", "import small_one\nimport numpy")
    (bench.parent / "small_one.py").write_text("ONE = 1\n")
    first = json.loads(invoke("run", str(bench), "--json").stdout)["run_dir"]
    (bench.parent / "small_one.py").write_text("ONE = 2\n")
    assert json.loads(invoke("run", str(bench), "--json").stdout)["run_dir"] != first


def test_local_imports_of_a_bundled_benchmark_are_not_run(invoke: Invoke, tmp_path: Path) -> None:
    shape = ["-p", "M=32", "-p", "N=32", "-p", "K=32"]
    folder = Path(json.loads(invoke("run", "gemm", *shape, "--no-verify", "--json").stdout)["run_dir"])
    (folder / "beside").mkdir()
    (folder / "beside" / "msgspec.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    run = json.loads((folder / "run.json").read_text())
    del run["sha256"]
    content = (folder / "beside" / "msgspec.py").read_bytes()
    sha256 = hashlib.sha256(content).hexdigest()
    run["files"]["beside/msgspec.py"] = {"nbytes": len(content), "sha256": sha256}
    run["benchmark"]["beside"] = {"msgspec.py": sha256}
    write_run(folder, run)
    assert invoke("pack", str(folder), "-o", "gemm.kbrun").exit_code == 0
    assert json.loads(invoke("replay", "gemm.kbrun", "--json").stdout)["same"] is True
    assert not Path("ran").exists()
