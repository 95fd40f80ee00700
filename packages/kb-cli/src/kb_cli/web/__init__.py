"""`kb web`: a page on this machine that shows runs. Nothing is started, written or deleted through it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kb_cli.web.server import PageServer


def open_page(folder: Path, sweeps: Path, port: int = 0) -> PageServer:
    """Returns a server of the page, which listens from now on and answers while its `serve_forever` runs.

    It shows the runs below *folder* and the sweeps below *sweeps*. Python's own server takes most of the time to load
    this room, and is loaded here. Raises KbError for a *port* that is in use, or that this user may not open; 0 is any
    free one.
    """
    from kb_cli.web.server import PageServer

    return PageServer(folder, sweeps, port)
