"""The words that TAB offers: commands, options, benchmarks, chips, parameters, runs and files."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import click
import pytest
from click.testing import Result

from kb_cli.benchmark import bundled
from kb_cli.completion import completed
from kb_cli.completion.line import typed
from kb_cli.completion.words import WORDS, Kind
from kb_cli.main import COMMANDS, kb
from kb_messages import DType, KbError

Invoke = Callable[..., Result]


def offered(line: str) -> list[str]:
    """The words for *line*. A word that goes on ends with `...`, and `<file>` stands for the shell's own files."""
    answers = completed("zsh_complete", {"COMP_LINE": line}).splitlines()
    kinds = [each.partition(",") for each in answers]
    return [f"{word}..." if kind == "open" else word if comma else f"<{kind}>" for kind, comma, word in kinds]


def commands() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(kb)
    for name in COMMANDS:
        command = kb.get_command(context, name)
        if isinstance(command, click.Group):
            yield from ((f"{name} {each}", command.commands[each]) for each in command.commands)
        elif command is not None:
            yield name, command


def test_the_table_has_every_command_option_and_choice() -> None:
    every = dict(commands())
    assert every.keys() == WORDS.keys()
    for name, command in every.items():
        options = [each for each in command.params if isinstance(each, click.Option)]
        arguments = [each for each in command.params if isinstance(each, click.Argument)]
        flags = {word for each in options if each.is_flag for word in (*each.opts, *each.secondary_opts)}
        values = {word: each for each in options if not each.is_flag for word in each.opts}
        known = WORDS[name]
        assert {word for word, value in known.options.items() if value is Kind.FLAG} - {"-h", "--help"} == flags, name
        assert {word for word, value in known.options.items() if value is not Kind.FLAG} == values.keys(), name
        for word, option in values.items():
            if isinstance(option.type, click.Choice):
                assert known.options[word] == tuple(option.type.choices), f"{name} {word}"
        assert len(known.arguments) == sum(each.nargs == 1 for each in arguments), name
        assert (known.rest is not None) == (name == "exec")


def test_commands_and_options_are_offered() -> None:
    assert offered("kb ") == sorted(COMMANDS)
    assert offered("kb r") == ["replay", "report", "run", "runs"]
    assert offered("kb topology ") == ["check", "show"]
    assert offered("kb -") == ["--help", "--version"]
    assert offered("kb run --no-") == ["--no-verify", "--no-log", "--no-sanitize", "--no-templates"]
    assert offered("kb trace RUN --unit ") == ["ns", "ps"]
    assert offered("kb run gemm --verify f") == ["full"]
    assert offered("kb run gemm --verify=f") == ["--verify=full"]
    assert offered("kb nonsense ") == offered("kb run gemm --seed ") == offered("kb run gemm --json=") == []
    assert offered("kb run gemm -- --j") == []


def test_benchmarks_and_chips_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    for name in ("mine.py", "mine.yaml", "mine.csv", "with blank.py", ".hidden.py", "mine/inner.py", "a\nb.py"):
        (tmp_path / name).touch()
    assert offered("kb run ") == [*bundled.names("benchmarks"), "mine/...", "mine.py", "with\\ blank.py"]
    assert offered("kb run mine/") == ["mine/inner.py"]
    assert offered("kb run ./m") == ["./mine/...", "./mine.py"]
    assert offered("kb run .h") == [".hidden.py"]
    assert offered("kb sweep m") == ["mixture_of_experts", "mine/...", "mine.py", "mine.yaml"]
    assert offered("kb topology check ") == [*bundled.names("topologies"), "mine/...", "mine.yaml"]
    assert offered("kb run gemm --topology one_c") == ["one_cube", "one_cube_banked"]
    assert offered("kb sweep gemm --topology one_pe,four") == ["one_pe,four_sip"]
    assert offered("kb exec m") == ["mine/...", "mine.py"]
    assert offered("kb exec mine.py --t") == offered("kb run gemm --shapes ") == ["<file>"]
    assert offered("kb run gemm --out ") == ["<dir>"]
    assert offered("kb run 'with b") == ["<file>"]


def test_parameters_of_a_bundled_benchmark_are_offered() -> None:
    names = ["M=...", "N=...", "K=...", "dtype=...", "tile=...", "loop_order=...", "operands=..."]
    names += ["method=...", "warm=..."]
    assert offered("kb run gemm -p ") == names
    assert offered("kb run -p M=8 gemm -p lo") == ["loop_order=..."]
    assert offered("kb run gemm -p M=") == ["M=512"]
    assert offered("kb run gemm -p operands=") == [
        "operands=auto",
        "operands=replicated",
        "operands=one_slice",
        "operands=sharded",
    ]
    assert offered("kb run gemm -p dtype=") == [f"dtype={each}" for each in DType]
    assert offered("kb run gemm -p tile=") == ["tile=none"]
    assert offered("kb sweep gemm -p dtype=f16,b") == ["dtype=f16,bf16", "dtype=f16,bool"]
    assert offered("kb plan gemm -p ") == names[:4]
    assert offered("kb run -p ") == offered("kb run nothing -p ") == []


