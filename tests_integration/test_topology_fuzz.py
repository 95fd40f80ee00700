"""A damaged topology file runs, or is refused in one sentence: never a traceback, never a hang.

A hundred and twenty mutants here; `nox -s fuzz` runs ten thousand. Mutant number N is the same every time.
"""

import os
import random
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import FrameType

import numpy as np
import pytest

from kb_cli.benchmark.bundled import folder
from kb_dataexec import MemoryLogWriter
from kb_engine import Engine, Host, Language, TensorRef
from kb_messages import KbError
from kb_topology import loads_topology
from kb_topology.diagram import VIEWS, chart, draw, flaws, layout

MUTANTS = int(os.environ.get("KB_FUZZ_MUTANTS", "120"))
BATCH = 40
SECONDS = 5
LONGEST = 4000
FILES = {name: (folder("topologies") / f"{name}.yaml").read_text() for name in ("one_pe", "one_cube", "one_sip")}
FILES["one_cube"] += 'slow: {pe3: 2, "sip[0].cube[*].pe[5:7]": 1.5}\n'

NUMBERS = [
    "0",
    "-1",
    "1",
    "2",
    "0.1",
    "1e-300",
    "1e300",
    "1e9",
    "9" * 30,
    "9223372036854775807",
    ".nan",
    ".inf",
    "0x10",
]
WORDS = ["", "null", "true", "[]", "{}", "x", '"7"', "[1, 2]", "{a: 1}", "é", "\u2028", "\U0001f600", "\ud800", "a: b"]
PLACES = [
    "pe",
    "pe[*]",
    "pe[*].pe_dma",
    "sip[*].io[0].pcie_ep",
    "hbm[0:99]",
    "cube[0].noc",
    "a.b.c",
    "xbar[1:0]",
    "[0]",
]
BOMB = "a: &a [x, x]\n" + "".join(f"{new}: &{new} [*{old}, *{old}]\n" for old, new in pairwise("abcdefghi"))


def mutant(number: int) -> str:
    """Text number *number*: one to three mutations of a bundled topology."""
    rng = random.Random(number)
    text = FILES[rng.choice(["one_pe", "one_pe", "one_cube", "one_sip"])]
    text = "".join(f"{line}\n" for line in text.splitlines() if not line.lstrip().startswith("#"))
    for _ in range(rng.choice([1, 1, 2, 3])):
        text = rng.choice(MUTATIONS)(text, rng)
    return text


