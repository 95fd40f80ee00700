"""The commands that the pages of the repository show, in order."""

from __future__ import annotations

import re

from site_places import ROOT, pages

_BLOCK = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PLAIN = re.compile(r"^    ((?:\.venv/bin/)?kb(?:-dataexec)? .+)$", re.MULTILINE)
_WITHOUT = ("CHANGELOG", "docs/design/", "benchmarks/")
"""Pages whose commands are not those of a reader who follows them; scripts of benchmarks have sessions of their own."""
_COMMENT = re.compile(r" +# .*$")


def shown_commands() -> dict[str, list[str]]:
    """By page, the lines of its blocks of bash, and its indented lines that call kb."""
    found = {}
    for name in pages():
        if not any(part in name for part in _WITHOUT):
            text = (ROOT / name).read_text(encoding="utf-8")
            matches = sorted((*_BLOCK.finditer(text), *_PLAIN.finditer(text)), key=lambda match: match.start())
            lines = [_COMMENT.sub("", line) for match in matches for line in match[1].splitlines() if line.strip()]
            if lines:
                found[name] = lines
    return found


def files_of(name: str) -> dict[str, str]:
    """The programs and tables that the page *name* shows under the name of a file: `` This is `add.py` ``."""
    text = (ROOT / name).read_text(encoding="utf-8")
    shown = re.findall(r"This is `([\w.-]+)`[^\n]*\n\n```\w+\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return dict(shown)
