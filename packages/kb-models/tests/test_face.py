"""Models from a Python program."""

import json
from pathlib import Path
from typing import Any

import pytest

import kb_models
from kb_messages import BenchmarkError

TINY: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 256,
}


def test_a_configuration_runs_and_its_folder_repeats_the_run(tmp_path: Path) -> None:
    import kernbench

    ran = kb_models.run(TINY, chip="one_cube", batch=3, context=20, folder=tmp_path / "runs", keep="all")
    assert ran.verified
    assert ran.result.model is not None
    kept = json.loads((Path(str(ran.folder)) / "run.json").read_text(encoding="utf-8"))
    assert kept["params"]["batch"] == 3
    again = kernbench.run(kb_models.model(TINY), chip="one_cube", batch=3, context=20)
    assert again.latency_ps == ran.latency_ps
    cell = again._repr_html_()
    assert len(cell) < 100_000
    titles = ("<h2>Ops</h2>", "<h2>The model</h2>", "<h2>Where the time went</h2>", "<summary>kinds of ops</summary>")
    assert [each for each in titles if each not in cell] == []


def test_a_file_and_a_content_are_one_model(tmp_path: Path) -> None:
    path = tmp_path / "tiny" / "config.json"
    path.parent.mkdir()
    path.write_text(json.dumps(TINY), encoding="utf-8")
    of_file, of_content = kb_models.model(path), kb_models.model(TINY, name="tiny")
    assert (of_file.name, of_file.config) == (of_content.name, of_content.config) == ("tiny", TINY)  # type: ignore[attr-defined]


def test_names_are_those_of_kb_list() -> None:
    assert {"llama3-8b", "llama3-70b", "mixtral-8x7b"} <= set(kb_models.names())
    assert kb_models.model("llama3-8b").name == "llama3-8b"


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"model 'llama-8b': got an unknown name, needs one of .*mean 'llama3-8b'"):
        kb_models.run("llama-8b")
    with pytest.raises(BenchmarkError, match="model: hidden_size: got no value"):
        kb_models.model({"model_type": "llama"})
    with pytest.raises(BenchmarkError, match="model 'gemm': got an unknown name"):
        kb_models.run("gemm")
    with pytest.raises(BenchmarkError, match="-p phas: got an unknown parameter"):
        kb_models.run(TINY, chip="one_cube", phas="decode")
