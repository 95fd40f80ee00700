"""The command `kb`: imports a subcommand when it is used, and turns errors into exit codes."""

from __future__ import annotations

import errno
import importlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

import click

from kb_cli.terminal.dropped_signals import raised_again
from kb_cli.terminal.escape import bounded
from kb_cli.terminal.streams import drop_output, say

BAD_INPUT, FAILURE, INTERRUPTED, TERMINATED = 2, 4, 130, 143
"""Exit codes, beside 1 of a command that verified something wrong, and the exit codes of KbErrors. README.md lists
them."""
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Errors for no room on the disk, none in the user's share of it, or a file beyond the limit on the size of files."""

COMMANDS = {
    "compare": "Compare two runs: their configurations, and where their time went.",
    "exec": "Run a Python script whose Triton kernels run on a simulated chip.",
    "list": "List the bundled benchmarks and topologies.",
    "new": "Write a small working benchmark to start from.",
    "pack": "Write a finished run as one file that repeats the run anywhere.",
    "plan": "Count the work of a tiling, or the time of a collective, without running it.",
    "probe": "Measure a transfer between two nodes: its way, latency, bandwidth, bottleneck.",
    "replay": "Repeat the run of a file that kb pack wrote: is it the same run?",
    "report": "Say where the time of a finished run went, on the terminal or as one HTML file.",
    "run": "Run a benchmark on a simulated chip and check its numbers.",
    "runs": "List finished runs, and remove old ones.",
    "show": "Show the values that a kernel captured, and compare them.",
    "sweep": "Simulate many points of a benchmark and a chip: table, Pareto front, sensitivity.",
    "topology": "Look at chips described in YAML.",
    "trace": "Write a finished run as a Perfetto trace: every block over time.",
    "verify": "Check the numbers of a finished run again, from its folder alone.",
    "web": "Show runs on a page in the browser: progress, where the time went, every block over time.",
    "whatif": "Repeat a finished run on its chip with other values, and measure the gain.",
}
"""Each command's sentence in `kb --help`. The sentences stand here so that the help imports no command."""
_OF_FINISHED_RUNS = {"compare", "pack", "replay", "report", "runs", "show", "trace", "verify", "whatif"}


def command_module(name: str) -> str:
    """Returns the name of the module of the command *name*."""
    return f"kb_cli.commands.{'finished_runs.' if name in _OF_FINISHED_RUNS else ''}{name}"


