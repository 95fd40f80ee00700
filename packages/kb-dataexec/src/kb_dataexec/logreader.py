"""Reading op logs back from a folder, checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from kb_dataexec.dtypes import Array
from kb_dataexec.logwriter import IMMEDIATES, MANIFEST, STRINGS, chunk_path
from kb_dataexec.oplog import OPERAND_DTYPE, OPS_DTYPE, OpLog
from kb_messages.errors import LogError
from kb_messages.oplog import LOG_FORMAT, LOG_FORMAT_VERSION


def read_log(folder: Path, prefix: bool = False) -> OpLog:
    """The log in *folder*, checked: schema, codes, string indices, counts and digest.

    With *prefix*, a log that was never closed is read as far as it got, which leaves out counts and digest. Raises
    LogError, naming the file, when something is missing or does not fit.
    """
    manifest = _read_manifest(folder, prefix)
    chunks = _count_chunks(folder) if manifest is None else manifest["chunks"]
    log = OpLog(
        _read_table(folder, "ops", chunks, OPS_DTYPE),
        _read_table(folder, "operands", chunks, OPERAND_DTYPE),
        _read_strings(folder, torn=manifest is None),
        _read_bytes(folder / IMMEDIATES),
    )
    log.check(str(folder))
    if manifest is not None:
        _check_manifest(folder / MANIFEST, manifest, log)
    return log


def _read_manifest(folder: Path, prefix: bool) -> dict[str, Any] | None:
    path = folder / MANIFEST
    if prefix and not path.exists():
        return None
    try:
        manifest = json.loads(_read_bytes(path))
        found = f"{manifest['format']} version {manifest['version']}"
    except (ValueError, KeyError, TypeError) as error:
        raise LogError(str(path), f"no manifest ({error})", "a JSON object with format and version") from error
    if found != f"{LOG_FORMAT} version {LOG_FORMAT_VERSION}":
        raise LogError(str(path), found, f"{LOG_FORMAT} version {LOG_FORMAT_VERSION}")
    for field in ("chunks", "ops", "operands", "strings", "immediate_nbytes", "digest"):
        if field not in manifest:
            raise LogError(str(path), f"no field {field}", "all fields of the format")
    return dict(manifest)


def _check_manifest(path: Path, manifest: dict[str, Any], log: OpLog) -> None:
    counts = {
        "ops": log.n_ops,
        "operands": log.n_operands,
        "strings": len(log.strings),
        "immediate_nbytes": len(log.immediates),
        "digest": log.digest,
    }
    for field, found in counts.items():
        if manifest[field] != found:
            raise LogError(
                f"{path}: {field}", f"{found} in the files", str(manifest[field]), "the log was changed or is damaged"
            )


def _count_chunks(folder: Path) -> int:
    chunk = 0
    while chunk_path(folder, "ops", chunk).exists() and chunk_path(folder, "operands", chunk).exists():
        chunk += 1
    return chunk


def _read_table(folder: Path, name: str, chunks: int, dtype: np.dtype[Any]) -> Array:
    tables = [np.empty(0, dtype)]
    for chunk in range(chunks):
        path = chunk_path(folder, name, chunk)
        try:
            table = np.load(path, allow_pickle=False)
        except FileNotFoundError:
            raise LogError(str(path), "no such file", f"{chunks} chunks") from None
        except (ValueError, OSError, EOFError) as error:
            raise LogError(str(path), f"no array ({error})", "a .npy file") from error
        if table.dtype != dtype:
            raise LogError(str(path), f"columns {table.dtype.descr}", f"columns {dtype.descr}")
        tables.append(table)
    return np.concatenate(tables)


def _read_strings(folder: Path, torn: bool) -> list[str]:
    lines = _read_bytes(folder / STRINGS).split(b"\n")
    last = lines.pop()
    if last and not torn:
        raise LogError(str(folder / STRINGS), "a last line without end", "one JSON string a line")
    try:
        strings = [json.loads(line) for line in lines]
    except json.JSONDecodeError as error:
        got = f"a line that is no JSON ({error.msg})"
        raise LogError(str(folder / STRINGS), got, "one JSON string a line") from error
    for number, text in enumerate(strings, start=1):
        if not isinstance(text, str):
            raise LogError(f"{folder / STRINGS}:{number}", f"a JSON {type(text).__name__}", "a JSON string")
    return strings


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise LogError(
            str(path), "no such file", "a closed log", "read_log(folder, prefix=True) reads one that was cut off"
        ) from None