def drop_line(text: str, rng: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    lines.pop(rng.randrange(len(lines)))
    return "".join(lines)


def repeat_line(text: str, rng: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    lines.insert(rng.randrange(len(lines)), rng.choice(lines))
    return "".join(lines)


def swap_lines(text: str, rng: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]
    return "".join(lines)


def indent_line(text: str, rng: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    at = rng.randrange(len(lines))
    lines[at] = rng.choice(["  ", "\t", " "]) + lines[at] if rng.random() < 0.5 else lines[at].lstrip(" ")
    return "".join(lines)


def change_match(pattern: str, values: list[str]) -> Callable[[str, random.Random], str]:
    def change(text: str, rng: random.Random) -> str:
        found = list(re.finditer(pattern, text))
        if not found:
            return text
        match = rng.choice(found)
        return text[: match.start(1)] + rng.choice(values) + text[match.end(1) :]

    return change


def swap_words(text: str, rng: random.Random) -> str:
    found = list(re.finditer(r"[A-Za-z_][\w.]*", text))
    a, b = sorted(rng.sample(found, 2), key=lambda match: match.start())
    return text[: a.start()] + b[0] + text[a.end() : b.start()] + a[0] + text[b.end() :]


def drop_pair(text: str, rng: random.Random) -> str:
    found = list(re.finditer(r"\w+: [^,{}\n]+(, )?", text))
    match = rng.choice(found) if found else None
    return text[: match.start()] + text[match.end() :] if match else text


def repeat_pair(text: str, rng: random.Random) -> str:
    found = list(re.finditer(r"\w+: [^,{}\n]+, ", text))
    match = rng.choice(found) if found else None
    return text[: match.end()] + match[0] + text[match.end() :] if match else text


def truncate(text: str, rng: random.Random) -> str:
    return text[: rng.randrange(len(text) + 1)]


def insert(text: str, rng: random.Random) -> str:
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice([*WORDS, *NUMBERS, "\x00", "\r", "[" * 100, "{a: " * 500, "- " * 300]) + text[at:]


def bomb(text: str, rng: random.Random) -> str:
    return BOMB + text if rng.random() < 0.5 else text + BOMB


def deepen(text: str, rng: random.Random) -> str:
    depth = rng.choice([10, 63, 64, 1000, 100_000])
    return f"{text}x: {'[' * depth}{']' * depth}\n"


NUMBER = r"(?<![\w.])(-?\d+(?:\.\d+)?)"
VALUE = r": ([^,{}\n]+)"
KEY = r"(\w+):"
ENDPOINT = r'(?:from|to): ("[^"]*"|\w+)'
MUTATIONS: list[Callable[[str, random.Random], str]] = [
    *(
        drop_line,
        repeat_line,
        swap_lines,
        indent_line,
        swap_words,
        drop_pair,
        repeat_pair,
        truncate,
        insert,
        bomb,
        deepen,
    ),
    *[change_match(NUMBER, NUMBERS)] * 4,
    *[change_match(VALUE, [*WORDS, *NUMBERS])] * 3,
    change_match(KEY, ["", "count", "kind", "memory", "x", "é", "attrs", "<<"]),
    change_match(ENDPOINT, [f'"{place}"' for place in PLACES]),
    change_match(
        r"impl: ([\w.]+)", [f"builtin.{name}" for name in ("pe_dma", "xbar", "hbm_fixed", "pe_tcm", "pe_cpu")]
    ),
    change_match(r"kind: (\w+)", ["hbm", "xbar", "pe_dma", "pe_tcm", "host", "noc", "sram", "pe_gemm"]),
    change_match(r"space: (\w+)", ["hbm", "sram", "tcm", "reg"]),
]


def kernel(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef) -> None:
    tl.wait(tl.composite("gemm", a, b, out=c, tile=(16, 16, 16)))


def simulate(text: str) -> None:
    """Load *text*, draw it, build its blocks, and multiply two 16 x 16 matrices on its first PE."""
    topology = loads_topology(text, "mutant.yaml")
    for view in VIEWS:
        if view != "pe" or topology.graph.pe_ids:
            draw(topology, view)
    engine = Engine(topology, MemoryLogWriter())
    host = Host(engine, Path.cwd())
    data = np.ones((16, 16), dtype=np.float16)
    a, b, c = host.tensor("a", data, "f16"), host.tensor("b", data, "f16"), host.empty("c", (16, 16), "f16")
    host.launch(kernel, a, b, c, pes=[0])
    engine.close_log()


class TooLongError(Exception):
    pass


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    def stop(signum: int, frame: FrameType | None) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def complaint(number: int) -> str | None:
    """What is wrong with how mutant *number* is treated; None when nothing is."""
    try:
        with time_limit(SECONDS):
            simulate(mutant(number))
    except KbError as error:
        text = str(error)
        return None if len(text.splitlines()) == 1 and len(text) < LONGEST else f"mutant {number}: {text[:200]!r}"
    except TooLongError:
        return f"mutant {number}: more than {SECONDS} s"
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what is looked for
        return f"mutant {number}: {type(error).__name__}: {str(error)[:200]}"
    return None


@pytest.mark.parametrize("first", range(0, MUTANTS, BATCH))
def test_a_damaged_topology_runs_or_is_refused_in_one_sentence(first: int) -> None:
    found = [complaint(number) for number in range(first, min(first + BATCH, MUTANTS))]
    assert list(filter(None, found)) == []


def test_mutants_are_of_both_sorts() -> None:
    def runs(number: int) -> bool:
        try:
            simulate(mutant(number))
        except KbError:
            return False
        return True

    assert {runs(number) for number in range(40)} == {True, False}


def test_in_pictures_of_damaged_topologies_nothing_lies_on_anything() -> None:
    pictures = 0
    for number in range(40):
        try:
            topology = loads_topology(mutant(number), "mutant.yaml")
        except KbError:
            continue
        for view in VIEWS:
            if view != "pe" or topology.graph.pe_ids:
                pictures += 1
                assert flaws(layout(chart(topology, view))) == [], (number, view)
    assert pictures >= 20
