"""The kind of a file that a user names: a table of layers, an ONNX model, a configuration, or another kind."""

from __future__ import annotations

from codecs import BOM_UTF8
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from kb_dataexec.files import decode_json
from kb_messages import BenchmarkError, KbError, decode_text, open_regular, read_bytes
from kb_models.networks.scale_sim import looks_like_table

Kind = Literal["table", "onnx", "config"]

TAKES: Final = (
    "a benchmark (.py), an ONNX model (.onnx), a Hugging Face config.json, "
    "or a table of layers in SCALE-Sim's format (.csv)"
)
_MOST_TEXT_NBYTES = 16 << 20
_HEAD_NBYTES = 1 << 16
_TO_ONNX = "export the model to ONNX, such as with torch.onnx.export, and give kb the .onnx file"
_CONFIG_INSTEAD = "give kb the config.json beside the weights: kb takes shapes, and makes random weights of them"


class Refused(NamedTuple):
    """A kind of file that kb does not take: the look of the file, and a way to go on."""

    looks_like: str
    fix: str


_CHAKRA = Refused(
    "a Chakra execution trace, which has neither data nor kernels",
    "give kb the model that was traced, as ONNX or as config.json",
)
_TORCH = Refused("a checkpoint or an archive of PyTorch", _TO_ONNX)
_SAFETENSORS = Refused("weights in safetensors", _CONFIG_INSTEAD)
_GGUF = Refused("a model of llama.cpp (GGUF)", _CONFIG_INSTEAD)
_TFLITE = Refused("a model of TensorFlow Lite", "convert the model to ONNX, such as with tf2onnx")
_TENSORFLOW = Refused("a model of TensorFlow or Keras", "convert the model to ONNX, such as with tf2onnx")
_MLIR = Refused("a program of MLIR or XLA", "export the model to ONNX")
_NOTEBOOK = Refused("a notebook", "run its cells in Jupyter, where kernbench.run shows the report")
_ARRAYS = Refused("arrays of numpy", "name them by a kernel's call in a script: kernbench.run(kernel, array)")

_BINARY = Refused("binary data of no kind that kb knows", _TO_ONNX)

_BY_SUFFIX: Final[dict[str, Refused]] = {
    ".et": _CHAKRA,
    ".pt": _TORCH,
    ".pth": _TORCH,
    ".pt2": _TORCH,
    ".ckpt": _TORCH,
    ".safetensors": _SAFETENSORS,
    ".gguf": _GGUF,
    ".ggml": _GGUF,
    ".tflite": _TFLITE,
    ".pb": _TENSORFLOW,
    ".h5": _TENSORFLOW,
    ".hdf5": _TENSORFLOW,
    ".keras": _TENSORFLOW,
    ".mlir": _MLIR,
    ".hlo": _MLIR,
    ".stablehlo": _MLIR,
    ".ipynb": _NOTEBOOK,
    ".npy": _ARRAYS,
    ".npz": _ARRAYS,
}

_BY_MAGIC: Final[tuple[tuple[int, bytes, Refused], ...]] = (
    (0, b"GGUF", _GGUF),
    (4, b"TFL3", _TFLITE),
    (8, b'{"', _SAFETENSORS),
    (0, b"\x89HDF\r\n\x1a\n", _TENSORFLOW),
    (0, b"\x80\x02", _TORCH),
    (0, b"\x93NUMPY", _ARRAYS),
    (0, b"ML\xefR", _MLIR),
    (0, b"PK\x03\x04", Refused("a zip archive, such as PyTorch's, Keras' or numpy's", _TO_ONNX)),
    (0, b"\x1f\x8b", Refused("a gzip archive", "unpack it first")),
    (0, b"\x7fELF", Refused("a program of Linux", "name a model")),
    (0, b"\x89PNG", Refused("a picture", "name a model")),
)


class NetworkFile(NamedTuple):
    """A file that kb takes: its kind, and its text or, of a configuration, its content; None of an ONNX model."""

    kind: Kind
    content: Any = None


