"""The command that runs a finished run again and keeps its op log. It is shown, and never run."""

from __future__ import annotations

import shlex
from pathlib import Path

from msgspec import UnsetType

from kb_cli.benchmark import bundled
from kb_cli.benchmark.run_records import CheckMode
from kb_cli.run.base.files import TOPOLOGY, RunFolderError
from kb_cli.run.records.run_json import RunJson
from kb_cli.terminal.units import value_text
from kb_dataexec.files import file_in, read_bytes
from kb_messages import KbError


def repeat_command(folder: Path, run: RunJson) -> str:
    """Returns the line that repeats *run*, the run in *folder*, and keeps its log: a command, or a call of Python.

    A benchmark that does not come with kb is named by its file alone, because a folder does not say where it was.
    """
    if run.call is not None:
        return f'kernbench.run({run.call.kernel}, ..., folder="kb-runs", keep="all")'
    if run.script is not None:
        options = [word for name, value in run.script.options.items() for word in _option(name, value)]
        script = [run.script.path, *run.script.arguments]
        return shlex.join(["kb", "exec", *options, "--keep", "all", *_out_words(folder.parent), *script])
    words = [*_benchmark_words(run), *_topology_words(folder, run), "--keep", "all", *_out_words(folder)]
    return shlex.join(["kb", "run", *words])


def _out_words(folder: Path) -> list[str]:
    """Returns the option that puts a run beside *folder*; none where that is the default place."""
    out = folder.absolute().parent
    return [] if out == Path("kb-runs").absolute() else ["--out", str(out)]


def _option(name: str, value: object) -> list[str]:
    """Returns an option of `kb exec`: a flag for true, and a name with its value otherwise."""
    flag = "no-templates" if name == "templates" else name
    return [f"--{flag}"] if isinstance(value, bool) else [f"--{flag}", str(value)]


def _benchmark_words(run: RunJson) -> list[str]:
    name, file = run.benchmark.name, run.benchmark.file
    is_workload = not isinstance(run.results.workload_ops, UnsetType) and file == f"{name}.py"
    words = [Path(file).stem if is_workload or bundled.benchmark(file) is not None else file]
    words += [word for name, value in run.params.items() for word in ("-p", f"{name}={value_text(value)}")]
    words += ["--seed", str(run.seed)] if run.seed else []
    words += [] if run.flags.check is CheckMode.AUTO else ["--verify", run.flags.check]
    return words if run.flags.verify else [*words, "--no-verify"]


def _topology_words(folder: Path, run: RunJson) -> list[str]:
    """Returns the option for the chip: by name where the chip comes with kb, else by the file in *folder*."""
    try:
        own = read_bytes(bundled.find("topologies", run.topology.name), RunFolderError)
        if own == read_bytes(file_in(folder, TOPOLOGY, RunFolderError), RunFolderError):
            return ["--topology", run.topology.name]
    except KbError:  # no bundled chip of that name
        pass
    return ["--topology", str(folder / TOPOLOGY)]
