"""Models from a Python program: `names`, `model` and `run`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import kernbench
from kb_messages import BenchmarkError
from kb_models.find import model_source, source_of
from kb_models.find import names as names
from kb_topology import did_you_mean, listing

if TYPE_CHECKING:
    from kb_models.workload import OpsWorkload

Given = str | os.PathLike[str] | Mapping[str, Any]
"""The name of a bundled model, the path of a `config.json` or of another network, or the content of a `config.json`."""


def model(given: Given, name: str = "model") -> type[OpsWorkload]:
    """The workload of *given* as a class, which `kernbench.run` takes. A content is called *name* in reports.

    Raises BenchmarkError for an unknown name, for a file that is no network, and for a configuration that no builder
    takes.
    """
    if isinstance(given, Mapping):
        path, source = Path(f"{name}.py").resolve(), model_source(name, dict(given))
    else:
        path, source = _found(os.fspath(given))
    module = ModuleType(f"kb_models_{path.stem}")
    module.__file__ = str(path)
    vars(module)["__source__"] = source
    sys.modules[module.__name__] = module  # msgspec looks up the types of Params by their module's name
    exec(compile(source, str(path), "exec", dont_inherit=True), vars(module))
    found = (each for each in vars(module).values() if isinstance(each, type) and each.__module__ == module.__name__)
    made: type[OpsWorkload] = next(each for each in found if hasattr(each, "Params"))
    return made


def run(given: Given, *, chip: kernbench.Topology | str = "one_sip", **named: Any) -> kernbench.KernelRun:
    """Runs *given*, a model or another network, on *chip*: `kernbench.run` of its workload.

    *named* are parameters, such as `phase="decode", batch=8`, and options of `kernbench.run`, such as `folder` and
    `verify`. Raises the errors of `model` and of `kernbench.run`.
    """
    return kernbench.run(model(given), chip=chip, **named)


def _found(text: str) -> tuple[Path, bytes]:
    found = source_of(text)
    if found is None:
        known = names()
        needs = f"one of {listing(known)}, or the file of a network"
        raise BenchmarkError(f"model {text!r}", "an unknown name", needs, did_you_mean(text, known))
    return found
