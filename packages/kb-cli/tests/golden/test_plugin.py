"""Golden times in a pytest of its own: they are written, kept, reviewed, and a slower kernel is explained."""

import json
import shutil
from pathlib import Path

import pytest
from python_copies import python

KERNEL = """
def add(tl, x, y, z, rows):
    for first in range(0, x.shape[0], rows):
        block = slice(first, first + rows)
        tl.store(z[block, :], tl.load(x[block, :]) + tl.load(y[block, :]))
"""
TEST = """
import kernbench as kb
import numpy as np
import pytest
from kernels import add

X = np.ones((16, 64), np.float32)


@pytest.mark.kb_golden(within=0.02)
@pytest.mark.parametrize("rows", [8, 16])
def test_add(kb_run, rows):
    r = kb_run(add, X, X, kb.empty(X.shape, "f32"), rows=rows, pes=[0], chip="one_cube")
    r.check(X + X)


def test_free(kb_run):
    assert kb_run(add, X, X, kb.empty(X.shape, "f32"), rows=16, pes=[0]).latency_ns > 0
"""


WITHOUT = "cacheprovider", "hypothesispytest", "playwright", "anyio"
"""Plugins of pytest that these tests do not need, and that would be imported for each of them."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "kernels.py").write_text(KERNEL)
    (tmp_path / "test_add.py").write_text(TEST)
    return tmp_path


@pytest.fixture(scope="module")
def updated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose golden times are written."""
    folder = tmp_path_factory.mktemp("updated")
    (folder / "kernels.py").write_text(KERNEL)
    (folder / "test_add.py").write_text(TEST)
    assert pytest_of(folder, "--kb-update")[0] == 0
    return folder


@pytest.fixture
def updated_project(updated: Path, tmp_path: Path) -> Path:
    """A copy of *updated*, for the test alone."""
    return Path(shutil.copytree(updated, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("pytest-of-*")))


def pytest_of(project: Path, *options: str) -> tuple[int, str]:
    without = [word for name in WITHOUT for word in ("-p", f"no:{name}")]
    command = ["-m", "pytest", "-q", *without, *options, "test_add.py"]
    done = python(project, *command, PYTEST_DEBUG_TEMPROOT=str(project))
    return done.returncode, done.stdout + done.stderr


def test_a_wrong_marker_is_a_sentence(project: Path) -> None:
    (project / "test_add.py").write_text(TEST.replace("within=0.02", "'add'"))
    code, said = pytest_of(project, "-k", "8")
    assert code == 1
    assert "test_add.py::test_add[8]: got kb_golden with other arguments, needs within=SHARE, such as 0.02" in said
    assert "plugin.py" not in said


def test_a_marked_test_that_compares_nothing_fails(project: Path) -> None:
    tests = "def test_none():\n    pass\n\n\ndef test_unused(kb_run):\n    pass\n"
    (project / "test_add.py").write_text(f"import pytest\n\npytestmark = pytest.mark.kb_golden\n\n\n{tests}")
    code, said = pytest_of(project)
    assert code == 1
    sentence = "got kb_golden and no run of kb_run, needs one, because only these runs are compared\n"
    assert all(f"test_add.py::{name}: {sentence}" in said for name in ("test_none", "test_unused"))
    assert "plugin.py" not in said


def test_a_marked_test_that_is_skipped_or_fails_stays_so(project: Path) -> None:
    (project / "test_add.py").write_text(
        "import pytest\n\npytestmark = pytest.mark.kb_golden\n\n\n"
        "def test_skip():\n    pytest.skip('later')\n\n\ndef test_fail():\n    raise ValueError('mine')\n"
    )
    said = pytest_of(project)[1]
    assert "1 failed, 1 skipped" in said
    assert "got kb_golden" not in said


