"""Capsules: the same run comes back, and what is damaged or hostile gives a sentence and runs nothing."""

import errno
import hashlib
import importlib
import io
import json
import os
import random
import shutil
import stat
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

import kernbench as kb
from kb_cli.capsule import unpack as unpacking
from kb_cli.capsule.replay import replay
from kb_cli.capsule.unpack import opened, unpack
from kb_cli.main import main
from kb_cli.run.base.progress import RunProgress
from kb_cli.run.records.manifest_check import files_of
from kb_cli.run.records.run_json import write_run
from kb_messages import KbError

Invoke = Callable[..., Result]
MUTANTS = int(os.environ.get("KB_FUZZ_MUTANTS", "100"))


@pytest.fixture
def capsule(invoke: Invoke, bench_file: Callable[..., Path]) -> Path:
    """A capsule of a run whose benchmark writes `ran` when it is imported."""
    bench = bench_file("import numpy", "from pathlib import Path\nPath('ran').touch()\nimport numpy")
    run = json.loads(invoke("run", str(bench), "--json").stdout)["run_dir"]
    assert invoke("pack", run, "-o", "small.kbrun").exit_code == 0
    Path("ran").unlink()
    return Path("small.kbrun").absolute()


def ended(*args: object) -> int:
    with pytest.raises(SystemExit) as error:
        main([str(arg) for arg in args])
    return int(error.value.code or 0)


def test_a_run_comes_back(invoke: Invoke, capsule: Path) -> None:
    found = json.loads(invoke("replay", str(capsule), "--trust", "--json").stdout)
    assert found["same"] is True
    assert found["digests"][0] == found["digests"][1]
    assert found["verified"] == [True, True]
    kept = json.loads(invoke("replay", str(capsule), "--trust", "--out", "again", "--json").stdout)
    assert ended("verify", kept["run_dir"]) == 0


class FullAtTheEnd(io.BytesIO):
    """A file on a full disk, which says so when the last bytes of its buffer are written."""

    def close(self) -> None:
        if not self.closed:
            super().close()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_not_called_a_damaged_capsule(
    capsule: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path_open = Path.open
    monkeypatch.setattr(Path, "open", lambda path, mode="r": FullAtTheEnd() if mode == "xb" else path_open(path, mode))
    assert ended("replay", capsule, "--trust") == 2
    said = capsys.readouterr().err
    assert "bench.py: got a full disk" in said
    assert "no capsule" not in said


def test_no_program_runs_without_trust(capsule: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended("replay", capsule) == 2
    assert "needs your trust" in capsys.readouterr().err
    assert not Path("ran").exists()


def test_the_command_that_reads_a_strange_program_can_be_pasted(
    capsule: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended("replay", shutil.copy(capsule, "a run.kbrun")) == 2
    assert "read it with unzip -p 'a run.kbrun' bench.py, and" in capsys.readouterr().err


def test_a_bundled_benchmark_needs_no_trust(invoke: Invoke) -> None:
    shape = ["-p", "M=32", "-p", "N=32", "-p", "K=32"]
    run = json.loads(invoke("run", "gemm", *shape, "--no-verify", "--json").stdout)["run_dir"]
    assert invoke("pack", run, "-o", "gemm.kbrun", "--data").exit_code == 0
    assert json.loads(invoke("replay", "gemm.kbrun", "--json").stdout)["same"] is True
    first = Path("gemm.kbrun").read_bytes()
    assert invoke("pack", run, "-o", "gemm.kbrun", "--data").exit_code == 0
    assert Path("gemm.kbrun").read_bytes() == first


def rezipped(capsule: Path, change: Callable[[dict[str, bytes]], None]) -> None:
    with zipfile.ZipFile(capsule) as packed:
        files = {name: packed.read(name) for name in packed.namelist()}
    change(files)
    with zipfile.ZipFile(capsule, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in files.items():
            packed.writestr(name, content)


def test_another_log_is_reported(invoke: Invoke, capsule: Path, tmp_path: Path) -> None:
    def other_digest(files: dict[str, bytes]) -> None:
        write_run(tmp_path, {**json.loads(files["run.json"]), "log_digest": "0" * 64})
        files["run.json"] = (tmp_path / "run.json").read_bytes()

    rezipped(capsule, other_digest)
    replayed = invoke("replay", str(capsule), "--trust")
    assert replayed.exit_code == 1
    assert "not the same run" in replayed.stdout
    assert "0000000000000000" in replayed.stdout


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"inputs": {"a": "0" * 64}}, "{capsule}: got inputs with other bytes than in the run, "),
        ({"topology": {"name": "one_cube", "digest": "0" * 64}}, "{capsule}/topology.yaml: got a chip with digest "),
        ({"params": {"size": 8, "depth": 3}}, "{capsule}/run.json: got the parameter 'depth', needs "),
    ],
)
def test_errors_of_unpacked_files_name_the_capsule(
    capsule: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, object], said: str
) -> None:
    def changed(files: dict[str, bytes]) -> None:
        write_run(tmp_path, {**json.loads(files["run.json"]), **change})
        files["run.json"] = (tmp_path / "run.json").read_bytes()

    rezipped(capsule, changed)
    assert ended("replay", capsule, "--trust") == 2
    assert capsys.readouterr().err.startswith(f"error: {said.format(capsule=capsule)}")


