"""The command line: parses arguments, runs a command, and prints an error as one sentence without a traceback."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from kb_dataexec.backends import BACKENDS
from kb_dataexec.cli.output import refuse
from kb_messages import KbError

INTERRUPTED = 130
FAILED_ITSELF = 4
_LOG = "the folder of a log, or its lines, .jsonl; of one that was cut off too"
_CODES = "Exit codes: 0 ok or the same, 1 wrong, different or hazardous, 2 bad input, 4 a bug, 130 interrupted."


def main(args: Sequence[str] | None = None) -> int:
    """Runs the command line *args* (default: the arguments of the process). Returns the exit code."""
    if sys.stdout is None or sys.stdout.closed:
        return _refuse("standard output: got a closed stream, needs an open one", 2)
    options = command_line().parse_args(args)
    try:
        code = _run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except KbError as error:
        return _refuse(str(error), error.exit_code)
    except OSError as error:
        _drop_output()
        return _refuse(_of_the_system(error, options), 2)
    except MemoryError as error:
        return _refuse(f"out of memory ({error})" if str(error) else "out of memory", 2)
    except Exception as error:  # noqa: BLE001 -- the last resort: no traceback without a word on what to do
        return _bug(error)
    return code


def _drop_output() -> None:
    """Drops the buffer of stdout. The stream has failed, and the flush at exit must not fail again."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _of_the_system(error: OSError, options: argparse.Namespace) -> str:
    """The sentence for *error*. A failed write does not name its file, so the folders of the command are named."""
    folders = [str(options.__dict__[name]) for name in ("out", "save") if options.__dict__.get(name)]
    where = error.filename or " or ".join(folders) or "standard output"
    return f"{where}: got an error of the system ({error.strerror or error}), needs a file or folder that can be used"


def _bug(error: Exception) -> int:
    if os.environ.get("KB_DEBUG") == "1":
        traceback.print_exception(error)
    at = traceback.extract_tb(error.__traceback__)[-1]
    got = f"{type(error).__name__} ({str(error)[:200]}) at {Path(at.filename).name}:{at.lineno}"
    fix = "this is a bug of kb-dataexec: report this line, the command and its files; KB_DEBUG=1 shows the traceback"
    return _refuse(f"kb-dataexec {version('kb-dataexec')}: got {got}, needs a mend; {fix}", FAILED_ITSELF)


def _run(options: argparse.Namespace) -> int:
    if options.command == "run":
        from kb_dataexec.cli.run import run

        return run(options)
    if options.command == "info":
        from kb_dataexec.cli.info import info

        return info(options)
    if options.command == "diff":
        from kb_dataexec.cli.diff import diff

        return diff(options)
    if options.command == "sanitize":
        from kb_dataexec.cli.sanitize import sanitize_log

        return sanitize_log(options)
    if options.command == "convert":
        from kb_dataexec.cli.convert import convert

        return convert(options)
    from kb_dataexec.cli.export import export

    return export(options)


def _refuse(text: str, exit_code: int) -> int:
    refuse(text)
    return exit_code


def command_line() -> argparse.ArgumentParser:
    """Returns the parser of the command line, whose subcommands and options README.md lists."""
    parser = argparse.ArgumentParser(
        prog="kb-dataexec", description="Execute and look at op logs of a simulator.", epilog=_CODES
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_run(commands.add_parser("run", help="execute a log; write its outputs or compare them", epilog=_CODES))
    info = commands.add_parser("info", help="count the contents of a log, and check its digest", epilog=_CODES)
    info.add_argument("log", type=Path, metavar="LOG", help=_LOG)
    diff = commands.add_parser("diff", help="the first record in which two logs differ, and how many", epilog=_CODES)
    diff.add_argument("a", type=Path, metavar="A", help=_LOG)
    diff.add_argument("b", type=Path, metavar="B", help="another")
    diff.add_argument("--ignore-times", action="store_true", help="leave out all times")
    sanitize = commands.add_parser("sanitize", help="missing waits, and races between PEs, by time", epilog=_CODES)
    sanitize.add_argument("log", type=Path, metavar="LOG", help=_LOG)
    window = "a launch from START to END ps, as often as needed; PEs are in order between two, in none within one"
    sanitize.add_argument("--launch", action="append", default=[], metavar="START:END", help=window)
    export = commands.add_parser("export", help="write a log as Parquet files, for SQL", epilog=_CODES)
    export.add_argument("log", type=Path, metavar="LOG", help=_LOG)
    export.add_argument("out", type=Path, metavar="OUT", help="a new or empty folder")
    convert = commands.add_parser("convert", help="write a log that is lines of JSON as a folder", epilog=_CODES)
    convert.add_argument("log", type=Path, metavar="LOG.jsonl", help="a file, one op a line")
    convert.add_argument("out", type=Path, metavar="OUT", help="a new or empty folder")
    convert.add_argument("--prefix", action="store_true", help="leave a torn last line out; the folder says so")
    for command in (info, diff, sanitize, export, convert):
        command.add_argument("--json", action="store_true", help="print one JSON object, nothing else")
    return parser


def _positive(text: str) -> int:
    if not (text.isdecimal() and len(text) < 19 and int(text) > 0):
        raise argparse.ArgumentTypeError(f"got {text[:80]!r}, needs a number of terms, 1 or more")
    return int(text)


def _add_run(run: argparse.ArgumentParser) -> None:
    run.add_argument("log", type=Path, metavar="LOG", help="the folder of a log, or its lines, .jsonl")
    run.add_argument(
        "--memory", type=Path, metavar="FOLDER", help="the initial memory, as it is saved; left out, empty"
    )
    run.add_argument(
        "--input", action="append", default=[], metavar="ADDRESS[:DTYPE]=FILE.npy", help="bytes in it, too"
    )
    place = "NAME=ADDRESS:ROWSxCOLS:DTYPE[:STRIDE]"
    run.add_argument("--output", action="append", default=[], metavar=place, help="a matrix to look at after the run")
    run.add_argument("--reference", action="append", default=[], metavar="NAME=FILE.npy", help="its expected values")
    run.add_argument("--allowed", action="append", default=[], metavar="NAME=FILE.npy", help="how far it may be off")
    run.add_argument(
        "--length", type=_positive, metavar="K", help="terms of a sum, where no --allowed is given; from the log"
    )
    run.add_argument("--out", type=Path, metavar="FOLDER", help="write every output to FOLDER/NAME.npy")
    run.add_argument("--save", type=Path, metavar="FOLDER", help="save the memory after the run")
    run.add_argument("--prefix", action="store_true", help="execute a log that was cut off as far as it goes")
    run.add_argument("--mode", choices=("fused", "tile"), default="fused", help="tile: one record at a time")
    run.add_argument("--debug", action="store_true", help="hold every op against float64; stop at the first wrong one")
    run.add_argument("--backend", choices=BACKENDS, default="numpy", help="library for products and functions")
    run.add_argument("--device", default="cpu", metavar="DEVICE", help="where it computes: cpu, cuda, cuda:1")
    run.add_argument("--json", action="store_true", help="print one JSON object, nothing else")
