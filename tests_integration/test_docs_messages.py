"""The programs of docs/messages.md run, and print what the page says: a ring, a run that is stuck, and a race."""

import re
from pathlib import Path

from python_copies import python

import kernbench as kb

PAGE = (Path(__file__).parents[1] / "docs" / "messages.md").read_text(encoding="utf-8")
PROGRAMS = dict(re.findall(r"`(\w+\.py)`:\n\n```python\n(.*?)```", PAGE, re.DOTALL))
QUOTED = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)


def run(folder: Path, name: str, change: tuple[str, str] = ("", "")) -> tuple[int, str, str]:
    """The exit code, the output and the errors of a program of the page, after a *change* of its text."""
    assert change[0] in PROGRAMS[name]
    (folder / name).write_text(PROGRAMS[name].replace(*change), encoding="utf-8")
    done = python(folder, name)
    return done.returncode, done.stdout, done.stderr


def test_the_ring_is_right_and_has_fewer_than_20_lines(tmp_path: Path) -> None:
    code, out, err = run(tmp_path, "ring.py")
    assert (code, err) == (0, "")
    assert out.partition("largest error")[0] == QUOTED[0].partition("largest error")[0]
    kernel = PROGRAMS["ring.py"].partition("def ")[2].partition("\n\n\n")[0]
    assert kernel.count("\n") < 20


def test_four_messages_for_three_slots_are_stuck_as_quoted(tmp_path: Path) -> None:
    code, _, err = run(tmp_path, "stuck.py")
    assert code == 1
    assert err.rstrip().endswith(QUOTED[1].rstrip())


def test_messages_that_are_received_in_turn_are_not_stuck(tmp_path: Path) -> None:
    begin = PROGRAMS["stuck.py"].index("    for row in rows:")
    end = PROGRAMS["stuck.py"].index("\n\nx = ")
    in_turn = """    for part, row in enumerate(rows):
        tl.send(row, (here + 1) % pes)
        tl.store(y[here, part * 64 : part * 64 + 64], tl.recv((here - 1) % pes))
"""
    assert run(tmp_path, "stuck.py", (PROGRAMS["stuck.py"][begin:end], in_turn))[0] == 0


def test_a_race_is_told_as_quoted_and_a_signal_ends_it(tmp_path: Path) -> None:
    _, out, _ = run(tmp_path, "race.py")
    assert out.splitlines()[-1] == QUOTED[2].rstrip()
    first = "    tl.store(y[half], tl.load(x[half]) * 2)\n"
    ordered = f'{first}    tl.signal(1 - here, "stored")\n    tl.wait_for("stored")\n'
    code, out, _ = run(tmp_path, "race.py", (first, ordered))
    assert code == 0
    assert "race" not in out.replace("race.py", "")


def test_split_keys_and_split_sums_take_what_is_said() -> None:
    page = (Path(__file__).parents[1] / "docs" / "kernels.md").read_text(encoding="utf-8")
    (said,) = re.findall(r"4096 keys of a key head of Llama-3-8B, split over 1, 2, 4 and 8 PEs \| (.*) us \|", page)
    one_head = {"context": 4096, "heads": 4, "kv_heads": 1, "head_dim": 128}
    took = [kb.run("decode_attention", compute=False, splits=splits, **one_head).latency_ns for splits in (1, 2, 4, 8)]
    assert [f"{each / 1000:.1f}" for each in took] == re.findall(r"[\d.]+", said)
    (by_messages,) = re.findall(r"8 parts by messages ([\d.]+) us", page)
    run = kb.run("split_k_gemm", compute=False, M=16, N=16, K=14336, merge="messages")
    assert f"{run.latency_ns / 1000:.1f}" == by_messages
