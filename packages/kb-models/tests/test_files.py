"""Every file that a user names is run, left to Python, or refused with what it looks like and what to do."""

import json
import struct
import sys
import zipfile
from pathlib import Path

import pytest

from kb_messages import BenchmarkError
from kb_models.find import CONFIGS, source_of
from kb_models.networks import network_file


def refused(path: Path) -> str:
    with pytest.raises(BenchmarkError) as found:
        source_of(str(path))
    text = str(found.value)
    assert text.startswith(str(path))
    assert "a Hugging Face config.json, or a table of layers in SCALE-Sim's format (.csv)" in text or "JSON" in text
    return text.replace(str(path), "FILE")


GARBAGE = bytes(range(256)) * 40


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("model", GARBAGE, "binary data of no kind that kb knows"),
        ("net.csv", b"fc,1,2,\xff", "binary data of no kind that kb knows (the byte 0xff at offset 7"),
        ("net.csv", GARBAGE, "binary data of no kind that kb knows"),
        ("net.csv", b"", "an empty file"),
        ("config.json", b" \n", "an empty file"),
        ("model.pt", GARBAGE, "a checkpoint or an archive of PyTorch, needs"),
        ("model.bin", b"\x80\x02}q\x00.", "a checkpoint or an archive of PyTorch, needs"),
        ("model.safetensors", struct.pack("<Q", 30) + b'{"__metadata__":{}}' + GARBAGE, "weights in safetensors"),
        ("weights", struct.pack("<Q", 30) + b'{"__metadata__":{}}' + GARBAGE, "weights in safetensors"),
        ("model.gguf", b"GGUF\x03\x00\x00\x00", "a model of llama.cpp (GGUF)"),
        ("model", b"GGUF\x03\x00\x00\x00", "a model of llama.cpp (GGUF)"),
        ("model.tflite", b"\x1c\x00\x00\x00TFL3" + GARBAGE, "a model of TensorFlow Lite"),
        ("model", b"\x1c\x00\x00\x00TFL3" + GARBAGE, "a model of TensorFlow Lite"),
        ("trace.et", b"\x0b\n\x091.0.2-chakra", "a Chakra execution trace, which has neither data nor kernels"),
        ("trace.json", b'{"schema": "1.0.2-chakra.0.0.4", "nodes": []}', "a Chakra execution trace"),
        ("trace.json", b'{"traceEvents": []}', "a trace of a profiler"),
        ("model.safetensors.index.json", b'{"weight_map": {}}', "the index of a checkpoint"),
        ("tokens.json", b'{"version": 1, "truncation": null}', "JSON with the keys version, truncation, which is no"),
        ("list.json", b"[1, 2]", "JSON of a list, which is no configuration"),
        ("config.json", b'{"model_type": "llama", "a": 1, "a": 2}', "no JSON (key 'a' stands twice in one object)"),
        ("config.json", b'{"model_type": "llama", "rms_norm_eps": NaN}', "no JSON (NaN is no JSON number)"),
        ("config.json", b'{"model_type": "llama",', "line 1 column 24"),
        ("config.json", b"[" * 100_000, "JSON that is nested too deeply"),
        ("notes.txt", b"please run my model\n", "text that is neither Python nor a network"),
        ("net.ipynb", b'{"nbformat": 4}', "a notebook"),
        ("x.npy", b"\x93NUMPY\x01\x00", "arrays of numpy"),
        ("model.h5", b"\x89HDF\r\n\x1a\n", "a model of TensorFlow or Keras"),
    ],
)
def test_files_that_kb_does_not_take(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert words in refused(path)


def test_a_zip_archive_without_a_suffix(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "model", "w") as archive:
        archive.writestr("archive/data.pkl", b"")
    assert "a zip archive, such as PyTorch's" in refused(tmp_path / "model")


def test_folders(tmp_path: Path) -> None:
    assert refused(tmp_path).startswith("FILE: got a folder, needs a benchmark (.py)")
    (tmp_path / "net.onnx").write_bytes(b"")
    assert refused(tmp_path).endswith("name a file in the folder, such as FILE/net.onnx")
    (tmp_path / "config.json").write_text("{}")
    assert refused(tmp_path).endswith("name the configuration in the folder: FILE/config.json")


def test_files_of_python_and_names_are_left_to_others(tmp_path: Path) -> None:
    (tmp_path / "bench.py").write_bytes(b"")
    (tmp_path / "bench.txt").write_text("import kb_engine\n")
    (tmp_path / "bench").write_text("no network, and no suffix\n")
    for name in ("bench.py", "bench.txt", "bench", "missing.csv", "missing"):
        assert source_of(str(tmp_path / name)) is None
    assert source_of("gemm") is None


def test_a_configuration_is_kept_in_the_source(tmp_path: Path) -> None:
    folder = tmp_path / 'my "model"'
    folder.mkdir()
    path = folder / "config.json"
    config = json.loads((CONFIGS / "llama3-8b.json").read_text(encoding="utf-8")) | {"rms_norm_eps": 1e-6}
    path.write_text(json.dumps(config))
    found = source_of(str(path))
    assert found is not None
    path.unlink()
    values: dict[str, object] = {}
    exec(found[1], values)
    model = values["Model"]
    assert model.name == 'my "model"'  # type: ignore[attr-defined]
    assert model.config == config  # type: ignore[attr-defined]


def test_a_table_is_kept_in_the_source(tmp_path: Path) -> None:
    path = tmp_path / "a'b.csv"
    path.write_text("fc, 1, 2, 3,\nC'onv, 4, 5, 6,\n")
    found = source_of(str(path))
    assert found is not None
    assert found[0] == tmp_path / "a'b.csv.py"
    values: dict[str, object] = {}
    exec(found[1], values)
    assert values["Network"].name == "a'b"  # type: ignore[attr-defined]
    assert [layer.name for layer in values["Network"].layers] == ["fc", "C'onv"]  # type: ignore[attr-defined]


def test_a_table_under_another_name(tmp_path: Path) -> None:
    path = tmp_path / "net.txt"
    path.write_text("fc, 1, 2, 3,\n")
    found = network_file(path)
    assert found is not None
    assert found.kind == "table"


def test_an_onnx_model_needs_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    path = tmp_path / "net.onnx"
    path.write_bytes(b"\x08\x0a\x12\x04kern")
    with pytest.raises(BenchmarkError) as found:
        source_of(str(path))
    assert str(found.value) == f"{path}: got an ONNX model, needs the package onnx; pip install 'kb-models[onnx]'"
