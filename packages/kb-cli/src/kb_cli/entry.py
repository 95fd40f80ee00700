"""The first module of the program `kb`. Until the others are imported, Ctrl-C ends the program without a traceback."""

from __future__ import annotations

import signal


def main() -> None:
    """Runs the command line of the process and exits. A program in the background goes on ignoring Ctrl-C."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from kb_cli.main import main as run

    signal.signal(signal.SIGINT, before)
    run()
