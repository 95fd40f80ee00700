"""Run folders appear whole or not at all."""

from pathlib import Path

import pytest

from kb_cli.run.files import RunFolderError
from kb_cli.run.folder import NewRunFolder


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


def test_places_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match="got a folder that cannot be written"):
        NewRunFolder(tmp_path / "file", "x-1").__enter__()
    (tmp_path / "x-1").write_text("")
    with pytest.raises(RunFolderError, match="got a file of that name"), NewRunFolder(tmp_path, "x-1") as folder:
        folder.commit()
