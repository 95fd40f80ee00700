"""run.json: its form, and the hash at its end."""

from pathlib import Path

import pytest

from kb_cli.run.base.files import RunFolderError, write_json
from kb_cli.run.records.run_json import read_run


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"got a folder without run\.json, needs the folder of a run"):
        read_run(tmp_path)
    with pytest.raises(RunFolderError, match="got no such folder"):
        read_run(tmp_path / "nope")
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(RunFolderError, match=r"run\.json: got no JSON"):
        read_run(tmp_path)
    write_json(tmp_path / "run.json", {"format": "other"})
    with pytest.raises(RunFolderError, match="needs kernbench-run version 2"):
        read_run(tmp_path)
