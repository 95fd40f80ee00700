"""Run folders appear whole or not at all."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kb_cli.run.base.files import RunFolderError
from kb_cli.run.base.folder_owner import is_gone, owner
from kb_cli.run.folders import run_folder as folder_module
from kb_cli.run.folders.run_folder import NewRunFolder, kept_on_interrupt


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_committed_folder_has_its_name_and_no_trace_of_the_old_one(tmp_path: Path) -> None:
    for content in ("first", "second"):
        with NewRunFolder(tmp_path / "out", "x-1") as folder:
            (folder.path / content).write_text(content)
            folder.commit()
    assert names(tmp_path / "out") == ["x-1"]
    assert names(tmp_path / "out" / "x-1") == ["second"]


def test_a_failed_run_leaves_nothing_and_the_old_folder_alone(tmp_path: Path) -> None:
    with NewRunFolder(tmp_path, "x-1") as folder:
        folder.commit()
    with pytest.raises(ZeroDivisionError), NewRunFolder(tmp_path, "x-1") as folder:
        folder.path.joinpath("half").write_text(str(1 // 0))
    assert names(tmp_path) == ["x-1"]
    assert names(tmp_path / "x-1") == []


def test_an_interrupted_folder_has_a_name_of_its_own_until_the_run_is_complete(tmp_path: Path) -> None:
    for content in ("first", "second"):
        with NewRunFolder(tmp_path, "x-1") as folder:
            (folder.path / content).write_text(content)
            assert folder.commit_interrupted() == tmp_path / "x-1-interrupted"
    assert names(tmp_path) == ["x-1-interrupted"]
    assert names(tmp_path / "x-1-interrupted") == ["second"]
    with NewRunFolder(tmp_path, "x-1") as folder:
        folder.commit()
    assert names(tmp_path) == ["x-1"]


def test_an_interrupt_keeps_a_folder_with_a_log_alone(tmp_path: Path) -> None:
    class Terminated(KeyboardInterrupt):
        """As SIGTERM raises it."""

    def interrupted(kind: type[BaseException], log: str, file: str) -> None:
        with NewRunFolder(tmp_path, "x-1") as folder, kept_on_interrupt(folder):
            (folder.path / log).mkdir(parents=True)
            (folder.path / log / "strings.jsonl").touch()
            (folder.path / log / file).touch()
            raise kind

    chunk = "ops-000000.npy"
    cases = [(KeyboardInterrupt, "log", chunk, True), (KeyboardInterrupt, "0001/log", chunk, True)]
    cases += [(KeyboardInterrupt, "log", "formulas-000000.z", True)]
    cases += [(KeyboardInterrupt, "log", "ops.partial", False), (KeyboardInterrupt, "memory", chunk, False)]
    for kind, log, file, kept in [*cases, (Terminated, "log", chunk, False)]:
        with pytest.raises(KeyboardInterrupt) as caught:
            interrupted(kind, log, file)
        assert names(tmp_path) == (["x-1-interrupted"] if kept else [])
        where = tmp_path / "x-1-interrupted"
        assert getattr(caught.value, "__notes__", []) == ([f"the files written so far are in {where}"] if kept else [])
        shutil.rmtree(where, ignore_errors=True)


def test_until_it_is_committed_the_final_name_does_not_exist(tmp_path: Path) -> None:
    with NewRunFolder(tmp_path, "x-1") as folder:
        assert names(tmp_path) == [folder.path.name]
        assert folder.path.name.startswith(".x-1.")
        assert not folder.final.exists()


def test_two_at_once_leave_one_whole_folder(tmp_path: Path) -> None:
    with NewRunFolder(tmp_path, "x-1") as first, NewRunFolder(tmp_path, "x-1") as second:
        assert first.path != second.path
        for folder in (first, second):
            (folder.path / "a").write_text("")
            (folder.path / "b").write_text("")
        second.commit()
        first.commit()
    assert names(tmp_path) == ["x-1"]
    assert names(tmp_path / "x-1") == ["a", "b"]


def commit(out: Path, content: str, *data: str) -> bool:
    """Commits a run folder with a file *content*, and with the data of a run at each place of *data*."""
    with NewRunFolder(out, "x-1") as folder:
        (folder.path / content).write_text("")
        for place in data:
            (folder.path / place / "memory").mkdir(parents=True)
        return folder.commit()


def test_a_folder_with_data_is_never_replaced_by_one_without(tmp_path: Path) -> None:
    assert commit(tmp_path, "kept", ".")
    assert not commit(tmp_path, "none")
    assert names(tmp_path) == ["x-1"]
    assert names(tmp_path / "x-1") == ["kept", "memory"]
    assert commit(tmp_path, "again", ".")
    assert names(tmp_path / "x-1") == ["again", "memory"]


def test_a_folder_of_several_runs_is_replaced_by_one_with_the_data_of_all_of_them(tmp_path: Path) -> None:
    assert commit(tmp_path, "two", "0000", "0002")
    assert not commit(tmp_path, "one", "0000", "0001")
    assert "two" in names(tmp_path / "x-1")
    assert commit(tmp_path, "three", "0000", "0001", "0002")
    assert "three" in names(tmp_path / "x-1")


@pytest.mark.parametrize("can_exchange", [True, False])
def test_data_that_another_process_commits_meanwhile_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_exchange: bool
) -> None:
    """The other process commits after this one has looked at the folder, and before it takes the name."""
    assert commit(tmp_path, "first")
    take = NewRunFolder._take
    others = [True]

    def late(self: NewRunFolder, *paths: Path) -> object:
        if others and others.pop():
            monkeypatch.setattr(NewRunFolder, "_take", take)
            assert commit(tmp_path, "kept", ".")
        return take(self, *paths)

    if not can_exchange:
        monkeypatch.setattr(folder_module, "exchange", lambda one, other: False)
    monkeypatch.setattr(NewRunFolder, "_take", late)
    assert not commit(tmp_path, "none")
    assert names(tmp_path) == ["x-1"]
    assert names(tmp_path / "x-1") == ["kept", "memory"]


def test_places_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match="got a folder that cannot be written"):
        NewRunFolder(tmp_path / "file", "x-1").__enter__()
    (tmp_path / "x-1").write_text("")
    with pytest.raises(RunFolderError, match="got a file of that name"), NewRunFolder(tmp_path, "x-1") as folder:
        folder.commit()


def write(out: Path, content: str) -> None:
    with NewRunFolder(out, "x-1") as folder:
        (folder.path / content).write_text(content)
        folder.commit()


def killed_in(out: Path, where: Callable[[], None]) -> None:
    """In a process of its own: write `second`, with SIGKILL at the place that *where* sets."""
    child = os.fork()
    if child == 0:
        where()
        write(out, "second")
        os._exit(5)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def before_the_swap() -> None:
    folder_module.exchange = die  # type: ignore[assignment]


def after_the_swap() -> None:
    shutil.rmtree = die  # type: ignore[assignment]


def before_the_second_rename() -> None:
    folder_module.exchange = lambda one, other: False
    real, calls = os.rename, []

    def rename(one: object, other: object) -> None:
        calls.append(one)
        if len(calls) == 3:
            die()
        real(one, other)  # type: ignore[arg-type]

    os.rename = rename  # type: ignore[assignment]


@pytest.mark.parametrize("where", [before_the_swap, after_the_swap, before_the_second_rename])
def test_a_death_between_the_steps_of_a_commit_loses_no_folder(tmp_path: Path, where: Callable[[], None]) -> None:
    write(tmp_path, "first")
    killed_in(tmp_path, where)
    if where is not before_the_second_rename:
        assert (tmp_path / "x-1").is_dir()
    with NewRunFolder(tmp_path, "other"):  # the next run below the same folder
        (hidden,) = (name for name in names(tmp_path) if name.startswith("."))
        assert hidden.startswith(".other.")
        assert names(tmp_path / "x-1") == (["second"] if where is after_the_swap else ["first"])


def test_without_the_swap_the_last_of_two_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "exchange", lambda one, other: False)
    for content in ("first", "second"):
        write(tmp_path, content)
    assert names(tmp_path / "x-1") == ["second"]
    assert names(tmp_path) == ["x-1"]


def test_folders_of_processes_that_run_stay(tmp_path: Path) -> None:
    (tmp_path / ".keep").mkdir()
    (tmp_path / ".x-1.12345-0-00000000-00000000-new").mkdir()  # of another machine
    with NewRunFolder(tmp_path, "x-1") as mine:
        write(tmp_path, "other")
        assert mine.path.is_dir()
    assert names(tmp_path) == [".keep", ".x-1.12345-0-00000000-00000000-new", "x-1"]


def test_a_process_is_known_by_its_start_too() -> None:
    pid, start, machine = owner().split("-")
    assert not is_gone(owner())
    assert is_gone(f"{pid}-{int(start) + 1}-{machine}")
    assert is_gone(f"{1 << 30}-1-{machine}")
    assert not any(map(is_gone, ("", "x", f"{pid}-1-00000000", f"{pid}--{machine}")))


def test_links_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_text("")
    (tmp_path / "x-1").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunFolderError, match="got a link of that name"):
        write(tmp_path, "first")
    assert names(tmp_path / "elsewhere") == ["file"]


def test_a_relative_place_stays_when_the_working_directory_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with NewRunFolder(Path("out"), "x-1") as folder:
        os.chdir("/")
        folder.commit()
    assert names(tmp_path / "out") == ["x-1"]
    assert folder.final == Path("out/x-1")


def test_sigterm_deletes_the_folder_of_a_run(tmp_path: Path) -> None:
    code = "from kb_cli.main import main; main()"
    size = ["-p", "M=2048", "-p", "N=2048", "-p", "K=2048", "-p", "tile=16x16x16", "--topology", "one_pe"]
    command = [sys.executable, "-c", code, "run", "gemm", *size, "--exact", "events", "--out", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    while not names(tmp_path) and process.poll() is None:  # the run takes minutes
        time.sleep(0.01)
    process.terminate()
    said, _ = process.communicate()
    assert (process.returncode, said, names(tmp_path)) == (143, "", [])