@pytest.mark.parametrize("name", ["blocks-of-nobody", "", "../x"])
def test_blocks_of_a_package_that_is_not_installed_are_named(capsule: Path, tmp_path: Path, name: str) -> None:
    def other_versions(files: dict[str, bytes]) -> None:
        run = json.loads(files["run.json"])
        write_run(tmp_path, {**run, "versions": {**run["versions"], name: "1.2"}})
        files["run.json"] = (tmp_path / "run.json").read_bytes()

    rezipped(capsule, other_versions)
    with pytest.raises(KbError) as refused, RunProgress() as progress:
        replay(capsule, True, None, progress)
    got = f"a run on a chip with blocks of {name} 1.2, which is not installed"
    assert str(refused.value) == f"{capsule}: got {got}, needs the packages of all blocks of the run"
    assert not Path("ran").exists()


CHANGES: dict[str, Callable[[dict[str, bytes]], None]] = {
    "names of a run folder": lambda files: files.update({"../evil.py": b""}),
    "names of a run folder, each": lambda files: files.update({"/tmp/evil.py": b""}),
    "a file evil.py": lambda files: files.update({"evil.py": b"x"}),
    "other bytes in bench.py": lambda files: files.update({"bench.py": files["bench.py"] + b"\n"}),
    "other bytes in topology.yaml": lambda files: files.update({"topology.yaml": files["topology.yaml"][:-1]}),
    "no run.json": lambda files: files.pop("run.json") and None,
    "other content than the run wrote": lambda files: files.update(
        {"run.json": files["run.json"].replace(b'"seed": 0', b'"seed": 1')}
    ),
}


