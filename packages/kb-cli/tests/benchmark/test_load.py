"""Benchmark files: exactly one benchmark, and errors that show only the author's frames."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from kb_cli.benchmark import bundled
from kb_cli.benchmark.load import load_benchmark
from kb_messages import BenchmarkError, TopologyError

Write = Callable[..., Path]


def refusal(path: Path | str) -> str:
    with pytest.raises(BenchmarkError) as caught:
        load_benchmark(str(path))
    return str(caught.value)


def test_a_file_and_a_bundled_name_load(bench_file: Write) -> None:
    loaded = load_benchmark(str(bench_file()))
    assert (loaded.name, loaded.label, loaded.bench.Params().size) == ("small", "small.py", 8)
    assert load_benchmark("gemm").name == "gemm"


def test_the_file_on_disk_runs_and_not_an_earlier_import(bench_file: Write) -> None:
    assert load_benchmark(str(bench_file())).bench.Params().size == 8
    assert load_benchmark(str(bench_file("size: int = 8", "size: int = 9"))).bench.Params().size == 9
    assert not list(bench_file().parent.glob("__pycache__"))


def test_a_benchmark_may_import_its_neighbour(bench_file: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    path = bench_file(
        "import numpy as np\n", "import numpy as np\nfrom kb_test_neighbour import SIZE\n", "= 8", "= SIZE"
    )
    (path.parent / "kb_test_neighbour.py").write_text("SIZE = 5\n")
    assert load_benchmark(str(path)).bench.Params().size == 5


@pytest.mark.parametrize("statement", ["import triton", "import triton.language as tl", "from triton import jit"])
def test_a_script_with_triton_kernels_is_referred_to_kb_exec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    path = tmp_path / "script.py"
    path.write_text(f"import numpy\n{statement}\n")
    said = "script.py:2: got ModuleNotFoundError: {}, needs the import of the file to succeed; a script with Triton "
    said += "kernels is no benchmark, and runs with kb exec {}"
    missing = refusal(path).partition("ModuleNotFoundError: ")[2].partition(", needs")[0]
    assert refusal(path) == said.format(missing, path)
    monkeypatch.chdir(tmp_path)
    assert refusal(path) == said.format(missing, "script.py")


def test_another_missing_module_is_no_script(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text("import tritonless\n")
    assert "kb exec" not in refusal(path)


def test_benchmarks_of_two_folders_import_their_own_files(tmp_path: Path, bench_file: Write) -> None:
    """A program runs both, and the first one again after its file has changed."""
    source = bench_file("import numpy as np\n", "import numpy as np\nfrom kb_test_size import SIZE\n", "= 8", "= SIZE")
    for size in (5, 6, 100):
        folder = tmp_path / f"of_{min(size, 6)}"
        folder.mkdir(exist_ok=True)
        (folder / "kb_test_size.py").write_text(f"SIZE = {size}\n")
        path = folder / "small.py"
        path.write_text(source.read_text())
        loaded = load_benchmark(str(path))
        assert loaded.bench.Params().size == size
        assert loaded.beside == {"kb_test_size.py": f"SIZE = {size}\n".encode()}


def test_modules_of_the_program_stay(tmp_path: Path, bench_file: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test module may lie in the folder of a benchmark that does not import it."""
    source = bench_file()
    module = ModuleType("kb_test_of_the_program")
    module.__file__ = str(source.parent / "kb_test_of_the_program.py")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for _ in range(2):
        load_benchmark(str(source))
    assert sys.modules[module.__name__] is module


def test_links_and_calls_of_import_module_are_imports(tmp_path: Path, bench_file: Write) -> None:
    path = bench_file(
        "import numpy as np\n", "import importlib, numpy as np\nimport kb_test_link, kb_test_package.one\n"
    )
    path.write_text(path.read_text() + "\nimportlib.import_module('kb_test_called')\n__import__('kb_test_too')\n")
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "package").mkdir(parents=True)
    (elsewhere / "link.py").write_text("")
    (elsewhere / "package" / "one.py").write_text("")
    (elsewhere / "package" / "again").symlink_to(elsewhere / "package")
    (path.parent / "kb_test_link.py").symlink_to(elsewhere / "link.py")
    (path.parent / "kb_test_package").symlink_to(elsewhere / "package")
    for name in ("kb_test_called.py", "kb_test_too.py"):
        (path.parent / name).write_text("")
    found = ["kb_test_called.py", "kb_test_link.py", "kb_test_package/one.py", "kb_test_too.py"]
    assert list(load_benchmark(str(path)).beside) == found


def test_no_benchmark_two_and_an_abstract_one_are_refused(bench_file: Write) -> None:
    path = bench_file("(Benchmark[Params])", "")
    assert refusal(path) == (
        "small.py: got no Benchmark subclass, needs exactly one; derive a class from kb_engine.Benchmark, "
        "or put @kernbench.benchmark over a function"
    )
    path = bench_file()
    path.write_text(path.read_text() + "\n\nclass Other(Small):\n    pass\n")
    assert refusal(path) == "small.py: got 2 benchmarks (Small, Other), needs exactly one; one file a benchmark"
    path = bench_file("def flops", "def flips", "def reference", "def references")
    assert refusal(path) == "small.py: Small: got no flops, reference, needs every method of Benchmark"


