"""Logs from scripts that know the documented format and nothing of kb."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest


def readme_script():
    text = (Path(__file__).parents[2] / "README.md").read_text()
    return re.search(r"```python\n(import json.*?)```", text, re.DOTALL).group(1)


FOREIGN = (Path(__file__).parents[1] / "foreign_log.py").read_text()
ON_FOREIGN = (
    "--input 0x1000000000000=a.npy --input 0x1000000000080=b.npy --output c=0x1000000001000:4x4:f32 --reference "
    "c=c.npy --length 8"
)


@pytest.mark.parametrize(("script", "log"), [(readme_script(), "log.jsonl"), (FOREIGN, "log")], ids=["lines", "folder"])
def test_a_log_written_with_numpy_alone_is_verified(tmp_path, script, log, invoke, monkeypatch):
    """Scripts that import nothing of kb, the README's and that for a folder, then `run` on what they wrote."""
    assert "kb_" not in script
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path)
    command = ["run", log, *ON_FOREIGN.split(), "--json"]
    code, out, err = invoke(*command)
    assert (code, err) == (0, "")
    assert json.loads(out)["ok"] is True
    assert json.loads(out)["outputs"][0]["n_elements"] == 16
    np.save(tmp_path / "c.npy", np.load(tmp_path / "c.npy") + 1)
    assert invoke(*command)[0] == 1


def test_the_readmes_script_takes_ten_lines_and_its_command_is_the_one_tested():
    lines = [line for line in readme_script().splitlines() if line.strip()]
    assert len(lines) <= 10
    assert max(map(len, lines)) <= 120
    assert not any(";" in line for line in lines)
    assert f"kb-dataexec run log.jsonl {ON_FOREIGN}\n" in (Path(__file__).parents[2] / "README.md").read_text()
