"""The files of the page, which come with the package. They are read once, so that a request names none on the disk."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from kb_cli.web.answer import WebAnswer

_KINDS: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def page_files() -> dict[str, WebAnswer]:
    """Every file of the page by its path in the address. `/` is the page itself."""
    found = {}
    for file in files("kb_cli.web").joinpath("page").iterdir():
        ending = f".{file.name.rpartition('.')[2]}"
        if ending in _KINDS:
            found[f"/{file.name}"] = WebAnswer(file.read_bytes(), _KINDS[ending])
    found["/"] = found.pop("/index.html")
    return found
