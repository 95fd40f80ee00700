"""The script that compares op logs before and after a change sees what changed, and its kernels repeat."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

VALIDATION = Path(__file__).parents[1] / "benchmarks/validation"


@pytest.fixture(scope="module")
def digests() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(VALIDATION)
        import digests

        yield digests


def test_a_random_kernel_has_one_digest(digests: Any) -> None:
    first, second = (str(digests.run(3).digest) for _ in range(2))
    assert first == second != str(digests.run(4).digest)


def test_what_differs_and_what_is_missing_is_named(digests: Any) -> None:
    one, two, three, four = (digests.Result(digest, 1) for digest in "1234")
    found = digests.differences({"a": one, "b": two}, {"b": three, "c": four})
    assert found == ["a: got 1, before no run", "b: got 2, before 3", "c: got no run, before 4"]


def test_a_latency_that_changed_is_told_in_nanoseconds(digests: Any) -> None:
    def side(*latencies: int | None) -> Any:
        return {f"run {number}": digests.Result("d", each) for number, each in enumerate(latencies)}

    found = digests.latency_changes(side(1_500, 7, None, 5), side(2_000, 7, 3, None) | {"gone": digests.Result("d", 1)})
    assert found == ["run 0: latency 2.000 -> 1.500 ns (-25.000 %)"]


def test_a_bundled_run_has_a_latency_and_a_refused_one_has_none(
    digests: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("benchmarks/vector_add.py", "topologies/one_pe.yaml", "topologies/u280_hbm.yaml"):
        shutil.copy(VALIDATION.parents[1] / path, tmp_path)
    monkeypatch.setattr(digests, "TOPOLOGIES", tmp_path)
    found = dict(digests.bundled(tmp_path))
    assert found["vector_add on one_pe"].latency_ps > 0
    assert found["vector_add on u280_hbm"].latency_ps is None
    assert "pe_math" in found["vector_add on u280_hbm"].digest


@pytest.mark.parametrize("text", ["[]", '{"run": "digest"}', '{"run": 3}', "{"])
def test_other_files_are_refused(
    digests: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    before = tmp_path / "before.json"
    before.write_text(text, encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["digests.py", "--against", str(before)])
    assert digests.main() == 2
    assert capsys.readouterr().err.endswith(", needs what this script printed\n")


def test_a_digest_that_changed_ends_with_1(
    digests: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = tmp_path / "before.json"
    arguments = ["digests.py", "--benchmarks", str(tmp_path), "--random", "2"]  # no bundled benchmark lies there
    monkeypatch.setattr(sys, "argv", arguments)
    assert digests.main() == 0
    said = json.loads(capsys.readouterr().out)
    assert list(said) == ["random kernel 0", "random kernel 1"]
    for text, code in ((said, 0), ({**said, "random kernel 1": ["another", None]}, 1)):
        before.write_text(json.dumps(text), encoding="utf-8")
        monkeypatch.setattr(sys, "argv", [*arguments, "--against", str(before)])
        assert digests.main() == code
        assert capsys.readouterr().out.splitlines()[-1] == f"2 runs, {code} differ"
