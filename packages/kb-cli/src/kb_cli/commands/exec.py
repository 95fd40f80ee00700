"""`kb exec`: runs a user's script whose Triton kernels run on a simulated chip."""

from __future__ import annotations

import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path

import click

from kb_cli.report.elements.shared_tables import sim_stats_tables
from kb_cli.report.tables.script_tables import script_tables
from kb_cli.run.base.result import Policy
from kb_cli.run.simulation.sanitizer import found_something
from kb_cli.script.script_run import ScriptRun
from kb_cli.terminal.checked_command import CheckedCommand
from kb_cli.terminal.limit_options import limit_options
from kb_cli.terminal.output import emit_json, emit_tables


@click.command(
    "exec", cls=CheckedCommand, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
@click.option("--topology", metavar="CHIP", help="A bundled chip or a YAML file.  [default: KB_TOPOLOGY, or one_cube]")
@click.option(
    "--issue",
    type=click.Choice(["blocking", "scoreboard", "decoupled"]),
    help="How PE_CPUs issue commands.  [default: as the chip's file says]",
)
@click.option("--schedule", type=click.Choice(["dynamic", "static"]), help="Which PE takes which program of a grid.")
@click.option("--autotune", metavar="all|first|N", help="How many configurations a tuned kernel tries.  [default: all]")
@click.option("--transfers", is_flag=True, help="Charge the way of arrays to the chip and back.")
@click.option(
    "--no-templates", is_flag=True, help="Run the kernel of every program of a grid, where a template gives the same."
)
@click.option("--lenient", is_flag=True, help="Run kernels that Triton's compiler refuses.")
@click.option(
    "--sanitize/--no-sanitize",
    default=None,
    help="Look in each launch for races of programs, missing waits, leaks of TCM, wrapped indices; --no-sanitize looks "
    "for nothing.  [default: races alone, where that costs little]",
)
@click.option("--pretend", type=click.Choice(["cuda"]), help="Answer host code as a CUDA device would.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("kb-runs"), show_default=True, help="Where run folders go."
)
@click.option(
    "--keep",
    "policy",
    type=click.Choice([each.value for each in Policy]),
    default="auto",
    show_default=True,
    help="Memory and log in the run folder: auto keeps up to 256 MiB of each a launch, 1 GiB of each over all.",
)
@click.option(
    "--sim-stats",
    "show_stats",
    is_flag=True,
    help="Also list how many commands were isolated, skipped or on the slow path (event by event), and why.",
)
@limit_options
@click.option("--json", "as_json", is_flag=True, help="Print one object, nothing else.")
def command(
    script: Path,
    arguments: tuple[str, ...],
    topology: str | None,
    issue: str | None,
    schedule: str | None,
    autotune: str | None,
    transfers: bool,
    no_templates: bool,
    lenient: bool,
    sanitize: bool | None,
    pretend: str | None,
    out: Path,
    policy: str,
    show_stats: bool,
    as_json: bool,
) -> None:
    """Run SCRIPT, a Python file with Triton kernels, as Python would, on a simulated chip.

    SCRIPT needs no change: `import triton` finds kernbench's. OPTIONS stand before SCRIPT; all words behind SCRIPT are
    its own ARGS. The exit code is the exit code of SCRIPT, 2 for bad input, and 3 for programs that wait for ever. It
    is 1 for a SCRIPT that ended with 0, when a race was found, or something else that --sanitize looks for. Each
    launch has a row in the run folder, which `kb report`, `whatif`, `compare` and `trace` take as RUN/0000.
    """
    named = {"topology": topology, "issue": issue, "schedule": schedule, "autotune": autotune, "pretend": pretend}
    flags = {"transfers": transfers or None, "templates": False if no_templates else None, "lenient": lenient or None}
    options = {name: value for name, value in {**named, **flags}.items() if value is not None}
    with redirect_stdout(sys.stderr) if as_json else nullcontext():  # the script's own prints must not mix with JSON
        running = ScriptRun(script, arguments, options, out, Policy(policy), sanitize)
        result = running.run()
    if as_json:
        emit_json(result)
    else:
        emit_tables(*script_tables(result), *(["", *sim_stats_tables(result.simulated)] if show_stats else []))
    if running.error is not None:
        raise running.error
    failed = any(found_something(each.sanitizer) or found_something(each.races) for each in result.launches)
    click.get_current_context().exit(result.exit_code or int(failed))