def test_a_mistake_of_the_test_shows_no_line_of_kb(project: Path) -> None:
    (project / "test_add.py").write_text("def test_add(kb_run):\n    kb_run('gemm', Q=3)\n")
    code, said = pytest_of(project)
    assert code == 1
    assert "got an unknown parameter, needs one of M, N, K" in said
    assert "test_add.py:2: BenchmarkError" in said
    assert "params.py" not in said


def test_golden_times(project: Path) -> None:
    code, said = pytest_of(project, "--kb-update", "-n", "2")  # each worker runs some, and the controller sums up
    assert code == 0, said
    summary = [line.partition("kb-golden.json: ")[2].partition(": ")[0] for line in said.splitlines()]
    assert [name for name in summary if name] == ["test_add.py::test_add[16]", "test_add.py::test_add[8]"]
    golden = json.loads((project / "kb-golden.json").read_text())
    assert list(golden) == ["test_add.py::test_add[16]", "test_add.py::test_add[8]"]
    assert sorted(path.name for path in (project / "kb-golden").iterdir()) == [each["run"] for each in golden.values()]

    (project / "kernels.py").write_text(KERNEL.replace("tl.load(x", "tl.load(x[block, :]) + tl.load(x"))
    (project / "test_add.py").write_text(TEST.replace("[8, 16]", "[8, 16, 4]").replace("r.check(X + X)", "pass"))
    code, said = pytest_of(project, "-k", "8 or 4")
    assert code == 1, "the kernel loads x twice"
    assert "test_add.py::test_add[4]: got no golden time in kb-golden.json, needs one; run pytest --kb-update" in said
    assert "against the golden" in said
    assert "2.0 % more is allowed" in said
    assert "kernels.py:5" in said, "the comparison names the line"
    assert "on the path before" in said, "and the blocks"


def test_a_worker_that_dies_leaves_the_golden_times_of_tests_that_passed(project: Path) -> None:
    """Test 1 is done before the process of the worker ends in test 2."""
    dying = TEST.replace("[8, 16]", "[16, 8]").replace("    r = ", "    if rows == 8:\n        os._exit(1)\n    r = ")
    (project / "test_add.py").write_text(f"import os\n{dying}")
    code, said = pytest_of(project, "--kb-update", "-n", "1", "--max-worker-restart", "0")
    assert code == 1
    assert "crashed while running 'test_add.py::test_add[8]'" in said
    assert list(json.loads((project / "kb-golden.json").read_text())) == ["test_add.py::test_add[16]"]


def test_a_test_that_fails_leaves_its_golden_time(updated_project: Path) -> None:
    project = updated_project
    golden = (project / "kb-golden.json").read_text()
    capsules = {path.name: path.read_bytes() for path in (project / "kb-golden").iterdir()}

    (project / "kernels.py").write_text(KERNEL.replace("tl.load(x", "tl.load(x[block, :]) + tl.load(x"))
    code, said = pytest_of(project, "--kb-update")
    assert code == 1, "the kernel loads x twice, so its sum is wrong"
    assert "WrongResult" in said
    assert (project / "kb-golden.json").read_text() == golden
    assert {path.name: path.read_bytes() for path in (project / "kb-golden").iterdir()} == capsules


SUBTESTS = """import pytest


@pytest.fixture(autouse=True)
def fails(subtests):
    with subtests.test():
        assert False
"""


def test_a_test_that_fails_without_an_error_leaves_its_golden_time(project: Path) -> None:
    strict = "import pytest\n\npytestmark = pytest.mark.xfail(strict=True)\n"
    (project / "test_add.py").write_text(f"{TEST}\n\n{strict}")
    assert pytest_of(project, "--kb-update")[0] == 1
    assert not (project / "kb-golden.json").exists()

    (project / "conftest.py").write_text(SUBTESTS)
    (project / "test_add.py").write_text(TEST)
    assert pytest_of(project, "--kb-update")[0] == 1
    assert not (project / "kb-golden.json").exists()


