"""The script that compares op logs before and after a change sees what changed, and its kernels repeat."""

import json
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
    found = digests.differences({"a": "1", "b": "2"}, {"b": "3", "c": "4"})
    assert found == ["a: got 1, before no run", "b: got 2, before 3", "c: got no run, before 4"]


def test_a_digest_that_changed_ends_with_1(
    digests: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = tmp_path / "before.json"
    arguments = ["digests.py", "--benchmarks", str(tmp_path), "--random", "2"]  # no bundled benchmark lies there
    monkeypatch.setattr(sys, "argv", arguments)
    assert digests.main() == 0
    said = json.loads(capsys.readouterr().out)
    assert list(said) == ["random kernel 0", "random kernel 1"]
    for text, code in ((said, 0), ({**said, "random kernel 1": "another"}, 1)):
        before.write_text(json.dumps(text), encoding="utf-8")
        monkeypatch.setattr(sys, "argv", [*arguments, "--against", str(before)])
        assert digests.main() == code
        assert capsys.readouterr().out.splitlines()[-1] == f"2 runs, {code} differ"
