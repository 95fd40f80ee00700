"""The functions of bash and zsh, called as the shells call them, with the `kb` of this Python."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kb_cli.completion import completed

BREAKS = " \t\n\"'><=;|&(:"
"""COMP_WORDBREAKS of a bash that nobody has configured."""


def shell(folder: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    env = {**os.environ, "PATH": path, **environment}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def in_bash(folder: Path, line: str, breaks: str = BREAKS) -> list[str]:
    """What bash puts in place of the word at the end of *line*, or of its part behind a letter of *breaks*."""
    script = f"""{completed("bash_source")}
        COMP_WORDBREAKS={shlex.quote(breaks)} COMP_LINE={shlex.quote(line + " behind")} COMP_POINT={len(line)}
        _kb_completion kb run x
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = shell(folder, "bash", "--norc", "-c", script)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines() if done.stdout != "\n" else []


def test_bash_completes(tmp_path: Path) -> None:
    (tmp_path / "with blank.py").touch()
    assert in_bash(tmp_path, "kb rep") == ["replay", "report"]
    assert in_bash(tmp_path, "kb run w") == ["with\\ blank.py"]
    assert in_bash(tmp_path, "kb run gemm --topology four") == ["four_sip"]
    assert in_bash(tmp_path, "kb run gemm -p op") == ["operands="]
    assert in_bash(tmp_path, "kb run gemm -p operands=r") == ["replicated"]
    assert in_bash(tmp_path, "kb run gemm -p operands=r", breaks=" ") == ["operands=replicated"]
    assert in_bash(tmp_path, "kb run gemm --verify=") == ["auto", "full", "sample"]
    assert in_bash(tmp_path, "kb run gemm --shapes ") == []


def test_the_function_of_bash_is_set_up(tmp_path: Path) -> None:
    done = shell(tmp_path, "bash", "--norc", "-c", 'eval "$(_KB_COMPLETE=bash_source kb)"; complete -p kb')
    assert (done.stdout, done.stderr) == ("complete -o nosort -F _kb_completion kb\n", "")


ZSH = """\
compdef() { print -r -- "compdef $*" }
compadd() { print -r -- "compadd $*" }
_files() { print -r -- "_files $*" }
eval "$(_KB_COMPLETE=zsh_source kb)"
complete_line() {
    local -a words=(${(z)1}); local PREFIX=$2 CURRENT=$((${#words} + 1))
    _kb_completion
}
complete_line "kb" rep
complete_line "kb run gemm -p" op
complete_line "kb run gemm -p" operands=r
complete_line "kb run gemm --shapes" ""
complete_line "kb run gemm --out" ""
complete_line "kb run" w
"""


def test_zsh_completes(tmp_path: Path) -> None:
    """Where there is no zsh, the text of its function is compared with the text that a zsh has run."""
    source = completed("zsh_source")
    assert source.startswith("#compdef kb\n")
    assert source.endswith("compdef _kb_completion kb\n")
    for part in ("COMP_LINE=", "_KB_COMPLETE=zsh_complete", "compadd -Q --", "compadd -Q -S ''", "_files -/"):
        assert source.count(part) == 1
    if shutil.which("zsh") is None:
        return
    (tmp_path / "with blank.py").touch()
    done = shell(tmp_path, "zsh", "-f", "-c", ZSH)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "compdef _kb_completion kb",
        "compadd -Q -- replay",
        "compadd -Q -- report",
        "compadd -Q -S  -- operands=",
        "compadd -Q -- operands=replicated",
        "_files ",
        "_files -/",
        "compadd -Q -- with\\ blank.py",
    ]


@pytest.mark.parametrize("instruction", ["nonsense", "fish_source", "bash_complet"])
def test_another_instruction_ends_with_a_sentence(tmp_path: Path, instruction: str) -> None:
    done = shell(tmp_path, "kb", "--version", _KB_COMPLETE=instruction)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: _KB_COMPLETE: got '{instruction}', needs one of bash_source, zsh_source; "
        'write eval "$(_KB_COMPLETE=bash_source kb)" into ~/.bashrc, or unset _KB_COMPLETE\n'
    )
