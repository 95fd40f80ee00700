"""Runs a random program under every way of issue, and checks all that must hold of it."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml
from language_kernel import kernel
from language_programs import Case
from language_steps import ATOMICS, COUNTS, SIDE
from language_values import Value, binary, integers

from kb_dataexec import Executor, MemoryLogWriter, OpLog, sanitize
from kb_engine import Engine, Host, Tensor, read_tensor
from kb_engine.observe import Observer
from kb_messages import DType, KernelError
from kb_topology import loads_topology

ROOT = Path(__file__).parents[2]
for folder in (ROOT / "benchmarks" / "validation", ROOT / "tests_integration" / "attribution"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

import random_chips  # noqa: E402
from attribution_laws import check_laws  # noqa: E402

SMALL_REGISTER_FILES = "768 B", "1 KiB", "1536 B", "2 KiB"
"""Sizes that hold a row of few values at a time: math works in pieces of rows, and products in small tiles."""
SMALL_TCM_EVERY, ROOMS_IN_SMALL_TCM = 3, (1, 1.5, 2, 3, 4, 8)
"""Every so many seeds also run with the smallest TCM they fit, so that bytes are taken again soon: room for so many
times what their values took at a time. Often it is more than once, because room in pieces is none for a value."""
OUTPUTS = ("y", "z", "counts")
ISSUES = ("blocking", "scoreboard", "decoupled")


class TcmWatch(Observer):
    """The TCM that programs hold when their kernels have returned, and the most bytes that a PE held at a time."""

    def __init__(self) -> None:
        self.held: list[int] = []
        self.peak_nbytes = 0
        self._live: dict[str, dict[int, int]] = {}

    def on_allocate(self, pe_id: str, address: int, nbytes: int, line: str) -> None:
        live = self._live.setdefault(pe_id, {})
        live[address] = nbytes
        self.peak_nbytes = max(self.peak_nbytes, sum(live.values()))

    def on_free(self, pe_id: str, address: int) -> None:
        del self._live[pe_id][address]

    def on_program_end(self, pe_id: str, held: Sequence[int]) -> None:
        self.held += held
        for address in held:
            del self._live[pe_id][address]


class Run(NamedTuple):
    """The log, the bytes that each mode of pass 2 leaves, what the programs looked at, and the TCM that they held.

    `digest` is that of the log without templates, and `repeats` is how many programs were repeated with them.
    """

    log: OpLog
    digest: str
    repeats: int
    outputs: dict[str, dict[str, np.ndarray]]
    seen: dict[int, list[Any]]
    tcm: TcmWatch


def chip_of(seed: int, issue: str) -> dict[str, Any]:
    """The chip of *seed*, as YAML would have it: one_cube, or a small random one."""
    rng = random.Random(seed)
    if rng.random() < 0.4:
        spec = yaml.safe_load((ROOT / "topologies/one_cube.yaml").read_text(encoding="utf-8"))
    else:
        spec = random_chips.draw(seed, 4).spec
        if spec["cube"]["nodes"]["hbm"]["count"] == 2 and rng.random() < 0.5:
            spec["hbm_interleave_nbytes"] = 256
    nodes = spec["cube"]["pe_template"]["nodes"]
    nodes["pe_cpu"]["issue"] = issue
    nodes["pe_dma"]["outstanding"] = rng.choice((1, 2, 4, 8))
    if rng.random() < 0.4:
        nodes["pe_fetch_store"]["memory"]["size"] = rng.choice(SMALL_REGISTER_FILES)
    assert isinstance(spec, dict)
    return spec


class Simulated(NamedTuple):
    """The log of a launch on `engine` with `tensors`, what the programs looked at, and the TCM that they held."""

    engine: Engine
    log: OpLog
    tensors: dict[str, Tensor]
    seen: dict[int, list[Any]]
    tcm: TcmWatch


@contextmanager
def counted(repeats: list[int]) -> Iterator[None]:
    """Take every kernel for one that can be repeated, and count the programs that were."""
    from kb_engine.fastforward.replay import template, templates

    repeat, suits = template.Template.repeat, templates.impurity_of

    def noted(self: Any) -> Any:
        repeats.append(1)
        return partial(repeat, self)

    template.Template.repeat = property(noted)  # type: ignore[assignment, method-assign]
    templates.impurity_of = lambda *_: None  # type: ignore[assignment]
    try:
        yield
    finally:
        template.Template.repeat, templates.impurity_of = repeat, suits  # type: ignore[method-assign]


def simulate(case: Case, issue: str, tcm_nbytes: int | None = None, with_templates: bool = True) -> Simulated:
    """Pass 1 of *case* with *issue* on the chip of its seed. *tcm_nbytes* is the TCM for values, if stated."""
    rng = random.Random(case.seed)
    watch, chip = TcmWatch(), chip_of(case.seed, issue)
    if tcm_nbytes is not None:
        nodes = chip["cube"]["pe_template"]["nodes"]
        buffers = nodes["pe_scheduler"]["input_kib"] + nodes["pe_scheduler"]["output_kib"]
        nodes["pe_tcm"]["memory"]["size"] = f"{buffers + -(-tcm_nbytes // 1024)} KiB"
    topology = loads_topology(yaml.safe_dump(chip, sort_keys=False), "random.yaml")
    engine = Engine(topology, MemoryLogWriter(), observers=[watch], templates=with_templates)
    host = Host(engine, Path(__file__).parent)
    floats, ints = dict.fromkeys("fy", case.float_dtype), dict.fromkeys("nz", case.int_dtype)
    types = {**floats, **ints, "ids": DType.I32, "counts": DType.I32}
    tensors = {name: host.tensor(name, array, types[name]) for name, array in case.inputs.items()}
    seen: dict[int, list[Any]] = {}
    programs, kept = len(case.models), None if case.is_repeated else seen
    pes = range(rng.randint(1, min(programs // (2 if case.is_repeated else 1), host.num_pes)))
    grid = None if programs == len(pes) and rng.random() < 0.3 else programs
    how = "dynamic" if grid is None else rng.choice(("dynamic", "static"))
    host.launch(kernel, *tensors.values(), case.steps, kept, pes=pes, grid=grid, schedule=how)
    log = engine.close_log()
    assert isinstance(log, OpLog)
    return Simulated(engine, log, tensors, seen, watch)


def run(case: Case, issue: str, tcm_nbytes: int | None = None) -> Run:
    """Pass 1 of *case* with and without templates, and pass 2 in both modes."""
    repeats = list[int]()
    with counted(repeats) if case.is_repeated else nullcontext():
        engine, log, tensors, seen, tcm = simulate(case, issue, tcm_nbytes)
    plain = simulate(case, issue, tcm_nbytes, with_templates=False)
    assert engine.initial_memory is not None
    outputs = {}
    for mode in ("tile", "fused"):
        after = Executor(log, engine.initial_memory, mode, fuse_from=2).run()  # type: ignore[arg-type]
        outputs[mode] = {name: np.array(read_tensor(after, tensors[name])) for name in OUTPUTS}
    return Run(log, plain.log.digest, len(repeats), outputs, seen, tcm)


def run_in_small_tcm(case: Case, issue: str, peak_nbytes: int) -> Run:
    """As `run`, in the smallest TCM that has room for the values. A smaller one is refused as full."""
    *small, largest = (int(room * max(peak_nbytes, 1024)) for room in ROOMS_IN_SMALL_TCM)
    for nbytes in small:
        try:
            return run(case, issue, nbytes)
        except KernelError as error:
            if "pe_tcm" not in error.where:
                raise
    return run(case, issue, largest)


def check(case: Case) -> int:
    """Raise AssertionError unless all that must hold of *case* holds, with every way of issue.

    Returns how many programs were repeated from a template.
    """
    runs = {issue: run(case, issue) for issue in ISSUES}
    if case.seed % SMALL_TCM_EVERY == 0:
        peak = runs["blocking"].tcm.peak_nbytes
        runs |= {f"{issue} in a small TCM": run_in_small_tcm(case, issue, peak) for issue in ISSUES[1:]}
    expected = {name: _whole([model.memory[name] for model in case.models]) for name in "yz"}
    expected["counts"] = _counted([model.shared for model in case.models])
    same_order = not any(model.products_round for model in case.models)
    for issue, found in runs.items():
        assert found.log.digest == found.digest, f"{issue}: templates change the log"
        assert sanitize(found.log) == [], issue
        assert found.tcm.held == [], f"{issue}: TCM is held at the end"
        check_laws(found.log)
        for mode, outputs in found.outputs.items():
            for name, array in outputs.items():
                check_values(f"{issue}, {mode}, {name}", array, expected[name])
        for program, model in enumerate(case.models):
            seen = found.seen.get(program, [])
            for number, (got, wanted) in enumerate(zip(seen, model.seen, strict=True)):
                check_values(f"{issue}, program {program}, look {number}", got, wanted)
        if same_order:
            assert _bytes(found.outputs["tile"]) == _bytes(found.outputs["fused"]), issue
        # Which products fused mode multiplies together follows from times, so their sums may be rounded otherwise.
        for mode in ("tile", "fused") if same_order else ("tile",):
            same = _bytes(found.outputs[mode]) == _bytes(runs["blocking"].outputs[mode])
            assert same, f"{issue}, {mode}: other bytes than blocking"
    return sum(found.repeats for found in runs.values())


def _whole(parts: list[Value]) -> Value:
    assert all(part.shape == (SIDE, SIDE) for part in parts)
    numbers, error = (np.concatenate([part[at] for part in parts]) for at in (0, 1))
    return Value(numbers, error, parts[0].dtype)


def _counted(parts: list[Value]) -> Value:
    """What all programs make of the counts, from what each of them alone makes of zeros."""
    rows = []
    for row, op in enumerate(COUNTS):
        total = parts[0].mapped(lambda array, row=row: array[row : row + 1])
        for part in parts[1:]:
            total = binary(ATOMICS[op], total, part.mapped(lambda array, row=row: array[row : row + 1]))
        rows.append(total.numbers)
    return integers(np.concatenate(rows), DType.I32)


def check_values(what: str, got: np.ndarray, wanted: Value) -> None:
    assert got.shape == wanted.shape, f"{what}: shape {got.shape}, not {wanted.shape}"
    off = np.abs(got.astype(np.float64) - wanted.numbers)
    bad = ~((off <= wanted.error) | (np.isnan(off) & np.isnan(wanted.numbers) & np.isnan(got.astype(np.float64))))
    if bad.any():
        at = tuple(int(axis[0]) for axis in np.nonzero(bad))
        said = f"{got[at]!r} at {at}, not {wanted.numbers[at]!r} within {wanted.error[at]:.3g}"
        raise AssertionError(f"{what}: {int(bad.sum())} of {bad.size} elements are wrong: {said}")


def _bytes(outputs: dict[str, np.ndarray]) -> bytes:
    return b"".join(array.tobytes() for array in outputs.values())
