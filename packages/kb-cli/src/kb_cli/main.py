"""The command `kb`: imports a subcommand when it is used, and turns errors into exit codes."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any

import click

INTERRUPTED = 130

COMMANDS = {
    "plan": "Count what a tiling moves and computes, without running it.",
    "probe": "Measure a transfer between two nodes: its way, latency, bandwidth, bottleneck.",
    "run": "Run a benchmark on a simulated chip and check its numbers.",
    "topology": "Look at chips described in YAML.",
    "verify": "Check the numbers of a finished run again, from its folder alone.",
}
"""Each command's sentence in `kb --help`. The sentences stand here so that the help imports no command."""


class LazyGroup(click.Group):
    """A group that imports `kb_cli.commands.NAME` when command NAME is used. The module's `command` is the command."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """As in click.Group."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """As in click.Group."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"kb_cli.commands.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As in click.Group. The error for an unknown name suggests the nearest command."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(name, COMMANDS, n=1)
            ctx.fail(f"no command {name!r}; " + (f"did you mean {near[0]!r}?" if near else "see kb --help"))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """As in click.Group, from COMMANDS alone: no command is imported."""
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """As in click.Group. An error that users can act on becomes one sentence and an exit code."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise  # click then ends without a message
            ctx.exit(_refuse(_system_error(error), 2))
        except MemoryError as error:
            ctx.exit(_refuse(f"out of memory ({error})" if str(error) else "out of memory", 2))
        except Exception as error:
            from kb_messages import KbError

            if not isinstance(error, KbError):
                raise
            ctx.exit(_refuse(str(error), error.exit_code))


def _system_error(error: OSError) -> str:
    """The sentence for *error*. A failed write does not say whether it was to standard output or to a file."""
    where = error.filename or "input or output"
    return f"{where}: got an error of the system ({error.strerror or error}), needs a file or stream that can be used"


def _refuse(text: str, exit_code: int) -> int:
    click.echo(f"error: {text}", err=True)
    return exit_code


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 ok, 1 verification failed, 2 bad input, 3 the simulation is stuck, 130 interrupted.",
)
@click.version_option(package_name="kb-cli", prog_name="kb", message="%(prog)s %(version)s")
def kb() -> None:
    """Run accelerator kernels on simulated chips: where every nanosecond went, and whether the numbers are right."""


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line *args* (default: the process's) and exit."""
    try:
        kb.main(args=None if args is None else list(args), prog_name="kb")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except OSError as error:  # from --help and --version, which invoke no command
        sys.exit(_refuse(_system_error(error), 2))