@pytest.mark.parametrize("name", bundled.names("benchmarks"))
def test_every_bundled_benchmark_has_its_parameters(invoke: Invoke, name: str) -> None:
    said = invoke("run", name, "--params").output
    found = [each.removesuffix("=...") for each in offered(f"kb run {name} -p ")]
    assert found
    assert all(f"\n{each} " in said for each in found)
    assert said.count("\n") >= len(found)


def test_parameters_are_read_and_no_file_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        dedent("""\
        from enum import Enum
        open("ran", "w")

        class Mode(Enum):
            FAST = "fast"
            SLOW = "slow"

        class Base(Struct):
            size: int = 8

        class Mine(Base):
            mode: Mode = Mode.FAST
            exact: bool = False
            kind: Literal["a", "b"] | None = None
            name: str = "x y"
            free: list[int] = []

        class Bench(Benchmark[Mine]):
            Params = Mine
        """)
    )
    names = ["size=...", "mode=...", "exact=...", "kind=...", "name=...", "free=..."]
    assert offered("kb run mine.py -p ") == names
    assert offered("kb run mine.py -p mode=") == ["mode=fast", "mode=slow"]
    assert offered("kb run mine.py -p exact=") == ["exact=true", "exact=false"]
    assert offered("kb run mine.py -p kind=") == ["kind=a", "kind=b", "kind=none"]
    assert offered("kb run mine.py -p name=") == ["name=x\\ y"]
    assert offered("kb run mine.py -p free=") == []
    assert not Path("ran").exists()
    (tmp_path / "call.py").write_text(
        "@kb.benchmark(footprint=f)\ndef mine(rng, M: int = 4, *, flag: bool = True): ...\n"
    )
    assert offered("kb run call.py -p ") == ["M=...", "flag=..."]
    for damaged in (b"class A(", b"\xff", b"a = '\0'", b"x = " + b"(" * 5000):
        (tmp_path / "bad.py").write_bytes(damaged)
        assert offered("kb run bad.py -p ") == []


def test_run_folders_are_offered(invoke: Invoke, bench_file: Callable[..., Path]) -> None:
    invoke("run", bench_file(), "--topology", "one_pe")
    Path("s.csv").write_text("size\n8\n16\n")
    invoke("run", "small.py", "--topology", "one_pe", "--shapes", "s.csv")
    one, several = sorted(map(str, Path("kb-runs").iterdir()), key=lambda each: (Path(each) / "0000").exists())
    invoke("pack", one, "-o", "a.kbrun")
    Path("other").mkdir()
    assert offered("kb report ") == [*sorted([one, f"{several}/..."]), "other/..."]
    assert offered("kb verify kb-runs/small-") == sorted([one, f"{several}/..."])
    assert offered(f"kb compare {one} {several}/") == [f"{several}/0000", f"{several}/0001"]
    assert offered("kb topology show --run o") == ["other/..."]
    assert sorted(offered("kb replay ")) == ["a.kbrun", "kb-runs/...", "other/..."]
    assert offered("kb report nowhere/") == []


@pytest.mark.parametrize(
    ("line", "words", "last", "is_quoted"),
    [
        ("kb run ", ("kb", "run"), "", False),
        ("kb  run\tge", ("kb", "run"), "ge", False),
        ("kb 'a b' \"c d\" e\\ f ", ("kb", "a b", "c d", "e f"), "", False),
        ("kb 'a b", ("kb",), "a b", True),
        ('kb "a\\"b', ("kb",), 'a"b', True),
        ("kb '' x", ("kb", ""), "x", False),
        ("kb a\\", ("kb",), "a", True),
        ("", (), "", False),
    ],
)
def test_a_line_is_cut_as_a_shell_does(line: str, words: tuple[str, ...], last: str, is_quoted: bool) -> None:
    assert typed(line) == (words, last, is_quoted)


@pytest.mark.parametrize("instruction", ["nonsense", "bash", "fish_source", "zsh_sources", "_complete", "\x1b"])
def test_another_instruction_is_one_sentence(instruction: str) -> None:
    with pytest.raises(KbError, match=r"^_KB_COMPLETE: got '.*', needs one of bash_source, zsh_source; write eval "):
        completed(instruction, {})


def test_an_answer_imports_nothing_heavy() -> None:
    code = (
        "import sys; from kb_cli.main import main\n"
        "try: main([])\n"
        "finally: print(sorted({'numpy', 'rich', 'yaml', 'simpy', 'kb_engine', 'kb_dataexec'} & sys.modules.keys()))"
    )
    env = {**os.environ, "_KB_COMPLETE": "zsh_complete", "COMP_LINE": "kb run gemm -p dtype=bf"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert done.stdout == "word,dtype=bf16\n[]\n"
