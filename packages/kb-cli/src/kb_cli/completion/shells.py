"""Completion in bash and zsh: the function that a shell gets, and the answers that the function asks for.

The function is asked for by `_KB_COMPLETE=bash_source kb`. It asks `_KB_COMPLETE=bash_complete kb` with the line up to
the cursor in COMP_LINE, and gets a line for each word: `word,` before a whole word, `open,` before one that goes on,
and `file` or `dir` where the shell completes files or folders by itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Final

from kb_cli.completion.candidates import Candidate, candidates
from kb_cli.completion.line import names_after, typed, wanted
from kb_cli.completion.words import Kind

VARIABLE: Final = "_KB_COMPLETE"

_BASH: Final = r"""_kb_completion() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
            word,*) COMPREPLY+=("${line#word,}") ;;
            open,*) COMPREPLY+=("${line#open,}"); compopt -o nospace 2>/dev/null ;;
            file) compopt -o default 2>/dev/null ;;
            dir) compopt -o dirnames 2>/dev/null ;;
        esac
    done < <(COMP_LINE="${COMP_LINE:0:COMP_POINT}" KB_WORDBREAKS="$COMP_WORDBREAKS" \
        _KB_COMPLETE=bash_complete "$1" 2>/dev/null)
}
complete -o nosort -F _kb_completion kb 2>/dev/null || complete -F _kb_completion kb
"""

_ZSH: Final = r"""#compdef kb
_kb_completion() {
    local line before="${(j: :)words[1,CURRENT-1]}"
    local -a answers=("${(@f)$(COMP_LINE="$before $PREFIX" _KB_COMPLETE=zsh_complete ${words[1]} 2>/dev/null)}")
    for line in $answers; do
        case $line in
            word,*) compadd -Q -- "${line#word,}" ;;
            open,*) compadd -Q -S '' -- "${line#open,}" ;;
            file) _files ;;
            dir) _files -/ ;;
        esac
    done
}
compdef _kb_completion kb
"""

_SOURCES: Final = {"bash_source": _BASH, "zsh_source": _ZSH}


def completed(instruction: str, environment: Mapping[str, str] = os.environ) -> str:
    """Returns what kb prints for the *instruction* in `_KB_COMPLETE`: a shell's function, or the words for a line.

    Raises KbError for another instruction.
    """
    if instruction in _SOURCES:
        return _SOURCES[instruction]
    if instruction not in ("bash_complete", "zsh_complete"):
        from kb_messages import KbError

        fix = f'write eval "$({VARIABLE}=bash_source kb)" into ~/.bashrc, or unset {VARIABLE}'
        raise KbError(VARIABLE, repr(instruction), f"one of {', '.join(_SOURCES)}", fix)
    breaks = environment.get("KB_WORDBREAKS", "") if instruction.startswith("bash") else ""
    return "".join(f"{line}\n" for line in _answers(environment.get("COMP_LINE", ""), breaks))


def _answers(line: str, breaks: str) -> Iterator[str]:
    """Yields the answers for *line*. bash replaces the part of the word behind the last letter of *breaks* alone."""
    words, last, is_quoted = typed(line)
    found: list[Candidate] = []
    prefix, kind = "", None
    if names := names_after(words):
        options = ("--help", "--version") if last.startswith("-") else ()
        found = [Candidate(each) for each in (*options, *names) if each.startswith(last)]
    elif asked := wanted(words, last):
        prefix, kind = asked.prefix, asked.value
        found = candidates(asked, last.removeprefix(prefix))
    if kind in (Kind.FILE, Kind.FOLDER) or (is_quoted and kind in _ON_THE_DISK):
        yield "dir" if kind is Kind.FOLDER else "file"
    elif not is_quoted:
        kept = max((last.rfind(each) + 1 for each in breaks if each.isprintable() and each not in " \"'"), default=0)
        one = len(found) == 1
        for each in found:
            word = _UNSAFE.sub(r"\\\g<0>", f"{prefix}{each.word}"[kept:])
            yield f"{'open' if each.goes_on and (one or not breaks) else 'word'},{word}"


_ON_THE_DISK: Final = (Kind.BENCHMARK, Kind.CHIP, Kind.SWEEP, Kind.RUN, Kind.CAPSULE, Kind.SCRIPT)
_UNSAFE: Final = re.compile(r"[^\w@%+=:,./~\[\]-]")
"""Characters that a shell would read in another way."""