@pytest.mark.parametrize("scope", ["function", "module"])
def test_a_test_whose_fixture_fails_at_its_end_leaves_its_golden_time(project: Path, scope: str) -> None:
    fixture = "def fails():\n    yield\n    assert False\n"
    (project / "conftest.py").write_text(
        f"import pytest\n\n\n@pytest.fixture(autouse=True, scope='{scope}')\n{fixture}"
    )
    code, said = pytest_of(project, "--kb-update", "-k", "8")
    assert code == 1
    assert "1 passed" in said
    assert "1 error" in said
    assert not (project / "kb-golden.json").exists()
    assert not (project / "kb-golden").exists()


def test_runs_whose_names_are_alike_have_capsules_of_their_own(project: Path) -> None:
    names = ["a/8", "b/8", "a b", "a-b", "long" * 40, "long" * 40 + "er"]
    test = TEST.replace("[8, 16]", "[8, 8, 8, 8, 8, 8]").replace('("rows", ', f'("rows", ids={names}, argvalues=')
    (project / "test_add.py").write_text(test)
    code, said = pytest_of(project, "--kb-update")
    assert code == 0, said
    golden = json.loads((project / "kb-golden.json").read_text())
    assert sorted(golden) == sorted(f"test_add.py::test_add[{name}]" for name in names)
    assert len({each["run"] for each in golden.values()}) == len(names)
    assert sorted(path.name for path in (project / "kb-golden").iterdir()) == sorted(
        each["run"] for each in golden.values()
    )


def test_a_capsule_of_a_name_that_a_run_had_goes(updated_project: Path) -> None:
    project = updated_project
    path = project / "kb-golden.json"
    golden = json.loads(path.read_text())
    name = golden["test_add.py::test_add[8]"]["run"]
    (project / "kb-golden" / name).rename(project / "kb-golden" / "older.kbrun")
    golden["test_add.py::test_add[8]"]["run"] = "older.kbrun"
    path.write_text(json.dumps(golden))
    assert pytest_of(project, "--kb-update", "-k", "8")[0] == 0
    names = sorted(each["run"] for each in json.loads(path.read_text()).values())
    assert name in names
    assert sorted(each.name for each in (project / "kb-golden").iterdir()) == names


CONFLICT = '{\n<<<<<<< ours\n "test_add.py::test_add[8]": 1\n=======\n>>>>>>> theirs\n}\n'


def test_a_golden_file_in_conflict_is_a_sentence_and_stays(project: Path) -> None:
    (project / "kb-golden.json").write_text(CONFLICT)
    for options in ((), ("--kb-update",)):
        code, said = pytest_of(project, "-k", "8 or free", *options)
        assert code == 1
        assert "kb-golden.json: got conflicts of a merge, needs one time for each run; keep one side of each" in said
        assert "1 passed, 1 deselected" in said, "a test without golden times needs no such file"
        assert "1 error" in said
        assert "golden_file.py" not in said
    assert (project / "kb-golden.json").read_text() == CONFLICT
    assert not (project / "kb-golden").exists()


def test_golden_times_that_cannot_be_written_fail_the_session(project: Path) -> None:
    """The test itself breaks the file, and then the folder for capsules."""
    breaks = "from pathlib import Path\n    Path(__file__).with_name('kb-golden.json').mkdir()\n"
    (project / "test_add.py").write_text(TEST.replace("    r.check", f"    {breaks}    r.check"))
    code, said = pytest_of(project, "-k", "8", "--kb-update")
    assert code == 1
    assert f"error: golden times of {project} are not written: " in said
    assert "1 passed, 2 deselected" in said
    assert "Traceback" not in said
    (project / "kb-golden.json").rmdir()
    for capsule in (project / "kb-golden").iterdir():
        capsule.unlink()
    (project / "kb-golden").rmdir()
    (project / "kb-golden").touch()
    (project / "test_add.py").write_text(TEST)
    code, said = pytest_of(project, "-k", "8", "--kb-update")
    assert code == 1
    assert "needs a folder kb-golden that can be written beside the test" in said
    assert "golden_runs.py" not in said
    assert not (project / "kb-golden.json").exists()
