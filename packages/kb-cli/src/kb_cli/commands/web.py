"""`kb web`: shows runs on a page in the browser."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from kb_cli.terminal.checked_command import CheckedCommand
from kb_cli.terminal.output import emit_lines
from kb_cli.web import open_page
from kb_messages import KbError


@click.command("web", cls=CheckedCommand)
@click.argument("folder", type=click.Path(path_type=Path), default=Path("kb-runs"))
@click.option(
    "--sweeps", type=click.Path(path_type=Path), default=Path("kb-sweeps"), show_default=True, help="Where sweeps are."
)
@click.option(
    "--port", type=click.IntRange(0, 65535), metavar="N", default=0, help="The port of the page.  [default: a free one]"
)
@click.option("--no-open", is_flag=True, help="Print the address, and open no browser.")
@click.pass_context
def command(context: click.Context, folder: Path, sweeps: Path, port: int, no_open: bool) -> None:
    """Show the runs in FOLDER (kb-runs), and sweeps, on a page in the browser, until you press Ctrl+C.

    The page shows current and finished runs, where the time went, every block over time, why a tile waited, the source
    with its costs, the chip, the roofline, differences of runs, and the results of sweeps. Only this machine can reach
    it, and only with the address that is printed. The page starts, writes and deletes nothing, and runs no code of a
    run.
    """
    named = {name for name in context.params if context.get_parameter_source(name) is not ParameterSource.DEFAULT}
    _check(folder, "run folders", "kb run makes kb-runs", "folder" not in named and sweeps.is_dir())
    _check(sweeps, "sweeps", "kb sweep makes kb-sweeps", "sweeps" not in named)
    with open_page(folder, sweeps, port) as server:
        emit_lines([f"{folder}: {server.gate.opening} until you press Ctrl+C"])
        server.load_ahead()
        if not no_open:
            import webbrowser  # for a browser alone

            webbrowser.open(server.gate.opening)
        server.serve_forever()


def _check(place: Path, content: str, fix: str, may_be_missing: bool) -> None:
    """Raises KbError unless *place* is a folder, or *may_be_missing* and is not there."""
    if not place.is_dir() and not (may_be_missing and not place.exists()):
        got = "a file" if place.exists() else "no such folder"
        raise KbError(str(place), got, f"a folder of {content}", fix)
