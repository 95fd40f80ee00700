"""`kb new`: writes a small working benchmark to start from."""

from __future__ import annotations

from pathlib import Path

import click

from kb_cli.benchmark.template import write_benchmark
from kb_cli.terminal.checked_command import CheckedCommand
from kb_cli.terminal.output import emit_json, emit_lines
from kb_cli.terminal.output_file import check_folder


@click.command("new", cls=CheckedCommand)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one object, nothing else.")
def command(file: Path, as_json: bool) -> None:
    """Write a small benchmark with a kernel, inputs and a reference to FILE, a new Python file."""
    check_folder("FILE", file)
    write_benchmark(file)
    run = f"kb run {file if file.is_absolute() or len(file.parts) > 1 else f'./{file}'}"
    if as_json:
        emit_json({"file": str(file), "run": run})
    else:
        emit_lines([f"wrote {file}; run it with: {run}"])