@pytest.mark.parametrize("said", CHANGES)
def test_changed_capsules(capsule: Path, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    rezipped(capsule, CHANGES[said])
    assert ended("replay", capsule, "--trust") == 2
    assert said in capsys.readouterr().err
    assert not Path("ran").exists()


def test_a_bomb_is_not_unpacked(capsule: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "MOST_NBYTES", 1 << 20)
    rezipped(capsule, lambda files: files.update({"log/big": bytes(2 << 20)}))
    with pytest.raises(KbError, match="more than 16 GiB"):
        unpack(capsule, tmp_path)


def claimed(files: dict[str, bytes], folder: Path, **more: bytes) -> None:
    """Add *more* to *files*, and claim them in run.json as a run would."""
    run = json.loads(files["run.json"])
    files |= more
    run["files"] |= {n: {"nbytes": len(c), "sha256": hashlib.sha256(c).hexdigest()} for n, c in more.items()}
    write_run(folder, run)
    files["run.json"] = (folder / "run.json").read_bytes()


@pytest.mark.parametrize("name", ["bench.py/x", "bench.py/x/y", "memory"])
def test_a_file_in_the_place_of_a_folder_names_the_capsule(capsule: Path, tmp_path: Path, name: str) -> None:
    rezipped(capsule, lambda files: claimed(files, tmp_path, **{"memory/x": b"x", name: b"y"}))
    with pytest.raises(KbError) as error, RunProgress() as progress:
        replay(capsule, True, None, progress)
    assert str(error.value).startswith(f"{capsule}: got a file called {name!r}, needs names of a run folder, each once")
    assert not Path("ran").exists()


def test_names_that_a_file_system_takes_for_the_same_are_refused(capsule: Path, tmp_path: Path) -> None:
    """A file that is there stands for a file system on which Bench.py is bench.py."""
    rezipped(capsule, lambda files: claimed(files, tmp_path, **{"Bench.py": b"x"}))
    folder = tmp_path / "to"
    folder.mkdir()
    (folder / "Bench.py").write_text("print('mine')")
    with pytest.raises(KbError, match=r"got a file Bench\.py, where another file is on this file system, needs names"):
        unpack(capsule, folder)
    assert (folder / "Bench.py").read_text() == "print('mine')"


def test_trust_is_asked_for_before_anything_is_unpacked(
    capsule: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The content of the files is not checked here: bytes that differ from run.json are reported with trust alone."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    rezipped(capsule, lambda files: files.update({"topology.yaml": bytes(4 << 20)}))
    assert ended("replay", capsule) == 2
    assert "needs your trust" in capsys.readouterr().err
    monkeypatch.setattr("tempfile.tempdir", None)
    assert ended("replay", capsule, "--trust") == 2
    assert "other bytes in topology.yaml" in capsys.readouterr().err


def test_a_replay_writes_only_files_that_it_reads(capsule: Path, tmp_path: Path) -> None:
    rezipped(capsule, lambda files: claimed(files, tmp_path, **{"log/big": bytes(1 << 20), "inputs/x": b"x"}))
    least, whole = tmp_path / "least", tmp_path / "whole"
    for folder in (least, whole):
        folder.mkdir()
    with opened(capsule) as packed:
        packed.unpack(least, is_replay=True)
    unpack(capsule, whole)
    of_replay = ["bench.py", "inputs/x", "run.json", "topology.yaml"]
    assert sorted(files_of(least)) == of_replay
    assert sorted(files_of(whole)) == sorted([*of_replay, "log/big", "where.json"])
    rezipped(capsule, lambda files: files.update({"log/big": bytes((1 << 20) - 1) + b"x"}))
    with pytest.raises(KbError, match="other bytes in log/big"), RunProgress() as progress:
        replay(capsule, True, None, progress)


def test_a_program_of_another_size_is_no_bundled_benchmark(invoke: Invoke, tmp_path: Path) -> None:
    """run.json may claim that a capsule has the bytes of a benchmark that comes with kb; the bytes decide."""
    shape = ["-p", "M=32", "-p", "N=32", "-p", "K=32"]
    run = json.loads(invoke("run", "gemm", *shape, "--no-verify", "--json").stdout)["run_dir"]
    assert invoke("pack", run, "-o", "gemm.kbrun").exit_code == 0
    rezipped(Path("gemm.kbrun"), lambda files: files.update({"bench.py": files["bench.py"] + b"\nprint('mine')\n"}))
    with pytest.raises(KbError, match=r"other bytes in bench\.py"), RunProgress() as progress:
        replay(Path("gemm.kbrun"), False, None, progress)


@pytest.mark.parametrize("name", ["inputs/x", "beside/x.py", "topology.yaml"])
def test_a_replay_without_trust_writes_little(invoke: Invoke, tmp_path: Path, name: str) -> None:
    """A bundled benchmark needs no trust, and its capsule may claim whatever else."""
    shape = ["-p", "M=32", "-p", "N=32", "-p", "K=32"]
    run = json.loads(invoke("run", "gemm", *shape, "--no-verify", "--json").stdout)["run_dir"]
    assert invoke("pack", run, "-o", "gemm.kbrun").exit_code == 0
    rezipped(Path("gemm.kbrun"), lambda files: claimed(files, tmp_path, **{name: bytes(17 << 20)}))
    with pytest.raises(KbError, match="needs at most 16,777,216 without your trust; add --"), RunProgress() as progress:
        replay(Path("gemm.kbrun"), False, None, progress)


def test_lists_and_claims_larger_than_any_run_has_are_not_read(capsule: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lists = b"[]," * (6 << 20)
    rezipped(capsule, lambda files: files.update({"run.json": b'{"x":[' + lists + b"[]]}"}))
    with pytest.raises(KbError, match=r"got more than 16777216 bytes in run\.json"), RunProgress() as progress:
        replay(capsule, True, None, progress)
    monkeypatch.setattr(unpacking, "_MOST_DIRECTORY_NBYTES", 100)
    with pytest.raises(KbError, match=r"got bytes that are no capsule \(ValueError: a list of files of \d+ bytes\)"):
        unpack(capsule, capsule.parent)


def test_names_of_other_systems_and_names_behind_a_nul_are_refused(capsule: Path) -> None:
    whole = capsule.read_bytes()
    for name in ("C:/evil.py", "C:evil.py", "..\\evil.py", "a//b", "./bench.py", "bench.py/", "a\nb", "bench.py\0.txt"):
        capsule.write_bytes(whole)
        with zipfile.ZipFile(capsule, "a") as packed, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a name that stands twice
            entry = zipfile.ZipInfo("x")
            entry.filename = name
            packed.writestr(entry, b"x")
        with pytest.raises(KbError, match="needs names of a run folder, each once"), RunProgress() as progress:
            replay(capsule, True, None, progress)


def test_a_link_in_a_capsule_is_a_plain_file(capsule: Path, tmp_path: Path) -> None:
    """A zip says in the mode of an entry that its bytes are where a link leads. No link is made."""
    rezipped(capsule, lambda files: claimed(files, tmp_path, **{"inputs/x": b"/etc/passwd"}))
    with zipfile.ZipFile(capsule) as packed:
        files = {name: packed.read(name) for name in packed.namelist()}
    with zipfile.ZipFile(capsule, "w") as packed:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (stat.S_IFLNK | 0o777) << 16
            packed.writestr(entry, content)
    folder = tmp_path / "to"
    folder.mkdir()
    unpack(capsule, folder)
    assert not (folder / "inputs" / "x").is_symlink()
    assert (folder / "inputs" / "x").read_bytes() == b"/etc/passwd"


def test_mutants_give_a_sentence_and_run_nothing(capsule: Path, tmp_path: Path) -> None:
    whole, source, refused = capsule.read_bytes(), random.Random(1), 0
    for _ in range(MUTANTS):
        mutant = bytearray(whole)
        for _ in range(source.choice((1, 1, 3))):
            at = source.randrange(len(mutant))
            kind = source.randrange(4)
            if kind == 0:
                mutant[at] ^= 1 << source.randrange(8)
            elif kind == 1:
                del mutant[at : at + source.randrange(1, 40)]
            elif kind == 2:
                mutant[at:at] = source.randbytes(source.randrange(1, 40))
            else:
                mutant = mutant[:at] or bytearray(b"\0")
        capsule.write_bytes(mutant)
        with pytest.raises(KbError) as error, RunProgress() as progress:
            replay(capsule, False, None, progress)
        refused += "needs your trust" not in str(error.value)
    assert refused > 0.9 * MUTANTS, "the others change bytes that no reader of a zip looks at"
    assert not Path("ran").exists()


def test_a_folder_has_to_be_packed_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "a run"
    folder.mkdir()
    assert ended("replay", folder) == 2
    assert capsys.readouterr().err == (
        f"error: {folder}: got a folder, needs a file that kb pack wrote; kb pack '{folder}' -o run.kbrun makes one of "
        "a run folder\n"
    )


@pytest.mark.parametrize("content", [b"", b"PK", bytes(1000), b"no zip at all"])
def test_files_that_are_no_capsule(tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.kbrun").write_bytes(content)
    assert ended("replay", tmp_path / "x.kbrun") == 2
    assert "a file that kb pack wrote" in capsys.readouterr().err
    assert ended("replay", tmp_path / "nowhere.kbrun") == 2
    assert ended("pack", tmp_path, "-o", tmp_path / "y.kbrun") == 2
    assert ended("pack", tmp_path, "-o", tmp_path / "y.zip") == 2


def test_an_encrypted_or_odd_zip(capsule: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_LZMA) as packed:
        packed.writestr("run.json", "{}")
    capsule.write_bytes(buffer.getvalue())
    with pytest.raises(KbError, match="a plain zip"), RunProgress() as progress:
        replay(capsule, True, None, progress)


@pytest.mark.parametrize("lacking", ["bench.py", "topology.yaml"])
def test_a_capsule_without_a_file_of_the_run_is_named(
    capsule: Path, capsys: pytest.CaptureFixture[str], lacking: str
) -> None:
    with zipfile.ZipFile(capsule) as packed, zipfile.ZipFile("less.kbrun", "w") as less:
        for name in packed.namelist():
            if name != lacking:
                less.writestr(name, packed.read(name))
    assert ended("replay", "less.kbrun", "--trust") == 2
    said = f"error: less.kbrun: got no {lacking}, which its run.json claims, needs a file that kb pack wrote\n"
    assert capsys.readouterr().err == said
    assert not Path("ran").exists()


@pytest.mark.parametrize("trust", [[], ["--trust"]])
def test_a_call_without_its_inputs_is_refused_by_its_name(
    trust: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "doubles.py").write_text("def double(tl, x, y):\n    tl.store(y, tl.load(x) * 2)\n")
    monkeypatch.syspath_prepend(tmp_path)
    kernel = importlib.import_module("doubles").double
    x = np.ones((4, 4), np.float32)
    run = kb.run(kernel, x, kb.empty(x.shape, "f32"), pes=[0], folder=tmp_path, keep="none")
    assert run.folder is not None
    assert ended("pack", run.folder, "-o", tmp_path / "double.kbrun") == 0
    assert ended("replay", tmp_path / "double.kbrun", *trust) == 2
    said = capsys.readouterr().err
    assert said.endswith(
        "double.kbrun: got a run of double without its inputs (--keep none), needs the arrays that the kernel was "
        "given; pack a run folder that kept its data; the capsules of golden times are for comparisons alone\n"
    )
