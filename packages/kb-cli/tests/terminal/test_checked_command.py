"""Empty values and paths called `-`, which all commands refuse alike."""

from pathlib import Path

import pytest

EMPTY = "got an empty value, needs one that is not empty"
DASH = (
    "got '-', needs a name, because kb neither reads nor writes a standard stream there; write ./- for a file or "
    "folder that is called so"
)


@pytest.mark.parametrize(
    "arguments",
    [
        ["exec", "--topology=", "script.py"],
        ["exec", "--out=", "script.py"],
        ["run", "gemm", "--topology", ""],
        ["run", "gemm", "--out="],
        ["run", "gemm", "-p", ""],
        ["sweep", "gemm", "--cost="],
        ["topology", "show", "one_pe", "--part="],
        ["plan", "gemm", "--tile="],
        ["trace", "a-run", "-o", "a.pftrace", "--pe="],
    ],
)
def test_an_empty_value_stands_for_nothing(invoke, arguments):
    done = invoke(*arguments)
    named, _, said = done.stderr.removeprefix("error: ").partition(": ")
    assert (done.exit_code, said) == (2, f"{EMPTY}; leave the option out for its default\n")
    assert named in arguments or f"{named}=" in arguments
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("arguments", [["run", ""], ["web", ""], ["report", ""], ["compare", "", "b"], ["verify", ""]])
def test_an_empty_argument_is_not_the_current_folder(invoke, arguments):
    done = invoke(*arguments)
    assert done.exit_code == 2
    assert done.stderr.endswith(f": {EMPTY}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "gemm", "--out", "-"],
        ["run", "gemm", "--shapes", "-"],
        ["exec", "--out", "-", "script.py"],
        ["sweep", "gemm", "-p", "M=8", "--out", "-"],
        ["sweep", "gemm", "-p", "M=8", "-o", "-"],
        ["pack", "a-run", "-o", "-"],
        ["report", "a-run", "-o", "-"],
        ["replay", "a.kbrun", "--out", "-"],
        ["show", "-"],
        ["probe", "--all", "--heatmap", "-"],
        ["topology", "show", "one_pe", "--out", "-"],
    ],
)
def test_a_dash_is_no_file_and_no_folder(invoke, arguments):
    done = invoke(*arguments)
    assert (done.exit_code, done.stderr.partition(": ")[2].partition(": ")[2]) == (2, f"{DASH}\n")
    assert list(Path().iterdir()) == []


def test_help_is_given_with_any_other_option(invoke):
    done = invoke("run", "gemm", "--topology=", "--help")
    assert (done.exit_code, done.stdout.startswith("Usage: ")) == (0, True)
