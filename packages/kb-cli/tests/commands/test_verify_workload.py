"""`kb verify` of a workload's run: every op from the folder alone, and what it needs where a run has no references."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chain_workload import run_chain, write_chain
from click.testing import Result
from msgspec.structs import replace

from kb_cli.benchmark.expected import OutputParts
from kb_cli.run.records.data import load_expected
from kb_cli.run.records.manifest_check import claims
from kb_cli.run.records.run_json import write_run
from kb_cli.run.simulation import workload_verdict
from kb_dataexec import MemoryStore
from kb_engine import OutputPart

Invoke = Callable[..., Result]


def verified(invoke: Invoke, folder: str | Path, *args: str) -> Any:
    return json.loads(invoke("verify", folder, *args, "--json").stdout)


def test_every_op_is_verified_from_the_folder(invoke: Invoke, tmp_path: Path) -> None:
    result = run_chain(invoke, tmp_path)
    for args in ((), ("--debug",), ("--sanitize",)):
        done = invoke("verify", result["run_dir"], *args)
        assert done.exit_code == 0, done.output
    found = verified(invoke, result["run_dir"])
    assert found["verified"] is True
    assert found["outputs"] == result["outputs"]
    assert found["not_covered"] == ["wall.json"]


def test_a_wrong_op_is_found_again(invoke: Invoke, tmp_path: Path) -> None:
    file = write_chain(tmp_path)
    invoke("run", file, "--topology", "one_pe", "--out", tmp_path / "runs", "-p", "wrong=true", "--levers", 0)
    (folder,) = (tmp_path / "runs").iterdir()
    done = invoke("verify", folder)
    assert done.exit_code == 1
    assert "1 of 3 outputs wrong (head)" in done.stdout


def test_a_run_without_references_says_what_it_lacks(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workload_verdict, "MOST_KEPT_NBYTES", 3000)
    result = run_chain(invoke, tmp_path, "--keep", "all")
    assert result["verified"] is True
    done = invoke("verify", result["run_dir"])
    assert done.exit_code == 2
    assert "got a workload without the references of its ops, which take more than 256 MiB" in done.stderr
    assert "kb run has verified each op" in done.stderr


def test_a_run_for_times_alone_says_how_to_get_data(invoke: Invoke, tmp_path: Path) -> None:
    result = run_chain(invoke, tmp_path, "--no-verify")
    done = invoke("verify", result["run_dir"])
    assert done.exit_code == 2
    assert "run it again with --keep all and without --no-verify" in done.stderr


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda entry: entry.update(parts=[]), "no tensor and no parts"),
        (lambda entry: entry["parts"][0].update(bounds=[[0, 16], [0, 15]]), "a tensor of unequal shape"),
        (lambda entry: entry["parts"][0].update(bounds=[[0, 16], [1, 17]]), "a tensor of unequal shape"),
        (lambda entry: entry.update(shape=[16, 32]), "parts that do not cover the output once"),
        (lambda entry: entry.update(dtype="f16"), "a tensor of unequal shape"),
    ],
)
def test_a_damaged_index_is_a_sentence(invoke: Invoke, tmp_path: Path, change: Any, said: str) -> None:
    folder = Path(run_chain(invoke, tmp_path)["run_dir"])
    path = folder / "expected" / "index.json"
    index = json.loads(path.read_text())
    change(index[1])
    path.write_text(json.dumps(index))
    write_run(folder, {**json.loads((folder / "run.json").read_text()), "files": claims(folder)})
    done = invoke("verify", folder)
    assert done.exit_code == 1
    assert said in done.stdout


def test_parts_are_read_in_their_places(invoke: Invoke, tmp_path: Path) -> None:
    folder = Path(run_chain(invoke, tmp_path)["run_dir"])
    stored = load_expected(folder / "expected")["scaled"].stored
    (part,) = stored.parts
    assert stored.byte_of((3, 5))[1] - stored.byte_of((0, 0))[1] == (3 * 16 + 5) * 4
    deep = replace(part.tensor, shape=(1, 16, 16))
    two = OutputParts((2, 16, 16), stored.dtype, tuple(OutputPart(((at, at + 1), *part.bounds), deep) for at in (0, 1)))
    assert two.byte_of((1, 3, 5)) == stored.byte_of((3, 5))
    memory = MemoryStore.load(folder / "memory")
    x = np.arange(256, dtype=np.float32).reshape(16, 16)
    memory.write(*stored.byte_of((0, 0)), x.tobytes())
    assert np.array_equal(two.read(memory), np.stack([x, x]))