class LazyGroup(click.Group):
    """A group that imports the module of a command when the command is used. The module's `command` is the command."""

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Makes the context. Help and version are printed here, and their reader may have closed the pipe."""
        try:
            return super().make_context(*args, **extra)
        except BrokenPipeError:
            drop_output()
            raise click.exceptions.Exit(0) from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the names of all commands, sorted."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the command *cmd_name*; None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(command_module(cmd_name)).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolves the command. The error for an unknown name suggests the nearest command."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            from kb_topology import did_you_mean

            ctx.fail(f"no command {name!r}; {did_you_mean(name, COMMANDS) or 'see kb --help'}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the list of commands from COMMANDS alone: no command is imported."""
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Invokes the command. An error that users can act on becomes one sentence and an exit code."""
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.ClickException, click.Abort):
            raise
        except BaseException as error:  # noqa: BLE001 -- every end has an exit code
            ctx.exit(_end(error, ctx.obj or ()))


class Terminated(KeyboardInterrupt):
    """Raised by SIGTERM. Like an interrupt, it passes through the code of authors, and folders in the making are
    deleted.
    """


def _end(error: BaseException, arguments: Sequence[str]) -> int:
    """Prints the sentence on *error*, with which `kb *arguments*` ended, and returns the exit code."""
    if _signals:  # whatever the signal made of an import or of a library
        return TERMINATED
    if isinstance(error, (KeyboardInterrupt, click.Abort)) or isinstance(error.__cause__, KeyboardInterrupt):
        if notes := getattr(error, "__notes__", []):
            say("\n  ".join(notes), "interrupted")
        return INTERRUPTED
    if _reader_is_gone(error):
        drop_output()
        return 0
    sentence, code = _sentence(error), getattr(error, "exit_code", BAD_INPUT)
    if sentence is None:
        from kb_cli.terminal.failure import failure_text

        sentence, code = failure_text(error, arguments), FAILURE
    say("\n  ".join((sentence, *getattr(error, "__notes__", []))))
    return code


def _reader_is_gone(error: BaseException) -> bool:
    """Whether the reader of standard output has closed the pipe, as `kb --help | head` does.

    Writing to a file names the file, so an error without a name is about a standard stream.
    """
    return isinstance(error, BrokenPipeError) and error.filename is None


def _sentence(error: BaseException) -> str | None:
    """Returns the sentence for an *error* that users can act on; None for a failure of kb."""
    if isinstance(error, OSError):
        return _system_error(error)
    if isinstance(error, MemoryError):
        text = f"out of memory ({error})" if str(error) else "out of memory"
        return f"kb: got {text}, needs a smaller problem or a machine with more"
    if isinstance(error, RecursionError):
        return "kb: got input that is nested too deeply, needs less nesting"
    from kb_messages import KbError

    return str(error) if isinstance(error, KbError) else None


def _system_error(error: OSError) -> str:
    """Returns the sentence for *error*. A failed write does not say whether it was to standard output or to a file."""
    where = error.filename or "input or output"
    said = error.strerror or error
    if error.errno in _FULL:
        return f"{where}: got a full disk ({said}), needs room to write; make room, or name a folder on another disk"
    return f"{where}: got an error of the system ({said}), needs a file or stream that can be used"


_signals: list[int] = []
"""Signals that asked this process to end."""


def _on_sigterm(number: int, frame: object) -> NoReturn:
    _signals.append(number)
    raise Terminated


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 ok, 1 verification failed, 2 bad input, 3 the simulation is stuck, 4 kb itself failed (a "
    "bug), 130 interrupted, 143 terminated.",
)
@click.version_option(package_name="kb-cli", prog_name="kb", message="%(prog)s %(version)s")
def kb() -> None:
    """Run accelerator kernels on simulated chips: where every nanosecond went, and whether the numbers are right."""


def main(args: Sequence[str] | None = None) -> None:
    """Runs the command line *args* (default: the process's) and exits."""
    arguments = list(sys.argv[1:] if args is None else args)
    if instruction := os.environ.get("_KB_COMPLETE"):
        sys.exit(_complete(instruction))
    _signals.clear()
    before = _set_sigterm(_on_sigterm)
    try:
        with raised_again({Terminated: signal.SIGTERM, KeyboardInterrupt: signal.SIGINT}):
            code = kb.main(arguments, prog_name="kb", standalone_mode=False, obj=arguments)
    except click.ClickException as error:
        written = io.StringIO()
        error.show(written)
        with suppress(OSError, ValueError, AttributeError):  # a stream that is closed, or none
            sys.stderr.write(bounded(written.getvalue()))
        code = error.exit_code
    except BaseException as error:  # noqa: BLE001 -- from --help and --version, which invoke no command
        drop_output()
        code = _end(error, arguments)
    finally:
        _set_sigterm(before)
    sys.exit(TERMINATED if _signals else code)


def _complete(instruction: str) -> int:
    """Prints the answer to a shell that completes a command line, and returns the exit code."""
    from kb_cli.completion import completed

    try:
        sys.stdout.buffer.write(os.fsencode(completed(instruction)))
        sys.stdout.flush()
    except BaseException as error:  # noqa: BLE001 -- a shell gets no traceback
        return _end(error, ["(completion)"])
    return 0


def _set_sigterm(handler: Any) -> Any:
    """Sets the handler of SIGTERM, and returns the earlier one. Only the main thread can."""
    try:
        return signal.signal(signal.SIGTERM, signal.SIG_DFL if handler is None else handler)
    except ValueError:
        return None
