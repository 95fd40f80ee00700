"""The JSON files of a run folder."""

from pathlib import Path

import pytest

from kb_cli.run.files import RunFolderError, read_run, write_json


def test_what_is_no_run_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"got a folder without run\.json, needs the folder of a run"):
        read_run(tmp_path)
    with pytest.raises(RunFolderError, match="got no such folder"):
        read_run(tmp_path / "nope")
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(RunFolderError, match=r"run\.json: got a file that cannot be read"):
        read_run(tmp_path)
    write_json(tmp_path / "run.json", {"format": "other"})
    with pytest.raises(RunFolderError, match="needs kernbench-run version 1"):
        read_run(tmp_path)
