"""`kb exec` without kb-triton. With it, it is tested where both are installed."""

import pytest

from kb_cli.benchmark import scripts
from kb_cli.main import main


def test_a_missing_kb_triton_is_one_sentence(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(scripts, "entry_points", lambda group: [])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text("raise SystemExit(5)\n", encoding="utf-8")
    with pytest.raises(SystemExit) as caught:
        main(["exec", "script.py"])
    assert caught.value.code == 2
    assert capsys.readouterr().err == (
        "error: kb exec: got a Python without kb-triton, needs kb-triton, which runs such scripts; install kb-triton: "
        "pip install kb-triton\n"
    )
    assert not (tmp_path / "kb-runs").exists()
