"""ScriptBenchmark: one launch of a user's script as a benchmark, so that it can be run again on another chip."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from kb_cli.benchmark.script_front_end import script_front_end
from kb_cli.benchmark.script_record import RecordedScript
from kb_engine import Arrays, Benchmark, Host, Tensor
from kb_messages import BenchmarkError, read_bytes

_MOST_NBYTES = 16 << 20
"""Of a script. Source: assumed."""


class ScriptBenchmark(Benchmark[Any]):
    """The launch that *record* describes. Its parameters are *shown*, the arguments of the kernel as reports show them.

    Its data are those of the script, which judges them itself: there is no reference.
    """

    def __init__(self, record: RecordedScript, shown: Mapping[str, object]) -> None:
        self.Params = msgspec.defstruct("Arguments", [(name, Any) for name in shown], kw_only=True)  # type: ignore[misc]
        self.arguments = self.Params(**shown)
        self._record = record

    def inputs(self, p: Any, rng: np.random.Generator) -> Arrays:
        """None: the script makes them."""
        return {}

    def launch(self, host: Host, p: Any, tensors: Arrays) -> dict[str, Tensor]:
        """Run the script up to the launch, on *host*. Raises BenchmarkError for a script that has changed."""
        record, path = self._record, Path(self._record.path)
        if hashlib.sha256(read_bytes(path, BenchmarkError, _MOST_NBYTES)).hexdigest() != record.sha256:
            raise BenchmarkError(str(path), "another script than that of the run", "the same one", "run it again")
        script_front_end(record.front_end).repeat(host, record.launch, path, record.arguments, record.options)
        return {}

    def reference(self, p: Any, inputs: Arrays) -> Arrays:
        """None."""
        return {}

    def flops(self, p: Any) -> int:
        """0: a script does not say."""
        return 0