def test_a_benchmark_without_params_is_refused(bench_file: Write) -> None:
    path = bench_file("    Params = Params\n", "")
    assert refusal(path) == "small.py: Small: got no Params, needs a msgspec Struct; set `Params = YourStruct`"


def test_an_import_that_fails_shows_the_author_s_frames(bench_file: Write) -> None:
    path = bench_file("import numpy as np", "import nonumpy")
    assert refusal(path) == (
        "small.py:3: got ModuleNotFoundError: No module named 'nonumpy', needs the import of the file to succeed; "
        f'see the frames below\n  File "{path}", line 3, in <module>\n    import nonumpy'
    )


def test_a_syntax_error_names_its_place(bench_file: Write) -> None:
    path = bench_file("import numpy as np", "import numpy as")
    assert refusal(path).startswith("small.py:3:16: got a syntax error (")


def test_an_import_that_exits_is_an_error_like_any_other(bench_file: Write) -> None:
    path = bench_file("import numpy as np", "raise SystemExit(0)")
    assert refusal(path).startswith("small.py:3: got SystemExit: 0, needs the import of the file to succeed; ")


def test_names_and_paths_that_lead_nowhere(tmp_path: Path) -> None:
    names = ", ".join(bundled.names("benchmarks"))
    assert refusal("gem") == (
        f"benchmark 'gem': got an unknown name, needs one of {names}, or a file; did you mean 'gemm'?"
    )
    assert refusal("./gemm.py") == (
        "./gemm.py: got no such file, needs a benchmark file or a bundled name; did you mean 'gemm'?"
    )
    assert refusal(tmp_path) == f"{tmp_path}: got a folder, needs a regular file"
    with pytest.raises(TopologyError) as caught:
        bundled.find("topologies", "one_pee")
    assert "did you mean 'one_pe'?" in str(caught.value)


def test_bundled_files_are_found() -> None:
    assert "gemm" in bundled.names("benchmarks")
    assert {"one_cube", "one_pe"} <= set(bundled.names("topologies"))
    assert bundled.find("topologies", "one_pe").is_file()


@pytest.mark.parametrize(
    ("replacement", "said"),
    [
        (
            ("    Params = Params\n", "    Params = Params\n    name = 5\n"),
            "small.py: name: got a name of type int, needs",
        ),
        (
            ("    Params = Params\n", "    Params = Params\n    name = '../x'\n"),
            "small.py: name: got the name '../x', needs",
        ),
        (
            ("    Params = Params\n", "    Params = Params\n    name = property(lambda s: 1 / 0)\n"),
            "small.py:19: got Zero",
        ),
        (
            ("    Params = Params\n", "    Params = 5\n"),
            "small.py: Small: got Params that are 5, needs a msgspec Struct",
        ),
        (('label: str = "x"', "label: 'Nowhere' = 1"), "small.py: Small: Params: got a type that cannot be read (name"),
        (
            ("size: int = 8", "size: int = 8\n    s: set[int] | list[int] | tuple = ()"),
            "small.py: Small: Params: got a type",
        ),
        (
            ("(self, p, rng)", "(self, p, rng, *, x=1 / 0)"),
            "small.py:20: got ZeroDivisionError: division by zero, needs the",
        ),
        (
            ("import numpy as np", "class O:\n    __class__ = property(lambda s: 1 / 0)\no = O()"),
            "small.py:4: got Zero",
        ),
        (("import numpy as np", "\0"), "small.py"),
        (("import numpy as np", "x = " + "-" * 100000 + "1"), "small.py: got "),
        (
            ("import numpy as np", "raise GeneratorExit"),
            "small.py:3: got GeneratorExit, needs the import of the file to",
        ),
    ],
)
def test_files_that_misbehave_are_one_sentence(bench_file: Write, replacement: tuple[str, str], said: str) -> None:
    assert refusal(bench_file(*replacement)).startswith(said)


def test_a_pipe_a_device_and_a_huge_file_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "device.py").symlink_to("/dev/zero")
    (tmp_path / "loop.py").symlink_to(tmp_path / "loop.py")
    with (tmp_path / "huge.py").open("wb") as huge:
        huge.truncate(1 << 40)
    for name in ("pipe", "device", "huge", "loop"):
        assert f"{name}" in refusal(tmp_path / f"{name}.py")


def test_a_folder_is_no_benchmark_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernels").mkdir()
    with pytest.raises(BenchmarkError) as error:
        load_benchmark("kernels")
    assert str(error.value) == f"{tmp_path / 'kernels'}: got a folder, needs a regular file"