def network_file(path: Path) -> NetworkFile | None:
    """The kind of *path*, a file that exists. None for the text of a Python file, which is a benchmark or no network.

    Raises BenchmarkError for every other file, with the look of the file and a way to go on.
    """
    suffix = path.suffix.lower()
    if suffix == ".py":
        return None
    if path.is_dir():
        raise _folder(path)
    head = _head(path)
    if not head.strip():
        raise _refused(path, Refused("an empty file", ""))
    if suffix == ".onnx" or _is_onnx(head):
        return NetworkFile("onnx")
    refused = _BY_SUFFIX.get(suffix) or _by_magic(head)
    if refused is not None:
        raise _refused(path, refused)
    if b"\0" in head:
        raise _refused(path, _BINARY)
    return _of_text(path, suffix)


def _of_text(path: Path, suffix: str) -> NetworkFile | None:
    data = read_bytes(path, BenchmarkError, _MOST_TEXT_NBYTES)
    try:
        text = decode_text(data, str(path), "text", BenchmarkError)
    except BenchmarkError as error:
        raise _refused(path, _BINARY._replace(looks_like=f"{_BINARY.looks_like} ({error.got})")) from None
    if suffix == ".json" or text.lstrip().startswith(("{", "[")):
        return _of_json(path, data.removeprefix(BOM_UTF8))
    if suffix in (".csv", ".tsv") or looks_like_table(text):
        return NetworkFile("table", text)
    if suffix and "import " not in text:
        raise _refused(path, Refused("text that is neither Python nor a network", ""))
    return None


def _of_json(path: Path, data: bytes) -> NetworkFile:
    found = decode_json(data, object, str(path), BenchmarkError)
    if isinstance(found, dict) and ("model_type" in found or "architectures" in found):
        return NetworkFile("config", found)
    raise _refused(path, _unknown_json(found))


def _unknown_json(found: object) -> Refused:
    keys = list(found) if isinstance(found, dict) else []
    schema = str(found.get("schema", "")) if isinstance(found, dict) else ""
    if "chakra" in schema.lower() or {"schema", "nodes"} <= set(keys) or {"nodes", "pid"} <= set(keys):
        return _CHAKRA
    if "traceEvents" in keys:
        return Refused("a trace of a profiler", "give kb the model that was traced, as ONNX or as config.json")
    if "weight_map" in keys:
        return Refused("the index of a checkpoint", _CONFIG_INSTEAD)
    if "nbformat" in keys:
        return _NOTEBOOK
    named = ", ".join(map(str, keys[:6]))
    what = f"JSON with the keys {named}" if keys else f"JSON of a {type(found).__name__}"
    return Refused(f"{what}, which is no configuration of a model", "a config.json says its model_type")


def _head(path: Path) -> bytes:
    try:
        with open_regular(path, BenchmarkError) as file:
            return file.read(_HEAD_NBYTES)
    except OSError as error:
        raise BenchmarkError(str(path), f"a file that cannot be read ({error.strerror})", TAKES) from None


def _is_onnx(head: bytes) -> bool:
    """Whether *head* begins as an ONNX model does: field 1, its version of up to 30, then another field of a model."""
    return len(head) > 3 and head[0] == 0x08 and 2 < head[1] < 30 and head[2] in (0x12, 0x1A, 0x22, 0x3A, 0x42)


def _by_magic(head: bytes) -> Refused | None:
    return next((refused for at, magic, refused in _BY_MAGIC if head[at : at + len(magic)] == magic), None)


def _folder(path: Path) -> KbError:
    config = path / "config.json"
    if config.is_file():
        return BenchmarkError(str(path), "a folder", TAKES, f"name the configuration in the folder: {config}")
    models = sorted(path.glob("*.onnx"))
    if models:
        return BenchmarkError(str(path), "a folder", TAKES, f"name a file in the folder, such as {models[0]}")
    if (path / "saved_model.pb").is_file():
        return _refused(path, _TENSORFLOW)
    return BenchmarkError(str(path), "a folder", TAKES)


def _refused(path: Path, refused: Refused) -> BenchmarkError:
    return BenchmarkError(str(path), refused.looks_like, TAKES, refused.fix)
