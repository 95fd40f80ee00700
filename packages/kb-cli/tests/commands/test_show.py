"""`kb show`: what a run captured, one value of it, and how that differs from an array."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

Invoke = Callable[..., Result]
Write = Callable[..., Path]

KERNEL = """\
    tl.capture("range", tl.arange(0, 3))
    for row in range(2):
        x = tl.load(a[row : row + 1, :])
        tl.capture("double", x + x)
        tl.capture("half", (x * 0.5).to("bf16"))
    tl.wait("""


@pytest.fixture
def folder(invoke: Invoke, bench_file: Write) -> str:
    """A run on two PEs."""
    path = bench_file("    tl.wait(", KERNEL, "pes=[0]", "pes=[0, 2]")
    return str(json.loads(invoke("run", path, "--json").stdout)["run_dir"])


@pytest.fixture
def a(folder: str, tmp_path: Path) -> np.ndarray:
    """The first input."""
    return np.random.Generator(np.random.PCG64(0)).standard_normal((8, 8), dtype=np.float32)


def test_all_captures_are_listed(invoke: Invoke, folder: str) -> None:
    found = json.loads(invoke("show", folder, "--json").stdout)
    assert len(found) == 2 * 5
    assert {(each["name"], each["pe"], each["number"]) for each in found} == {
        *(("range", pe, 0) for pe in (0, 2)),
        *((name, pe, number) for name in ("double", "half") for pe in (0, 2) for number in (0, 1)),
    }
    text = invoke("show", folder).stdout
    assert "double   small.py:12   1 x 8   f32" in text
    assert "half     small.py:13   1 x 8   bf16" in text


def test_one_value_is_shown_and_written(invoke: Invoke, folder: str, a: np.ndarray, tmp_path: Path) -> None:
    done = invoke("show", folder, "double", "--pe", "2", "--number", "1", "--json", "-o", "got.npy")
    found = json.loads(done.stdout)
    assert (found["shape"], found["dtype"], found["pe_id"], found["line"]) == (
        [1, 8],
        "f32",
        "sip0.cube0.pe2",
        "small.py:12",
    )
    assert np.array_equal(np.load(tmp_path / "got.npy"), 2 * a[1:2])
    assert found["most"] == pytest.approx(2 * a[1].max())
    by_id = invoke("show", folder, "double", "--pe", "sip0.cube0.pe2", "--number", "1").stdout
    assert "shape, dtype        1 x 8 f32" in by_id
    invoke("show", folder, "half", "--pe", "0", "--number", "0", "-o", "half.npy")
    assert np.load(tmp_path / "half.npy").dtype == np.float32


def test_a_file_appears_when_it_is_whole(invoke: Invoke, folder: str, tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(b"old")
    (tmp_path / "old").hardlink_to(tmp_path / "x.npy")
    invoke("show", folder, "half", "--pe", "0", "--number", "0", "-o", "x.npy")
    assert (tmp_path / "old").read_bytes() == b"old"
    assert np.load(tmp_path / "x.npy").shape == (1, 8)


def test_against_an_array_it_says_where_and_by_how_much(
    invoke: Invoke, folder: str, a: np.ndarray, tmp_path: Path
) -> None:
    reference = 2 * a[:1].astype(np.float64)
    reference[0, 5] += 3
    reference[0, 2] += 0.5
    np.save(tmp_path / "ref.npy", reference)
    options = ["double", "--pe", "0", "--number", "0", "--against", "ref.npy"]
    difference = json.loads(invoke("show", folder, *options, "--json").stdout)["difference"]
    assert difference["max_abs"] == pytest.approx(3)
    assert (difference["at"], difference["n_beyond"], difference["against"]) == ([0, 5], 2, "ref.npy")
    text = invoke("show", folder, *options).stdout
    assert "largest difference   3 from ref.npy" in text
    assert "at [0, 5]: got " in text
    assert "2 of 8 elements" in text
    np.save(tmp_path / "ref.npy", 2 * a[:1])
    assert json.loads(invoke("show", folder, *options, "--json").stdout)["difference"]["n_beyond"] == 0


def test_not_a_number_where_one_is_expected_is_the_largest_difference(
    invoke: Invoke, folder: str, a: np.ndarray, tmp_path: Path
) -> None:
    reference = 2 * a[:1]
    reference[0, 3] = np.nan
    np.save(tmp_path / "ref.npy", reference)
    options = ["double", "--pe", "0", "--number", "0", "--against", "ref.npy", "--json"]
    difference = json.loads(invoke("show", folder, *options).stdout)["difference"]
    assert (difference["at"], difference["max_abs"], difference["expected"]) == ([0, 3], None, None)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["doubl"], "capture 'doubl': got no such name, needs one of range, double, half; did you mean 'double'?"),
        (["double"], "capture 'double': got 4 values, needs one; choose one with --pe; kb show"),
        (["double", "--pe", "0"], "capture 'double': got 2 values, needs one; choose one with --number; kb show"),
        (["double", "--pe", "1"], "capture 'double': got PE 1, needs one of the PEs that captured it: 0, 2"),
        (["double", "--pe", "0", "--number", "2"], "got number 2, needs 0 to 1, as often as it was captured there"),
        (["--pe", "0"], "kb show: got options without NAME, needs the name of a capture; kb show RUN lists them"),
        (["range", "--pe", "0", "-o", "x.txt"], "-o: got .txt, needs .npy"),
        (["range", "--pe", "0", "--against", "none.npy"], "none.npy: got no such file"),
        (["range", "--pe", "0", "--against", "small.py"], "small.py: got no array"),
        (["range", "--pe", "0", "--against", "eight.npy"], "eight.npy: got shape (8,), needs that of range, (3,)"),
    ],
)
def test_wrong_questions_are_refused(
    invoke: Invoke, folder: str, tmp_path: Path, options: list[str], text: str
) -> None:
    np.save(tmp_path / "eight.npy", np.zeros(8))
    done = invoke("show", folder, *options)
    assert done.exit_code == 2
    assert text in done.stderr


def test_folders_without_captures_say_why(invoke: Invoke, bench_file: Write, folder: str, tmp_path: Path) -> None:
    plain = json.loads(invoke("run", bench_file(), "--json").stdout)["run_dir"]
    assert f"{plain}: got no captured values, needs some; call tl.capture" in invoke("show", plain).stderr
    path = bench_file("    tl.wait(", KERNEL)
    dropped = json.loads(invoke("run", path, "--keep", "none", "--json").stdout)["run_dir"]
    assert "got no captured values (--keep none), needs some" in invoke("show", dropped).stderr
    assert invoke("show", "nowhere").exit_code == 2


def test_damage_is_seen(invoke: Invoke, folder: str, tmp_path: Path) -> None:
    path = tmp_path / folder / "captures" / "000001.npy"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    done = invoke("show", folder, "double", "--pe", "0", "--number", "0")
    assert (done.exit_code, "000001.npy: got other bytes than the run wrote" in done.stderr) == (2, True)
    assert invoke("verify", folder).exit_code == 1


def test_verify_covers_the_captures(invoke: Invoke, folder: str) -> None:
    assert invoke("verify", folder).exit_code == 0


def test_prints_of_a_run_do_not_mix_with_its_json(invoke: Invoke, bench_file: Write) -> None:
    path = bench_file("    tl.wait(", '    tl.print("x", tl.load(a) + 1.0)\n    tl.wait(')
    done = invoke("run", path, "--json")
    assert json.loads(done.stdout)["verified"] is True
    assert "small.py:9 sip0.cube0.pe0: x" in done.stderr
